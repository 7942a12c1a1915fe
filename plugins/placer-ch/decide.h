/* Consistent hash: a function goes to the runner that its key names, then to the neighbours of that
 * one, once around. Pure: no host, no clock; the hash of the key comes from outside. */
#ifndef PLACER_CH_DECIDE_H
#define PLACER_CH_DECIDE_H

#include "around.h"

/* Key of SipHash-2-4 that all load balancers share: two little-endian halves. */
#define CH_KEY_0 0u
#define CH_KEY_1 0x4c617279426f6174u

/* Per call, host memory. */
struct ch_session {
    uint64_t hash; /* of the key, kept over all rounds */
    struct around round;
    uint32_t hashed; /* 1 once hash is set */
};

/* Bucket of `key` in 0..n-1, n >= 1: Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash
 * Algorithm" (2014). */
uint32_t ch_jump(uint64_t key, uint32_t n);
/* What the Go placer computes instead: whole numbers and a wrong place for the + 1, so that bucket
 * 1 is never first. For clusters where both kinds of load balancer must agree. */
uint32_t ch_jump_go(uint64_t key, uint32_t n);

void ch_decide(struct ch_session *s, const struct fn_ask *ask, uint32_t go_variant,
               int64_t retry_delay_ns, struct fn_answer *ret);

#endif
