/* Turn: how long the loop was held in one piece.
 *
 * A turn begins when a thread has taken the loop and ends when it gives it up; nobody else is
 * served meanwhile. Each one costs a reading of the clock that ends it. For one that was long the
 * kernel is asked how long the thread stood in the queue for a processor, which is no fault of what
 * ran, and the steps of the turns of the next second are timed one by one, so that a callback that
 * is slow again has an address. */
#ifndef LOOP_TURN_H
#define LOOP_TURN_H

#include <loop/loop.h>

struct turn_log {
    struct loop_turns of; /* written under the loop's lock, read without */
    int64_t window_ns;    /* since when longest[0] is kept */
    int64_t longest[2];   /* of this window and of the one before */
    int64_t told_ns;      /* 0 = nobody is told */
    void (*tell)(void *ud, const struct loop_long_turn *t);
    void *ud;

    /* the turn under way */
    int64_t began_ns;
    uint64_t steps_before;
    int64_t close_until_ns; /* its steps are timed: until then; 0 = they are not */
    int64_t step_ns;        /* when the step under way began */
    const void *step;       /* its callback */
    int64_t slowest_ns;     /* the longest one of this turn */
    const void *slowest;
};

void turn_begin(struct turn_log *t, int64_t now_ns, uint64_t steps);
void turn_end(struct turn_log *t, int64_t now_ns, uint64_t steps);
/* A callback begins while close_until_ns is set. */
void turn_step(struct turn_log *t, const void *callback);

#endif
