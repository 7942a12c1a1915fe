/* A crowd: callers of one function who never pause, more of them than all runners have room for;
 * then one caller of another function, who must be served in time. Nothing else is wrong in the
 * world meanwhile. */
#include "world.h"

#define ONE_IN        4u /* worlds that have one */
#define CALLERS_OF_PLACE 3u /* one runs, the others wait */
#define CALLERS_MAX   48u /* or it would cost more than all the rest */
#define FILL_NS       (4 * ENV_S)
#define FAIR_NS       (12 * ENV_S) /* a turn, a run, a removal and a start, where all are slow */
#define STEP_NS       (100 * ENV_MS)
#define LEAVE_NS      (40 * ENV_S)

static uint32_t places(const struct plan *p, uint32_t function)
{
    return p->runners * (uint32_t)(p->runner_mem_mb / p->function[function].mem_mb);
}

static void clients_of_all(struct world *w, uint32_t function, uint32_t callers)
{
    for (uint32_t i = 0; i < callers; i++) {
        clients_crowd(w->lbs[i % w->plan->lbs]->clients, function);
    }
}

static void serve_other(struct world *w, uint32_t function)
{
    uint64_t served = w->served[function];
    int64_t end_ns = w->now_ns + FAIR_NS;

    clients_of_all(w, function, 1);
    while (w->served[function] == served && w->now_ns < end_ns && run_on(w, STEP_NS)) {
    }
    if (w->served[function] == served) {
        books_break(w->books, BOOKS_FAIR, 0, "function %u has no good answer within %lld ms, while "
                    "another one has callers who never pause", function,
                    (long long)(FAIR_NS / ENV_MS));
    }
}

bool crowd_comes(struct world *w)
{
    const struct plan *p = w->plan;
    struct sim_rng rng = sim_rng_make(p->seed, 103);
    uint32_t one = (uint32_t)sim_rng_below(&rng, p->functions);
    uint32_t other = (one + 1) % p->functions;
    uint32_t callers = CALLERS_OF_PLACE * places(p, one);
    int64_t end_ns;

    if (sim_rng_below(&rng, ONE_IN) > 0 || other == one || callers > CALLERS_MAX ||
        callers >= p->streams_max) { /* whoever comes next would not get to a runner */
        return true;
    }
    w->crowded = true;
    clients_of_all(w, one, callers);
    if (run_on(w, FILL_NS)) {
        serve_other(w, other);
    }
    w->crowded = false;
    end_ns = w->now_ns + LEAVE_NS;
    while (run_on(w, STEP_NS) && !run_is_idle(w) && w->now_ns < end_ns) {
    }
    return !books_broken(w->books);
}
