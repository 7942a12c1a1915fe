/* Timers by time and order of setting, queues of tasks and work, and a clock that only
 * fake_env_advance() moves. */
#include "fake_env.h"

#include <assert.h>
#include <fn/host.h>
#include <stdlib.h>

#define SETTLE_MAX 10000000

static struct fake_env *of(struct env *e)
{
    return (struct fake_env *)(void *)e;
}

static int64_t now_ns(struct env *e)
{
    return of(e)->now;
}

static int64_t wall_ns(struct env *e)
{
    return of(e)->wall;
}

static uint64_t random_u64(struct env *e)
{
    uint64_t z = (of(e)->random_state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void timer_clear(struct env *e, struct env_timer *t)
{
    timers_clear(&of(e)->timers, t);
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    struct fake_env *f = of(e);

    assert(t->cb && timers_make_room(&f->timers));
    t->at_ns = at_ns;
    timers_set(&f->timers, t, at_ns, ++f->tie);
}

static void defer(struct env *e, struct env_task *t)
{
    assert(t->cb);
    if (!t->queued) {
        t->queued = true;
        TAILQ_INSERT_TAIL(&of(e)->tasks, t, link);
    }
}

static void undefer(struct env *e, struct env_task *t)
{
    if (t->queued) {
        t->queued = false;
        TAILQ_REMOVE(&of(e)->tasks, t, link);
    }
}

static int submit(struct env *e, struct env_work *w)
{
    struct fake_env *f = of(e);

    if (f->submit_fails > 0) {
        f->submit_fails--;
        return FN_E_EXHAUSTED;
    }
    w->cancelled = 0;
    TAILQ_INSERT_TAIL(&f->work, w, link);
    f->n_work++;
    return 0;
}

static void cancel(struct env *e, struct env_work *w)
{
    (void)e;
    w->cancelled = 1;
}

static void nothing(struct env *e)
{
    (void)e;
}

struct fake_env *fake_env_create(void)
{
    struct fake_env *f = calloc(1, sizeof(*f));

    assert(f);
    f->env = (struct env){ now_ns, wall_ns, random_u64, timer_set, timer_clear, defer,
                           undefer, submit, cancel, nothing, nothing };
    f->now = 1000 * ENV_S;
    f->wall = 1795234644501000000LL;
    f->random_state = 1;
    TAILQ_INIT(&f->tasks);
    TAILQ_INIT(&f->work);
    return f;
}

void fake_env_destroy(struct fake_env *f)
{
    timers_finish(&f->timers);
    free(f);
}

void fake_env_settle(struct fake_env *f)
{
    struct env_task *t;
    int n = 0;

    while ((t = TAILQ_FIRST(&f->tasks))) {
        TAILQ_REMOVE(&f->tasks, t, link);
        t->queued = false;
        t->cb(t);
        assert(++n < SETTLE_MAX);
    }
}

void fake_env_advance(struct fake_env *f, int64_t ns)
{
    int64_t until = f->now + ns;
    const struct timer_due *first;

    fake_env_settle(f);
    while ((first = timers_first(&f->timers)) && first->at_ns <= until) {
        struct env_timer *t = first->timer;

        if (t->at_ns > f->now) {
            f->wall += t->at_ns - f->now;
            f->now = t->at_ns;
        }
        timer_clear(&f->env, t);
        t->cb(t);
        fake_env_settle(f);
    }
    f->wall += until - f->now;
    f->now = until;
}

int fake_env_work_one(struct fake_env *f)
{
    struct env_work *w = TAILQ_FIRST(&f->work);

    if (!w) {
        return 0;
    }
    TAILQ_REMOVE(&f->work, w, link);
    f->n_work--;
    w->run(w, NULL);
    w->done(w);
    fake_env_settle(f);
    return 1;
}

void fake_env_work_all(struct fake_env *f)
{
    while (fake_env_work_one(f)) {
    }
}
