/* What the plan says: requests, and everything that goes wrong. */
#include "api_node.h"

#include <assert.h>
#include <stdlib.h>

#define SLOW_NS      (2 * ENV_S) /* of a slow network */
#define CLOCK_FACTOR 10000 /* seconds become hours */
#define UPSET_NS     (40 * ENV_S) /* until a pool has settled behind a fault */
#define UNSURE_NS    (10 * ENV_S) /* until load balancers have heard what they have missed */

void faults_start_lb(struct world *w, uint32_t index)
{
    if (!w->lbs[index]) {
        lb_node_create(w, index);
    }
}

void faults_start_runner(struct world *w, uint32_t index)
{
    if (!w->runners[index] && (!w->plan->managed || cloud_runs(w->cloud, index))) {
        runner_node_create(w, index);
    }
}

void faults_start_npm(struct world *w)
{
    if (!w->npm) {
        npm_node_create(w);
    }
}

void faults_start_api(struct world *w)
{
    if (!w->a.node) {
        api_node_create(w);
        deploy_look(w->a.deploy);
    }
}

static void stop_node(struct world *w, struct node *n, int64_t ns)
{
    int64_t until_ns = w->now_ns + ns;

    if (until_ns > n->frozen_until_ns) {
        n->frozen_until_ns = until_ns;
    }
    n->frozen_ns += ns;
    books_delay(w->books, n->life, ns);
}

/* Also one that is stopped. */
static void kill_node(struct world *w, struct node *n, struct env_timer *kill)
{
    n->frozen_until_ns = w->now_ns;
    world_at(n, kill, w->now_ns);
}

/* Seldom, often, or nearly all that it asks for. */
static void make_scarce(struct world *w, struct node *n, const struct plan_event *e)
{
    static const uint32_t one_in[] = { 1000, 100, 10, 2 };

    n->scarce_one_in = one_in[e->chance % (sizeof(one_in) / sizeof(one_in[0]))];
    n->scarce_until_ns = w->now_ns + e->ns < w->heal_ns ? w->now_ns + e->ns : w->heal_ns;
}

static void set_clock(struct node *n, const struct plan_event *e)
{
    sim_set_wall(n->sim, e->chance % 2 ? e->ns * CLOCK_FACTOR : -e->ns * CLOCK_FACTOR);
}

static void happen_to_lb(struct world *w, const struct plan_event *e)
{
    struct lb_node *l = w->lbs[e->lb];

    if (!l) {
        return; /* dead: nobody answers */
    }
    switch (e->kind) {
    case PLAN_REQUEST:
        clients_request(l->clients, e);
        break;
    case PLAN_LB_KILL:
        kill_node(w, &l->n, &l->kill);
        break;
    case PLAN_RELOAD:
        lb_node_reload(l, e->chance | 1);
        break;
    case PLAN_CLOCK_LB:
        set_clock(&l->n, e);
        break;
    case PLAN_MEMORY_LB:
        make_scarce(w, &l->n, e);
        break;
    case PLAN_LB_STOP:
        l->leaving = true;
        world_at(&l->n, &l->drain, w->now_ns);
        break;
    case PLAN_FREEZE_LB:
        stop_node(w, &l->n, e->ns);
        break;
    default:
        assert(!"not what happens to load balancers");
    }
}

static void happen_to_runner(struct world *w, const struct plan_event *e)
{
    struct runner_node *r = w->runners[e->runner];

    if (!r) {
        return;
    }
    switch (e->kind) {
    case PLAN_RUNNER_KILL:
        kill_node(w, &r->n, &r->kill);
        break;
    case PLAN_RUNNER_STOP:
        r->leaving = true;
        world_at(&r->n, &r->drain, w->now_ns);
        break;
    case PLAN_CLOCK_RUNNER:
        set_clock(&r->n, e);
        break;
    case PLAN_MEMORY_RUNNER:
        make_scarce(w, &r->n, e);
        break;
    case PLAN_FREEZE_RUNNER:
        stop_node(w, &r->n, e->ns);
        break;
    default:
        assert(!"not what happens to runners");
    }
}

static void happen_to_net(struct world *w, const struct plan_event *e)
{
    int64_t until_ns = w->now_ns + e->ns;

    switch (e->kind) {
    case PLAN_BREAK:
        net_break_after(w->net, e->lb, e->runner, e->n, e->chance % 2);
        break;
    case PLAN_PART_TO:
        net_part(w->net, e->lb, e->runner, NET_TO, until_ns);
        break;
    case PLAN_PART_FROM:
        net_part(w->net, e->lb, e->runner, NET_FROM, until_ns);
        break;
    case PLAN_PART:
        net_part(w->net, e->lb, e->runner, NET_BOTH, until_ns);
        break;
    case PLAN_VOID:
        net_make_void(w->net, e->lb, e->runner);
        break;
    case PLAN_SLOW_NET:
        net_slow(w->net, e->lb, e->runner, e->ns / 16, w->now_ns + SLOW_NS);
        break;
    case PLAN_REFUSE:
        net_refuse(w->net, e->runner, e->n);
        break;
    default:
        assert(!"not what happens to networks");
    }
}

static void happen_to_engine(struct world *w, const struct plan_event *e)
{
    struct engine *engine = w->engines[e->runner];

    switch (e->kind) {
    case PLAN_ENGINE_FAILS:
        engine_fail(engine, e->n, 1 + (uint32_t)(e->chance % 8), e->chance >> 8);
        break;
    case PLAN_EXIT:
        engine_exit_one(engine, e->chance);
        break;
    case PLAN_SOCKETS_GONE:
        engine_refuse_sockets(engine, e->n / 4);
        break;
    case PLAN_ENGINE_DEAD:
    case PLAN_ENGINE_HANGS:
    case PLAN_ENGINE_SLOW:
        engine_mode(engine, e->kind, w->now_ns + e->ns);
        break;
    default:
        assert(!"not what happens to engines");
    }
}

static void happen_to_pool(struct world *w, const struct plan_event *e)
{
    int64_t until_ns = w->now_ns + e->ns;

    switch (e->kind) {
    case PLAN_NPM_KILL:
        if (w->npm) {
            npm_node_kill(w->npm);
        }
        break;
    case PLAN_NPM_FREEZE:
        if (w->npm) {
            stop_node(w, npm_node_base(w->npm), e->ns);
        }
        break;
    case PLAN_MEMORY_NPM:
        if (w->npm) {
            make_scarce(w, npm_node_base(w->npm), e);
        }
        break;
    case PLAN_NPM_CUT:
        pool_net_cut(w, e->lb, until_ns);
        break;
    case PLAN_CLOUD_FAILS:
        cloud_fail(w->cloud, 1 + e->n / 4);
        break;
    case PLAN_CLOUD_HANGS:
        cloud_hang(w->cloud, until_ns);
        break;
    case PLAN_MACHINE_LOST:
        cloud_lose(w->cloud, e->runner);
        break;
    default:
        assert(!"not what happens to a pool");
    }
}

#define ASK_BYTES 20u /* a unit of what breaks; a question and its answer have some hundred */

static void happen_to_asks(struct world *w, const struct plan_event *e)
{
    int64_t until_ns = w->now_ns + e->ns;
    bool back = e->chance % 2;

    switch (e->kind) {
    case PLAN_ASK_TO:
        ask_net_part(w, e->runner, NET_TO, until_ns);
        break;
    case PLAN_ASK_FROM:
        ask_net_part(w, e->runner, NET_FROM, until_ns);
        break;
    case PLAN_ASK_CUT:
        ask_net_part(w, e->runner, NET_BOTH, until_ns);
        break;
    case PLAN_ASK_SLOW:
        ask_net_slow(w, e->runner, e->ns / 16, w->now_ns + SLOW_NS);
        break;
    case PLAN_STATUS_HANGS:
        ask_net_hang(w, e->runner, until_ns);
        break;
    case PLAN_ASK_BREAK:
    case PLAN_ASK_VOID:
        ask_net_break(w, e->runner, back, e->kind == PLAN_ASK_VOID, e->n * ASK_BYTES);
        break;
    default:
        assert(!"not what happens to questions");
    }
}

static void happen_to_api(struct world *w, const struct plan_event *e)
{
    uint32_t who = e->chance % 3 ? e->lb : API_NET_DEPLOYER;
    struct api_faults *f = &w->a.faults[who];

    switch (e->kind) {
    case PLAN_DEPLOY:
        deploy_change(w->a.deploy, e->function, e->n % 5 == 0);
        break;
    case PLAN_API_CUT:
        f->cut_until_ns = w->now_ns + e->ns;
        break;
    case PLAN_API_SLOW:
        f->slow_ns = e->ns / 4;
        f->slow_until_ns = w->now_ns + e->ns;
        break;
    case PLAN_API_LOSES:
        f->loses = 1 + e->n / 8;
        break;
    case PLAN_API_KILL:
        if (w->a.node) {
            api_node_kill(w->a.node);
        }
        break;
    case PLAN_API_FREEZE:
        if (w->a.node) {
            stop_node(w, api_node_base(w->a.node), e->ns);
        }
        break;
    default:
        assert(!"not what happens to an API node");
    }
}

static void push_back(int64_t *until_ns, int64_t to_ns)
{
    *until_ns = to_ns > *until_ns ? to_ns : *until_ns;
}

/* Whether a load balancer may not hear of a drain, and call a machine that has said it is empty. */
static bool keeps_from_hearing(enum plan_kind kind)
{
    return kind == PLAN_NPM_CUT || kind == PLAN_NPM_KILL || kind == PLAN_NPM_FREEZE ||
           kind == PLAN_MEMORY_NPM || kind == PLAN_FREEZE_LB || kind == PLAN_MEMORY_LB;
}

static void (*const happen_to[PLAN_KINDS_N])(struct world *w, const struct plan_event *e) = {
#define X(name, whom, text) [PLAN_##name] = happen_to_##whom,
    PLAN_KINDS(X)
#undef X
};

void faults_happen(struct world *w, const struct plan_event *e)
{
    if (e->kind != PLAN_REQUEST) {
        push_back(&w->upset_until_ns, w->now_ns + e->ns + UPSET_NS);
    }
    if (keeps_from_hearing(e->kind)) {
        push_back(&w->unsure_until_ns, w->now_ns + e->ns + UNSURE_NS);
    }
    happen_to[e->kind](w, e);
}

void faults_heal(struct world *w)
{
    w->healed = true;
    net_heal(w->net);
    for (struct node *n = w->nodes; n; n = n->next) {
        if (n->frozen_until_ns > w->now_ns) {
            n->frozen_until_ns = w->now_ns;
        }
    }
    if (w->plan->managed) {
        pool_net_heal(w);
        ask_net_heal(w);
        cloud_heal(w->cloud);
        faults_start_npm(w);
    }
    if (w->plan->api) {
        api_net_heal(w);
        faults_start_api(w);
    }
    for (uint32_t i = 0; i < world_slots(w); i++) {
        engine_heal(w->engines[i]);
        faults_start_runner(w, i);
    }
    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        if (w->lbs[i]) {
            lb_node_reload(w->lbs[i], 0);
        }
        faults_start_lb(w, i);
    }
}
