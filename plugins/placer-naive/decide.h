/* Round robin from a random start: each runner once per round, then wait. Pure. */
#ifndef PLACER_NAIVE_DECIDE_H
#define PLACER_NAIVE_DECIDE_H

#include "around.h"

/* Per call, host memory. */
struct naive_session {
    struct around round;
};

/* `chance` is used once, when a round starts (around_starts()). */
void naive_decide(struct naive_session *s, const struct fn_ask *ask, uint64_t chance,
                  int64_t retry_delay_ns, struct fn_answer *ret);

#endif
