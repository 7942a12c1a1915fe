/* A heap with four children a node. The items themselves stay where they are, so that only small
 * nodes move. */
#include "heap.h"

#include <stdio.h>
#include <stdlib.h>

#define PLACE_BITS 24
#define PLACES_MAX (1u << PLACE_BITS)
#define CHILDREN   4u

static bool before(const struct heap_node *a, const struct heap_node *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order_place < b->order_place;
}

static void *grown(void *mem, size_t n, size_t size)
{
    mem = n <= PLACES_MAX ? realloc(mem, n * size) : NULL;
    if (!mem) {
        fputs("npm_sim: out of memory\n", stderr);
        exit(70);
    }
    return mem;
}

static void grow(struct heap *h)
{
    uint32_t cap = h->cap ? h->cap * 2 : 256;

    h->nodes = grown(h->nodes, cap, sizeof(*h->nodes));
    h->items = grown(h->items, cap, sizeof(*h->items));
    h->free = grown(h->free, cap, sizeof(*h->free));
    for (uint32_t i = h->cap; i < cap; i++) {
        h->free[i] = i;
    }
    h->cap = cap;
}

void heap_push(struct heap *h, const struct item *item)
{
    struct heap_node mine;
    uint32_t i, place;

    if (h->n == h->cap) {
        grow(h);
    }
    place = h->free[h->n];
    h->items[place] = *item;
    mine = (struct heap_node){ item->at_ns, ++h->order << PLACE_BITS | place };
    for (i = h->n++; i > 0 && before(&mine, &h->nodes[(i - 1) / CHILDREN]);
         i = (i - 1) / CHILDREN) {
        h->nodes[i] = h->nodes[(i - 1) / CHILDREN];
    }
    h->nodes[i] = mine;
}

static uint32_t first_child(const struct heap *h, uint32_t i)
{
    uint32_t child = CHILDREN * i + 1, first = child;
    uint32_t end = child + CHILDREN < h->n ? child + CHILDREN : h->n;

    while (++child < end) {
        first = before(&h->nodes[child], &h->nodes[first]) ? child : first;
    }
    return first;
}

bool heap_pop(struct heap *h, struct item *ret)
{
    struct heap_node last;
    uint32_t i = 0, place;

    if (h->n == 0) {
        return false;
    }
    place = (uint32_t)h->nodes[0].order_place & (PLACES_MAX - 1);
    *ret = h->items[place];
    last = h->nodes[--h->n];
    h->free[h->n] = place;
    while (CHILDREN * i + 1 < h->n) {
        uint32_t child = first_child(h, i);

        if (!before(&h->nodes[child], &last)) {
            break;
        }
        h->nodes[i] = h->nodes[child];
        i = child;
    }
    h->nodes[i] = last;
    return true;
}

void heap_finish(struct heap *h)
{
    free(h->nodes);
    free(h->items);
    free(h->free);
    *h = (struct heap){ .n = 0 };
}
