/* A heap of timers by time and order of setting, queues of tasks and work, and a clock that only
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

/* A binary heap by (at, seq), so that ten thousand timers are no burden. */
static bool before(const struct env_timer *a, const struct env_timer *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->seq < b->seq);
}

static void put(struct fake_env *f, size_t i, struct env_timer *t)
{
    f->timers[i] = t;
    t->heap_slot = i + 1;
}

static void sift(struct fake_env *f, size_t i, struct env_timer *t)
{
    size_t child;

    while (i > 0 && before(t, f->timers[(i - 1) / 2])) {
        put(f, i, f->timers[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    while ((child = 2 * i + 1) < f->n_timers) {
        if (child + 1 < f->n_timers && before(f->timers[child + 1], f->timers[child])) {
            child++;
        }
        if (!before(f->timers[child], t)) {
            break;
        }
        put(f, i, f->timers[child]);
        i = child;
    }
    put(f, i, t);
}

static void timer_clear(struct env *e, struct env_timer *t)
{
    struct fake_env *f = of(e);
    size_t i = t->heap_slot;
    struct env_timer *last;

    if (!i) {
        return;
    }
    assert(f->timers[i - 1] == t);
    t->heap_slot = 0;
    last = f->timers[--f->n_timers];
    if (last != t) {
        sift(f, i - 1, last);
    }
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    struct fake_env *f = of(e);

    assert(t->cb);
    timer_clear(e, t);
    if (f->n_timers == f->cap_timers) {
        f->cap_timers = f->cap_timers ? f->cap_timers * 2 : 64;
        f->timers = realloc(f->timers, f->cap_timers * sizeof(struct env_timer *));
        assert(f->timers);
    }
    t->at_ns = at_ns;
    t->seq = ++f->seq;
    sift(f, f->n_timers++, t);
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
    free(f->timers);
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
    struct env_timer *t;

    fake_env_settle(f);
    while (f->n_timers > 0 && f->timers[0]->at_ns <= until) {
        t = f->timers[0];
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
