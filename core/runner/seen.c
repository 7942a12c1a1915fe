/* Seen: call ids that came lately, so that a TryCall that somebody replays is refused.
 *
 * One table of 64-bit words with linear probing and nothing else: 4 bits generation, 60 bits keyed
 * fingerprint; 0 = empty. Ids go into the running generation; it ends when it holds its share of
 * `max` or has lasted its share of keep_ns, and the oldest one is then swept out of the table. So
 * each of the last `max` ids is known for keep_ns at least, and for a fifteenth more at most. A
 * sweep reads the table once per generation, a few nanoseconds per call.
 *
 * A short fingerprint cannot weaken at-most-once: equal ids have equal fingerprints, so a replay is
 * always found. Two different ids with one fingerprint refuse a call that nobody has seen (409, not
 * executed), one in about 10^13 calls when 100 000 are kept; the key is random and stays inside. */
#include <runner/internal.h>

#include <stdlib.h>
#include <string.h>

#define GENS        16
#define GEN_SHIFT   60
#define FINGERPRINT ((UINT64_C(1) << GEN_SHIFT) - 1)

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
    h = mix(h ^ word) & FINGERPRINT;
    return h ? h : 1;
}

int seen_init(struct seen *s, uint32_t max, int64_t keep_ns, uint64_t seed)
{
    uint64_t places = 16;

    *s = (struct seen){ .seed = seed };
    if (max == 0) {
        return 0;
    }
    s->gen_max = (max - 1) / (GENS - 1) + 1; /* all but the running one hold `max` together */
    s->gen_ns = keep_ns / (GENS - 1) + 1;
    while (places / 8 * 7 < (uint64_t)s->gen_max * GENS) { /* chains stay short up to 7/8 full */
        places *= 2;
    }
    s->table_mask = (uint32_t)(places - 1);
    s->table = calloc(places, sizeof(*s->table));
    return s->table ? 0 : FN_E_EXHAUSTED;
}

void seen_finish(struct seen *s)
{
    free(s->table);
    s->table = NULL;
}

/* The place of fp, or the empty one where it would be. */
static uint32_t seen_find(const struct seen *s, uint64_t fp)
{
    uint32_t i = (uint32_t)fp & s->table_mask;

    while (s->table[i] && (s->table[i] & FINGERPRINT) != fp) {
        i = (i + 1) & s->table_mask;
    }
    return i;
}

/* Closes the gap that a removed entry would leave in the chains behind it. */
static void remove_at(struct seen *s, uint32_t hole)
{
    for (uint32_t i = (hole + 1) & s->table_mask; s->table[i]; i = (i + 1) & s->table_mask) {
        uint32_t home = (uint32_t)s->table[i] & s->table_mask;

        if (((i - home) & s->table_mask) >= ((i - hole) & s->table_mask)) {
            s->table[hole] = s->table[i];
            hole = i;
        }
    }
    s->table[hole] = 0;
}

/* The next generation takes the number of the oldest one, which is forgotten. */
static void next_gen(struct seen *s)
{
    uint64_t number = ++s->gen % GENS;

    s->gen_n = 0;
    for (uint32_t i = 0; i <= s->table_mask;) {
        if (s->table[i] && s->table[i] >> GEN_SHIFT == number) {
            remove_at(s, i); /* another entry may move in here: look again */
        } else {
            i++;
        }
    }
}

static void age(struct seen *s, int64_t now_ns)
{
    for (int n = 0; n < GENS && now_ns - s->gen_since_ns >= s->gen_ns; n++) {
        next_gen(s);
        s->gen_since_ns += s->gen_ns;
    }
    if (now_ns - s->gen_since_ns >= s->gen_ns) { /* after a long rest nothing is left */
        s->gen_since_ns = now_ns;
    }
}

int seen_add(struct seen *s, const char *id, int64_t now_ns, struct seen_mark *ret)
{
    uint64_t fp;
    uint32_t at;

    *ret = (struct seen_mark){ 0 };
    if (!s->table || !*id) {
        return 0;
    }
    age(s, now_ns);
    fp = fingerprint(s, id);
    at = seen_find(s, fp);
    if (s->table[at]) {
        return FN_E_EXISTS;
    }
    if (s->gen_n >= s->gen_max) {
        next_gen(s);
        s->gen_since_ns = now_ns;
        at = seen_find(s, fp);
    }
    s->table[at] = s->gen % GENS << GEN_SHIFT | fp;
    s->gen_n++;
    *ret = (struct seen_mark){ .fingerprint = fp, .gen = s->gen };
    return 0;
}

void seen_forget(struct seen *s, const struct seen_mark *mark)
{
    uint32_t at;

    if (!mark->fingerprint || s->gen - mark->gen >= GENS) {
        return; /* swept out; an equal word would be of a later call */
    }
    at = seen_find(s, mark->fingerprint);
    if (s->table[at] && s->table[at] >> GEN_SHIFT == mark->gen % GENS) {
        remove_at(s, at);
        s->gen_n -= mark->gen == s->gen; /* refused calls push nobody out */
    }
}
