/* One call: the runner after the one that was asked last, until all had their turn. */
#include "decide.h"

void naive_decide(struct naive_session *s, const struct fn_ask *ask, uint64_t chance,
                  int64_t retry_delay_ns, struct fn_answer *ret)
{
    if (around_starts(&s->round, ask)) {
        around_start(&s->round, ask, ask->snap->n ? (uint32_t)(chance % ask->snap->n) : 0);
    }
    if (!around_next(&s->round, ask, retry_delay_ns, ret)) {
        return;
    }
    if (s->round.looked == 1) {
        note(ret, "random start");
    } else {
        note_number(ret, "after start, ", s->round.looked - 1);
    }
}
