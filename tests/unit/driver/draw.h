/* Chance for random tests: xorshift (Marsaglia), so that a failing number can be run again. */
#ifndef TEST_DRIVER_DRAW_H
#define TEST_DRIVER_DRAW_H

#include <stdint.h>

/* x is the seed, and not 0. */
static inline uint64_t draw(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

#endif
