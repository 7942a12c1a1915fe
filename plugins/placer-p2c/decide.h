/* Two random choices, the less loaded one is taken. Pure: chance comes from outside.
 *
 * Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (IEEE TPDS 2001): the
 * longest queue shrinks from log n / log log n to log log n, at the cost of one comparison. */
#ifndef PLACER_P2C_DECIDE_H
#define PLACER_P2C_DECIDE_H

#include "tries.h"

struct p2c_options {
    int64_t retry_delay_ns;
    int64_t tries; /* per round, 1..TRIES_MAX */
};

/* Per call, host memory. */
struct p2c_session {
    struct tries tries;
};

/* Source of random numbers. */
struct p2c_chance {
    uint64_t (*u64)(void *ud);
    void *ud;
};

void p2c_decide(struct p2c_session *s, const struct fn_ask *ask, const struct p2c_options *o,
                const struct p2c_chance *chance, struct fn_answer *ret);

#endif
