/* A sorted array with binary search; many pairs at once are sorted once and then taken over. */
#include <model/kvs.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 8

void kvs_init(struct kvs *k, struct arena *arena)
{
    *k = (struct kvs){ .arena = arena };
}

/* Where `key` is, or belongs. */
static uint32_t place_of(const struct kvs *k, const char *key)
{
    uint32_t low = 0;
    uint32_t high = k->n;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (strcmp(k->items[middle].key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct fn_kv *kvs_find(const struct kvs *k, const char *key)
{
    uint32_t at = place_of(k, key);

    return at < k->n && strcmp(k->items[at].key, key) == 0 ? &k->items[at] : NULL;
}

int kvs_add_borrowed(struct kvs *k, const char *key, const char *value)
{
    uint32_t at = place_of(k, key);
    struct fn_kv *items;
    uint32_t cap;

    if (k->n == k->cap) {
        cap = k->cap ? k->cap * 2 : FIRST_CAP;
        items = arena_alloc(k->arena, cap * sizeof(*items));
        if (!items) {
            return FN_E_EXHAUSTED;
        }
        if (k->n) {
            memcpy(items, k->items, k->n * sizeof(*items));
        }
        k->items = items;
        k->cap = cap;
    }
    memmove(&k->items[at + 1], &k->items[at], (k->n - at) * sizeof(*k->items));
    k->items[at] = (struct fn_kv){ key, value };
    k->n++;
    return 0;
}

int kvs_set_borrowed(struct kvs *k, const char *key, const char *value)
{
    struct fn_kv *old = kvs_find(k, key);

    if (old) {
        old->value = value;
        return 0;
    }
    return kvs_add_borrowed(k, key, value);
}

int kvs_set(struct kvs *k, const char *key, const char *value)
{
    struct fn_kv *old = kvs_find(k, key);
    const char *v = arena_strdup(k->arena, value);
    const char *name;

    if (!v) {
        return FN_E_EXHAUSTED;
    }
    if (old) {
        old->value = v;
        return 0;
    }
    name = arena_strdup(k->arena, key);
    return name ? kvs_add_borrowed(k, name, v) : FN_E_EXHAUSTED;
}

/* ---- many at once --------------------------------------------------------------------------- */

static int check_size(const struct fn_kv *items, uint32_t n, const char *what,
                      struct fn_error *reterr)
{
    size_t bytes = 0;

    if (n > KVS_MAX) {
        return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                            "RUN404 %s, got %u keys; expected at most %d", what, n, KVS_MAX);
    }
    for (uint32_t i = 0; i < n; i++) {
        bytes += strlen(items[i].key) + strlen(items[i].value);
    }
    return bytes <= KVS_BYTES_MAX
               ? 0
               : err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                              "RUN404 %s of %zu bytes; expected at most %u", what, bytes,
                              KVS_BYTES_MAX);
}

/* Of one key in the order of arrival, which the copies' places in their array tell. */
static int by_key(const void *a, const void *b)
{
    const struct fn_kv *const *x = a;
    const struct fn_kv *const *y = b;
    int order = strcmp((*x)->key, (*y)->key);

    return order ? order : (*x > *y) - (*x < *y);
}

static int take_sorted(struct kvs *k, const struct fn_kv *const *sorted, uint32_t n)
{
    k->items = arena_alloc(k->arena, n * sizeof(*k->items));
    k->cap = k->items ? n : 0;
    for (uint32_t i = 0; i < k->cap; i++) {
        struct fn_kv *to = &k->items[k->n];

        if (i + 1 < n && strcmp(sorted[i]->key, sorted[i + 1]->key) == 0) {
            continue;
        }
        to->key = arena_strdup(k->arena, sorted[i]->key);
        to->value = arena_strdup(k->arena, sorted[i]->value);
        if (!to->key || !to->value) {
            return FN_E_EXHAUSTED;
        }
        k->n++;
    }
    return k->items ? 0 : FN_E_EXHAUSTED;
}

int kvs_fill(struct kvs *k, const struct fn_kv *items, uint32_t n, const char *what,
             struct fn_error *reterr)
{
    const struct fn_kv **sorted;
    int r = check_size(items, n, what, reterr);

    assert(k->n == 0);
    if (r < 0 || n == 0) {
        return r;
    }
    sorted = malloc(n * sizeof(*sorted));
    for (uint32_t i = 0; sorted && i < n; i++) {
        sorted[i] = &items[i];
    }
    if (sorted) {
        qsort(sorted, n, sizeof(*sorted), by_key);
    }
    r = sorted ? take_sorted(k, sorted, n) : FN_E_EXHAUSTED;
    free(sorted);
    return r < 0 ? err_set(reterr, r, "%s: out of memory", what) : 0;
}

void kvs_remove(struct kvs *k, const char *key)
{
    struct fn_kv *at = kvs_find(k, key);

    if (at) {
        memmove(at, at + 1, (size_t)(&k->items[k->n] - (at + 1)) * sizeof(*at));
        k->n--;
    }
}

const char *kvs_get(const struct kvs *k, const char *key)
{
    const struct fn_kv *at = kvs_find(k, key);

    return at ? at->value : NULL;
}

int kvs_copy(struct kvs *to, const struct kvs *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        if (kvs_set(to, from->items[i].key, from->items[i].value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

const struct fn_kv *kvs_copy_pairs(struct arena *arena, const struct fn_kv *pairs, uint32_t n)
{
    struct fn_kv *copy = arena_alloc(arena, (n + 1) * sizeof(*copy));

    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i].key = arena_strdup(arena, pairs[i].key);
        copy[i].value = arena_strdup(arena, pairs[i].value);
        if (!copy[i].key || !copy[i].value) {
            return NULL;
        }
    }
    return copy;
}
