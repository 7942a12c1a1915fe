/* Private to core/loop. */
#ifndef LOOP_LOOP_INT_H
#define LOOP_LOOP_INT_H

#include <loop/loop.h>
#include <loop/thread.h>
#include <pthread.h>
#include <time.h>

struct lanes;

/* Workers enter the loop by env. */
int lanes_create(struct env *env, const struct loop_lanes *config, struct lanes **ret,
                 struct fn_error *reterr);
void lanes_destroy(struct lanes *lanes); /* waits for the operations that run; drops queued ones */
bool lanes_settle(struct lanes *lanes, int64_t deadline_ns);
int lanes_submit(struct lanes *lanes, struct env_work *w);
int lanes_set_threads(struct lanes *lanes, enum env_lane which, uint32_t threads_max);
uint32_t lanes_threads(struct lanes *lanes);
void lanes_look(struct lanes *lanes, int64_t grace_ns,
                void (*cb)(void *ud, const char *owner, int64_t for_ns), void *ud);
uint32_t lanes_lost(struct lanes *lanes);
void lanes_cancel(struct lanes *lanes, struct env_work *w);

static inline int64_t loop_clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * ENV_S + ts.tv_nsec;
}

/* [any] Somebody is inside; *ret_steps grows with each callback. */
bool loop_is_busy(const struct loop *l, uint64_t *ret_steps);

#endif
