/* Which runners of a list may have room: the first one is found in three steps, however many are
 * full.
 *
 * One bit per runner and one per word of bits. A set bit is a hope, checked by who finds it; a
 * clear one was true when it was written. It comes back when a call at that runner ends and, for
 * ends that placers are not told of (clients that left, attempts over an older list), when the
 * sweep comes by. A runner that refused, or that the host refused by itself because it is down, has
 * no room until one of its calls ends, or the sweep comes by after ROOM_BUSY_NS: the cap of the
 * placer may be more than it can take. So runners that are down come back a few at a time, fewer
 * than a call may try. Lives in a snapshot's index; [loop]. */
#ifndef PLACER_ROOM_H
#define PLACER_ROOM_H

#include "tries.h"

#include <stdlib.h>

#define ROOM_NONE    UINT32_MAX
#define ROOM_SWEEP   4u /* runners looked at again per call */
#define ROOM_BUSY_NS 1000000000

struct room {
    uint32_t n;
    uint32_t words;
    uint32_t sweep;   /* the next one to look at */
    uint32_t turn;    /* where the next call begins that finds no room */
    uint64_t *bit;    /* n, whether there may be room */
    uint64_t *any;    /* words, whether one of their bits is set */
    int64_t *busy_ns; /* n, it counts as full whatever its calls, at least until then; 0 = no */
};

static inline void room_set(struct room *r, uint32_t i)
{
    r->bit[i / 64] |= 1ull << (i % 64);
    r->any[i / 4096] |= 1ull << (i / 64 % 64);
}

static inline void room_clear(struct room *r, uint32_t i)
{
    r->bit[i / 64] &= ~(1ull << (i % 64));
    if (!r->bit[i / 64]) {
        r->any[i / 4096] &= ~(1ull << (i / 64 % 64));
    }
}

static inline int room_has(const struct room *r, uint32_t i)
{
    return (int)(r->bit[i / 64] >> (i % 64) & 1);
}

/* The first bit of `map` that is set at `from` or behind it, or ROOM_NONE; `words` of 64. */
static inline uint32_t room_first(const uint64_t *map, uint32_t words, uint32_t from)
{
    uint32_t w = from / 64;
    uint64_t rest;

    if (w >= words) {
        return ROOM_NONE;
    }
    rest = map[w] & (~0ull << (from % 64));
    while (!rest && ++w < words) {
        rest = map[w];
    }
    return rest ? w * 64 + (uint32_t)__builtin_ctzll(rest) : ROOM_NONE;
}

static inline uint32_t room_find(const struct room *r, uint32_t from)
{
    uint32_t w = from / 64;
    uint64_t rest;

    if (w >= r->words) {
        return ROOM_NONE;
    }
    rest = r->bit[w] & (~0ull << (from % 64));
    if (!rest) {
        w = room_first(r->any, (r->words + 63) / 64, w + 1);
        rest = w == ROOM_NONE ? 0 : r->bit[w];
    }
    return rest ? w * 64 + (uint32_t)__builtin_ctzll(rest) : ROOM_NONE;
}

/* All runners that are not draining; 0 or FN_E_EXHAUSTED. room_finish() on a zeroed one is fine. */
static inline int room_init(struct room *r, const struct fn_snapshot *snap)
{
    uint32_t words = (snap->n + 63) / 64;
    uint32_t i;

    *r = (struct room){ .n = snap->n, .words = words };
    r->bit = calloc(words + (words + 63) / 64 + 1, sizeof(*r->bit));
    r->busy_ns = calloc(snap->n + 1, sizeof(*r->busy_ns));
    if (!r->bit || !r->busy_ns) {
        free(r->bit);
        free(r->busy_ns);
        return FN_E_EXHAUSTED;
    }
    r->any = r->bit + words;
    for (i = 0; i < snap->n; i++) {
        if (!(fn_snapshot_at(snap, i)->flags & FN_RUNNER_DRAINING)) {
            room_set(r, i);
        }
    }
    return 0;
}

static inline void room_finish(struct room *r)
{
    free(r->bit);
    free(r->busy_ns);
}

/* Takes calls, and has fewer than `cap` per unit of weight. */
static inline int runner_has_room(const struct fn_ask *ask, uint32_t i, uint64_t cap)
{
    const struct fn_runner *r = fn_snapshot_at(ask->snap, i);

    return !(r->flags & FN_RUNNER_DRAINING) && ask->inflight[i] < cap * runner_weight(r);
}

/* The first runner with room at `from` or behind it, or ROOM_NONE. */
static inline uint32_t room_take(struct room *r, const struct fn_ask *ask, uint64_t cap,
                                 uint32_t from)
{
    uint32_t i;

    while ((i = room_find(r, from)) != ROOM_NONE) {
        if (runner_has_room(ask, i, cap)) {
            return i;
        }
        room_clear(r, i);
        from = i + 1;
    }
    return ROOM_NONE;
}

/* It refused last, and neither a call of it ended nor the sweep came by in due time. */
static inline int room_is_busy(const struct room *r, uint32_t i)
{
    return r->busy_ns[i] != 0;
}

static inline void room_busy(struct room *r, uint32_t i, int64_t now_ns)
{
    r->busy_ns[i] = now_ns + ROOM_BUSY_NS;
    room_clear(r, i);
}

/* For an ask with which a round goes on. The host does not tell observe() of what it refuses by
 * itself; without this, every round would begin with the same ones. */
static inline void room_refused(struct room *r, const struct fn_ask *ask)
{
    if (ask->last_index < r->n && ask->last_code != PASSED_OVER) {
        room_busy(r, ask->last_index, ask->now_ns);
    }
}

/* What observe() tells. */
static inline void room_observe(struct room *r, const struct fn_placed *what, int64_t now_ns)
{
    if (!r || what->index >= r->n ||
        (fn_snapshot_at(what->snap, what->index)->flags & FN_RUNNER_DRAINING)) {
        return;
    }
    if (what->outcome == FN_DONE_BUSY || what->outcome == FN_DONE_UNREACHABLE) {
        room_busy(r, what->index, now_ns);
    } else {
        r->busy_ns[what->index] = 0;
        room_set(r, what->index);
    }
}

static inline void room_sweep(struct room *r, const struct fn_ask *ask, uint64_t cap)
{
    uint32_t k;

    for (k = 0; k < ROOM_SWEEP && k < r->n; k++) {
        r->sweep = r->sweep + 1 < r->n ? r->sweep + 1 : 0;
        if (r->busy_ns[r->sweep] > ask->now_ns) {
            continue;
        }
        r->busy_ns[r->sweep] = 0;
        if (runner_has_room(ask, r->sweep, cap)) {
            room_set(r, r->sweep);
        }
    }
}

#endif
