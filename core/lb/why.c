/* The ring: pointers to entries beside an array of keys, so that a search reads 8 bytes per call. A
 * key is the end of the id, where its counter is. */
#include <lb/why.h>

#include <stdlib.h>
#include <string.h>

#define FREE_KEPT 1024u /* entries kept for running calls beyond those of the ring */

struct why {
    struct why_entry **ring; /* cap; slot n % cap is the next to be given up */
    uint64_t *keys;          /* cap */
    uint32_t cap;
    uint64_t n; /* calls that ended */
    struct why_entry *free;
    uint32_t free_n;
};

static uint64_t why_key_of(const char *id)
{
    uint64_t key = 0;
    size_t n = strlen(id);

    memcpy(&key, id + (n > sizeof(key) ? n - sizeof(key) : 0), n > sizeof(key) ? sizeof(key) : n);
    return key;
}

static uint32_t kept(const struct why *w)
{
    return w->n < w->cap ? (uint32_t)w->n : w->cap;
}

/* The i-th newest. */
static uint32_t slot_of(const struct why *w, uint32_t i)
{
    return (uint32_t)((w->n - 1 - i) % w->cap);
}

static void give_back(struct why *w, struct why_entry *e)
{
    if (w->cap == 0 || w->free_n >= FREE_KEPT) {
        free(e);
        return;
    }
    e->next_free = w->free;
    w->free = e;
    w->free_n++;
}

static void drop_free(struct why *w)
{
    while (w->free) {
        struct why_entry *e = w->free;

        w->free = e->next_free;
        free(e);
    }
    w->free_n = 0;
}

int why_create(uint32_t calls_max, struct why **ret)
{
    struct why *w = calloc(1, sizeof(*w));

    if (!w || why_resize(w, calls_max) < 0) {
        free(w);
        return FN_E_EXHAUSTED;
    }
    *ret = w;
    return 0;
}

void why_destroy(struct why *w)
{
    if (w) {
        for (uint32_t i = 0; i < kept(w); i++) {
            free(w->ring[slot_of(w, i)]);
        }
        drop_free(w);
        free(w->ring);
        free(w->keys);
        free(w);
    }
}

int why_resize(struct why *w, uint32_t calls_max)
{
    struct why_entry **ring = calloc(calls_max + 1, sizeof(*ring));
    uint64_t *keys = calloc(calls_max + 1, sizeof(*keys));
    uint32_t n = kept(w) < calls_max ? kept(w) : calls_max;

    if (!ring || !keys) {
        free(ring);
        free(keys);
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < kept(w); i++) {
        struct why_entry *e = w->ring[slot_of(w, i)];

        if (i < n) {
            ring[n - 1 - i] = e;
            keys[n - 1 - i] = why_key_of(e->id);
        } else {
            free(e);
        }
    }
    free(w->ring);
    free(w->keys);
    w->ring = ring;
    w->keys = keys;
    w->cap = calls_max;
    w->n = n;
    if (calls_max == 0) {
        drop_free(w);
    }
    return 0;
}

struct why_entry *why_begin(struct why *w)
{
    struct why_entry *e = w->free;

    if (w->cap == 0) {
        return NULL;
    }
    if (e) {
        w->free = e->next_free;
        w->free_n--;
    } else {
        e = malloc(sizeof(*e));
    }
    if (e) {
        memset(e, 0, offsetof(struct why_entry, fn_id));
        e->fn_id[0] = e->error[0] = '\0';
        trace_init(&e->trace);
    }
    return e;
}

void why_end(struct why *w, struct why_entry *e)
{
    uint32_t slot;

    if (!e) {
        return;
    }
    if (w->cap == 0) {
        free(e);
        return;
    }
    slot = (uint32_t)(w->n++ % w->cap);
    if (w->ring[slot]) {
        give_back(w, w->ring[slot]);
    }
    e->ended = true;
    w->ring[slot] = e;
    w->keys[slot] = why_key_of(e->id);
}

const struct why_entry *why_find(const struct why *w, const char *id)
{
    uint64_t key = why_key_of(id);

    for (uint32_t i = 0; i < kept(w); i++) {
        uint32_t slot = slot_of(w, i);

        if (w->keys[slot] == key && strcmp(w->ring[slot]->id, id) == 0) {
            return w->ring[slot];
        }
    }
    return NULL;
}

const struct why_entry *why_at(const struct why *w, uint32_t i)
{
    return i < kept(w) ? w->ring[slot_of(w, i)] : NULL;
}

int why_unknown(const struct why *w, const char *id, int64_t now_ns, struct fn_error *reterr)
{
    uint32_t n = kept(w);
    char clean[2 * CALL_ID_LEN];
    int64_t oldest_ms;

    trace_text(id, sizeof(clean), clean, sizeof(clean));
    if (w->cap == 0) {
        return err_set(reterr, FN_E_NOT_FOUND,
                       "LB307 this node keeps no calls: lb.why_calls is 0; call %s", clean);
    }
    if (n == 0) {
        return err_set(reterr, FN_E_NOT_FOUND,
                       "LB307 unknown call %s: none runs, and none has ended here yet", clean);
    }
    oldest_ms = (now_ns - w->ring[slot_of(w, n - 1)]->ended_ns) / 1000000;
    return err_set(reterr, FN_E_NOT_FOUND,
                   "LB307 unknown call %s: it does not run here and is not among the last %u that "
                   "ended, the oldest of them %lld.%03lld s ago (lb.why_calls keeps %u)",
                   clean, n, (long long)(oldest_ms / 1000), (long long)(oldest_ms % 1000), w->cap);
}
