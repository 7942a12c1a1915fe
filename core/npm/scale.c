/* Scaling: from demand to provisions, drains and their undoing.
 *
 * Up at once, down only after cooldown without a break, and never below a band of one runner:
 * demand that swings by less than a runner moves nothing. Draining hosts are the first supply,
 * newest first, because the cluster still has them warm.
 *
 * A host that is to be replaced is no supply, so that another is asked for, and serves until that
 * one does. Neither is one that says that it starts no containers: load balancers pass it over. It
 * is supply again when it is well, or goes when the others have been enough for the cool-down. */
#include <npm/npm_int.h>

static void predict(struct npm_group *g, int64_t now_ns)
{
    const struct fn_load load = { .size = sizeof(load),
                                  .runners_ready = g->state_n[NPM_ACTIVE],
                                  .now_ns = now_ns,
                                  .wanted_mb = g->wanted_mb,
                                  .waiting = g->waiting,
                                  .capacity_mb = g->state_mb[NPM_ACTIVE] };
    uint64_t desired = g->wanted_mb;
    uint64_t most = npm_group_max_mb(g);
    uint64_t least = g->o.runners_min * g->typical_mb;

    if (g->o.predict && g->o.predict(g->o.predict_ud, &load, &desired) < 0) {
        desired = g->wanted_mb;
    }
    g->capped = desired > most;
    desired = desired < most ? desired : most;
    g->desired_mb = desired > least ? desired : least;
}

static uint64_t supply_mb(const struct npm_group *g)
{
    return g->state_mb[NPM_ACTIVE] + g->state_mb[NPM_BOOTING] - g->leaving_mb +
           g->asked_n * g->typical_mb - failing_mb(g);
}

/* ---- up -------------------------------------------------------------------------------------- */

static bool reactivate(struct npm_group *g, int64_t now_ns)
{
    struct npm_host *newest = NULL;

    for (uint32_t i = 0; i < g->n_hosts; i++) {
        struct npm_host *h = host_at(g, i);

        if (h->state == NPM_DRAINING && h->wish == NPM_WISH_NONE && h->silent_ns == 0 &&
            !h->fault[0] &&
            h->missing == 0 && (!newest || h->since_ns >= newest->since_ns)) {
            newest = h;
        }
    }
    if (newest) {
        host_set_state(g, newest, NPM_ACTIVE, now_ns);
        note(g, NPM_NOTE_REACTIVATED, newest->id, newest->active);
    }
    return newest != NULL;
}

static uint32_t room(const struct npm_group *g)
{
    uint32_t used = g->n_hosts - g->state_n[NPM_FOREIGN] + g->asked_n;
    uint32_t here = used < g->o.runners_max ? g->o.runners_max - used : 0;
    uint32_t all = g->budget->runners < g->budget->runners_max
                       ? g->budget->runners_max - g->budget->runners
                       : 0;

    return here < all ? here : all;
}

/* The request that more can be added to, or a new one. */
static struct npm_request *request_open(struct npm_group *g, int64_t now_ns)
{
    struct npm_request *free_one = NULL;

    for (uint32_t i = 0; i < NPM_REQUESTS_MAX; i++) {
        struct npm_request *r = &g->requests[i];
        bool calling = g->call == NPM_CALL_PROVISION && g->call_request == r->id;

        if (r->n > 0 && !r->taken && !r->unknown && !calling && r->n < g->o.request_max) {
            return r;
        }
        if (r->n == 0 && !calling) {
            free_one = r;
        }
    }
    if (free_one) {
        *free_one = (struct npm_request){ .id = ++g->budget->request_last,
                                          .made_ns = now_ns,
                                          .expires_ns = now_ns + g->o.request_life_ns };
    }
    return free_one;
}

/* A runner that answers already and that nobody asked for is cheaper than a new one. */
static bool adopt_foreign(struct npm_group *g, int64_t now_ns)
{
    for (uint32_t i = 0; g->state_n[NPM_FOREIGN] > 0 && room(g) > 0 && i < g->n_hosts; i++) {
        struct npm_host *h = host_at(g, i);

        if (h->state == NPM_FOREIGN && h->wish == NPM_WISH_NONE && h->missing == 0 &&
            h->reported_ns != 0 && h->silent_ns == 0) {
            host_set_state(g, h, NPM_BOOTING, now_ns);
            note(g, NPM_NOTE_ADOPTED, h->id, 0);
            return true;
        }
    }
    return false;
}

static void request(struct npm_group *g, uint64_t short_mb, int64_t now_ns)
{
    uint64_t n = (short_mb + g->typical_mb - 1) / g->typical_mb;
    uint32_t most = room(g);
    struct npm_request *r;

    g->capped |= n > most;
    n = n < most ? n : most;
    if (n == 0 || now_ns < g->provision_next_ns || now_ns < g->stillborn_next_ns) {
        return;
    }
    r = request_open(g, now_ns);
    if (r) {
        n = n < g->o.request_max - r->n ? n : g->o.request_max - r->n;
        asked_add(g, r, (uint32_t)n);
    }
}

static void scale_grow(struct npm_group *g, int64_t now_ns)
{
    g->low_since_ns = 0;
    while (g->desired_mb > supply_mb(g) && (reactivate(g, now_ns) || adopt_foreign(g, now_ns))) {
    }
    if (g->desired_mb > supply_mb(g)) {
        request(g, g->desired_mb - supply_mb(g), now_ns);
    }
}

/* ---- down ------------------------------------------------------------------------------------ */

/* Requests that nobody has been told of yet are simply made smaller. */
static void forget_requests(struct npm_group *g)
{
    for (uint32_t i = 0; g->asked_n > 0 && i < NPM_REQUESTS_MAX; i++) {
        struct npm_request *r = &g->requests[i];
        bool calling = g->call == NPM_CALL_PROVISION && g->call_request == r->id;

        while (r->n > 0 && !r->taken && !r->unknown && !calling &&
               supply_mb(g) - g->typical_mb >= g->desired_mb) {
            asked_take(g, r, 1);
        }
    }
}

/* Newest active host that is not needed. Of hosts of different size the newest may be too large to
 * go while an older one is not. */
static struct npm_host *find_surplus(struct npm_group *g, uint64_t needed_mb)
{
    uint64_t failing = failing_mb(g);
    uint64_t not_supply_mb = g->leaving_mb + failing;

    for (uint32_t i = g->n_hosts; i > 0 && g->state_n[NPM_ACTIVE] > g->o.runners_min; i--) {
        struct npm_host *h = host_at(g, i - 1);
        uint64_t loss_mb = failing > 0 && h->fault[0] ? 0 : h->capacity_mb;

        if (h->state == NPM_ACTIVE && h->wish == NPM_WISH_NONE &&
            needed_mb + not_supply_mb + loss_mb <= g->state_mb[NPM_ACTIVE]) {
            return h;
        }
    }
    return NULL;
}

/* Down to the most that was needed within the cool-down: a load balancer that is cut off for some
 * seconds at its end must not take the whole group along. */
static void shrink(struct npm_group *g, int64_t now_ns)
{
    struct npm_host *victim = find_surplus(g, g->desired_mb);

    forget_requests(g);
    if (!victim) {
        g->low_since_ns = 0;
        return;
    }
    if (g->low_since_ns == 0) {
        g->low_since_ns = now_ns;
        g->low_peak_mb = g->desired_mb;
    }
    if (now_ns - g->low_since_ns < g->o.cooldown_ns || now_ns < g->act_down_ns) {
        return;
    }
    while ((victim = find_surplus(g, g->low_peak_mb))) {
        hosts_drain(g, victim, NPM_REASON_NOT_NEEDED, now_ns);
    }
    g->low_since_ns = 0;
}

/* ---- replacement ----------------------------------------------------------------------------- */

/* Whether something goes or comes that makes room, or serves, before long. */
static bool is_moving(const struct npm_group *g)
{
    bool moving = g->asked_n > 0 || g->state_n[NPM_REMOVING] > 0;

    for (uint32_t i = 0; !moving && i < g->n_hosts; i++) {
        const struct npm_host *h = npm_host_at(g, i);

        moving = (h->state == NPM_DRAINING && h->wish != NPM_WISH_DRAIN) ||
                 (h->state == NPM_BOOTING && h->wish == NPM_WISH_NONE);
    }
    return moving;
}

/* One goes when the active ones without it are enough; or when there may be no more runners, so
 * that its place is the only one for another: then one after the other. */
static void replace(struct npm_group *g, int64_t now_ns)
{
    for (uint32_t i = 0; g->leaving_n > 0 && i < g->n_hosts; i++) {
        struct npm_host *h = host_at(g, i);
        bool others_can =
            g->state_mb[NPM_ACTIVE] >= g->desired_mb + h->capacity_mb + failing_mb(g);

        if (h->state == NPM_ACTIVE && h->wish == NPM_WISH_REPLACE &&
            (others_can || (room(g) == 0 && !is_moving(g)))) {
            hosts_drain(g, h, NPM_REASON_REPLACED, now_ns);
        }
    }
}

int64_t scale(struct npm_group *g, bool may_shrink, int64_t now_ns)
{
    predict(g, now_ns);
    if (!g->listed || now_ns < g->settled_ns) {
        return g->settled_ns > now_ns ? g->settled_ns : now_ns + g->o.poll_ns;
    }
    if (g->standby) {
        g->low_since_ns = 0;
        return now_ns + g->o.poll_ns;
    }
    g->low_peak_mb = g->low_peak_mb > g->desired_mb ? g->low_peak_mb : g->desired_mb;
    if (g->desired_mb > supply_mb(g)) {
        scale_grow(g, now_ns);
    } else if (may_shrink) {
        shrink(g, now_ns);
    }
    if (may_shrink && now_ns >= g->act_down_ns) {
        replace(g, now_ns);
    }
    if (g->capped && !g->at_max) {
        note(g, NPM_NOTE_AT_MAX, NULL, g->wanted_mb);
    }
    g->at_max = g->capped;
    return now_ns + g->o.poll_ns;
}
