/* What the operator's page shows of each side: tables whose heaviest rows come first, and figures
 * over time. ud: the struct node. */
#include <node/node.h>

#include <string.h>

#define SHOWN_ROWS  60u
#define SHOWN_CALLS 40u
/* What needs somebody comes before all that does its work. */
#define TROUBLE ((int64_t)1 << 60)

static int64_t in_ms(int64_t ns)
{
    return ns / ENV_MS;
}

#define WALK_FITS(type)                                                                            \
    _Static_assert(sizeof(type) <= PAGE_WALK_BYTES, "a table walks with what has room")
WALK_FITS(struct walk);
WALK_FITS(struct place_walk);

static void end_walk(void *ud, struct page_walk *w)
{
    (void)ud;
    walk_end((struct walk *)(void *)w->space);
}

/* ---- functions ------------------------------------------------------------------------------- */

static const char *const function_texts[] = { "fn_id", "name", NULL };
static const char *const function_numbers[] = { "per_hour", "calls",  "failed",  "cold",
                                                "p50_us",   "p95_us", "p99_us", "idle_ms",
                                                NULL };

static bool next_function(const struct node *n, const struct tally *t, struct page_walk *w,
                          struct page_row *ret)
{
    uint32_t *i = (void *)w->space;
    struct tally_row f;

    if (!tally_at(t, (*i)++, env_now_ns(n->env), &f)) {
        return false;
    }
    *ret = (struct page_row){
        .weight = f.per_hour * 1000 + (f.calls < 999 ? (int64_t)f.calls : 999),
        .texts = { f.id, f.name },
        .numbers = { f.per_hour, (int64_t)f.calls, (int64_t)f.failed, (int64_t)f.cold, f.p50_us,
                     f.p95_us, f.p99_us, in_ms(f.idle_ns) }
    };
    return true;
}

static bool next_lb_function(void *ud, struct page_walk *w, struct page_row *ret)
{
    const struct node *n = ud;

    return next_function(n, lb_tally(n->lb), w, ret);
}

static bool next_runner_function(void *ud, struct page_walk *w, struct page_row *ret)
{
    const struct node *n = ud;

    return next_function(n, runner_tally(n->runner), w, ret);
}

/* ---- load balancer --------------------------------------------------------------------------- */

static const char *const runner_texts[] = { "address", "state", "group", "labels", NULL };
static const char *const runner_numbers[] = { "calls", "capacity_mb", NULL };

static void begin_runners(void *ud, struct page_walk *w)
{
    place_walk(((struct node *)ud)->place, (void *)w->space);
}

static bool next_runner(void *ud, struct page_walk *w, struct page_row *ret)
{
    struct place_runner_row r;

    (void)ud;
    if (!place_walk_next((void *)w->space, &r)) {
        return false;
    }
    *ret = (struct page_row){ .weight = (strcmp(r.state, "up") == 0 ? 0 : TROUBLE) + r.inflight,
                              .texts = { r.address, r.state, r.group, r.labels },
                              .numbers = { r.inflight, (int64_t)r.capacity_mb } };
    return true;
}

static void end_runners(void *ud, struct page_walk *w)
{
    (void)ud;
    place_walk_end((void *)w->space);
}

static const char *const lb_call_texts[] = { "call_id", "state", "waits_for", "fn_id", "runner",
                                             NULL };
static const char *const lb_call_numbers[] = { "age_ms", "offers", NULL };

static void begin_lb_calls(void *ud, struct page_walk *w)
{
    lb_walk(((struct node *)ud)->lb, (void *)w->space);
}

static bool next_lb_call(void *ud, struct page_walk *w, struct page_row *ret)
{
    struct lb_call_row c;

    if (!lb_walk_next(((struct node *)ud)->lb, (void *)w->space, &c)) {
        return false;
    }
    *ret = (struct page_row){ .weight = c.age_ns > 0 ? c.age_ns : 0,
                              .texts = { c.call_id, c.state, c.waits_for, c.fn_id, c.runner },
                              .numbers = { in_ms(c.age_ns), c.offers } };
    return true;
}

static const char *const error_texts[] = { "call_id", "fn_id", "outcome", "error", NULL };
static const char *const error_numbers[] = { "status", "at_ms", "took_ms", NULL };

static bool next_error(void *ud, struct page_walk *w, struct page_row *ret)
{
    uint32_t *i = (void *)w->space;
    struct lb_error_row e;
    int r = lb_error_at(((struct node *)ud)->lb, *i, &e);

    if (r < 0) {
        return false;
    }
    *ret = (struct page_row){ .weight = r == 1 ? TROUBLE - *i : -1,
                              .texts = { e.call_id, e.fn_id, e.outcome, e.error },
                              .numbers = { e.status, in_ms(e.wall_ns), in_ms(e.took_ns) } };
    (*i)++;
    return true;
}

static const char *const peer_texts[] = { "address", "state", "waits_for", "why", "labels", NULL };
static const char *const peer_numbers[] = { "age_ms", NULL };

static void begin_peers(void *ud, struct page_walk *w)
{
    rpc_walk_peers(((struct node *)ud)->rpc, (void *)w->space);
}

static bool next_peer(void *ud, struct page_walk *w, struct page_row *ret)
{
    struct rpc_peer_row p;

    if (!rpc_walk_next_peer(((struct node *)ud)->rpc, (void *)w->space, &p)) {
        return false;
    }
    *ret = (struct page_row){ .weight = p.why || strcmp(p.state, "up") != 0 ? 1 : 0,
                              .texts = { p.address, p.state, p.waits_for, p.why, p.labels },
                              .numbers = { in_ms(p.age_ns) } };
    return true;
}

#define PEERS_TABLE                                                                                \
    {                                                                                              \
        .name = "peers", .texts = peer_texts, .numbers = peer_numbers, .shown = SHOWN_ROWS,        \
        .begin = begin_peers, .next = next_peer, .end = end_walk                                   \
    }

const struct page_table node_lb_tables[] = {
    { .name = "functions", .texts = function_texts, .numbers = function_numbers,
      .shown = SHOWN_ROWS, .next = next_lb_function },
    { .name = "runners", .texts = runner_texts, .numbers = runner_numbers, .shown = SHOWN_ROWS,
      .begin = begin_runners, .next = next_runner, .end = end_runners },
    { .name = "calls", .texts = lb_call_texts, .numbers = lb_call_numbers, .shown = SHOWN_CALLS,
      .sorted = true, .begin = begin_lb_calls, .next = next_lb_call, .end = end_walk },
    { .name = "errors", .texts = error_texts, .numbers = error_numbers, .shown = SHOWN_CALLS,
      .sorted = true, .next = next_error },
    PEERS_TABLE,
    { .name = NULL },
};

const char *const node_lb_series[] = { "received", "ok",       "failed",     "aborted", "in_flight",
                                       "waiting",  "runners",  "runners_up", NULL };

void node_lb_sample(const struct node *n, int64_t *ret)
{
    struct lb_counts c;
    struct place_counts p;

    lb_count(n->lb, &c);
    place_count(n->place, &p);
    *ret++ = (int64_t)c.received;
    *ret++ = (int64_t)c.ok;
    *ret++ = (int64_t)(c.failed + c.not_executed + c.unknown);
    *ret++ = (int64_t)c.aborted;
    *ret++ = c.in_flight;
    *ret++ = p.waiting;
    *ret++ = p.runners;
    *ret++ = p.runners_up;
}

/* ---- runner ---------------------------------------------------------------------------------- */

static const char *const container_texts[] = { "container_id", "state", "waits_for", "fn_id",
                                               "image", "call_id", NULL };
static const char *const container_numbers[] = { "age_ms", "mem_mb", "warm", NULL };

static void begin_containers(void *ud, struct page_walk *w)
{
    runner_walk_containers(((struct node *)ud)->runner, (void *)w->space);
}

/* The longest at what it is doing, those that have a call or will have one before idle ones. */
static bool next_container(void *ud, struct page_walk *w, struct page_row *ret)
{
    struct runner_container_row c;
    bool idle;

    if (!runner_walk_next_container(((struct node *)ud)->runner, (void *)w->space, &c)) {
        return false;
    }
    idle = strcmp(c.state, "idle") == 0 || strcmp(c.state, "frozen") == 0;
    *ret = (struct page_row){
        .weight = (idle ? 0 : TROUBLE) + (c.age_ns > 0 ? c.age_ns / ENV_US : 0),
        .texts = { c.container_id, c.state, c.waits_for, c.fn_id, c.image, c.call_id },
        .numbers = { in_ms(c.age_ns), (int64_t)(c.mem_bytes >> 20), c.warm }
    };
    return true;
}

static const char *const runner_call_texts[] = { "call_id", "state", "waits_for", "fn_id",
                                                 "container_id", NULL };
static const char *const runner_call_numbers[] = { "age_ms", NULL };

static void begin_runner_calls(void *ud, struct page_walk *w)
{
    runner_walk_calls(((struct node *)ud)->runner, (void *)w->space);
}

static bool next_runner_call(void *ud, struct page_walk *w, struct page_row *ret)
{
    struct runner_call_row c;

    if (!runner_walk_next_call(((struct node *)ud)->runner, (void *)w->space, &c)) {
        return false;
    }
    *ret = (struct page_row){ .weight = c.age_ns > 0 ? c.age_ns : 0,
                              .texts = { c.call_id, c.state, c.waits_for, c.fn_id, c.container_id },
                              .numbers = { in_ms(c.age_ns) } };
    return true;
}

const struct page_table node_runner_tables[] = {
    { .name = "functions", .texts = function_texts, .numbers = function_numbers,
      .shown = SHOWN_ROWS, .next = next_runner_function },
    { .name = "calls", .texts = runner_call_texts, .numbers = runner_call_numbers,
      .shown = SHOWN_CALLS, .sorted = true, .begin = begin_runner_calls, .next = next_runner_call,
      .end = end_walk },
    { .name = "containers", .texts = container_texts, .numbers = container_numbers,
      .shown = SHOWN_ROWS, .begin = begin_containers, .next = next_container, .end = end_walk },
    { .name = NULL },
};

const char *const node_runner_series[] = { "runner_received", "runner_waiting", "running",
                                           "containers",      "warm",           "used_mb", NULL };

void node_runner_sample(const struct node *n, int64_t *ret)
{
    struct runner_counts c;

    runner_count(n->runner, &c);
    *ret++ = (int64_t)c.received;
    *ret++ = c.waiting;
    *ret++ = c.running;
    *ret++ = c.containers;
    *ret++ = c.warm.now;
    *ret++ = (int64_t)(c.used.mem_bytes >> 20);
}

/* ---- node pool manager ----------------------------------------------------------------------- */

struct host_walk {
    uint32_t group, host;
};
WALK_FITS(struct host_walk);

static const char *const host_texts[] = { "id", "address", "state", "group", "why", "labels",
                                          NULL };
static const char *const host_numbers[] = { "calls", "capacity_mb", "since_ms", "operator_drain",
                                            NULL };

static const char *host_why(const struct npm_host *h)
{
    return h->fault[0]                      ? h->fault
           : h->state == NPM_DRAINING       ? npm_reason_texts[h->reason]
           : h->silent_ns                   ? "it does not answer"
           : h->wish != NPM_WISH_NONE       ? npm_wish_names[h->wish]
                                            : NULL;
}

static bool next_host(void *ud, struct page_walk *w, struct page_row *ret)
{
    struct host_walk *at = (void *)w->space;
    const struct node *n = ud;
    const struct npm_group *g = NULL;
    const struct npm_host *h;
    const char *name = NULL;

    for (; at->group < npm_manager_count(n->npm); at->group++, at->host = 0) {
        name = npm_manager_name_at(n->npm, at->group);
        g = npm_manager_group(n->npm, name);
        if (at->host < npm_host_count(g)) {
            break;
        }
    }
    if (at->group >= npm_manager_count(n->npm)) {
        return false;
    }
    h = npm_host_at(g, at->host++);
    *ret = (struct page_row){
        .weight = (host_why(h) || h->state != NPM_ACTIVE ? TROUBLE : 0) + h->active,
        .texts = { h->id, h->address, npm_state_names[h->state], name, host_why(h),
                   npm_labels(g, h) },
        .numbers = { h->active, (int64_t)h->capacity_mb, in_ms(env_now_ns(n->env) - h->since_ns),
                     h->wish == NPM_WISH_DRAIN }
    };
    return true;
}

static const char *const group_texts[] = { "name", "says", "cplane_error", NULL };
static const char *const group_numbers[] = { "wanted_mb", "desired_mb", "active_mb", "booting_mb",
                                             "waiting",   "asked",      "lbs",       NULL };

static bool next_group(void *ud, struct page_walk *w, struct page_row *ret)
{
    uint32_t *i = (void *)w->space;
    struct node *n = ud;
    struct npm_figures f;
    const char *name;

    if (*i >= npm_manager_count(n->npm)) {
        return false;
    }
    name = npm_manager_name_at(n->npm, (*i)++);
    npm_figures(npm_manager_group(n->npm, name), &f);
    npm_explain(npm_manager_group(n->npm, name), env_now_ns(n->env), n->page_says,
                sizeof(n->page_says));
    *ret = (struct page_row){
        .weight = (f.cplane_failures > 0 || f.at_max ? TROUBLE : 0) + (int64_t)(f.wanted_mb >> 4),
        .texts = { name, n->page_says, npm_manager_cplane_error(n->npm, name) },
        .numbers = { (int64_t)f.wanted_mb, (int64_t)f.desired_mb,
                     (int64_t)f.state_mb[NPM_ACTIVE], (int64_t)f.state_mb[NPM_BOOTING],
                     (int64_t)f.waiting, f.asked_n, f.lbs_n }
    };
    return true;
}

const struct page_table node_npm_tables[] = {
    { .name = "hosts", .texts = host_texts, .numbers = host_numbers, .shown = SHOWN_ROWS,
      .next = next_host },
    { .name = "groups", .texts = group_texts, .numbers = group_numbers, .shown = SHOWN_ROWS,
      .next = next_group },
    { .name = NULL },
};

const char *const node_npm_series[] = { "wanted_mb", "desired_mb", "active_mb", "booting_mb",
                                        "pool_waiting", "hosts", NULL };

void node_npm_sample(const struct node *n, int64_t *ret)
{
    for (uint32_t i = 0; i < npm_manager_count(n->npm); i++) {
        const struct npm_group *g =
            npm_manager_group(n->npm, npm_manager_name_at(n->npm, i));
        struct npm_figures f;

        npm_figures(g, &f);
        ret[0] += (int64_t)f.wanted_mb;
        ret[1] += (int64_t)f.desired_mb;
        ret[2] += (int64_t)f.state_mb[NPM_ACTIVE];
        ret[3] += (int64_t)f.state_mb[NPM_BOOTING];
        ret[4] += (int64_t)f.waiting;
        ret[5] += npm_host_count(g);
    }
}
