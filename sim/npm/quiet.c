/* The quiet end of a run: no more faults, steady demand, then none; L1 to L5. */
#include "books.h"

#include <npm/npm_int.h>

#include <string.h>

void quiet_begin(struct world *w)
{
    uint32_t each = w->budget.runners_max / w->n_pools;

    trace(w, "quiet");
    w->quiet = true;
    w->quiet_ns = w->now_ns;
    memset(w->chance, 0, sizeof(w->chance));
    w->stopped_ns = w->now_ns < w->stopped_ns ? w->now_ns : w->stopped_ns;
    each = each < w->o.runners_max ? each : w->o.runners_max;
    if (!w->up) {
        node_start(w);
    }
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        w->lbs[i].cut_in_ns = w->lbs[i].cut_out_ns = 0;
    }
    for (uint32_t i = 0; i < w->n_pools; i++) {
        struct pool *p = &w->pools[i];

        cloud_calm(w, p);
        p->crowded = p->n_alive > w->o.runners_max + NPM_HOSTS_SPARE / 2;
        w->result->crowded += p->crowded;
        p->wish_mb = each * w->o.runner_mb / 10 * (2 + rng_below(&w->rng_fate, 3));
        p->more_mb = each * w->o.runner_mb / 10 * 6;
    }
}

static void undrain_all(struct world *w)
{
    for (uint32_t i = 0; i < w->n_pools; i++) {
        struct pool *p = &w->pools[i];

        for (uint32_t k = 0; k < npm_host_count(p->g); k++) {
            char id[24];

            memcpy(id, npm_host_at(p->g, k)->id, sizeof(id));
            if (npm_host_at(p->g, k)->wish == NPM_WISH_DRAIN) {
                node_order(w, p, id, NPM_UNDRAIN);
            }
        }
        for (uint32_t k = 0; k < p->machines_max; k++) { /* and what is not listed just now */
            if (p->machines[k].wish == NPM_WISH_DRAIN) {
                p->machines[k].wish = NPM_WISH_NONE;
                p->n_wishes--;
            }
        }
    }
}

static void check_zombies(struct world *w, const struct pool *p)
{
    for (uint32_t i = 0; i < npm_host_count(p->g); i++) {
        const struct npm_host *h = npm_host_at(p->g, i);

        if (h->state == NPM_REMOVING && w->now_ns - h->since_ns > 10 * MIN) {
            broken(w, LIVENESS(3), "g%u removes %s since %lld s, %u tries", p->no, h->id,
                   (long long)((w->now_ns - h->since_ns) / S), h->tries);
        }
    }
}

/* A list that is still on its way is waited for. */
static void check_views(struct world *w, const struct pool *p)
{
    int64_t end_ns = w->now_ns + S;

    while (w->now_ns - p->published_ns <= LEG_MAX_NS && w->now_ns < end_ns && !w->result->broken) {
        int64_t at_ns = p->published_ns + LEG_MAX_NS + 1;

        world_until(w, at_ns);
        w->now_ns = at_ns;
    }
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        const struct snap *s = w->lbs[i].views[p->no];

        if (!s || s->epoch != w->epoch || s->version != p->version) {
            broken(w, LIVENESS(1), "lb%u has list %llu of g%u; published is %llu", i,
                   s ? (unsigned long long)s->version : 0, p->no, (unsigned long long)p->version);
        }
    }
}

static void check_supply(struct world *w, const struct pool *p)
{
    struct npm_figures f;
    bool full;

    npm_figures(p->g, &f);
    full = p->crowded ||
           npm_host_count(p->g) - f.state_n[NPM_FOREIGN] + f.asked_n >= w->o.runners_max ||
           w->budget.runners >= w->budget.runners_max;
    if (f.wanted_mb != p->wish_mb / w->n_lbs * w->n_lbs) {
        broken(w, LIVENESS(1), "g%u wants %llu MB; LBs tell %llu MB", p->no,
               (unsigned long long)f.wanted_mb, (unsigned long long)p->wish_mb);
    }
    if (cloud_true_mb(w, p) < books_desired_mb(w, p) && !full) {
        broken(w, LIVENESS(1), "g%u has %llu MB that answer after 30 minutes; desired %llu MB",
               p->no, (unsigned long long)cloud_true_mb(w, p),
               (unsigned long long)books_desired_mb(w, p));
    }
}

static void check_empty(struct world *w, const struct pool *p)
{
    struct npm_figures f;
    uint32_t n;

    npm_figures(p->g, &f);
    n = npm_host_count(p->g) - f.state_n[NPM_FOREIGN];
    if (n > w->o.runners_min && !p->crowded) {
        for (uint32_t i = 0; i < npm_host_count(p->g); i++) {
            const struct npm_host *h = npm_host_at(p->g, i);

            trace(w, "g%u has %s %s %llu MB, since %lld s, %u calls", p->no, h->id,
                  npm_state_names[h->state], (unsigned long long)h->capacity_mb,
                  (long long)((w->now_ns - h->since_ns) / S), h->active);
        }
        broken(w, LIVENESS(4),
               "g%u keeps %u runners without demand: %u booting, %u active, %u draining, %u "
               "removing; expected %u",
               p->no, n, f.state_n[NPM_BOOTING], f.state_n[NPM_ACTIVE], f.state_n[NPM_DRAINING],
               f.state_n[NPM_REMOVING], w->o.runners_min);
    }
}

#define HEARD_NS (6 * S) /* words come each second; of two with one id the third counts */
#define REPLACED_NS                                                                                \
    (100 * S) /* two times a list, a boot of at most 20 s, and a pause of 1 or 2 s */

/* L5: each load balancer starts anew under its id. */
static void probe_restarts(struct world *w)
{
    for (uint32_t i = 0; i < w->n_lbs; i++) {
        lb_restart(w, &w->lbs[i]);
    }
    world_until(w, w->now_ns + HEARD_NS);
    for (uint32_t i = 0; i < w->n_pools && !w->result->broken; i++) {
        struct npm_figures f;

        npm_figures(w->pools[i].g, &f);
        if (f.wanted_mb != w->pools[i].wish_mb / w->n_lbs * w->n_lbs) {
            broken(w, LIVENESS(5),
                   "g%u wants %llu MB %lld s after a start of all LBs; they tell %llu", i,
                   (unsigned long long)f.wanted_mb, (long long)(HEARD_NS / S),
                   (unsigned long long)w->pools[i].wish_mb);
        }
    }
}

/* Every runner of it is like the ones that come: its need is one request. */
static bool is_plain(const struct world *w, const struct pool *p)
{
    for (uint32_t i = 0; i < npm_host_count(p->g); i++) {
        if (npm_host_at(p->g, i)->capacity_mb != w->o.runner_mb) {
            return false;
        }
    }
    return true;
}

/* L5: more is wanted, and the first machines that are asked for end before they are listed. */
static void probe_growth(struct world *w)
{
    for (uint32_t i = 0; i < w->n_pools; i++) {
        w->pools[i].wish_mb = w->pools[i].more_mb;
        w->pools[i].unborn_n = rng_below(&w->rng_fate, 3);
        if (w->pools[i].stillborn > 0) { /* the next pause would be a long one, and rightly so */
            w->pools[i].unborn_n = 0;
        }
    }
    world_until(w, w->now_ns + REPLACED_NS);
    for (uint32_t i = 0; i < w->n_pools && !w->result->broken; i++) {
        const struct pool *p = &w->pools[i];
        struct npm_figures f;

        npm_figures(p->g, &f);
        if (books_room(w, p, &f) > 0 && !p->crowded && f.state_n[NPM_FOREIGN] == 0 &&
            is_plain(w, p) && cloud_true_mb(w, p) < books_desired_mb(w, p)) {
            broken(w, LIVENESS(5), "g%u has %llu MB %lld s after more was wanted; desired %llu MB",
                   i, (unsigned long long)cloud_true_mb(w, p), (long long)(REPLACED_NS / S),
                   (unsigned long long)books_desired_mb(w, p));
        }
    }
}

void quiet_run(struct world *w)
{
    int64_t begin_ns = w->now_ns;

    quiet_begin(w);
    world_until(w, begin_ns + S);
    undrain_all(w);
    world_until(w, begin_ns + 30 * MIN);
    for (uint32_t i = 0; i < w->n_pools && !w->result->broken; i++) {
        w->now_ns = begin_ns + 30 * MIN;
        check_supply(w, &w->pools[i]);
        check_zombies(w, &w->pools[i]);
        w->pools[i].turns = 0;
    }
    for (uint32_t i = 0; i < w->n_pools && !w->result->broken; i++) {
        check_views(w, &w->pools[i]);
    }
    world_until(w, begin_ns + 40 * MIN);
    for (uint32_t i = 0; i < w->n_pools && !w->result->broken; i++) {
        if (w->pools[i].turns > 2) {
            broken(w, LIVENESS(2), "g%u turned %u times in 10 minutes of steady demand", i,
                   w->pools[i].turns);
        }
    }
    if (!w->result->broken) {
        probe_restarts(w);
        probe_growth(w);
    }
    for (uint32_t i = 0; i < w->n_pools; i++) {
        w->pools[i].wish_mb = 0;
    }
    world_until(w, begin_ns + 65 * MIN);
    for (uint32_t i = 0; i < w->n_pools && !w->result->broken; i++) {
        w->now_ns = begin_ns + 65 * MIN;
        check_empty(w, &w->pools[i]);
        check_zombies(w, &w->pools[i]);
    }
}
