/* A clock and timers that the test moves, for hosts of plugins that have no loop. */
#include "testing.h"

#include <string.h>

#define TIMERS_MAX 32

static int64_t now = 1000;
static struct env_timer *timers[TIMERS_MAX];
static size_t n_timers;
static uint64_t chance = 42;

static int64_t now_ns(struct env *e)
{
    (void)e;
    return now;
}

static int64_t wall_ns(struct env *e)
{
    (void)e;
    return now + 1700000000LL * ENV_S;
}

static uint64_t random_u64(struct env *e)
{
    (void)e;
    return chance += 0x9e3779b97f4a7c15u;
}

static void timer_clear(struct env *e, struct env_timer *t)
{
    size_t i;

    (void)e;
    for (i = 0; i < n_timers; i++) {
        if (timers[i] == t) {
            memmove(&timers[i], &timers[i + 1], (n_timers - i - 1) * sizeof(timers[0]));
            n_timers--;
            t->heap_slot = 0;
            return;
        }
    }
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    timer_clear(e, t);
    ck_assert_uint_lt(n_timers, TIMERS_MAX);
    t->at_ns = at_ns;
    t->heap_slot = 1;
    timers[n_timers++] = t;
}

static struct env env = {
    .now_ns = now_ns,
    .wall_ns = wall_ns,
    .random_u64 = random_u64,
    .timer_set = timer_set,
    .timer_clear = timer_clear,
};

struct env *fake_env(void)
{
    return &env;
}

void fake_env_reset(void)
{
    now = 1000;
    n_timers = 0;
    chance = 42;
}

void fake_env_advance(int64_t ns)
{
    struct env_timer *due;
    size_t i;

    now += ns;
    do {
        due = NULL;
        for (i = 0; i < n_timers; i++) {
            if (timers[i]->at_ns <= now && (!due || timers[i]->at_ns < due->at_ns)) {
                due = timers[i];
            }
        }
        if (due) {
            timer_clear(&env, due);
            due->cb(due);
        }
    } while (due);
}

size_t fake_env_timers(void)
{
    return n_timers;
}
