/* Chance that repeats: one xoshiro256** stream per component, seeded by splitmix64, so that a
 * change in one model does not move the others (Blackman and Vigna, "Scrambled linear pseudorandom
 * number generators", 2021). Whole numbers only: floating point differs between compilers. */
#ifndef NPM_SIM_RNG_H
#define NPM_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

static inline uint64_t rng_mix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed * 0xd1342543de82ef95u + stream;

    for (int i = 0; i < 4; i++) {
        r->s[i] = rng_mix(&state);
    }
}

static inline uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t five = s[1] * 5;
    uint64_t result = ((five << 7) | (five >> 57)) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* 0 <= result < n; n > 0. */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
    return (uint32_t)(((rng_u64(r) >> 32) * n) >> 32);
}

static inline int64_t rng_between(struct rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_u64(r) % (uint64_t)(high - low + 1));
}

#endif
