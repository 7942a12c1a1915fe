/* One call: where it is warm first, then packed, spread, or there where an idle container has to
 * go. */
#include "decide.h"

#include "note.h"

#define ALL_MAX 128u /* lists up to this are looked through for the least loaded one */
#define SAMPLE  16u  /* else so many are drawn */

static int is_high(const struct fn_ask *ask, const struct hybrid_world *world)
{
    const struct hybrid_options *o = world->options;

    return !world->index ||
           (unsigned __int128)(ask->inflight_total + 1) * 100 >
               (unsigned __int128)world->index->weight * (uint64_t)o->cap * (uint64_t)o->high;
}

static int is_busy(const struct hybrid_world *world, uint32_t at)
{
    return world->index && room_is_busy(&world->index->room, at);
}

/* The best of the runners where the function has an idle container: the fullest one below the cap
 * when calls are packed, the least loaded one when they are spread. */
static uint32_t warm_best(const struct hybrid_session *s, const struct fn_ask *ask,
                          const struct hybrid_world *world, int high)
{
    const struct warm_fn *f = warm_of(world->warm, s->fn, ask->now_ns);
    uint64_t cap = (uint64_t)world->options->cap;
    uint32_t best = ROOM_NONE;

    for (uint32_t i = 0; f && world->index && i < WARM_PAIRS; i++) {
        uint32_t at = f->pair[i].idle == 0
                          ? ROOM_NONE
                          : hybrid_index_find(world->index, ask->snap, f->pair[i].runner);

        if (at == ROOM_NONE || !tries_may(&s->tries, ask->snap, at) ||
            (!high && !runner_has_room(ask, at, cap))) {
            continue;
        }
        if (best == ROOM_NONE ||
            (high ? runner_is_idler(ask, at, best) : runner_is_idler(ask, best, at))) {
            best = at;
        }
    }
    return best;
}

/* Those that refused last: a runner that is down has few calls. */
static uint32_t idler(const struct hybrid_session *s, const struct fn_ask *ask,
                      const struct hybrid_world *world, uint32_t best, uint32_t at)
{
    int busier;

    if (!tries_may(&s->tries, ask->snap, at)) {
        return best;
    }
    if (best == ROOM_NONE) {
        return at;
    }
    busier = is_busy(world, at) - is_busy(world, best);
    return busier < 0 || (busier == 0 && runner_is_idler(ask, at, best)) ? at : best;
}

static uint32_t least_loaded(const struct hybrid_session *s, const struct fn_ask *ask,
                             const struct hybrid_world *world)
{
    const struct hybrid_chance *chance = &world->chance;
    uint32_t n = ask->snap->n;
    uint32_t from = (uint32_t)(chance->u64(chance->ud) % n); /* equals take turns */
    uint32_t best = ROOM_NONE;
    uint32_t i;

    for (i = 0; n > ALL_MAX && i < SAMPLE; i++) {
        best = idler(s, ask, world, best, (uint32_t)(chance->u64(chance->ud) % n));
    }
    for (i = 0; best == ROOM_NONE && n > ALL_MAX && i < n; i++) {
        best = idler(s, ask, world, best, (from + i) % n);
    }
    for (i = 0; n <= ALL_MAX && i < n; i++) {
        best = idler(s, ask, world, best, (from + i) % n);
    }
    return best;
}

/* A warm runner is worth one call more than the least loaded one. */
static int warm_is_worth_it(const struct fn_ask *ask, uint32_t warm, uint32_t least)
{
    uint64_t calls = ask->inflight[warm];

    return calls * runner_weight(fn_snapshot_at(ask->snap, least)) <=
           ((uint64_t)ask->inflight[least] + 1) * runner_weight(fn_snapshot_at(ask->snap, warm));
}

static uint32_t spread(const struct hybrid_session *s, const struct fn_ask *ask,
                       const struct hybrid_world *world, struct fn_answer *ret)
{
    uint32_t warm = warm_best(s, ask, world, 1);
    uint32_t least = least_loaded(s, ask, world);

    if (warm != ROOM_NONE && least != ROOM_NONE && warm_is_worth_it(ask, warm, least)) {
        note(ret, "spread, warm");
        return warm;
    }
    note(ret, "spread, least loaded");
    return least;
}

/* A cold start there evicts nobody, as far as is known. */
static int has_free_memory(const struct fn_ask *ask, const struct hybrid_world *world, uint32_t at)
{
    const struct fn_runner *r = fn_snapshot_at(ask->snap, at);

    return (uint64_t)ask->inflight[at] + warm_idle(world->warm, r->id) <
           (uint64_t)world->options->cap * runner_weight(r);
}

static uint32_t pack(struct hybrid_session *s, const struct fn_ask *ask,
                     const struct hybrid_world *world, struct fn_answer *ret)
{
    uint64_t cap = (uint64_t)world->options->cap;
    uint32_t at = warm_best(s, ask, world, 0);

    if (at != ROOM_NONE) {
        note(ret, "packed, warm");
        return at;
    }
    note(ret, "packed, first with room");
    while ((at = room_take(&world->index->room, ask, cap, s->next)) != ROOM_NONE) {
        s->next = at + 1;
        if (!has_free_memory(ask, world, at)) {
            room_clear(&world->index->room, at);
        } else if (!tries_has(&s->tries, at)) {
            return at;
        }
    }
    return ROOM_NONE;
}

/* Memory is full of idle containers everywhere, so one has to go: always at the same few runners
 * for one function, so that it finds its own again. A call that waited looks further. */
static uint32_t evict(const struct hybrid_session *s, const struct fn_ask *ask,
                      const struct hybrid_world *world, struct fn_answer *ret)
{
    uint32_t n = ask->snap->n;
    uint32_t home =
        (uint32_t)((s->fn + (uint64_t)ask->round * (uint64_t)world->options->tries) % n);

    note(ret, "packed, near its place");
    for (uint32_t i = 0; i < n && i < ALL_MAX; i++) {
        uint32_t at = (home + i) % n;

        if (runner_has_room(ask, at, (uint64_t)world->options->cap) && !is_busy(world, at) &&
            !tries_has(&s->tries, at)) {
            return at;
        }
    }
    return ROOM_NONE;
}

static uint32_t choose(struct hybrid_session *s, const struct fn_ask *ask,
                       const struct hybrid_world *world, struct fn_answer *ret)
{
    uint32_t at = ROOM_NONE;

    if (!is_high(ask, world)) {
        at = pack(s, ask, world, ret);
        at = at != ROOM_NONE ? at : evict(s, ask, world, ret);
    }
    return at != ROOM_NONE ? at : spread(s, ask, world, ret);
}

void hybrid_decide(struct hybrid_session *s, const struct fn_ask *ask,
                   const struct hybrid_world *world, struct fn_answer *ret)
{
    const struct hybrid_options *o = world->options;
    uint32_t index = ROOM_NONE;

    if (!s->hashed) {
        s->fn = warm_hash(ask->call->fn_id ? ask->call->fn_id : "");
        s->hashed = 1;
    }
    if (tries_starts_round(&s->tries, ask)) {
        tries_start(&s->tries, ask);
        s->next = 0;
        warm_sweep(world->warm, ask->now_ns);
        if (world->index) {
            room_sweep(&world->index->room, ask, (uint64_t)o->cap);
        }
    } else if (world->index) {
        room_refused(&world->index->room, ask);
    }
    if (ask->snap->n > 0 && s->tries.n < (uint64_t)o->tries) {
        index = choose(s, ask, world, ret);
    }
    if (index == ROOM_NONE) {
        note(ret, "all refused");
        tries_wait(&s->tries, o->retry_delay_ns, ret);
        return;
    }
    warm_take(world->warm, warm_of(world->warm, s->fn, ask->now_ns),
              fn_snapshot_at(ask->snap, index)->id);
    tries_try(&s->tries, index, ret);
}
