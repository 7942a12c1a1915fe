/* A home is the best of all runners, and remembered. A jump looks in one bucket of a long list
 * only, where runners stand by the leading bits of their hash; an empty one leads on to another. */
#include "homes.h"

#include "tries.h"

#include <math.h>
#include <stdlib.h>

#define GOLDEN    0x9e3779b97f4a7c15u
#define EMPTY_MAX 64      /* empty buckets met in one jump */
#define UNIT      0x1p-53 /* of the numbers in (0, 1] */

/* Each bit of x moves each bit of the result with even chance. */
uint64_t homes_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

static uint32_t bucket_of(uint64_t hash)
{
    return (uint32_t)(hash >> 56);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int allocate(struct homes *h, uint32_t n)
{
    h->hash = calloc(n + 1, sizeof(*h->hash));
    h->share = calloc(n + 1, sizeof(*h->share));
    h->at = calloc(n + 1, sizeof(*h->at));
    if (h->n > HOMES_SMALL) {
        h->memo = calloc(HOMES_SETS, sizeof(*h->memo));
    }
    return h->hash && h->share && h->at && (h->memo || h->n <= HOMES_SMALL) ? 0 : FN_E_EXHAUSTED;
}

static int takes_calls(const struct fn_runner *r)
{
    return !(r->flags & FN_RUNNER_DRAINING);
}

/* Sorted by bucket, and within one by place in the list. */
static void fill(struct homes *h, const struct fn_snapshot *snap)
{
    uint32_t next[HOMES_BUCKETS];
    const struct fn_runner *r;
    uint64_t hash;
    uint32_t i, to;

    for (i = 0; i < HOMES_BUCKETS; i++) {
        h->start[i + 1] += h->start[i];
        next[i] = h->start[i];
    }
    h->equal = 1;
    for (i = 0; i < snap->n; i++) {
        r = fn_snapshot_at(snap, i);
        if (takes_calls(r)) {
            hash = homes_mix(r->id + GOLDEN);
            to = next[bucket_of(hash)]++;
            h->hash[to] = hash;
            h->share[to] = (double)runner_weight(r);
            h->at[to] = i;
            h->weight += runner_weight(r);
        }
    }
    for (i = 0; i < h->n; i++) {
        h->equal &= h->share[i] == h->share[0];
    }
}

int homes_create(const struct fn_snapshot *snap, struct homes **ret)
{
    struct homes *h = calloc(1, sizeof(*h));
    const struct fn_runner *r;
    uint32_t i;

    if (!h) {
        return FN_E_EXHAUSTED;
    }
    for (i = 0; i < snap->n; i++) {
        r = fn_snapshot_at(snap, i);
        if (takes_calls(r)) {
            h->n++;
            h->start[bucket_of(homes_mix(r->id + GOLDEN)) + 1]++;
        }
    }
    if (allocate(h, h->n) < 0) {
        homes_destroy(h);
        return FN_E_EXHAUSTED;
    }
    fill(h, snap);
    *ret = h;
    return 0;
}

void homes_destroy(struct homes *h)
{
    if (h) {
        free(h->hash);
        free(h->share);
        free(h->at);
        free(h->memo);
        free(h);
    }
}

/* ---- highest random weight ------------------------------------------------------------------- */

static uint32_t best_equal(const struct homes *h, uint64_t key, uint32_t from, uint32_t to)
{
    uint64_t best = 0;
    uint32_t winner = from;
    uint64_t x;
    uint32_t i;

    for (i = from; i < to; i++) {
        x = homes_mix(key ^ h->hash[i]);
        if (x > best) {
            best = x;
            winner = i;
        }
    }
    return winner;
}

/* The smallest -ln(u) / weight wins. 1 - u is never more than -ln(u): where it is too much already,
 * no logarithm is needed, and that is nearly everywhere. */
static uint32_t best_weighted(const struct homes *h, uint64_t key, uint32_t from, uint32_t to)
{
    double best = INFINITY;
    uint32_t winner = from;
    double u, age;
    uint32_t i;

    for (i = from; i < to; i++) {
        u = (double)((homes_mix(key ^ h->hash[i]) >> 11) + 1) * UNIT;
        if (1.0 - u < best * h->share[i]) {
            age = -log(u) / h->share[i];
            if (age < best) {
                best = age;
                winner = i;
            }
        }
    }
    return winner;
}

static uint32_t best_of(const struct homes *h, uint64_t key, uint32_t from, uint32_t to)
{
    return h->equal ? best_equal(h, key, from, to) : best_weighted(h, key, from, to);
}

uint32_t homes_of(struct homes *h, uint64_t key)
{
    struct homes_set *set;
    uint32_t i;

    if (!h->memo) {
        return h->at[best_of(h, key, 0, h->n)];
    }
    key = key ? key : 1;
    set = &h->memo[homes_mix(key) % HOMES_SETS];
    for (i = 0; i < HOMES_WAYS; i++) {
        if (set->key[i] == key) {
            return set->home[i];
        }
    }
    i = set->hand;
    set->hand = (i + 1) % HOMES_WAYS;
    set->key[i] = key;
    set->home[i] = h->at[best_of(h, key, 0, h->n)];
    return set->home[i];
}

uint32_t homes_jump(const struct homes *h, uint64_t key, uint32_t jump)
{
    uint64_t k = homes_mix(key + jump * GOLDEN);
    uint32_t b;
    int i;

    if (h->n <= HOMES_SMALL) {
        return h->at[best_of(h, k, 0, h->n)];
    }
    for (i = 0; i < EMPTY_MAX; i++) {
        b = bucket_of(k);
        if (h->start[b] < h->start[b + 1]) {
            return h->at[best_of(h, k, h->start[b], h->start[b + 1])];
        }
        k = homes_mix(k + GOLDEN);
    }
    return h->at[k % h->n];
}
