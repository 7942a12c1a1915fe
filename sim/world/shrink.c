/* The shortest schedule that still fails: events of the plan are left out, first many at a time,
 * then one by one, as long as the same rule breaks. Each try is a process of its own, since a node
 * may stop on an assertion. */
#include "shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES_MAX 4000u /* some ten seconds */

static void run_in_child(const struct plan *p, const bool *left_out, int to)
{
    struct run_result r;
    uint32_t broken;

    fflush(NULL);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) {
        _exit(1);
    }
    run_world(p, left_out, false, &r);
    broken = r.broken;
    _exit(write(to, &broken, sizeof(broken)) == (ssize_t)sizeof(broken) ? 0 : 1);
}

uint32_t shrink_try(const struct plan *p, const bool *left_out)
{
    uint32_t broken = SHRINK_CRASH;
    int ends[2];
    pid_t child;

    fflush(NULL);
    if (pipe(ends) < 0 || (child = fork()) < 0) {
        abort();
    }
    if (child == 0) {
        run_in_child(p, left_out, ends[1]);
    }
    close(ends[1]);
    if (read(ends[0], &broken, sizeof(broken)) != (ssize_t)sizeof(broken)) {
        broken = SHRINK_CRASH;
    }
    close(ends[0]);
    waitpid(child, NULL, 0);
    return broken;
}

/* Leaves out `n` of the events that are left, from the first-th on. True: it still fails so. */
static bool leave_out(const struct plan *p, bool *left_out, uint32_t first, uint32_t n,
                      uint32_t broken)
{
    bool *less = must_alloc(p->n_events * sizeof(*less));
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
