/* One call: the runner after the one that was asked last, until all had their turn. */
#include "decide.h"

#include "note.h"
#include "tries.h"

void naive_decide(struct naive_session *s, const struct fn_ask *ask, uint64_t chance,
                  int64_t retry_delay_ns, struct fn_answer *ret)
{
    const struct fn_snapshot *snap = ask->snap;
    uint32_t index;

    if (round_starts(s->open, s->epoch, ask)) {
        s->epoch = snap->epoch;
        s->next = snap->n ? (uint32_t)(chance % snap->n) : 0;
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
                note(ret, "random start");
            } else {
                note_number(ret, "after start, ", s->looked - 1);
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
