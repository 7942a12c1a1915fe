/* The load balancer side of a node: catalog, placement, calls. */
#include <node/node.h>

#include <base/log.h>
#include <lb/follow.h>
#include <lb/lookups.h>
#include <stdio.h>
#include <stdlib.h>

#define OTHER_THREADS 4     /* for reloads and the end of an old configuration */
#define LAST_WORDS_NS ENV_S /* for the answers of calls that are cut to reach their clients */

/* ---- the API node behind libcurl ------------------------------------------------------------- */

struct api_get {
    void (*cb)(void *ud, uint32_t status, const char *body, size_t len, const struct fn_error *err);
    void *ud;
};

static void on_api_answer(void *ud, const struct fetch_result *r)
{
    struct api_get *g = ud;

    g->cb(g->ud, r->status, r->body, r->body_len, r->error);
    free(g);
}

static int api_get(void *impl, const char *path_and_query,
                   void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                              const struct fn_error *err),
                   void *ud)
{
    struct node *n = impl;
    struct api_get *g = malloc(sizeof(*g));
    int r;

    if (!g) {
        return FN_E_EXHAUSTED;
    }
    *g = (struct api_get){ cb, ud };
    r = fetch_get(n->fetch, n->config->catalog->api_url, path_and_query,
                  (uint32_t)(n->config->catalog->api_timeout_ns / ENV_MS), on_api_answer, g,
                  NULL);
    if (r < 0) {
        free(g);
    }
    return r;
}

/* ---- functions of fn.yaml -------------------------------------------------------------------- */

static int add_fn(struct catalog *catalog, const struct app *app, const struct config_fn *f,
                  struct fn_error *reterr)
{
    int r = catalog_add(catalog, app, &f->fn, NULL, reterr);

    for (uint32_t i = 0; i < f->n_triggers && r == 0; i++) {
        r = catalog_add(catalog, app, &f->fn, &f->triggers[i].trigger, reterr);
    }
    return r;
}

static int add_apps(struct catalog *catalog, const struct config *c, struct fn_error *reterr)
{
    int r = 0;

    for (uint32_t i = 0; i < c->n_apps; i++) {
        const struct config_app *a = &c->apps[i];

        for (uint32_t k = 0; k < a->n_fns && r == 0; k++) {
            r = add_fn(catalog, &a->app, &a->fns[k], reterr);
        }
    }
    return r;
}

/* The functions of a configuration as a catalog of their own. [any] */
static int load_functions(struct node *n, const struct config *c, struct catalog **ret,
                          struct fn_error *reterr)
{
    int r = catalog_create(n->env, c->catalog, NULL, ret, reterr);

    return r < 0 ? r : add_apps(*ret, c, reterr);
}

/* Another node's API where one is named, else this node's own. */
static const struct catalog_source *source_of(struct node *n)
{
    n->api = (struct catalog_source){ n->config->catalog->api_url ? api_get : node_ask_api, n };
    return n->config->catalog->api_url || n->management ? &n->api : NULL;
}

static int open_catalog(struct node *n, struct fn_error *reterr)
{
    uint32_t threads = LOOKUPS_THREADS + FOLLOW_THREADS + OTHER_THREADS + TRACE_THREADS +
                       (n->store ? STORE_THREADS : 0);
    int r;

    if (loop_set_threads(n->loop, ENV_LANE_CONTROL, threads) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory for the catalog's threads");
    }
    r = catalog_create(n->env, n->config->catalog, source_of(n), &n->catalog, reterr);
    return r < 0 ? r : follow_create(n->env, n->catalog, &n->follow, reterr);
}

/* What changes in the node's own store it hears from that. */
static void follow_source(struct node *n)
{
    const struct catalog_options *o = n->config->catalog;

    follow_set_source(n->follow, o->api_url ? &n->api : NULL, o->api_timeout_ns);
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct engage_client *client_of(struct node *n)
{
    return n->local ? local_client(n->local) : rpc_client(n->rpc);
}

static struct lb_options lb_options_of(const struct config *c, uint64_t generation)
{
    struct lb_options o = *c->lb;

    o.message_bytes_max = c->rpc->message_max_bytes;
    o.generation = (uint32_t)generation;
    return o;
}

static int lb_open(struct node *n, struct fn_error *reterr)
{
    const struct place_deps place = {
        .env = n->env,
        .host = n->host,
        .client = client_of(n),
        .options = *n->config->place,
    };
    struct lb_deps deps = {
        .env = n->env,
        .client = client_of(n),
        .ids = &n->ids,
        .tracer = n->tracer,
        .options = lb_options_of(n->config, 1),
    };
    int r = place_create(&place, &n->place, reterr);

    r = r < 0 ? r : open_catalog(n, reterr);
    if (r < 0) {
        return r;
    }
    deps.place = n->place;
    deps.catalog = n->catalog;
    return lb_create(&deps, &n->lb, reterr);
}

static void lb_apply(struct node *n)
{
    const struct config *c = n->config;
    const struct lb_options lb = lb_options_of(c, n->gen->number);

    place_set_options(n->place, c->place);
    lb_set_options(n->lb, &lb);
    catalog_set_options(n->catalog, c->catalog, source_of(n));
    follow_source(n);
}

static int lb_serve(struct node *n, struct fn_error *reterr)
{
    follow_source(n);
    return place_start(n->place, n->gen->pool, reterr);
}

static void on_pool_stopped(void *ud)
{
    struct node *n = ud;

    n->drained(n->drained_ud);
}

static void on_lb_drained(void *ud)
{
    place_stop(((struct node *)ud)->place, on_pool_stopped, ud);
}

static void lb_drain_calls(struct node *n, void (*done)(void *ud), void *ud)
{
    n->drained = done;
    n->drained_ud = ud;
    follow_set_source(n->follow, NULL, 0);
    lb_drain(n->lb, on_lb_drained, n);
}

static uint64_t lb_in_flight(const struct node *n)
{
    struct lb_counts counts;

    lb_count(n->lb, &counts);
    return counts.in_flight;
}

static void lb_cut_calls(struct node *n)
{
    lb_cut(n->lb);
}

static void lb_close(struct node *n)
{
    lb_destroy(n->lb);
    follow_destroy(n->follow);
    catalog_destroy(n->catalog);
    place_destroy(n->place);
}

/* ---- generations ----------------------------------------------------------------------------- */

/* The outermost one; a list has names of its own. */
static struct plugin *load_stack(struct generation *g, const struct config_list_plugin *list,
                                 struct conf_problems *p)
{
    struct plugin *outermost = NULL;
    struct fn_error e = ERR_INIT;

    place_stack_begin(g->node->place);
    for (uint32_t i = 0; i < list->n; i++) {
        outermost = generation_plugin(g, &list->items[i], p);
        if (outermost && place_stack_add(g->node->place, outermost, &e) < 0) {
            conf_problem(p, "CFG712", list->items[i].where, "%s", e.msg);
        }
    }
    return outermost;
}

static void load_fallback(struct generation *g, struct conf_problems *p)
{
    place_stack_begin(g->node->place); /* it wraps none of the others */
    g->fallback = generation_plugin(g, &g->config->fallback, p);
}

static void load_pool(struct generation *g, struct plugin *running, struct conf_problems *p)
{
    const struct config_plugin *section = &g->config->pool;
    uint32_t told = p->n;

    if (!section->use) {
        return; /* refused already */
    }
    g->keeps_pool = running && config_plugin_same(g->config, g->node->host, section, running, p);
    if (!g->keeps_pool && p->n == told) {
        config_plugin_load(g->config, g->node->host, section, &g->pool, p);
    }
}

/* Out of memory: the old placer goes on, and with it the generation that has it. */
static int use_placer(struct generation *g)
{
    int r = place_set_placer(g->node->place, g->placer, generation_unref, g);

    if (place_uses(g->node->place, g->placer)) {
        g->refs++;
    }
    if (r == 0 && g->fallback) {
        r = place_set_fallback(g->node->place, g->fallback, generation_unref, g);
        g->refs += r == 0;
    }
    return r;
}

/* The same: the old shadow goes on. */
static void use_shadow(struct generation *g)
{
    struct place *p = g->node->place;

    if (place_set_shadow(p, g->shadow, g->config->place->shadow_permille,
                         g->shadow ? generation_unref : NULL, g) < 0) {
        log_error("out of memory: no shadow placer");
    } else if (g->shadow) {
        g->refs++;
    }
}

/* The first pool is counted here, and lb_serve() starts it. */
static int take_pool(struct generation *g, struct generation *old, struct fn_error *reterr)
{
    int r;

    if (!old) {
        g->refs++;
        return 0;
    }
    if (!g->keeps_pool) {
        r = place_switch_pool(g->node->place, g->pool, generation_unref, old, reterr);
        g->refs += r == 0;
        return r;
    }
    g->pool = old->pool;
    old->pool = NULL;
    g->refs++;
    generation_unref(old);
    return 0;
}

static int lb_take(struct generation *g, struct generation *old, struct fn_error *reterr)
{
    int r = catalog_admit(g->node->catalog, g->catalog, reterr);

    if (r < 0) {
        return r;
    }
    r = take_pool(g, old, reterr);
    if (r < 0) {
        catalog_dismiss(g->node->catalog, g->catalog);
    }
    return r;
}

static int lb_use(struct generation *g)
{
    int r;

    catalog_replace(g->node->catalog, g->catalog);
    g->catalog = NULL;
    r = use_placer(g);
    use_shadow(g);
    return r;
}

static void lb_load(struct generation *g, struct plugin *running, struct conf_problems *p)
{
    struct fn_error e = ERR_INIT;

    g->placer = load_stack(g, &g->config->placers, p);
    g->shadow = load_stack(g, &g->config->shadow, p);
    load_fallback(g, p);
    load_pool(g, running, p);
    if (load_functions(g->node, g->config, &g->catalog, &e) < 0) {
        conf_problem(p, "CFG703", NULL, "%s", e.msg);
    }
}

static void lb_set_chain(struct node *n, struct chain *chain)
{
    lb_set_plugins(n->lb, chain);
}

/* ---- what operators see ---------------------------------------------------------------------- */

static json_t *lb_status(const struct node *n)
{
    struct lb_counts c;
    struct place_counts p;

    lb_count(n->lb, &c);
    place_count(n->place, &p);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
                     "received", (json_int_t)c.received, "ok", (json_int_t)c.ok,
                     "failed", (json_int_t)c.failed,
                     "not_executed", (json_int_t)c.not_executed,
                     "unknown", (json_int_t)c.unknown, "aborted", (json_int_t)c.aborted,
                     "in_flight", c.in_flight, "waiting", p.waiting, "trying", p.trying,
                     "groups", p.groups, "runners", p.runners, "runners_up", p.runners_up,
                     "groups_stale", p.groups_stale);
}

/* Known functions are served from the catalogue while the API node is away, and all load balancers
 * would turn red at once: it is no reason. Neither are groups without a runner as long as another
 * one's is connected; or, when nobody has one, as long as the pool can tell of new ones. */
static const char *lb_unready(const struct node *n, char *text, size_t cap)
{
    struct place_counts c;

    place_count(n->place, &c);
    if (c.runners > 0 && c.runners_up == 0) {
        snprintf(text, cap, "no runner is connected, of %u that the pool lists", c.runners);
        return text;
    }
    if (c.runners == 0 && c.groups_empty == 0 && c.groups_stale > 0) {
        snprintf(text, cap, "the pool cannot tell which runners there are");
        return text;
    }
    return NULL;
}

static void on_why(void *ud, struct admin_request *rq)
{
    const struct node *n = ud;
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;

    if (lb_why(n->lb, rq->rest, &out, &e) < 0) {
        admin_refuse(rq, e.code == FN_E_NOT_FOUND ? 404 : 500, "%s", e.msg);
    } else {
        admin_answer_json(rq, 200, buf_text(&out));
    }
    buf_finish(&out);
}

static const struct node_route lb_routes[] = {
    { "GET", "/why/", on_why },
    { "GET", "/shadow", node_shadow_status },
    { "POST", "/shadow/swap", node_shadow_swap },
    { "POST", "/shadow/back", node_shadow_swap },
    { NULL, NULL, NULL },
};

const struct node_side node_side_lb = {
    .name = "lb",
    .open = lb_open,
    .serve = lb_serve,
    .apply = lb_apply,
    .drain = lb_drain_calls,
    .close = lb_close,
    .try_open = lb_open,
    .load = lb_load,
    .take = lb_take,
    .use = lb_use,
    .set_chain = lb_set_chain,
    .in_flight = lb_in_flight,
    .cut = lb_cut_calls,
    .cut_ns = LAST_WORDS_NS,
    .serves_clients = true,
    .status = lb_status,
    .unready = lb_unready,
    .routes = lb_routes,
    .lists = node_lb_lists,
    .tables = node_lb_tables,
    .series = node_lb_series,
    .sample = node_lb_sample,
    .elsewhere = { "a ", " places no calls: ask the load balancer that answered the call" },
};
