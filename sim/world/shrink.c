/* The shortest schedule that still fails: events of the plan are left out, first many at a time,
 * then one by one, as long as the same rule breaks. */
#include "shrink.h"

#include "apart.h"
#include "repeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool keep_result(void *ud, uint64_t seed, const struct run_result *r)
{
    (void)seed;
    *(uint32_t *)ud = r->broken;
    return true;
}

/* How this world ends, run in a process of its own. */
static uint32_t shrink_try(const struct plan *p, const bool *left_out)
{
    struct apart a = {
        .first = p->seed, .n = 1, .mode = plan_mode_of(p), .left_out = left_out
    };
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

static int64_t real_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

/* How many events are left. */
static uint32_t shrink(const struct plan *p, bool *left_out, uint32_t broken,
                       const struct shrink_limits *limits)
{
    uint32_t left = repeat_count(p, left_out), tries = 0;
    int64_t end_s = real_s() + limits->real_s;

    for (uint32_t n = (left + 1) / 2; n > 0; n = n > 1 ? (n + 1) / 2 : 0) {
        uint32_t first = 0;

        while (first < left) {
            if (tries++ == limits->tries || real_s() > end_s) {
                return left;
            }
            if (leave_out(p, left_out, first, n, broken)) {
                left = repeat_count(p, left_out);
            } else {
                first += n;
            }
        }
    }
    return left;
}

uint32_t shrink_tell(const struct plan *p, bool *left_out, const struct shrink_limits *limits)
{
    uint32_t broken = shrink_try(p, left_out), left;
    char line[REPEAT_BYTES];

    if (broken == BOOKS_SOUND) {
        printf("seed %llu breaks no rule\n", (unsigned long long)p->seed);
        return broken;
    }
    left = shrink(p, left_out, broken, limits);
    repeat_line(p, left_out, line);
    printf("seed %llu: %s with %u of %u events\n%s\n", (unsigned long long)p->seed,
           broken == SHRINK_CRASH ? "a crash" : books_rule_id((enum books_rule)broken), left,
           p->n_events, line);
    return broken;
}
