/* Once around a list: each runner that takes calls is named once in a round, from a place on that
 * the placer chooses when the round begins; then the call waits. */
#ifndef PLACER_AROUND_H
#define PLACER_AROUND_H

#include "note.h"
#include "tries.h"

/* Part of a session: zeroed is "no round yet". */
struct around {
    uint64_t epoch;  /* of the snapshot that the round walks */
    uint32_t next;   /* index to look at next */
    uint32_t looked; /* runners looked at in this round, tried or skipped */
    uint32_t open;   /* 1 while a round runs */
};

static inline int around_starts(const struct around *a, const struct fn_ask *ask)
{
    return round_starts(a->open, a->epoch, ask);
}

static inline void around_start(struct around *a, const struct fn_ask *ask, uint32_t first)
{
    a->epoch = ask->snap->epoch;
    a->next = first;
    a->looked = 0;
    a->open = 1;
}

/* 1: FN_TRY of the runner that is a->looked - 1 behind the first; 0: FN_WAIT, with its note. */
static inline int around_next(struct around *a, const struct fn_ask *ask, int64_t retry_delay_ns,
                              struct fn_answer *ret)
{
    const struct fn_snapshot *snap = ask->snap;

    while (a->looked < snap->n) {
        uint32_t index = a->next;

        a->next = index + 1 < snap->n ? index + 1 : 0;
        a->looked++;
        if (!(fn_snapshot_at(snap, index)->flags & FN_RUNNER_DRAINING)) {
            ret->verdict = FN_TRY;
            ret->index = index;
            return 1;
        }
    }
    a->open = 0;
    ret->verdict = FN_WAIT;
    if (snap->n) {
        note(ret, "all were asked");
    } else {
        note(ret, "no runner listed");
    }
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    ret->wait_ns = retry_delay_ns;
    return 0;
}

#endif
