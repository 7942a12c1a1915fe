/* Packs calls on warm and busy runners while there is room, spreads them when there is little.
 * Pure: chance comes from outside.
 *
 * Kaffes, Yadwadkar, Kozyrakis, "Hermod: Principled and Practical Scheduling for Serverless
 * Functions" (SoCC 2022): packing at low load keeps containers warm and runners free, least loaded
 * at high load keeps queues short, and each of the two is bad where the other is good. */
#ifndef PLACER_HYBRID_DECIDE_H
#define PLACER_HYBRID_DECIDE_H

#include "room.h"
#include "warm.h"

struct hybrid_options {
    int64_t retry_delay_ns;
    int64_t cap;     /* calls per unit of weight up to which a runner is packed */
    int64_t high;    /* percent of all caps from which calls are spread */
    int64_t warm_ns; /* time that a container is thought warm after a call */
    int64_t tries;   /* per round, 1..TRIES_MAX */
};

/* Derived from a list. */
struct hybrid_index {
    struct room room;
    uint64_t weight; /* of all that take calls */
    uint32_t mask;   /* of slot */
    uint32_t *slot;  /* by hash of id: index in the list + 1, 0 = free */
};

/* Per call, host memory. */
struct hybrid_session {
    struct tries tries;
    uint64_t fn;   /* hash of the function's id */
    uint32_t next; /* index where packing looks next in this round */
    uint32_t hashed;
};

struct hybrid_chance {
    uint64_t (*u64)(void *ud);
    void *ud;
};

struct hybrid_world {
    const struct hybrid_options *options;
    struct warm *warm;
    struct hybrid_index *index; /* of the snapshot; NULL when there was no memory for it */
    struct hybrid_chance chance;
};

void hybrid_decide(struct hybrid_session *s, const struct fn_ask *ask,
                   const struct hybrid_world *world, struct fn_answer *ret);

/* 0 or FN_E_EXHAUSTED. */
int hybrid_index_create(const struct fn_snapshot *snap, struct hybrid_index **ret);
void hybrid_index_destroy(struct hybrid_index *ix);
/* Index in the list of a runner by id, or ROOM_NONE. */
uint32_t hybrid_index_find(const struct hybrid_index *ix, const struct fn_snapshot *snap,
                           uint64_t id);

#endif
