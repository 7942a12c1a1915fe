/* Round robin from a random start: each runner once per round, then wait. Pure. */
#ifndef PLACER_NAIVE_DECIDE_H
#define PLACER_NAIVE_DECIDE_H

#include <fn/placer.h>

/* Per call, host memory. */
struct naive_session {
    uint64_t epoch;  /* of the snapshot that the round walks */
    uint32_t next;   /* index to look at next */
    uint32_t looked; /* runners looked at in this round, tried or skipped */
    uint32_t open;   /* 1 while a round runs */
    uint32_t reserved0;
};

/* `chance` is used once, when a round starts (tries.h, round_starts()). */
void naive_decide(struct naive_session *s, const struct fn_ask *ask, uint64_t chance,
                  int64_t retry_delay_ns, struct fn_answer *ret);

#endif
