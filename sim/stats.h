/* Stats: a histogram of positive integers, 32 buckets per power of two (3 % wide). */
#ifndef SIM_STATS_H
#define SIM_STATS_H

#include <stdint.h>

#define STATS_BUCKETS (60 * 32)

struct stats {
    uint64_t n;
    uint64_t sum;
    uint64_t max;
    uint64_t counts[STATS_BUCKETS];
};

static inline uint32_t stats_bucket(uint64_t v)
{
    uint32_t top = 63u - (uint32_t)__builtin_clzll(v | 32);

    return (top - 5) * 32 + (uint32_t)(v >> (top - 5));
}

static inline void stats_add(struct stats *s, uint64_t v)
{
    uint32_t i = stats_bucket(v);

    s->counts[i < STATS_BUCKETS ? i : STATS_BUCKETS - 1]++;
    s->n++;
    s->sum += v;
    s->max = v > s->max ? v : s->max;
}

/* The largest value of the bucket where `permille` of all values are reached; 0 when empty. */
uint64_t stats_quantile(const struct stats *s, uint32_t permille);

#endif
