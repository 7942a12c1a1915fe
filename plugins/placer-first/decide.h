/* Packs calls on as few runners as it can: in the order of the list, up to a cap for each. Pure.
 *
 * HAProxy's balance algorithm "first": idle runners at the end of the list can be switched off.
 * When all are at their cap, the rest is spread over them in turn: the cap says how to pack, the
 * runners themselves say what they can take. */
#ifndef PLACER_FIRST_DECIDE_H
#define PLACER_FIRST_DECIDE_H

#include "room.h"

struct first_options {
    int64_t retry_delay_ns;
    int64_t cap;   /* calls per unit of weight */
    int64_t tries; /* per round, 1..TRIES_MAX */
};

/* Per call, host memory. */
struct first_session {
    struct tries tries;
    uint32_t next;   /* index to look at next */
    uint32_t looked; /* steps since the caps were reached: two walks */
    uint32_t over;   /* 1 once nobody has room below the cap */
    uint32_t reserved0;
};

/* `room`: of the snapshot, NULL when there was no memory for it. */
void first_decide(struct first_session *s, const struct fn_ask *ask, const struct first_options *o,
                  struct room *room, struct fn_answer *ret);

#endif
