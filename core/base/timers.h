/* Timers: those of one clock that are set, in the order in which they fire. What a timer means to
 * its owner is in env.h; when its time has come is known to who keeps them: core/loop, and the
 * simulated hosts.
 *
 * A heap with four children to a node. Keys stand in it beside their timers, so that moving one
 * reads no other timer; each timer knows its place (env_timer.heap_slot). */
#ifndef BASE_TIMERS_H
#define BASE_TIMERS_H

#include <base/env.h>

struct timer_due {
    int64_t at_ns;
    uint64_t tie; /* between equal times, the lower one is first */
    struct env_timer *timer;
};

/* Zeroed = none. */
struct timers {
    struct timer_due *heap;
    size_t n, cap;
};

/* There is room for one more. Grows while a quarter is left, so that one moment without memory does
 * no harm. False: none is left, and there is no memory. */
bool timers_make_room(struct timers *ts);
void timers_finish(struct timers *ts); /* those that are set stay as they are */

/* Sets `t`, or moves it. What is not set yet needs room, see above. */
void timers_set(struct timers *ts, struct env_timer *t, int64_t at_ns, uint64_t tie);
void timers_clear(struct timers *ts, struct env_timer *t); /* not set: no effect */
/* NULL: none is set. */
static inline const struct timer_due *timers_first(const struct timers *ts)
{
    return ts->n > 0 ? ts->heap : NULL;
}

#endif
