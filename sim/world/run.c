/* One world: its nodes start, requests and faults come as planned, the faults end, every function
 * is asked once more, in some worlds a crowd comes (crowd.c), everything is drained, and the books
 * are closed. A long one has such a day again and again before it is drained, and rests between
 * them (nights.c). */
#include "api_node.h"
#include "nights.h"

#include <stdio.h>
#include <stdlib.h>

#define SETTLE_NS   (500 * ENV_MS) /* from the start to the first request */
#define QUIET_NS    (75 * ENV_S)   /* all that was begun under faults has ended by then */
#define PROBE_NS    (12 * ENV_S)   /* for a request that must succeed */
#define PROBE_STEP_NS (100 * ENV_MS)
#define PROBE_TRIES 3
#define PROBE_TRIES_MANAGED 40 /* a machine is rented meanwhile */
#define REST_NS (240 * ENV_S)  /* until a pool that nobody needs is empty */
#define DRAIN_NS    (150 * ENV_S)
#define NEWS_NS     ENV_S          /* until load balancers have heard of a change */
#define NIGHT_NS    (600 * ENV_S)  /* all containers have gone by then */
#define CHECK_NS    (5 * ENV_S)    /* that requests end in time */

struct happening {
    struct world *w;
    const struct plan_event *e;
    struct env_timer timer, restart;
};

static bool is_of_lb(const struct plan_event *e)
{
    return e->kind == PLAN_LB_KILL || e->kind == PLAN_LB_STOP;
}

static bool ends_process(const struct plan_event *e)
{
    return is_of_lb(e) || e->kind == PLAN_NPM_KILL || e->kind == PLAN_API_KILL ||
           e->kind == PLAN_RUNNER_KILL || e->kind == PLAN_RUNNER_STOP;
}

/* Whoever still drains is waited for. */
static void on_restart(struct env_timer *t)
{
    struct happening *h = container_of(t, struct happening, restart);
    struct world *w = h->w;
    const struct lb_node *l = w->lbs[h->e->lb];
    const struct runner_node *r = w->runners[h->e->runner];

    if (is_of_lb(h->e) ? l && l->leaving : r && r->leaving) {
        sim_at(w->outside, t, w->now_ns + ENV_S);
    } else if (h->e->kind == PLAN_NPM_KILL) {
        faults_start_npm(w);
    } else if (h->e->kind == PLAN_API_KILL) {
        faults_start_api(w);
    } else if (is_of_lb(h->e)) {
        faults_start_lb(w, h->e->lb);
    } else {
        faults_start_runner(w, h->e->runner);
    }
}

/* Nobody is dead for longer than there are faults. */
static int64_t restart_ns(const struct world *w, const struct plan_event *e)
{
    int64_t at_ns = w->now_ns + 1 + e->ns;

    return at_ns < w->heal_ns || w->heal_ns < w->now_ns ? at_ns : w->heal_ns + 1;
}

static void on_happening(struct env_timer *t)
{
    struct happening *h = container_of(t, struct happening, timer);
    struct world *w = h->w;
    char text[120];

    if (w->told && h->e->kind != PLAN_REQUEST) {
        plan_tell_event(w->plan, (uint32_t)(h->e - w->plan->events), text, sizeof(text));
        world_tell(w, NULL, "FAULT %s", text);
    }
    faults_happen(w, h->e);
    if (ends_process(h->e)) {
        sim_at(w->outside, &h->restart, restart_ns(w, h->e));
    }
}

static void world_create(struct world *w)
{
    const struct plan *p = w->plan;

    w->books = books_create();
    w->nights = nights_create(p->days);
    w->outside = sim_create(&(struct sim_options){ .seed = p->seed });
    if (!w->outside) {
        abort();
    }
    w->begun_ns = w->now_ns = sim_now_ns(w->outside);
    w->heal_ns = w->begun_ns + SETTLE_NS + p->length_ns;
    w->net = net_create(w);
    if (p->api) {
        w->a.rng = sim_rng_make(p->seed, 110);
        api_node_create(w);
        w->a.deploy = deploy_create(w);
    }
    if (p->managed) {
        w->pool_rng = sim_rng_make(p->seed, 104);
        w->cloud = cloud_create(w);
        w->asks = ask_net_create(w);
        npm_node_create(w);
    }
    for (uint32_t i = 0; i < world_slots(w); i++) {
        w->engines[i] = engine_create(w, i);
        faults_start_runner(w, i);
    }
    for (uint32_t i = 0; i < p->lbs; i++) {
        faults_start_lb(w, i);
    }
    if (p->api) {
        deploy_all(w);
    }
    w->happenings = sim_alloc(p->n_events * sizeof(*w->happenings));
    for (uint32_t i = 0; i < p->n_events; i++) {
        struct happening *h = &w->happenings[i];

        *h = (struct happening){ .w = w, .e = &p->events[i] };
        h->timer.cb = on_happening;
        h->restart.cb = on_restart;
    }
}

/* From now on it happens what the plan says. */
static void dawn(struct world *w)
{
    w->healed = false;
    w->a.exact = false;
    w->heal_ns = w->now_ns + SETTLE_NS + w->plan->length_ns;
    for (uint32_t i = 0; i < w->plan->n_events; i++) {
        if (!w->left_out || !w->left_out[i]) {
            sim_at(w->outside, &w->happenings[i].timer,
                   w->now_ns + SETTLE_NS + w->plan->events[i].at_ns);
        }
    }
}

/* ---- the quiet end ------------------------------------------------------------------------- */

static void check_engines(struct world *w)
{
    for (uint32_t i = 0; i < world_slots(w); i++) {
        engine_check_idle(w->engines[i]);
    }
}

/* Runs on and looks at the clocks of requests now and then. */
bool run_on(struct world *w, int64_t ns)
{
    int64_t end_ns = w->now_ns + ns;

    while (w->now_ns < end_ns && !books_broken(w->books)) {
        int64_t next_ns = w->now_ns + CHECK_NS < end_ns ? w->now_ns + CHECK_NS : end_ns;

        if (world_run_until(w, next_ns)) {
            books_check_ends(w->books, w->now_ns);
            net_check_times(w->net);
            check_engines(w);
            if (w->npm) {
                npm_node_look(w->npm);
            }
        }
    }
    return !books_broken(w->books);
}

bool run_is_idle(const struct world *w)
{
    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        if (w->lbs[i] && clients_waiting(w->lbs[i]->clients) > 0) {
            return false;
        }
    }
    return true;
}

/* Nobody is down or drains. */
static bool all_serve(const struct world *w)
{
    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        if (!w->lbs[i] || w->lbs[i]->leaving) {
            return false;
        }
    }
    for (uint32_t i = 0; i < world_slots(w); i++) {
        const struct runner_node *r = w->runners[i];

        if (r ? r->leaving : !w->plan->managed || cloud_runs(w->cloud, i)) {
            return false;
        }
    }
    return true;
}

static bool quieten(struct world *w)
{
    int64_t end_ns = w->now_ns + QUIET_NS;

    while (run_on(w, CHECK_NS) && !(run_is_idle(w) && all_serve(w)) && w->now_ns < end_ns) {
    }
    if (!all_serve(w)) {
        books_break(w->books, BOOKS_NOTHING_LEFT, 0, "a node that stops does not end its drain");
    }
    return !books_broken(w->books);
}

/* One request at a time, for which there must be room. False: it has no good answer. */
static bool ask_once(struct world *w, uint32_t lb, uint32_t function)
{
    int64_t end_ns = w->now_ns + PROBE_NS;
    uint64_t ok = w->answers_ok;

    clients_probe(w->lbs[lb]->clients, function);
    while (run_on(w, PROBE_STEP_NS) && !run_is_idle(w) && w->now_ns < end_ns) {
    }
    return w->answers_ok > ok;
}

/* Lanes may still be full now and then, so a client tries again. */
static bool probe(struct world *w, uint32_t lb, uint32_t function)
{
    uint32_t tries = w->plan->managed ? PROBE_TRIES_MANAGED : PROBE_TRIES;

    for (uint32_t i = 0; i < tries && !books_broken(w->books); i++) {
        if (ask_once(w, lb, function)) {
            return !books_broken(w->books);
        }
    }
    books_break(w->books, BOOKS_SERVES_AGAIN, (uint32_t)w->requests,
                "request %u of function %u to lb%u, and those before it, have no good answer",
                (uint32_t)w->requests, function, lb);
    return false;
}

/* Each load balancer asks each function once. */
static bool probe_all(struct world *w)
{
    for (uint32_t f = 0; f < w->plan->functions; f++) {
        for (uint32_t i = 0; i < w->plan->lbs; i++) {
            if (!probe(w, i, f)) {
                return false;
            }
        }
    }
    return true;
}

static bool count_runner(void *ud, struct engage_link *link, const char *address)
{
    (void)link;
    (void)address;
    ++*(uint32_t *)ud;
    return true;
}

/* Each load balancer is connected to the members that the manager has, and to no others. */
static bool all_agree(struct world *w, uint32_t members)
{
    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        struct place_counts n;
        uint32_t up = 0;

        place_each_runner(w->lbs[i]->place, count_runner, &up);
        place_count(w->lbs[i]->place, &n);
        if (up != members || n.runners != members) {
            return false;
        }
    }
    return true;
}

/* Nobody calls any more: the pool is given back, and meanwhile everybody knows what it has. */
static bool rest(struct world *w)
{
    int64_t end_ns = w->now_ns + REST_NS;
    uint32_t agreed = 0;

    while (run_on(w, ENV_S) && w->now_ns < end_ns &&
           !(cloud_count(w->cloud) == 0 && all_agree(w, 0))) {
        agreed += all_agree(w, npm_node_members(w->npm)) && npm_node_members(w->npm) > 0;
    }
    if (cloud_count(w->cloud) > 0 || !all_agree(w, 0)) {
        books_break(w->books, BOOKS_FOLLOWS, 0, "nobody needs %u machines that are there",
                    cloud_count(w->cloud));
    } else if (agreed == 0) {
        books_break(w->books, BOOKS_FOLLOWS, 0, "no load balancers know what the pool has");
    }
    return !books_broken(w->books);
}

/* All functions have a version that nobody has heard of before, and a moment later all load
 * balancers go by it. */
static bool renew(struct world *w)
{
    if (!deploy_all(w) || !run_on(w, NEWS_NS)) {
        return false;
    }
    w->a.exact = !w->plan->nasty; /* else lookups may take longer than calls wait for them */
    return true;
}

/* Where lookups are slow, old definitions may serve some calls more. */
static bool is_refused(struct world *w, uint32_t lb)
{
    uint32_t tries = w->plan->nasty ? PROBE_TRIES_MANAGED : 1;

    for (uint32_t i = 0; i < tries && !books_broken(w->books); i++) {
        uint64_t told = w->a.told_404;

        if (!ask_once(w, lb, 0) && w->a.told_404 == told + 1) {
            return true;
        }
    }
    return false;
}

/* One is deleted, and a moment later its calls are refused. */
static bool undeploy(struct world *w)
{
    deploy_look(w->a.deploy);
    deploy_change(w->a.deploy, 0, true);
    if (!deploy_wait(w) || !run_on(w, NEWS_NS)) {
        return false;
    }
    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        if (!is_refused(w, i)) {
            books_break(w->books, BOOKS_UNDEPLOYED, (uint32_t)w->requests,
                        "request %u to lb%u is not told that its function is gone",
                        (uint32_t)w->requests, i);
        }
    }
    return !books_broken(w->books);
}

static bool all_over(const struct world *w)
{
    for (const struct node *n = w->nodes; n; n = n->next) {
        if (!n->over(n)) {
            return false;
        }
    }
    return true;
}

static void drain_all(struct world *w)
{
    int64_t end_ns = w->now_ns + DRAIN_NS;

    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        world_at(&w->lbs[i]->n, &w->lbs[i]->drain, w->now_ns);
    }
    for (uint32_t i = 0; i < world_slots(w); i++) {
        if (w->runners[i]) {
            world_at(&w->runners[i]->n, &w->runners[i]->drain, w->now_ns);
        }
    }
    if (w->npm) {
        npm_node_drain(w->npm);
    }
    if (w->a.node) {
        api_node_drain(w->a.node);
    }
    while (run_on(w, ENV_S) && !all_over(w) && w->now_ns < end_ns) {
    }
    if (!all_over(w)) {
        books_break(w->books, BOOKS_NOTHING_LEFT, 0, "a node does not end its drain");
    }
}

static void conclude(struct world *w, bool reached, struct run_result *ret)
{
    *ret = (struct run_result){
        .broken = books_broken(w->books),
        .request = books_of_request(w->books),
        .at_ns = w->now_ns - w->begun_ns,
        .hash = books_hash(w->books) ^ w->steps,
        .requests = w->requests,
        .ok = w->answers_ok,
        .steps = w->steps,
        .refused = scarce_refused(),
        .reached = reached,
        .simulated_ns = w->now_ns - w->begun_ns,
    };
    snprintf(ret->why, sizeof(ret->why), "%s", books_why(w->books));
}

/* Runners go behind the load balancers whose connections lead to them. */
static void destroy_nodes(struct world *w, bool (*which)(const struct node *n))
{
    for (int runners = 0; runners < 2; runners++) {
        struct node *n, *next;

        for (n = w->nodes; n; n = next) {
            next = n->next;
            if (n->is_runner == runners && which(n)) {
                n->destroy(n);
            }
        }
    }
}

static bool any(const struct node *n)
{
    (void)n;
    return true;
}

static bool is_dead(const struct node *n)
{
    return n->dead && n->over(n);
}

/* What the nodes of a world with broken books still have is left behind. */
static void world_destroy(struct world *w, struct run_result *ret)
{
    bool reached = w->plan->byte && net_has_broken(w->net);

    if (all_over(w)) {
        destroy_nodes(w, any);
        net_destroy(w->net);
        for (uint32_t i = 0; i < world_slots(w); i++) {
            engine_destroy(w->engines[i]);
        }
    }
    conclude(w, reached, ret); /* the last entries came from the nodes' ends */
    sim_destroy(w->outside);
    free(w->happenings);
    api_node_forget(w);
    free(w->a.calls);
    ask_net_destroy(w->asks);
    cloud_destroy(w->cloud);
    nights_destroy(w->nights);
    books_destroy(w->books);
}

/* The time with requests and faults, then that in which everything must be well. */
static bool live_day(struct world *w)
{
    const struct plan *p = w->plan;

    dawn(w);
    run_on(w, w->heal_ns - w->now_ns);
    faults_heal(w);
    return quieten(w) && (!p->api || renew(w)) && probe_all(w) &&
           (p->managed ? rest(w) : p->api ? undeploy(w) : crowd_comes(w));
}

/* Nobody calls; what has an end in time comes to it. */
static bool sleep_night(struct world *w)
{
    if (!run_on(w, NIGHT_NS)) {
        return false;
    }
    destroy_nodes(w, is_dead);
    nights_look(w);
    return true;
}

static bool live(struct world *w)
{
    bool well = live_day(w);

    for (uint32_t day = 1; day < w->plan->days && well; day++) {
        well = sleep_night(w) && live_day(w);
    }
    return well && nights_judge(w);
}

void run_world(const struct plan *p, const bool *left_out, bool told, struct run_result *ret)
{
    struct world w = { .plan = p, .left_out = left_out, .told = told };

    scarce_begin(p->seed);
    world_create(&w);
    if (live(&w)) {
        drain_all(&w);
    }
    world_destroy(&w, ret);
}
