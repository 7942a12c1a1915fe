/* Runners that ended as soon as they began: the image is missing, a setting is wrong. They count as
 * starting for a while, so that who replaces what is lost asks for the next one then and not at
 * once, again and again. [any, under the caller's lock] */
#ifndef CP_SWARM_HOLD_H
#define CP_SWARM_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOLD_N 64u
#define HOLD_NS 60000000000 /* one minute */

struct holds {
    struct hold {
        uint64_t id; /* 0 = free */
        int64_t until_ns;
    } list[HOLD_N];
};

/* Whether the runner with this id, not 0, is still to be held. From its first call on for HOLD_NS;
 * then it is forgotten. Not when all places are taken. */
static inline bool hold(struct holds *h, uint64_t id, int64_t now_ns)
{
    struct hold *place = NULL;

    for (uint32_t i = 0; i < HOLD_N; i++) {
        struct hold *x = &h->list[i];

        if (x->id == id) {
            bool held = now_ns < x->until_ns;

            x->id = held ? id : 0;
            return held;
        }
        /* One that was removed in between is never asked about again. */
        if (x->id == 0 || now_ns >= x->until_ns + HOLD_NS) {
            place = x;
        }
    }
    if (!place) {
        return false;
    }
    *place = (struct hold){ id, now_ns + HOLD_NS };
    return true;
}

#endif
