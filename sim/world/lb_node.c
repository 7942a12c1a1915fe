/* A load balancer: core/lb with its catalogue, core/place, a placer, pool-static or pool-npm, all
 * real, on its own host. */
#include "api_node.h"
#include "front.h"
#include "plugins.h"

#include <base/buf.h>
#include <base/err.h>
#include <lb/follow.h>
#include <lb/lookups.h>
#include <override/override.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_TTL_NS  (20 * ENV_S) /* so long that news make the difference */
#define HEADROOM_NS (15 * ENV_S) /* above the runner's start_wait */

static void add_functions(struct lb_node *l)
{
    const struct plan *p = l->n.w->plan;
    struct fn_error e = ERR_INIT;

    for (uint32_t i = 0; i < p->functions; i++) {
        const struct plan_function *f = &p->function[i];
        char fn_id[16], app_id[16], image[32];
        struct app app = { .id = app_id, .name = app_id };
        struct fn_def fn = { .id = fn_id,
                             .image = image,
                             .mem_mb = f->mem_mb,
                             .timeout_s = f->timeout_s,
                             .idle_timeout_s = f->idle_timeout_s };

        snprintf(fn_id, sizeof(fn_id), "fn-%u", i);
        snprintf(app_id, sizeof(app_id), "app-%u", f->app);
        snprintf(image, sizeof(image), "sim/function%u:1", i);
        must_be(catalog_add(l->catalog, &app, &fn, NULL, &e), &e);
    }
}

/* ---- functions of an API node ---------------------------------------------------------------- */

static int ask_api(void *impl, const char *path_and_query,
                   void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                              const struct fn_error *err),
                   void *ud)
{
    struct lb_node *l = impl;
    const struct api_net_request rq = { "GET", path_and_query, "", API_NET_TIMEOUT_NS };

    if (scarce_hits((const void *)(uintptr_t)ask_api)) {
        return FN_E_EXHAUSTED;
    }
    api_net_ask(&l->n, l->index, &rq, cb, ud);
    return 0;
}

static void open_catalog(struct lb_node *l)
{
    struct catalog_options options = { .ttl_ns = l->n.w->plan->api ? API_TTL_NS : 5 * ENV_S,
                                       .stale_ns = 60 * ENV_S };
    struct fn_error e = ERR_INIT;

    l->source = (struct catalog_source){ ask_api, l };
    must_be(catalog_create(l->n.env, &options, l->n.w->plan->api ? &l->source : NULL, &l->catalog,
                           &e),
            &e);
    if (!l->n.w->plan->api) {
        add_functions(l);
        return;
    }
    memset(l->n.w->a.known[l->index], 0, sizeof(l->n.w->a.known[0]));
    must_be(follow_create(l->n.env, l->catalog, &l->follow, &e), &e);
    follow_set_source(l->follow, &l->source, API_NET_TIMEOUT_NS);
}

static void close_catalog(struct lb_node *l)
{
    if (l->follow) {
        api_net_close(&l->n);
    }
    follow_destroy(l->follow);
    catalog_destroy(l->catalog);
}

static struct plugin *make_plugin(struct lb_node *l, const char *kind, const char *name,
                                  const struct conf_override *set)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    must_be(plugins_create(l->host, kind, name, set, &p, &e), &e);
    return p;
}

static struct plugin *make_managed_pool(struct lb_node *l)
{
    static const struct conf_override set[] = { { "address", "the world", "10.0.3.1:9191" },
                                                { NULL, NULL, NULL } };

    return make_plugin(l, FN_KIND_POOL, "npm", set);
}

/* Of a list: those whose bit is set, at least one. */
static struct plugin *make_pool(struct lb_node *l, uint64_t runners)
{
    struct conf_override list[2] = { { "runners", "the world", NULL }, { NULL, NULL, NULL } };
    struct buf text = BUF_INIT(0);
    struct plugin *pool;

    if (l->pool_client) {
        return make_managed_pool(l);
    }
    for (uint32_t i = 0; i < l->n.w->plan->runners; i++) {
        if (runners >> i & 1) {
            buf_printf(&text, "%s10.0.1.%u:9190", text.len ? "," : "", i);
        }
    }
    list[0].text = buf_text(&text);
    pool = make_plugin(l, FN_KIND_POOL, "static", list);
    buf_finish(&text);
    return pool;
}

static void use_placer(struct lb_node *l, const char *name)
{
    struct plugin *placer = make_plugin(l, FN_KIND_PLACER, name, NULL);
    struct fn_error e = ERR_INIT;

    place_stack_begin(l->place);
    must_be(place_stack_add(l->place, placer, &e), &e);
    must_be(place_set_placer(l->place, placer, lent_back, lent_add(l, placer, false)), &e);
}

static void open_plugins(struct lb_node *l)
{
    struct fn_error e = ERR_INIT;

    struct plugin *pool = make_pool(l, UINT64_MAX);

    use_placer(l, l->n.w->plan->placer);
    l->pool = lent_add(l, pool, true);
    must_be(place_start(l->place, pool, &e), &e);
}

static void open_place(struct lb_node *l)
{
    struct place_deps deps = { .env = l->n.env,
                               .host = l->host,
                               .client = l->client,
                               .options = { .retry_min_ns = 10 * ENV_MS,
                                            .retry_max_ns = ENV_S,
                                            .waiting_max = 20000,
                                            .pool_grace_ns = 10 * ENV_S } };
    struct fn_error e = ERR_INIT;

    must_be(place_create(&deps, &l->place, &e), &e);
}

static struct lb_options options_of(const struct lb_node *l)
{
    const struct plan *p = l->n.w->plan;

    return (struct lb_options){ .placement_timeout_ns = p->placement_timeout_ns,
                                .detached_placement_timeout_ns = p->placement_timeout_ns,
                                .execution_headroom_ns = HEADROOM_NS,
                                .response_buffer_bytes = p->response_buffer_bytes,
                                .detached = p->detached,
                                .why_calls = 8 };
}

static void open_lb(struct lb_node *l)
{
    struct lb_deps deps = { .env = l->n.env,
                            .place = l->place,
                            .client = l->client,
                            .catalog = l->catalog,
                            .ids = &l->ids,
                            .options = options_of(l) };
    struct fn_error e = ERR_INIT;

    must_be(lb_create(&deps, &l->lb, &e), &e);
}

/* ---- reloads ------------------------------------------------------------------------------- */

static uint32_t count_placers(void)
{
    uint32_t n = 0;

    while (plan_placer(n)) {
        n++;
    }
    return n;
}

static void use_pool(struct lb_node *l, struct plugin *pool)
{
    struct lent *old = l->pool;
    struct fn_error e = ERR_INIT;

    l->pool = lent_add(l, pool, true);
    must_be(place_switch_pool(l->place, pool, lent_back, old, &e), &e);
}

/* Another placer, another list of runners, other limits, while calls run. */
static void on_reload(struct env_timer *t)
{
    struct lb_node *l = container_of(t, struct lb_node, reload);
    uint64_t chance = l->reload_chance, all = (1u << l->n.w->plan->runners) - 1;
    struct lb_options o = options_of(l);

    if (l->draining) {
        return;
    }
    sim_outside_begin(); /* what a reload makes is another test's */
    use_placer(l, chance ? plan_placer((uint32_t)(chance % count_placers()))
                         : l->n.w->plan->placer);
    use_pool(l, make_pool(l, chance ? 1 + (chance >> 8) % all : all));
    o.response_buffer_bytes = chance >> 40 & 1 ? 100 : o.response_buffer_bytes;
    o.why_calls = chance >> 41 & 1 ? 0 : 8;
    lb_set_options(l->lb, &o);
    rules_use(l);
    sim_outside_end();
    tell(&l->n, "has reloaded");
}

void lb_node_reload(struct lb_node *l, uint64_t chance)
{
    l->reload_chance = chance;
    world_at(&l->n, &l->reload, l->n.w->now_ns);
}

/* ---- its end ------------------------------------------------------------------------------- */

/* The process is gone. */
static void leave(struct lb_node *l)
{
    l->n.dead = true;
    if (l->n.w->lbs[l->index] == l) {
        l->n.w->lbs[l->index] = NULL;
    }
    net_lose_lb(l->n.w->net, l);
}

static bool is_over(const struct node *n)
{
    const struct lb_node *l = (const struct lb_node *)(const void *)n;

    return l->drained && l->stopped && front_is_empty(l);
}

void lb_node_maybe_leave(struct lb_node *l)
{
    if (is_over(&l->n) && l->leaving && !l->n.dead) {
        leave(l);
    }
}

static void on_stopped(void *ud)
{
    struct lb_node *l = ud;

    l->stopped = true;
    tell(&l->n, "is drained");
    lb_node_maybe_leave(l);
}

static void on_drained(void *ud)
{
    struct lb_node *l = ud;

    l->drained = true;
    place_stop(l->place, on_stopped, l);
}

void lb_node_drain_calls(struct lb_node *l)
{
    lb_drain(l->lb, on_drained, l);
}

void lb_node_drain(struct lb_node *l)
{
    if (!l->draining) {
        l->draining = true;
        if (l->follow) {
            follow_set_source(l->follow, NULL, 0);
        }
        front_drain(l);
    }
}

void lb_node_kill(struct lb_node *l)
{
    if (!l->n.dead) {
        tell(&l->n, "is killed");
        clients_lose(l->clients);
        leave(l);
        lb_node_drain(l);
    }
}

static void check_place(struct lb_node *l)
{
    struct books *b = l->n.w->books;
    struct place_counts n;

    place_count(l->place, &n);
    books_equal(b, BOOKS_NOTHING_LEFT, "calls that wait in a drained load balancer", n.waiting, 0);
    books_equal(b, BOOKS_NOTHING_LEFT, "attempts of a drained load balancer", n.trying, 0);
}

static void destroy(struct node *n)
{
    struct lb_node *l = container_of(n, struct lb_node, n);
    struct world *w = l->n.w;

    if (!books_broken(w->books)) {
        check_place(l);
        front_check_counts(l);
    }
    front_close(l);
    lb_destroy(l->lb);
    place_destroy(l->place);
    lent_end(l);
    close_catalog(l);
    pool_client_destroy(l->pool_client);
    plugin_host_destroy(l->host);
    net_forget(w->net, &l->n);
    net_client_destroy(l->client);
    clients_destroy(l->clients);
    if (!books_broken(w->books) && sim_due_ns(l->n.sim) != INT64_MAX) {
        books_break(w->books, BOOKS_NOTHING_LEFT, 0, "%s left a timer", l->n.name);
    }
    node_finish(&l->n);
    free(l);
}

static void on_kill(struct env_timer *t)
{
    lb_node_kill(container_of(t, struct lb_node, kill));
}

static void on_drain(struct env_timer *t)
{
    lb_node_drain(container_of(t, struct lb_node, drain));
}

struct lb_node *lb_node_create(struct world *w, uint32_t index)
{
    struct lb_node *l = sim_alloc(sizeof(*l));
    unsigned char ip[4] = { 10, 0, 0, (unsigned char)index };

    node_init(&l->n, w, "lb", index);
    l->n.over = is_over;
    l->n.destroy = destroy;
    l->index = index;
    l->kill.cb = on_kill;
    l->drain.cb = on_drain;
    l->reload.cb = on_reload;
    id_maker_init(&l->ids, ip, (uint16_t)(8080 + l->n.life));
    l->client = net_client_create(w->net, l);
    l->host = plugin_host_create(l->n.env);
    plugin_host_budget(l->host, 0);
    override_offer(l->host);
    if (w->plan->managed) {
        pool_client_create(l);
    }
    open_catalog(l);
    open_place(l);
    open_plugins(l);
    open_lb(l);
    rules_use(l);
    front_open(l);
    l->clients = clients_create(l);
    w->lbs[index] = l;
    return l;
}
