/* The places of runners by their id, in an open table of twice their number, so that what is
 * known of a runner outlives a list. */
#include "decide.h"

static uint32_t hash_of(uint64_t id)
{
    id = (id ^ id >> 32) * 0xd6e8feb86659fd93u;
    return (uint32_t)(id >> 32);
}

static void put(struct hybrid_index *ix, const struct fn_snapshot *snap, uint32_t i)
{
    uint64_t id = fn_snapshot_at(snap, i)->id;
    uint32_t at = hash_of(id) & ix->mask;

    while (ix->slot[at]) {
        if (fn_snapshot_at(snap, ix->slot[at] - 1)->id == id) {
            return; /* listed twice: the first one */
        }
        at = (at + 1) & ix->mask;
    }
    ix->slot[at] = i + 1;
}

int hybrid_index_create(const struct fn_snapshot *snap, struct hybrid_index **ret)
{
    struct hybrid_index *ix = calloc(1, sizeof(*ix));
    uint32_t size = 16;
    uint32_t i;

    if (!ix) {
        return FN_E_EXHAUSTED;
    }
    while (size < 2 * snap->n) {
        size *= 2;
    }
    ix->mask = size - 1;
    ix->slot = calloc(size, sizeof(*ix->slot));
    if (!ix->slot || room_init(&ix->room, snap) < 0) {
        free(ix->slot);
        free(ix);
        return FN_E_EXHAUSTED;
    }
    for (i = 0; i < snap->n; i++) {
        if (!(fn_snapshot_at(snap, i)->flags & FN_RUNNER_DRAINING)) {
            ix->weight += runner_weight(fn_snapshot_at(snap, i));
            put(ix, snap, i);
        }
    }
    *ret = ix;
    return 0;
}

void hybrid_index_destroy(struct hybrid_index *ix)
{
    if (ix) {
        room_finish(&ix->room);
        free(ix->slot);
        free(ix);
    }
}

uint32_t hybrid_index_find(const struct hybrid_index *ix, const struct fn_snapshot *snap,
                           uint64_t id)
{
    uint32_t at = hash_of(id) & ix->mask;

    while (ix->slot[at]) {
        if (fn_snapshot_at(snap, ix->slot[at] - 1)->id == id) {
            return ix->slot[at] - 1;
        }
        at = (at + 1) & ix->mask;
    }
    return ROOM_NONE;
}
