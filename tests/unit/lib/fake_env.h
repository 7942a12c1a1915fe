/* Fake env: virtual time, timers, deferred tasks and lanes for tests of the state machines.
 *
 * Time stands still until the test moves it. Work is not run until the test says so. */
#ifndef TESTS_FAKE_ENV_H
#define TESTS_FAKE_ENV_H

#include <base/timers.h>

struct fake_env {
    struct env env; /* first: &f->env is handed out */
    int64_t now;
    int64_t wall;
    uint64_t random_state;
    uint64_t tie;
    struct timers timers;
    TAILQ_HEAD(, env_task) tasks;
    TAILQ_HEAD(, env_work) work; /* submitted, not run */
    uint32_t n_work;
    int submit_fails; /* return FN_E_EXHAUSTED that many times */
};

struct fake_env *fake_env_create(void); /* now = 1000 s, wall = 2026-11-21T04:17:24.501Z */
void fake_env_destroy(struct fake_env *f);

/* Runs deferred tasks until none is left (asserts that they end). */
void fake_env_settle(struct fake_env *f);
/* Moves time by ns; timers fire in order, tasks run after each. */
void fake_env_advance(struct fake_env *f, int64_t ns);
/* Runs one submitted operation (run, then done) and the tasks after it; 0 when there was none. */
int fake_env_work_one(struct fake_env *f);
void fake_env_work_all(struct fake_env *f);

#endif
