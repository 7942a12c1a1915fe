/* A hash table of fixed size, with open addressing, from texts (ids, addresses) to slots of an
 * array. */
#include <npm/npm_int.h>

#include <base/hash.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *key)
{
    return (uint32_t)hash_text(HASH_INIT, key);
}

static const char *index_key_of(const struct index *x, uint32_t slot)
{
    return x->keys + slot * x->stride;
}

int index_create(struct index *x, uint32_t slots_max, const char *keys, size_t stride)
{
    uint32_t n = 8;

    while (n < slots_max * 2) {
        n *= 2;
    }
    *x = (struct index){ calloc(n, sizeof(*x->cells)), n - 1, keys, stride };
    return x->cells ? 0 : FN_E_EXHAUSTED;
}

void index_finish(struct index *x)
{
    free(x->cells);
}

uint32_t index_find(const struct index *x, const char *key)
{
    uint32_t h = hash(key);

    for (uint32_t i = h & x->mask; x->cells[i].slot_1; i = (i + 1) & x->mask) {
        if (x->cells[i].hash == h && strcmp(index_key_of(x, x->cells[i].slot_1 - 1), key) == 0) {
            return x->cells[i].slot_1 - 1;
        }
    }
    return INDEX_NONE;
}

void index_add(struct index *x, uint32_t slot)
{
    uint32_t h = hash(index_key_of(x, slot));
    uint32_t i = h & x->mask;

    while (x->cells[i].slot_1) {
        i = (i + 1) & x->mask;
    }
    x->cells[i] = (struct index_cell){ slot + 1, h };
}

/* Closes the gap: an entry moves into it unless that would put it before its home. */
void index_remove(struct index *x, uint32_t slot)
{
    uint32_t gap = hash(index_key_of(x, slot)) & x->mask;

    while (x->cells[gap].slot_1 != slot + 1) {
        gap = (gap + 1) & x->mask;
    }
    for (uint32_t i = (gap + 1) & x->mask; x->cells[i].slot_1; i = (i + 1) & x->mask) {
        if (((i - x->cells[i].hash) & x->mask) >= ((i - gap) & x->mask)) {
            x->cells[gap] = x->cells[i];
            gap = i;
        }
    }
    x->cells[gap].slot_1 = 0;
}
