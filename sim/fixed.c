/* Tables of 1 024 steps with linear interpolation: an error below 2^-20, far below what a model of
 * a cluster means. They are made of integer square roots and products, so that they are the same
 * everywhere. */
#include <sim/fixed.h>

#define STEPS     1024
#define STEP_BITS 10
#define LOG2_E    24204406LL /* Q24 */
#define LN_2      11629080LL /* Q24 */

static uint64_t power[STEPS + 1];  /* 2^(i/1024) in Q62 */
static int64_t logarithm[STEPS + 1]; /* log2(1 + i/1024) in Q24 */
static bool ready;

static uint64_t root(unsigned __int128 x)
{
    unsigned __int128 r = 0;

    for (int bit = 63; bit >= 0; bit--) {
        unsigned __int128 t = r | ((unsigned __int128)1 << bit);

        if (t * t <= x) {
            r = t;
        }
    }
    return (uint64_t)r;
}

static uint64_t mul62(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 62);
}

/* log2 of x in [1, 2), Q62: a bit per squaring. */
static int64_t slow_log2(uint64_t x)
{
    int64_t bits = 0;

    for (int i = 0; i < 25; i++) {
        x = mul62(x, x);
        bits <<= 1;
        if (x >= 2ULL << 62) {
            bits |= 1;
            x >>= 1;
        }
    }
    return (bits + 1) >> 1;
}

void fixed_init(void)
{
    uint64_t one = 1ULL << 62;
    uint64_t step = root((unsigned __int128)one << 63); /* sqrt(2) */

    if (ready) {
        return;
    }
    for (int i = 1; i < STEP_BITS; i++) {
        step = root((unsigned __int128)step << 62);
    }
    power[0] = one;
    for (int i = 1; i <= STEPS; i++) {
        power[i] = mul62(power[i - 1], step);
    }
    for (int i = 0; i < STEPS; i++) {
        logarithm[i] = slow_log2(one + ((uint64_t)i << (62 - STEP_BITS)));
    }
    logarithm[STEPS] = Q24_ONE;
    ready = true;
}

int64_t fixed_log2(uint64_t x)
{
    int top = 63 - __builtin_clzll(x | 1);
    uint64_t part = x << (63 - top); /* top bit at 63 */
    uint32_t i = (uint32_t)(part >> (63 - STEP_BITS)) & (STEPS - 1);
    int64_t rest = (int64_t)(part >> (63 - STEP_BITS - 16)) & 0xffff;

    return ((int64_t)top << 24) + logarithm[i] +
           (((logarithm[i + 1] - logarithm[i]) * rest) >> 16);
}

uint64_t fixed_exp2(uint64_t scale, int64_t e)
{
    int64_t whole = e >> 24;
    uint32_t part = (uint32_t)e & (Q24_ONE - 1);
    uint32_t i = part >> (24 - STEP_BITS);
    uint64_t rest = part & ((1u << (24 - STEP_BITS)) - 1);
    uint64_t p = power[i] + (((power[i + 1] - power[i]) >> (24 - STEP_BITS)) * rest);
    unsigned __int128 v = (unsigned __int128)scale * p; /* Q62 */

    if (whole >= 62 || scale == 0) {
        return scale == 0 ? 0 : UINT64_MAX;
    }
    if (whole < -64) {
        return 0;
    }
    v >>= 62 - (whole > 0 ? whole : 0);
    v = whole < 0 ? v >> -whole : v;
    return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

uint64_t fixed_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    unsigned __int128 v = (unsigned __int128)a * b / c;

    return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

uint64_t fixed_exponential(struct sim_rng *r, uint64_t mean)
{
    uint64_t u = (sim_rng_u64(r) >> 16) | 1; /* in (0, 2^48) */
    int64_t minus_log2 = (48LL << 24) - fixed_log2(u);
    uint64_t minus_ln = (uint64_t)((minus_log2 * LN_2) >> 24);

    return (uint64_t)(((unsigned __int128)mean * minus_ln) >> 24);
}

int64_t fixed_normal(struct sim_rng *r)
{
    int64_t sum = 0;

    for (int i = 0; i < 4; i++) {
        uint64_t u = sim_rng_u64(r);

        sum += (int64_t)(u & 0x1fffff) + (int64_t)((u >> 21) & 0x1fffff) + (int64_t)(u >> 43);
    }
    return (sum << 3) - 6 * Q24_ONE; /* 21 bits each, mean 6 */
}

uint64_t fixed_lognormal(struct sim_rng *r, uint64_t median, int64_t sigma)
{
    int64_t e = (int64_t)(((__int128)fixed_normal(r) * sigma) >> 24);

    return fixed_exp2(median, (int64_t)(((__int128)e * LOG2_E) >> 24));
}
