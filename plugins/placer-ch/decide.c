/* The jump hash, as it is and as Go Fn computes it, and the walk from home to its neighbours. */
#include "decide.h"

#define LCG 2862933555777941757u

uint32_t ch_jump(uint64_t key, uint32_t n)
{
    int64_t b = -1;
    int64_t j = 0;

    while (j < (int64_t)n) {
        b = j;
        key = key * LCG + 1;
        j = (int64_t)((double)(b + 1) * (2147483648.0 / (double)((key >> 33) + 1)));
    }
    return (uint32_t)b;
}

uint32_t ch_jump_go(uint64_t key, uint32_t n)
{
    uint64_t b = 0;
    uint64_t j = 0;
    uint64_t top;

    while (j < n) {
        b = j;
        key = key * LCG + 1;
        top = key >> 33;
        /* Go divides by zero here once in 2^31 steps; 1 is the nearest key that does not. */
        j = (b + 1) * ((1ULL << 31) / (top ? top : 1) + 1);
    }
    return (uint32_t)b;
}

void ch_decide(struct ch_session *s, const struct fn_ask *ask, uint32_t go_variant,
               int64_t retry_delay_ns, struct fn_answer *ret)
{
    uint32_t n = ask->snap->n;

    if (around_starts(&s->round, ask)) {
        around_start(&s->round, ask,
                     n == 0       ? 0
                     : go_variant ? ch_jump_go(s->hash, n)
                                  : ch_jump(s->hash, n));
    }
    if (!around_next(&s->round, ask, retry_delay_ns, ret)) {
        return;
    }
    if (s->round.looked == 1) {
        note(ret, "home");
    } else {
        note_number(ret, "after home, ", s->round.looked - 1);
    }
}
