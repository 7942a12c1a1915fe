/* Virtual time for plugins: moves only when a case moves it. */
#include "contract.h"
#include "real.h"

#include <base/timers.h>
#include <stdlib.h>

#define TIMERS_MAX 20000
#define TIMERS_AT_ONCE 100000 /* that fire in one step of a case */

static int64_t now = 1000 * ENV_S;
static struct timers timers;
static uint64_t tie;
static bool late;

static int64_t now_ns(struct env *e)
{
    (void)e;
    return now;
}

static int64_t wall_ns(struct env *e)
{
    (void)e;
    return 1795234644501000000LL + now;
}

static uint64_t random_u64(struct env *e)
{
    (void)e;
    return chance();
}

static void timer_clear(struct env *e, struct env_timer *t)
{
    (void)e;
    timers_clear(&timers, t);
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    (void)e;
    if (timers.n == TIMERS_MAX || !timers_make_room(&timers)) {
        abort();
    }
    t->at_ns = at_ns;
    timers_set(&timers, t, at_ns, ++tie);
}

static void no_task(struct env *e, struct env_task *t)
{
    (void)e;
    (void)t;
}

static int no_lane(struct env *e, struct env_work *w)
{
    (void)e;
    (void)w;
    return FN_E_EXHAUSTED;
}

static void no_cancel(struct env *e, struct env_work *w)
{
    (void)e;
    (void)w;
}

static void nothing(struct env *e)
{
    (void)e;
}

struct env clock_env = {now_ns,  wall_ns, random_u64, timer_set, timer_clear, no_task,
                        no_task, no_lane, no_cancel,  nothing,   nothing};

void clock_reset(void)
{
    while (timers_first(&timers)) {
        timers_clear(&timers, timers_first(&timers)->timer);
    }
    now = 1000 * ENV_S;
    tie = 0;
    late = false;
}

int64_t clock_now(void)
{
    return subject.real ? real_now() : now;
}

void clock_late(bool on)
{
    late = on;
}

size_t clock_timers(void)
{
    return timers.n;
}

void clock_jump(int64_t ns)
{
    now += ns;
}

/* The next timer that is due by `until`: the earliest, or when late any of them. */
static struct env_timer *due(int64_t until)
{
    const struct timer_due *first = timers_first(&timers);
    size_t from;

    if (!first || first->at_ns > until) {
        return NULL;
    }
    from = late ? chance() % timers.n : 0;
    while (timers.heap[from].at_ns > until) {
        from = (from + 1) % timers.n;
    }
    return timers.heap[from].timer;
}

static void advance(int64_t ns)
{
    int64_t until = now + ns;
    struct env_timer *t;
    int fired = 0;

    now = late ? until : now;
    while ((t = due(until))) {
        if (t->at_ns > now) {
            now = t->at_ns;
        }
        timer_clear(&clock_env, t);
        t->cb(t);
        must(++fired < TIMERS_AT_ONCE, "timers of the plugin re-arm themselves without end at one "
                                       "moment; expected time to pass between two of them");
    }
    now = until > now ? until : now;
}

void clock_advance(int64_t ns)
{
    if (subject.real) {
        real_advance(ns);
        return;
    }
    advance(ns);
}
