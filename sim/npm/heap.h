/* Event heap: earliest first, equal times in the order of pushing. */
#ifndef NPM_SIM_HEAP_H
#define NPM_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct item {
    int64_t at_ns;
    uint16_t kind;
    uint16_t group;
    uint32_t a, b, c;
    void *ptr; /* owned by whoever takes the item */
};

/* What is compared is apart from what is carried. */
struct heap_node {
    int64_t at_ns;
    uint64_t order_place; /* order of pushing, then the item's place */
};

struct heap {
    struct heap_node *nodes; /* a heap of four children each */
    struct item *items;
    uint32_t *free; /* places in items: free[n..cap) */
    uint32_t n, cap;
    uint64_t order;
};

/* When the next item is due; INT64_MAX: there is none. */
static inline int64_t heap_next_ns(const struct heap *h)
{
    return h->n > 0 ? h->nodes[0].at_ns : INT64_MAX;
}

void heap_push(struct heap *h, const struct item *item); /* exits when memory is out */
bool heap_pop(struct heap *h, struct item *ret);
void heap_finish(struct heap *h);

#endif
