/* One call: its home while that is within the bound, then jumps, then a walk over those that no
 * jump met. */
#include "decide.h"

#include "note.h"

#define NONE UINT32_MAX

/* The load with this call is at most `least`, or at most `bound` percent of the runner's share of
 * all calls, rounded up: there is always a runner for which that is true. */
static int is_within(const struct fn_ask *ask, const struct homes *h, const struct chbl_options *o,
                     uint32_t index)
{
    uint64_t weight = runner_weight(fn_snapshot_at(ask->snap, index));
    unsigned __int128 load = (unsigned __int128)ask->inflight[index] * h->weight * 100;
    unsigned __int128 share = (unsigned __int128)(ask->inflight_total + 1) * (uint64_t)o->bound;

    return ask->inflight[index] < (uint64_t)o->least * weight || load < share * weight;
}

static uint32_t next_jump(struct chbl_session *s, const struct fn_ask *ask,
                          const struct chbl_options *o, struct homes *h)
{
    uint32_t index;

    while (s->jump < CHBL_JUMPS) {
        /* Calls that waited jump elsewhere than before. */
        index = s->jump == 0 ? homes_of(h, s->hash)
                             : homes_jump(h, s->hash, ask->round * CHBL_JUMPS + s->jump);
        s->jump++;
        if (!tries_has(&s->tries, index) && (s->lifted || is_within(ask, h, o, index))) {
            return index;
        }
    }
    return NONE;
}

/* Those whom no jump met; only where they are few or somebody must be below the bound. */
static uint32_t next_step(struct chbl_session *s, const struct fn_ask *ask,
                          const struct chbl_options *o, const struct homes *h)
{
    uint32_t from = (uint32_t)(s->hash % h->n);
    uint32_t index;

    if (s->lifted && h->n > TRIES_MAX) {
        return NONE;
    }
    while (s->walked < h->n) {
        index = h->at[(from + s->walked) % h->n];
        s->walked++;
        if (!tries_has(&s->tries, index) && (s->lifted || is_within(ask, h, o, index))) {
            return index;
        }
    }
    return NONE;
}

static uint32_t choose(struct chbl_session *s, const struct fn_ask *ask,
                       const struct chbl_options *o, struct homes *h, struct fn_answer *ret)
{
    uint32_t index;

    /* Runners below the bound that refuse are smaller than the others: load says little then. */
    if (!s->lifted && s->tries.n > 0 && s->tries.n >= (uint64_t)o->tries / 2) {
        s->lifted = 1;
        s->jump = s->walked = 0;
    }
    for (;;) {
        index = next_jump(s, ask, o, h);
        if (index != NONE) {
            if (s->jump == 1) {
                note(ret, "home");
            } else {
                note_number(ret, "jump ", s->jump - 1);
            }
            return index;
        }
        index = next_step(s, ask, o, h);
        if (index != NONE || s->lifted) {
            note(ret, "no jump met room");
            return index;
        }
        s->lifted = 1;
        s->jump = s->walked = 0;
    }
}

/* Without an index there are no homes: any runner, beginning at a place that the key names. */
static uint32_t choose_any(struct chbl_session *s, const struct fn_ask *ask, struct fn_answer *ret)
{
    uint32_t n = ask->snap->n;
    uint32_t from = (uint32_t)(s->hash % n);
    uint32_t index;

    note(ret, "no index");
    while (s->walked < n) {
        index = (from + s->walked) % n;
        s->walked++;
        if (tries_may(&s->tries, ask->snap, index)) {
            return index;
        }
    }
    return NONE;
}

void chbl_decide(struct chbl_session *s, const struct fn_ask *ask, const struct chbl_options *o,
                 struct homes *homes, struct fn_answer *ret)
{
    uint32_t index = NONE;

    if (tries_starts_round(&s->tries, ask)) {
        tries_start(&s->tries, ask);
        s->lifted = s->jump = s->walked = 0;
    }
    if (s->tries.n < (uint64_t)o->tries) {
        if (homes && homes->n > 0) {
            index = choose(s, ask, o, homes, ret);
        } else if (!homes && ask->snap->n > 0) {
            index = choose_any(s, ask, ret);
        }
    }
    if (index == NONE) {
        note(ret, "all refused");
        tries_wait(&s->tries, o->retry_delay_ns, ret);
        return;
    }
    tries_try(&s->tries, index, ret);
}
