/* Seen: call ids that came lately, so that a TryCall that somebody replays is refused.
 *
 * Ids are kept as keyed fingerprints, in a ring in the order in which they came, and found by
 * hash. One goes when its place is needed, or when it is old. Each new one takes two old ones out
 * at most, so that no call pays for what a rest or a burst has left behind; some are known for
 * longer then.
 *
 * A fingerprint cannot weaken at-most-once: equal ids have equal fingerprints, so a replay is
 * always found. Two different ids with one fingerprint refuse a call that nobody has seen (409, not
 * executed), one in about 10^14 calls when 100 000 are kept; the key is random and stays inside. */
#include <runner/internal.h>

#include <stdlib.h>
#include <string.h>

#define OLD_OUT_MAX 2 /* more than come, so that the old get fewer */

struct seen_id {
    uint64_t fingerprint; /* 0 = forgotten */
    uint32_t at_s;
    uint32_t next; /* place of one with the same head, and 1; 0 = none */
};

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
    uint32_t heads = 16;

    *s = (struct seen){ .seed = seed, .max = max, .first = 1, .end = 1 };
    if (max == 0) {
        return 0;
    }
    while (heads < max) {
        heads *= 2;
    }
    s->keep_s = (uint32_t)(keep_ns / ENV_S);
    s->heads_mask = heads - 1;
    s->heads = calloc(heads, sizeof(*s->heads));
    s->ids = calloc(max, sizeof(*s->ids));
    if (!s->heads || !s->ids) {
        seen_finish(s);
        return FN_E_EXHAUSTED;
    }
    return 0;
}

void seen_finish(struct seen *s)
{
    free(s->heads);
    free(s->ids);
    s->heads = NULL;
    s->ids = NULL;
}

static struct seen_id *seen_at(const struct seen *s, uint64_t number)
{
    return &s->ids[number % s->max];
}

/* What leads to fp, or would. */
static uint32_t *way_to(const struct seen *s, uint64_t fp)
{
    uint32_t *at = &s->heads[fp & s->heads_mask];

    while (*at && s->ids[*at - 1].fingerprint != fp) {
        at = &s->ids[*at - 1].next;
    }
    return at;
}

static void seen_take_out(struct seen *s, struct seen_id *id)
{
    if (id->fingerprint) {
        *way_to(s, id->fingerprint) = id->next;
        id->fingerprint = 0;
    }
}

static void seen_age(struct seen *s, uint32_t now_s)
{
    for (int n = 0; n < OLD_OUT_MAX && s->first < s->end; n++) {
        struct seen_id *id = seen_at(s, s->first);

        if (id->fingerprint && now_s - id->at_s <= s->keep_s) {
            return;
        }
        seen_take_out(s, id);
        s->first++;
    }
}

/* Into the place of the oldest one, if there is no other. */
static void seen_put(struct seen *s, uint64_t fp, uint32_t now_s)
{
    struct seen_id *id = seen_at(s, s->end);

    if (s->end - s->first == s->max) {
        seen_take_out(s, id);
        s->first++;
    }
    *id = (struct seen_id){ .fingerprint = fp, .at_s = now_s };
    *way_to(s, fp) = (uint32_t)(s->end++ % s->max) + 1;
}

int seen_add(struct seen *s, const char *id, int64_t now_ns, uint64_t *ret_number)
{
    uint32_t now_s = (uint32_t)(now_ns / ENV_S);
    uint64_t fp;

    *ret_number = 0;
    if (!s->ids || !*id) {
        return 0;
    }
    seen_age(s, now_s);
    fp = fingerprint(s, id);
    if (*way_to(s, fp)) {
        return FN_E_EXISTS;
    }
    *ret_number = s->end;
    seen_put(s, fp, now_s);
    return 0;
}

/* The newest ones leave their places, so that calls that are refused at once push nobody out. Who
 * had a number that is given again has it no more. */
void seen_forget(struct seen *s, uint64_t *number)
{
    if (*number >= s->first && *number < s->end) {
        seen_take_out(s, seen_at(s, *number));
        while (s->first < s->end && !seen_at(s, s->end - 1)->fingerprint) {
            s->end--;
        }
    }
    *number = 0;
}
