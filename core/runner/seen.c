/* Seen: call ids that came lately, so that a TryCall that somebody replays is refused.
 *
 * Ids are kept as keyed fingerprints, found by hash and linked by age. One goes when its place is
 * needed, or when it is old. Each new one takes two old ones out at most, so that no call pays for
 * what a rest or a burst has left behind; some are known for longer then.
 *
 * A fingerprint cannot weaken at-most-once: equal ids have equal fingerprints, so a replay is
 * always found. Two different ids with one fingerprint refuse a call that nobody has seen (409, not
 * executed), one in about 10^14 calls when 100 000 are kept; the key is random and stays inside. */
#include <runner/runner_int.h>

#include <stdlib.h>
#include <string.h>

#define OLD_OUT_MAX 2 /* more than come, so that the old get fewer */

/* ids[0] is nobody's and closes the ring: `newer` than it is the oldest, `older` the newest. */
struct seen_id {
    uint64_t fingerprint;
    uint64_t number; /* 0 = free */
    uint32_t at_s;
    uint32_t older, newer;
    uint32_t next; /* with the same head, or free; 0 = none */
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
    return mix(h ^ word);
}

int seen_init(struct seen *s, uint32_t max, int64_t keep_ns, uint64_t seed)
{
    uint64_t heads = 16;

    *s = (struct seen){ .seed = seed, .max = max };
    if (max == 0) {
        return 0;
    }
    while (heads < max) {
        heads *= 2;
    }
    s->keep_s = (uint32_t)((keep_ns + ENV_S - 1) / ENV_S);
    s->heads_mask = (uint32_t)(heads - 1);
    s->heads = calloc(heads, sizeof(*s->heads));
    s->ids = calloc((size_t)max + 1, sizeof(*s->ids));
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

/* What leads to fp, or would. */
static uint32_t *way_to(const struct seen *s, uint64_t fp)
{
    uint32_t *at = &s->heads[fp & s->heads_mask];

    while (*at && s->ids[*at].fingerprint != fp) {
        at = &s->ids[*at].next;
    }
    return at;
}

static void seen_take_out(struct seen *s, uint32_t at)
{
    struct seen_id *id = &s->ids[at];

    *way_to(s, id->fingerprint) = id->next;
    s->ids[id->older].newer = id->newer;
    s->ids[id->newer].older = id->older;
    *id = (struct seen_id){ .next = s->free };
    s->free = at;
}

static void seen_age(struct seen *s, uint32_t now_s)
{
    uint32_t oldest;

    for (int i = 0; i < OLD_OUT_MAX && (oldest = s->ids[0].newer); i++) {
        if (now_s - s->ids[oldest].at_s <= s->keep_s) {
            return;
        }
        seen_take_out(s, oldest);
    }
}

/* Places that were never used come last: their memory is not touched before. */
static uint32_t free_place(struct seen *s)
{
    uint32_t at = s->free;

    if (!at && s->used < s->max) {
        return ++s->used;
    }
    if (!at) {
        seen_take_out(s, s->ids[0].newer);
        at = s->free;
    }
    s->free = s->ids[at].next;
    return at;
}

static void seen_put(struct seen *s, uint64_t fp, uint32_t now_s)
{
    uint32_t at = free_place(s);
    uint32_t newest = s->ids[0].older;

    s->ids[at] = (struct seen_id){
        .fingerprint = fp, .number = ++s->number, .at_s = now_s, .older = newest
    };
    s->ids[newest].newer = s->ids[0].older = at;
    *way_to(s, fp) = at;
}

int seen_add(struct seen *s, const char *id, int64_t now_ns, struct seen_mark *ret)
{
    uint32_t now_s = (uint32_t)(now_ns / ENV_S);
    uint64_t fp;

    *ret = (struct seen_mark){ 0 };
    if (!s->ids || !*id) {
        return 0;
    }
    seen_age(s, now_s);
    fp = fingerprint(s, id);
    if (*way_to(s, fp)) {
        return FN_E_EXISTS;
    }
    seen_put(s, fp, now_s);
    *ret = (struct seen_mark){ .number = s->number, .at = s->ids[0].older };
    return 0;
}

void seen_forget(struct seen *s, const struct seen_mark *mark)
{
    if (mark->number && s->ids[mark->at].number == mark->number) {
        seen_take_out(s, mark->at);
    }
}
