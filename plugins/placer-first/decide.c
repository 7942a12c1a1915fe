/* One call: the first runner below its cap; past all caps, the next one in turn. */
#include "decide.h"

#include "note.h"

static uint32_t walk(const struct fn_ask *ask, uint64_t cap, uint32_t from)
{
    uint32_t i;

    for (i = from; i < ask->snap->n; i++) {
        if (runner_has_room(ask, i, cap)) {
            return i;
        }
    }
    return ROOM_NONE;
}

static void begin_over(struct first_session *s, const struct fn_ask *ask, struct room *room)
{
    s->over = 1;
    s->looked = 0;
    s->next = 0;
    if (room && room->n > 0) {
        room->turn = room->turn + 1 < room->n ? room->turn + 1 : 0;
        s->next = room->turn;
    } else if (ask->snap->n > 0) {
        s->next = (uint32_t)(ask->inflight_total % ask->snap->n);
    }
}

static uint32_t choose(struct first_session *s, const struct fn_ask *ask, uint64_t cap,
                       struct room *room, struct fn_answer *ret)
{
    uint32_t n = ask->snap->n;
    uint32_t i;
    int passes;

    if (!s->over) {
        i = room ? room_take(room, ask, cap, s->next) : walk(ask, cap, s->next);
        if (i != ROOM_NONE) {
            s->next = i + 1;
            note(ret, "first with room");
            return i;
        }
        begin_over(s, ask, room);
    }
    note(ret, "all at their cap");
    while (s->looked < 2 * n) { /* in a second walk those that refused, too */
        i = s->next;
        s->next = i + 1 < n ? i + 1 : 0;
        passes = s->looked < n && room && room_is_busy(room, i);
        s->looked++;
        if (!passes && tries_may(&s->tries, ask->snap, i)) {
            return i;
        }
    }
    return ROOM_NONE;
}

void first_decide(struct first_session *s, const struct fn_ask *ask, const struct first_options *o,
                  struct room *room, struct fn_answer *ret)
{
    uint64_t cap = (uint64_t)o->cap;
    uint32_t index = ROOM_NONE;

    if (tries_starts_round(&s->tries, ask)) {
        tries_start(&s->tries, ask);
        s->next = s->looked = s->over = 0;
        if (room) {
            room_sweep(room, ask, cap);
        }
    } else if (room) {
        room_refused(room, ask);
    }
    if (s->tries.n < (uint64_t)o->tries) {
        index = choose(s, ask, cap, room, ret);
    }
    if (index == ROOM_NONE) {
        note(ret, "all refused");
        tries_wait(&s->tries, o->retry_delay_ns, ret);
        return;
    }
    tries_try(&s->tries, index, ret);
}
