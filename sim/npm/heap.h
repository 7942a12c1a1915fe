/* Event heap: earliest first, equal times in the order of pushing. */
#ifndef NPM_SIM_HEAP_H
#define NPM_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct item {
    int64_t at_ns;
    uint64_t order;
    uint16_t kind;
    uint16_t group;
    uint32_t a, b, c;
    void *ptr; /* owned by whoever takes the item */
};

struct heap {
    struct item *items;
    uint32_t n, cap;
    uint64_t order;
};

void heap_push(struct heap *h, const struct item *item); /* exits when memory is out */
bool heap_pop(struct heap *h, struct item *ret);
void heap_finish(struct heap *h);

#endif
