/* What a placer remembers of one round: the runners that it named, so that none is named twice.
 *
 * A round begins when the call is new or was waiting, when the list is another one, and after the
 * placer ended the round with WAIT. */
#ifndef PLACER_TRIES_H
#define PLACER_TRIES_H

#include <fn/placer.h>

#define TRIES_MAX 32u

/* fn_ask.last_code, from a wrapper of placers: the runner refused nothing, it was passed over. */
#define PASSED_OVER FN_E_EXHAUSTED

/* Part of a session: zeroed is "no round yet". */
struct tries {
    uint64_t epoch;
    uint32_t open; /* 1 while a round runs */
    uint32_t n;
    uint32_t index[TRIES_MAX];
};

/* 1 when this ask starts a round: `open` while one runs, `epoch` of the list that it walks. */
static inline int round_starts(uint32_t open, uint64_t epoch, const struct fn_ask *ask)
{
    return ask->why == FN_WHY_START || ask->why == FN_WHY_TIMER || ask->why == FN_WHY_WAKE ||
           !open || epoch != ask->snap->epoch;
}

static inline int tries_starts_round(const struct tries *t, const struct fn_ask *ask)
{
    return round_starts(t->open, t->epoch, ask);
}

static inline void tries_start(struct tries *t, const struct fn_ask *ask)
{
    t->epoch = ask->snap->epoch;
    t->open = 1;
    t->n = 0;
}

static inline int tries_has(const struct tries *t, uint32_t index)
{
    uint32_t i;

    for (i = 0; i < t->n; i++) {
        if (t->index[i] == index) {
            return 1;
        }
    }
    return 0;
}

/* FN_TRY; t->n < TRIES_MAX. */
static inline void tries_try(struct tries *t, uint32_t index, struct fn_answer *ret)
{
    t->index[t->n++] = index;
    ret->verdict = FN_TRY;
    ret->index = index;
}

/* FN_WAIT, which ends the round. */
static inline void tries_wait(struct tries *t, int64_t retry_delay_ns, struct fn_answer *ret)
{
    t->open = 0;
    ret->verdict = FN_WAIT;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    ret->wait_ns = retry_delay_ns;
}

/* May be named: takes calls and was not named in this round. */
static inline int tries_may(const struct tries *t, const struct fn_snapshot *snap, uint32_t index)
{
    return !(fn_snapshot_at(snap, index)->flags & FN_RUNNER_DRAINING) && !tries_has(t, index);
}

static inline uint64_t runner_weight(const struct fn_runner *r)
{
    return r->weight ? r->weight : 1; /* older hosts pass on the 0 of a pool */
}

/* 1 when `a` is the less loaded one: calls, with the one to come, per unit of weight. */
static inline int runner_is_idler(const struct fn_ask *ask, uint32_t a, uint32_t b)
{
    uint64_t calls_a = (uint64_t)ask->inflight[a] + 1;
    uint64_t calls_b = (uint64_t)ask->inflight[b] + 1;

    return calls_a * runner_weight(fn_snapshot_at(ask->snap, b)) <
           calls_b * runner_weight(fn_snapshot_at(ask->snap, a));
}

#endif
