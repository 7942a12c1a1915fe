/* Seen: call ids that came lately, so that a replayed TryCall is refused (threat T13).
 *
 * Kept as 64-bit keyed fingerprints in a table with linear probing and a ring in order of arrival;
 * both have a fixed size. A false match needs about 10^14 calls. */
#include <runner/internal.h>

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

static uint64_t fingerprint(const struct seen *s, const char *id)
{
    size_t len = strlen(id);
    uint64_t h = s->seed ^ len;
    uint64_t word;

    for (; len >= 8; len -= 8, id += 8) {
        memcpy(&word, id, 8);
        h = mix(h ^ word);
    }
    word = 0;
    memcpy(&word, id, len);
    h = mix(h ^ word);
    return h ? h : 1;
}

int seen_init(struct seen *s, uint32_t max, int64_t keep_ns, uint64_t seed)
{
    uint32_t size = 2;

    *s = (struct seen){ .max = max, .keep_ns = keep_ns, .seed = seed, .first = 1, .next = 1 };
    if (max == 0) {
        return 0;
    }
    while (size < max + max / 4) { /* linear probing is fine up to three quarters full */
        size *= 2;
    }
    s->table_mask = size - 1;
    s->table = calloc(size, sizeof(*s->table));
    s->ring = calloc(max, sizeof(*s->ring));
    s->at_ns = calloc(max, sizeof(*s->at_ns));
    if (!s->table || !s->ring || !s->at_ns) {
        seen_finish(s);
        return FN_E_EXHAUSTED;
    }
    return 0;
}

void seen_finish(struct seen *s)
{
    free(s->table);
    free(s->ring);
    free(s->at_ns);
    s->table = NULL;
    s->ring = NULL;
    s->at_ns = NULL;
}

/* The place of fp, or the empty one where it would be. */
static uint32_t find(const struct seen *s, uint64_t fp)
{
    uint32_t i = (uint32_t)fp & s->table_mask;

    while (s->table[i] && s->table[i] != fp) {
        i = (i + 1) & s->table_mask;
    }
    return i;
}

/* Closes the gap that a removed entry would leave in the chains behind it. */
static void table_remove(struct seen *s, uint64_t fp)
{
    uint32_t hole = find(s, fp);

    if (!s->table[hole]) {
        return;
    }
    for (uint32_t i = (hole + 1) & s->table_mask; s->table[i]; i = (i + 1) & s->table_mask) {
        uint32_t home = (uint32_t)s->table[i] & s->table_mask;

        if (((i - home) & s->table_mask) >= ((i - hole) & s->table_mask)) {
            s->table[hole] = s->table[i];
            hole = i;
        }
    }
    s->table[hole] = 0;
}

static void forget_first(struct seen *s)
{
    uint64_t *fp = &s->ring[s->first++ % s->max];

    if (*fp) {
        table_remove(s, *fp);
        *fp = 0;
    }
}

int seen_add(struct seen *s, const char *id, int64_t now_ns, uint64_t *ret_pos)
{
    uint64_t fp;
    uint32_t at;

    if (s->max == 0 || !*id) {
        *ret_pos = 0;
        return 0;
    }
    while (s->first < s->next && (s->next - s->first >= s->max ||
                                  now_ns - s->at_ns[s->first % s->max] >= s->keep_ns)) {
        forget_first(s);
    }
    fp = fingerprint(s, id);
    at = find(s, fp);
    if (s->table[at]) {
        return FN_E_EXISTS;
    }
    s->table[at] = fp;
    s->ring[s->next % s->max] = fp;
    s->at_ns[s->next % s->max] = now_ns;
    *ret_pos = s->next++;
    return 0;
}

void seen_forget(struct seen *s, uint64_t pos)
{
    uint64_t *fp;

    if (pos < s->first || pos >= s->next) {
        return;
    }
    fp = &s->ring[pos % s->max];
    if (*fp) {
        table_remove(s, *fp);
        *fp = 0;
    }
}
