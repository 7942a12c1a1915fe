#include <npm/npm_int.h>

#include <stdlib.h>
#include <string.h>

/* FNV-1a, 32 bits. */
static uint32_t hash(const char *key)
{
    uint32_t h = 2166136261u;

    for (; *key; key++) {
        h = (h ^ (unsigned char)*key) * 16777619u;
    }
    return h;
}

int index_create(struct index *x, uint32_t slots_max,
                 const char *(*key)(const void *ud, uint32_t slot), const void *ud)
{
    uint32_t n = 8;

    while (n < slots_max * 2) {
        n *= 2;
    }
    *x = (struct index){calloc(n, sizeof(*x->cells)), n - 1, key, ud};
    return x->cells ? 0 : FN_E_EXHAUSTED;
}

void index_finish(struct index *x)
{
    free(x->cells);
}

uint32_t index_find(const struct index *x, const char *key)
{
    for (uint32_t i = hash(key) & x->mask; x->cells[i]; i = (i + 1) & x->mask) {
        if (strcmp(x->key(x->ud, x->cells[i] - 1), key) == 0) {
            return x->cells[i] - 1;
        }
    }
    return INDEX_NONE;
}

void index_add(struct index *x, uint32_t slot)
{
    uint32_t i = hash(x->key(x->ud, slot)) & x->mask;

    while (x->cells[i]) {
        i = (i + 1) & x->mask;
    }
    x->cells[i] = slot + 1;
}

/* Closes the gap: an entry moves into it unless that would put it before its home. */
void index_remove(struct index *x, uint32_t slot)
{
    uint32_t gap = hash(x->key(x->ud, slot)) & x->mask;
    uint32_t home;

    while (x->cells[gap] != slot + 1) {
        gap = (gap + 1) & x->mask;
    }
    for (uint32_t i = (gap + 1) & x->mask; x->cells[i]; i = (i + 1) & x->mask) {
        home = hash(x->key(x->ud, x->cells[i] - 1)) & x->mask;
        if (((i - home) & x->mask) >= ((i - gap) & x->mask)) {
            x->cells[gap] = x->cells[i];
            gap = i;
        }
    }
    x->cells[gap] = 0;
}
