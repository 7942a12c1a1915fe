#include "heap.h"

#include <stdio.h>
#include <stdlib.h>

static bool before(const struct item *a, const struct item *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void heap_push(struct heap *h, const struct item *item)
{
    struct item mine = *item;
    uint32_t i;

    if (h->n == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 256;
        h->items = realloc(h->items, h->cap * sizeof(*h->items));
        if (!h->items) {
            fputs("npm_sim: out of memory\n", stderr);
            exit(70);
        }
    }
    mine.order = ++h->order;
    for (i = h->n++; i > 0 && before(&mine, &h->items[(i - 1) / 2]); i = (i - 1) / 2) {
        h->items[i] = h->items[(i - 1) / 2];
    }
    h->items[i] = mine;
}

bool heap_pop(struct heap *h, struct item *ret)
{
    struct item last;
    uint32_t i = 0;

    if (h->n == 0) {
        return false;
    }
    *ret = h->items[0];
    last = h->items[--h->n];
    while (2 * i + 1 < h->n) {
        uint32_t child = 2 * i + 1;

        child += child + 1 < h->n && before(&h->items[child + 1], &h->items[child]);
        if (!before(&h->items[child], &last)) {
            break;
        }
        h->items[i] = h->items[child];
        i = child;
    }
    h->items[i] = last;
    return true;
}

void heap_finish(struct heap *h)
{
    free(h->items);
    h->items = NULL;
    h->n = h->cap = 0;
}
