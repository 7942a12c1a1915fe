/* One call: what the inner placer names is taken or put aside; when nothing else is left, the
 * oldest of those is better than to wait. */
#include "slow.h"

#include "note.h"
#include "tries.h"

uint32_t slow_chance(const struct slow_options *o, int64_t age_ns, int64_t oldest_ns)
{
    int64_t full_ns = oldest_ns < o->window_ns ? oldest_ns : o->window_ns;
    int64_t share;

    if (age_ns >= full_ns) {
        return 1000;
    }
    share = age_ns > 0 ? (int64_t)((double)age_ns / (double)full_ns * 1000) : 0;
    return (uint32_t)(share > o->floor ? share : o->floor);
}

struct fn_snapshot slow_view(const struct fn_snapshot *snap)
{
    const struct slow_index *ix = snap->index;

    return wrap_view(snap, ix ? ix->inner : NULL);
}

static int is_accepted(const struct slow *w, const struct fn_ask *ask, uint32_t index)
{
    const struct slow_index *ix = ask->snap->index;
    int64_t age_ns = ask->now_ns - fn_snapshot_at(ask->snap, index)->since_ns;
    int64_t oldest_ns = ix ? ask->now_ns - ix->oldest_ns : w->options->window_ns;
    uint32_t chance = slow_chance(w->options, age_ns, oldest_ns);

    return chance >= 1000 || w->u64(w->ud) % 1000 < chance;
}

/* `size` stays what the host said. */
static void answer_clear(struct fn_answer *ret)
{
    view_clear(ret, sizeof(*ret));
}

/* Asks the inner placer until it names a runner that is taken, or none. 1 when *ret is the answer.
 */
static int ask_inner(const struct slow *w, struct slow_session *s, const struct fn_ask *ask,
                     struct fn_answer *ret)
{
    const struct fn_snapshot view = slow_view(ask->snap);
    struct fn_ask inner;
    uint32_t skips = 0;
    int r;

    view_copy(&inner, sizeof(inner), ask);
    inner.snap = &view;
    inner.session = s->inner;
    inner.attempts += s->refused;
    for (;;) {
        answer_clear(ret);
        r = w->inner.ops->decide(w->inner.inst, &inner, ret);
        if (r < 0) {
            return r;
        }
        if (ret->verdict != FN_TRY || ret->index >= view.n) {
            return s->skipped_n == 0 || ret->verdict == FN_TRY;
        }
        if (s->skipped_n == SLOW_SKIPS_MAX || is_accepted(w, ask, ret->index)) {
            if (skips > 0) {
                note_number(ret, "slow start, skipped ", skips);
            }
            return 1;
        }
        skips++;
        s->skipped[s->skipped_n++] = ret->index;
        s->refused++;
        inner.why = FN_WHY_BUSY;
        inner.last_index = ret->index;
        inner.last_code = PASSED_OVER;
        inner.attempts++;
    }
}

/* The oldest of those that were passed over, which is better than to wait. */
static uint32_t take_skipped(struct slow_session *s, const struct fn_snapshot *snap)
{
    uint32_t best = 0;
    uint32_t index;

    for (uint32_t i = 1; i < s->skipped_n; i++) {
        if (fn_snapshot_at(snap, s->skipped[i])->since_ns <
            fn_snapshot_at(snap, s->skipped[best])->since_ns) {
            best = i;
        }
    }
    index = s->skipped[best];
    s->skipped[best] = s->skipped[--s->skipped_n];
    return index;
}

int slow_decide(const struct slow *w, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct slow_session *s = ask->session;
    int r;

    if ((ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE) ||
        s->epoch != ask->snap->epoch) {
        s->epoch = ask->snap->epoch;
        s->spent = s->skipped_n = 0;
    }
    if (!s->spent) {
        r = ask_inner(w, s, ask, ret);
        if (r != 0) {
            return r < 0 ? r : 0;
        }
        s->spent = 1;
        s->verdict = ret->verdict;
        s->wait_ns = ret->wait_ns;
        s->wake_mask = ret->wake_mask;
        s->code = ret->code;
    }
    answer_clear(ret);
    if (s->skipped_n > 0) {
        ret->verdict = FN_TRY;
        ret->index = take_skipped(s, ask->snap);
        note(ret, "slow start, no other left");
        return 0;
    }
    ret->verdict = s->verdict;
    ret->wait_ns = s->wait_ns;
    ret->wake_mask = s->wake_mask;
    ret->code = s->code;
    note(ret, "all refused");
    return 0;
}
