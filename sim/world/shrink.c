/* The shortest schedule that still fails: events of the plan are left out, first many at a time,
 * then one by one, as long as the same rule breaks. */
#include "shrink.h"

#include "apart.h"

#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 4000u /* some ten seconds */

static bool keep_result(void *ud, uint64_t seed, const struct run_result *r)
{
    (void)seed;
    *(uint32_t *)ud = r->broken;
    return true;
}

uint32_t shrink_try(const struct plan *p, const bool *left_out)
{
    struct apart a = { .first = p->seed,
                       .n = 1,
                       .mode = p->poor ? PLAN_POOR : PLAN_DRAWN,
                       .left_out = left_out };
    uint32_t broken;
    bool clean;

    return apart_run(&a, keep_result, &broken, &clean) == 1 && clean ? broken : SHRINK_CRASH;
}

/* Leaves out `n` of the events that are left, from the first-th on. True: it still fails so. */
static bool leave_out(const struct plan *p, bool *left_out, uint32_t first, uint32_t n,
                      uint32_t broken)
{
    bool *less = sim_alloc(p->n_events * sizeof(*less));
    uint32_t k = 0;
    bool same;

    memcpy(less, left_out, p->n_events * sizeof(*less));
    for (uint32_t i = 0; i < p->n_events; i++) {
        if (!left_out[i] && k++ >= first && k <= first + n) {
            less[i] = true;
        }
    }
    same = shrink_try(p, less) == broken;
    if (same) {
        memcpy(left_out, less, p->n_events * sizeof(*less));
    }
    free(less);
    return same;
}

static uint32_t count_left(const struct plan *p, const bool *left_out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_events; i++) {
        n += !left_out[i];
    }
    return n;
}

uint32_t shrink(const struct plan *p, bool *left_out, uint32_t broken)
{
    uint32_t left = count_left(p, left_out), tries = 0;

    for (uint32_t n = (left + 1) / 2; n > 0 && tries < TRIES_MAX; n = n > 1 ? (n + 1) / 2 : 0) {
        uint32_t first = 0;

        while (first < left && tries++ < TRIES_MAX) {
            if (leave_out(p, left_out, first, n, broken)) {
                left = count_left(p, left_out);
            } else {
                first += n;
            }
        }
    }
    return left;
}
