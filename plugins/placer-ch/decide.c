/* The jump hash, as it is and as Go Fn computes it, and the walk from home to its neighbours. */
#include "decide.h"

#include "note.h"
#include "tries.h"

#define LCG 2862933555777941757u

uint32_t ch_jump(uint64_t key, uint32_t n)
{
    int64_t b = -1;
    int64_t j = 0;

    while (j < (int64_t)n) {
        b = j;
        key = key * LCG + 1;
        j = (int64_t)((double)(b + 1) * (2147483648.0 / (double)((key >> 33) + 1)));
    }
    return (uint32_t)b;
}

uint32_t ch_jump_go(uint64_t key, uint32_t n)
{
    uint64_t b = 0;
    uint64_t j = 0;
    uint64_t top;

    while (j < n) {
        b = j;
        key = key * LCG + 1;
        top = key >> 33;
        /* Go divides by zero here once in 2^31 steps; 1 is the nearest key that does not. */
        j = (b + 1) * ((1ULL << 31) / (top ? top : 1) + 1);
    }
    return (uint32_t)b;
}

void ch_decide(struct ch_session *s, const struct fn_ask *ask, uint32_t go_variant,
               int64_t retry_delay_ns, struct fn_answer *ret)
{
    const struct fn_snapshot *snap = ask->snap;
    uint32_t index;

    if (round_starts(s->open, s->epoch, ask)) {
        s->epoch = snap->epoch;
        s->next = 0;
        if (snap->n) {
            s->next = go_variant ? ch_jump_go(s->hash, snap->n) : ch_jump(s->hash, snap->n);
        }
        s->looked = 0;
        s->open = 1;
    }
    while (s->looked < snap->n) {
        index = s->next;
        s->next = index + 1 < snap->n ? index + 1 : 0;
        s->looked++;
        if (!(fn_snapshot_at(snap, index)->flags & FN_RUNNER_DRAINING)) {
            ret->verdict = FN_TRY;
            ret->index = index;
            if (s->looked == 1) {
                note(ret, "home");
            } else {
                note_number(ret, "after home, ", s->looked - 1);
            }
            return;
        }
    }
    s->open = 0;
    ret->verdict = FN_WAIT;
    if (snap->n) {
        note(ret, "all were asked");
    } else {
        note(ret, "no runner listed");
    }
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    ret->wait_ns = retry_delay_ns;
}
