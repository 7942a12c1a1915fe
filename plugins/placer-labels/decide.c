/* One call: read what it asks for, find or make the part of the list, and hand the question to
 * the inner placer with that part. */
#include "decide.h"

#include "note.h"

#include <stdlib.h>

#define NONE_RETRY_NS 1000000000 /* a new list wakes some of those that wait, not all */
#define MAKING_NS     1000000

/* ---- what a call asks for -------------------------------------------------------------------- */

static enum labels_state read_demand(struct labels *l, const struct fn_call *call, int64_t now_ns,
                                     uint32_t *ret_place)
{
    const char *json = l->annotation(l->ud, call);
    char text[DEMAND_TEXT_BYTES];

    if (!json) {
        return LABELS_ANY;
    }
    if (demand_read(json, text) < 0) {
        return LABELS_WRONG;
    }
    if (text[0] == '\0') {
        return LABELS_ANY;
    }
    *ret_place = demands_take(&l->demands, text, now_ns);
    return LABELS_SOME;
}

static const struct demand *demand_of(struct labels *l, struct labels_session *s,
                                      const struct fn_ask *ask)
{
    if (s->state == LABELS_SOME && l->demands.list[s->place].generation == s->generation) {
        demands_use(&l->demands, s->place, ask->now_ns);
    } else if (s->state == LABELS_SOME || s->state == LABELS_UNREAD) {
        s->state = read_demand(l, ask->call, ask->now_ns, &s->place);
        s->generation = s->state == LABELS_SOME ? l->demands.list[s->place].generation : 0;
    }
    return s->state == LABELS_SOME ? &l->demands.list[s->place] : NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int wait_for(struct fn_answer *ret, int64_t wait_ns)
{
    ret->verdict = FN_WAIT;
    ret->wait_ns = wait_ns;
    ret->wake_mask = FN_WAKE_POOL;
    return 0;
}

static int give_up(struct fn_answer *ret, int32_t code)
{
    ret->verdict = FN_GIVE_UP;
    ret->code = code;
    return 0;
}

static int answer_none(const struct labels *l, struct fn_answer *ret)
{
    note(ret, "no runner has its labels");
    return l->options->none[0] == 'w' ? wait_for(ret, NONE_RETRY_NS)
                                      : give_up(ret, FN_E_UNAVAILABLE);
}

/* Rounds in which the call waited for its part are none of the inner placer's, whose session is as
 * the host zeroed it; and only the inner one answers FN_TRY. */
static void hide_waits(struct labels_session *s, struct fn_ask *inner)
{
    if (s->asked_at == 0) {
        s->asked_at = inner->round + 1;
        inner->why = FN_WHY_START;
    }
    inner->round -= s->asked_at - 1;
}

/* Of the whole list, or of a part of it. */
static int ask_inner(const struct labels *l, const struct fn_ask *ask,
                     const struct fn_snapshot *view, struct part *p, struct fn_answer *ret)
{
    struct labels_session *s = ask->session;
    struct fn_ask inner;
    int r;

    view_copy(&inner, sizeof(inner), ask);
    inner.snap = view;
    inner.session = s->inner;
    hide_waits(s, &inner);
    if (p) {
        inner.inflight_total = part_gather(p, ask->inflight);
        inner.inflight = p->inflight;
        inner.last_index = ask->attempts > 0 ? part_place(p, ask->last_index) : 0;
    }
    r = l->inner.ops->decide(l->inner.inst, &inner, ret);
    if (r == 0 && p && ret->verdict == FN_TRY) {
        ret->index = ret->index < p->n ? p->at[ret->index] : UINT32_MAX;
    }
    return r;
}

static struct part *part_now(struct labels *l, struct parts *of, uint32_t place,
                             const struct demand *d)
{
    struct part *p = part_find(of, place, d);

    if (!p && of->snap.n <= PART_NOW_MAX && part_make(&l->inner, of, place, d) == 0) {
        p = of->part[place];
    } else if (!p) {
        of->wanted |= 1u << place;
        l->later(l->ud);
    }
    return p;
}

int labels_decide(struct labels *l, const struct fn_ask *ask, struct fn_answer *ret)
{
    /* The index is this plugin's own, and parts are added to it. */
    struct parts *of = (struct parts *)(uintptr_t)ask->snap->index;
    struct labels_session *s = ask->session;
    const struct demand *d = demand_of(l, s, ask);
    struct fn_snapshot view = wrap_view(ask->snap, of ? of->index : NULL);
    struct part *p;

    if (s->state == LABELS_WRONG) {
        note(ret, "its labels are not readable");
        return give_up(ret, FN_E_INVALID);
    }
    if (!d || ask->snap->n == 0) { /* an empty group grows, or does not, whatever is asked for */
        return ask_inner(l, ask, &view, NULL, ret);
    }
    p = of ? part_now(l, of, s->place, d) : NULL;
    if (!p) {
        note(ret, "its runners are looked for");
        return wait_for(ret, MAKING_NS);
    }
    if (p->n == 0) {
        return answer_none(l, ret);
    }
    view = part_view(p, of, ask->snap);
    return ask_inner(l, ask, &view, p->whole ? NULL : p, ret);
}

void labels_observe(struct labels *l, const struct fn_placed *what, int64_t now_ns)
{
    const struct parts *of = what->snap->index;
    struct fn_snapshot view = wrap_view(what->snap, of ? of->index : NULL);
    uint32_t index = what->index;
    uint32_t place;
    const struct part *p;

    if (l->inner.ops->observe && of &&
        read_demand(l, what->call, now_ns, &place) == LABELS_SOME) {
        p = part_find(of, place, &l->demands.list[place]);
        if (p && !p->whole && part_place(p, index) < p->n) {
            view = part_view(p, of, what->snap);
            index = part_place(p, index);
        }
    }
    wrap_observe(&l->inner, what, &view, index);
}

/* ---- lists ----------------------------------------------------------------------------------- */

int labels_parts_create(struct labels *l, const struct fn_snapshot *snap, int64_t now_ns,
                        struct parts **ret)
{
    struct parts *p = calloc(1, sizeof(*p));
    uint64_t left = (uint64_t)snap->n * PARTS_TIMES;

    if (!p) {
        return FN_E_EXHAUSTED;
    }
    view_copy(&p->snap, sizeof(p->snap), snap);
    p->index = wrap_index_build(&l->inner, snap);
    for (uint32_t i = 0; i < DEMANDS_MAX && left > 0; i++) {
        const struct demand *d = &l->demands.list[i];

        if (d->generation != 0 && now_ns - d->used_ns <= DEMAND_KEPT_NS &&
            part_make(&l->inner, p, i, d) == 0 && !p->part[i]->whole) {
            left -= p->part[i]->n < left ? p->part[i]->n : left;
        }
    }
    *ret = p;
    return 0;
}

void labels_parts_destroy(struct labels *l, struct parts *p)
{
    for (uint32_t i = 0; i < DEMANDS_MAX; i++) {
        part_drop(&l->inner, p, i);
    }
    wrap_index_free(&l->inner, p->index);
    free(p);
}

int labels_make_next(struct labels *l, struct parts *p)
{
    for (uint32_t i = 0; i < DEMANDS_MAX; i++) {
        if (p->wanted & 1u << i) {
            p->wanted &= ~(1u << i);
            (void)part_make(&l->inner, p, i, &l->demands.list[i]); /* else it is wanted again */
            return 1;
        }
    }
    return 0;
}
