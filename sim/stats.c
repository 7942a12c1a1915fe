/* A quantile is the upper end of the bucket that it lies in. */
#include <sim/stats.h>

/* Values below 64 have a bucket each; from there on 32 buckets share a power of two. */
static uint64_t upper(uint32_t i)
{
    uint32_t octave = i < 64 ? 0 : i / 32 - 1;
    uint64_t in = i - octave * 32;

    return ((in + 1) << octave) - 1;
}

uint64_t stats_quantile(const struct stats *s, uint32_t permille)
{
    uint64_t want = (s->n * permille + 999) / 1000;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < STATS_BUCKETS; i++) {
        seen += s->counts[i];
        if (seen > 0 && seen >= want) {
            return upper(i) < s->max ? upper(i) : s->max;
        }
    }
    return 0;
}
