/* A function goes to its home as long as that has no more than its share of the load, else it
 * jumps. Pure: no host, no clock; the hash of the key comes from outside.
 *
 * Bounded loads: Mirrokni, Thorup, Zadimoghaddam (SODA 2018). Jumps instead of neighbours: Chen,
 * Coleman, Shrivastava, "Revisiting Consistent Hashing with Bounded Loads" (AAAI 2021): the next
 * one in line inherits the load of all before it and falls over too, a random one does not. */
#ifndef PLACER_CHBL_DECIDE_H
#define PLACER_CHBL_DECIDE_H

#include "homes.h"
#include "tries.h"

/* Key of SipHash-2-4, the same for all load balancers; not that of `ch`. */
#define CHBL_KEY_0 0u
#define CHBL_KEY_1 0x6c62686372636c70u

#define CHBL_JUMPS 32u /* per round */

struct chbl_options {
    int64_t retry_delay_ns;
    int64_t bound; /* percent of the mean load that a runner may have */
    int64_t least; /* calls that it may have whatever the mean, per unit of weight */
    int64_t tries; /* per round, 1..TRIES_MAX */
};

/* Per call, host memory. */
struct chbl_session {
    struct tries tries;
    uint64_t hash;   /* of the key, kept over all rounds */
    uint32_t hashed; /* 1 once hash is set */
    uint32_t lifted; /* 1 once the bound does not count any more in this round */
    uint32_t jump;   /* next jump, 0 = home */
    uint32_t walked; /* runners walked past in this round after the last jump */
};

/* `homes`: of the snapshot, NULL when there was no memory for it. */
void chbl_decide(struct chbl_session *s, const struct fn_ask *ask, const struct chbl_options *o,
                 struct homes *homes, struct fn_answer *ret);

#endif
