/* Entries stand in an array, so that a walk over them is an index that nobody moves. A window is
 * the running slot of time and the one before it. */
#include <base/tally.h>

#include <base/table.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS   1000000000LL
#define RATE_SLOT   (10 * SECOND_NS)
#define TIMES_SLOT  (60 * SECOND_NS)
#define FIRST_US    128 /* the first bucket ends here */
#define PER_OCTAVE  4
#define BUCKETS     84u /* the last one begins at 194 s */
#define LOOKED_AT   16u /* entries, of which the one that was idle for longest gives its place */

struct tally_entry {
    UT_hash_handle hh;
    uint64_t calls, failed, cold;
    int64_t last_ns;
    int64_t rate_slot, times_slot;
    uint32_t rate[2]; /* [0]: of the running slot, [1]: of the one before */
    uint32_t times[2][BUCKETS];
    char id[TALLY_TEXT_MAX + 1];
    char name[TALLY_TEXT_MAX + 1];
};

struct tally {
    struct tally_entry *by_id;
    struct tally_entry **all; /* n of max */
    uint32_t n, max;
    uint32_t hand; /* where the next that gives its place is looked for */
};

struct tally *tally_create(uint32_t max)
{
    struct tally *t = calloc(1, sizeof(*t));

    if (t) {
        t->max = max;
        t->all = calloc(max, sizeof(struct tally_entry *));
    }
    if (t && !t->all) {
        free(t);
        return NULL;
    }
    return t;
}

void tally_destroy(struct tally *t)
{
    if (t) {
        HASH_CLEAR(hh, t->by_id);
        while (t->n > 0) {
            free(t->all[--t->n]);
        }
        free(t->all);
        free(t);
    }
}

/* ---- buckets --------------------------------------------------------------------------------- */

static uint32_t bucket_of(int64_t us)
{
    uint64_t v = us > 0 ? (uint64_t)us : 0;
    uint32_t octave, part, b;

    if (v < FIRST_US) {
        return 0;
    }
    octave = 63u - (uint32_t)__builtin_clzll(v);
    part = (uint32_t)(v >> (octave - 2)) & (PER_OCTAVE - 1);
    b = 1 + (octave - 7) * PER_OCTAVE + part;
    return b < BUCKETS ? b : BUCKETS - 1;
}

/* Its middle. */
static int64_t bucket_us(uint32_t b)
{
    uint32_t octave = (b - 1) / PER_OCTAVE + 7;
    int64_t part_us = (int64_t)1 << (octave - 2);

    return b == 0 ? FIRST_US / 2 : (PER_OCTAVE + (b - 1) % PER_OCTAVE) * part_us + part_us / 2;
}

/* Where `slot` is over, its counts are those of the slot before, or nothing. */
static void slot_turn(int64_t *at, int64_t slot, uint32_t *now, uint32_t *before, uint32_t n)
{
    if (slot == *at) {
        return;
    }
    if (slot == *at + 1) {
        memcpy(before, now, n * sizeof(*now));
    } else {
        memset(before, 0, n * sizeof(*before));
    }
    memset(now, 0, n * sizeof(*now));
    *at = slot;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Out of the table, to be filled anew. */
static struct tally_entry *oldest_of_some(struct tally *t)
{
    struct tally_entry *oldest = NULL;

    for (uint32_t i = 0; i < LOOKED_AT; i++) {
        struct tally_entry *e = t->all[t->hand++ % t->max];

        oldest = !oldest || e->last_ns < oldest->last_ns ? e : oldest;
    }
    if (table_has(oldest)) {
        HASH_DEL(t->by_id, oldest);
    }
    return oldest;
}

static struct tally_entry *tally_add(struct tally *t, const char *id)
{
    struct tally_entry *e;

    if (t->n == t->max) {
        e = oldest_of_some(t);
    } else if ((e = malloc(sizeof(*e)))) {
        t->all[t->n++] = e;
    } else {
        return NULL;
    }
    memset(e, 0, sizeof(*e));
    snprintf(e->id, sizeof(e->id), "%s", id);
    HASH_ADD_STR(t->by_id, id, e);
    return table_has(e) ? e : NULL; /* it is filled with another one soon, as the oldest of all */
}

static struct tally_entry *tally_find(struct tally *t, const char *id)
{
    size_t len = strnlen(id, TALLY_TEXT_MAX);
    struct tally_entry *e;

    HASH_FIND(hh, t->by_id, id, len, e);
    return e;
}

void tally_count(struct tally *t, const struct tally_end *end, int64_t now_ns)
{
    struct tally_entry *e = end->id && end->id[0] ? tally_find(t, end->id) : NULL;

    if (!e && end->id && end->id[0]) {
        e = tally_add(t, end->id);
    }
    if (!e) {
        return;
    }
    if (end->name && strncmp(e->name, end->name, TALLY_TEXT_MAX) != 0) {
        snprintf(e->name, sizeof(e->name), "%s", end->name);
    }
    slot_turn(&e->rate_slot, now_ns / RATE_SLOT, &e->rate[0], &e->rate[1], 1);
    slot_turn(&e->times_slot, now_ns / TIMES_SLOT, e->times[0], e->times[1], BUCKETS);
    e->calls++;
    e->failed += !end->good;
    e->cold += end->cold;
    e->last_ns = now_ns;
    e->rate[0]++;
    e->times[0][bucket_of(end->took_ns / 1000)]++;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What a window has of a bucket, if its slots are those of now. */
static uint64_t times_at(const struct tally_entry *e, int64_t slot, uint32_t b)
{
    return slot == e->times_slot       ? (uint64_t)e->times[0][b] + e->times[1][b]
           : slot == e->times_slot + 1 ? e->times[0][b]
                                       : 0;
}

static void percentiles(const struct tally_entry *e, int64_t now_ns, struct tally_row *ret)
{
    int64_t slot = now_ns / TIMES_SLOT;
    uint64_t all = 0, until = 0;

    for (uint32_t b = 0; b < BUCKETS && slot <= e->times_slot + 1; b++) {
        all += times_at(e, slot, b);
    }
    for (uint32_t b = 0; b < BUCKETS && until < all; b++) {
        until += times_at(e, slot, b);
        if (!ret->p50_us && until * 2 >= all) {
            ret->p50_us = bucket_us(b);
        }
        if (!ret->p95_us && until * 20 >= all * 19) {
            ret->p95_us = bucket_us(b);
        }
        if (!ret->p99_us && until * 100 >= all * 99) {
            ret->p99_us = bucket_us(b);
        }
    }
}

/* The slot before counts as far as it reaches into the last 10 s. */
static int64_t per_hour(const struct tally_entry *e, int64_t now_ns)
{
    int64_t slot = now_ns / RATE_SLOT;
    int64_t left_ms = (RATE_SLOT - now_ns % RATE_SLOT) / 1000000;
    int64_t now = slot == e->rate_slot ? e->rate[0] : 0;
    int64_t before = slot == e->rate_slot       ? e->rate[1]
                     : slot == e->rate_slot + 1 ? e->rate[0]
                                                : 0;

    return now * 360 + before * 360 * left_ms / (RATE_SLOT / 1000000);
}

bool tally_at(const struct tally *t, uint32_t i, int64_t now_ns, struct tally_row *ret)
{
    const struct tally_entry *e;

    if (i >= t->n) {
        return false;
    }
    e = t->all[i];
    *ret = (struct tally_row){ .id = e->id,
                               .name = e->name,
                               .calls = e->calls,
                               .failed = e->failed,
                               .cold = e->cold,
                               .per_hour = per_hour(e, now_ns),
                               .idle_ns = now_ns - e->last_ns };
    percentiles(e, now_ns, ret);
    return true;
}
