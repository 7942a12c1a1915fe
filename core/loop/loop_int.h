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
int lanes_submit(struct lanes *lanes, struct env_work *w);
void lanes_cancel(struct lanes *lanes, struct env_work *w);

static inline int64_t loop_clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * ENV_S + ts.tv_nsec;
}

struct lanes *loop_lanes_of(struct loop *l); /* [any] */

/* [any] Somebody is inside; *ret_steps grows with each callback. */
bool loop_is_busy(const struct loop *l, uint64_t *ret_steps);

#endif
