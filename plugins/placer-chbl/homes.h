/* Homes: which runner a key belongs to, by highest random weight on runner ids.
 *
 * Every runner gets a number made of its id and the key, and the highest wins, with chances in
 * proportion to weights (Thaler and Ravishankar, IEEE/ACM ToN 1998; weights: Schindelhauer and
 * Schomaker, SPAA 2005). When a runner goes, only its own keys move; when one comes, keys move to
 * it only; the order of the list means nothing and no history is kept. That costs one
 * multiplication or two per runner, so homes are remembered in the index of a list. Draining
 * runners are not in it. */
#ifndef PLACER_CHBL_HOMES_H
#define PLACER_CHBL_HOMES_H

#include <fn/placer.h>

/* Up to here numbers are made afresh: it takes no longer than remembering. */
#define HOMES_SMALL   64u
#define HOMES_BUCKETS 256u
#define HOMES_WAYS    8u
#define HOMES_SETS    2048u

struct homes_set {
    uint64_t key[HOMES_WAYS]; /* 0 = free */
    uint32_t home[HOMES_WAYS];
    uint32_t hand; /* the next one to be replaced */
    uint32_t reserved0;
};

struct homes {
    uint32_t n;      /* runners that are not draining */
    uint32_t equal;  /* 1 when all weights are the same */
    uint64_t weight; /* sum */
    uint64_t *hash;  /* n, of the ids; in the order of buckets */
    double *share;   /* n, weights */
    uint32_t *at;    /* n, index in the snapshot */
    uint32_t start[HOMES_BUCKETS + 1];
    struct homes_set *memo; /* HOMES_SETS, NULL for small lists */
};

/* 0 or FN_E_EXHAUSTED. [loop] O(n) */
int homes_create(const struct fn_snapshot *snap, struct homes **ret);
void homes_destroy(struct homes *h);

/* Index in the snapshot of the key's home; h->n > 0. */
uint32_t homes_of(struct homes *h, uint64_t key);
/* Where the key goes in its `jump`th random jump, 1 and up: in a small list to the home of another
 * key, in a large one to the home within a random 256th of the id space, so that each jump costs
 * O(n / 256). Only jumps to a runner that went change; even to within the sizes of those parts. */
uint32_t homes_jump(const struct homes *h, uint64_t key, uint32_t jump);

uint64_t homes_mix(uint64_t x);

#endif
