/* A runner: core/runner with the simulated engine's driver, on a host of its own. */
#include "world.h"

#include "plugins.h"

#include <base/err.h>
#include <conf/opts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_NS  (60 * ENV_S) /* and the time that an engine may still be dead */
#define CPU_MILLI 8000
#define SEEN_MAX  1024 /* more than a world has requests */

static bool file_exists(const char *path)
{
    (void)path;
    return false;
}

/* Short enough that every patience ends within a world. */
static struct runner_options options_of(struct runner_node *r)
{
    struct runner_options o = { 0 };

    opt_defaults(&runner_opt_table, &o);
    runner_options_fix(&o);
    o.owner = r->n.name;
    o.instance = r->instance;
    o.engine_timeout_ns = 3 * ENV_S;
    o.start_timeout_ns = 2 * ENV_S;
    o.freeze_timeout_ns = ENV_S;
    o.start_wait_ns = 6 * ENV_S;
    o.seen_max = SEEN_MAX;
    o.user_logs = 0;
    o.container_stats = 0;
    o.detached = r->n.w->plan->detached;
    return o;
}

static void open_driver(struct runner_node *r)
{
    struct fn_error e = ERR_INIT;

    r->host = plugin_host_create(r->n.env);
    plugin_host_budget(r->host, 0);
    r->hub = driver_hub_create(r->n.env, r->host);
    must_be(plugins_create_own(r->host, &engine_driver, r, &r->driver, &e), &e);
    must_be(driver_hub_add(r->hub, r->driver, &e), &e);
}

/* ---- its end ------------------------------------------------------------------------------- */

/* The process is gone. */
static void leave(struct runner_node *r)
{
    r->n.dead = true;
    if (r->n.w->runners[r->index] == r) {
        r->n.w->runners[r->index] = NULL;
    }
    net_lose_runner(r->n.w->net, r);
    ask_net_lose_runner(r);
}

static bool is_over(const struct node *n)
{
    const struct runner_node *r = (const struct runner_node *)(const void *)n;

    return r->drained && r->calm;
}

static void maybe_leave(struct runner_node *r)
{
    if (is_over(&r->n) && r->leaving && !r->n.dead) {
        leave(r);
    }
}

static void on_calm(void *ud)
{
    struct runner_node *r = ud;

    r->calm = true;
    env_timer_clear(r->n.env, &r->late);
    maybe_leave(r);
}

/* Its node's drain_timeout is over: who has not read his answers by then does not get them. */
static void on_late(struct env_timer *t)
{
    on_calm(container_of(t, struct runner_node, late));
}

static void on_drained(void *ud, bool clean)
{
    struct runner_node *r = ud;

    r->drained = true;
    r->clean = clean;
    tell(&r->n, "is drained");
    maybe_leave(r);
}

void runner_node_drain(struct runner_node *r)
{
    int64_t now_ns = env_now_ns(r->n.env), heal_ns = r->n.w->heal_ns;
    int64_t end_ns = (now_ns > heal_ns ? now_ns : heal_ns) + DRAIN_NS;

    if (!r->draining) {
        r->draining = true;
        world_at(&r->n, &r->late, end_ns);
        net_drain_runner(r->n.w->net, r, on_calm, r);
        runner_drain(r->r, end_ns, on_drained, r);
    }
}

void runner_node_kill(struct runner_node *r)
{
    if (!r->n.dead) {
        tell(&r->n, "is killed");
        leave(r);
        runner_node_drain(r);
    }
}

static void check_counts(struct runner_node *r)
{
    struct books *b = r->n.w->books;
    struct runner_counts n;

    runner_count(r->r, &n);
    books_equal(b, BOOKS_COUNTS_RUNNER, "received", n.received, r->tried);
    books_equal(b, BOOKS_COUNTS_RUNNER, "outcomes in all",
                n.ok + n.failed + n.not_executed + n.unknown + n.aborted, n.received);
    books_equal(b, BOOKS_COUNTS_RUNNER, "ok", n.ok, r->told_ok);
    books_equal(b, BOOKS_NOTHING_LEFT, "calls of a drained runner",
                n.in_flight + n.active + n.waiting + n.running, 0);
    books_equal(b, BOOKS_NOTHING_LEFT, "memory of a drained runner", n.used.mem_bytes, 0);
    books_equal(b, BOOKS_NOTHING_LEFT, "queues of a drained runner", n.queues + n.containers, 0);
    books_equal(b, BOOKS_NOTHING_LEFT, "sessions of a drained runner", r->sessions, 0);
    books_equal(b, BOOKS_NOTHING_LEFT, "a drain that was clean", r->clean, 1);
}

static void destroy(struct node *n)
{
    struct runner_node *r = container_of(n, struct runner_node, n);
    struct world *w = r->n.w;

    if (!books_broken(w->books)) {
        check_counts(r);
        engine_check_empty(w->engines[r->index], r);
    }
    ask_net_lose_runner(r);
    runner_destroy(r->r);
    plugin_destroy(r->driver);
    driver_hub_destroy(r->hub);
    plugin_host_destroy(r->host);
    net_forget(w->net, &r->n);
    free(r->sockets);
    if (!books_broken(w->books) && sim_due_ns(r->n.sim) != INT64_MAX) {
        books_break(w->books, BOOKS_NOTHING_LEFT, 0, "%s left a timer", r->n.name);
    }
    node_finish(&r->n);
    free(r);
}

static void on_kill(struct env_timer *t)
{
    runner_node_kill(container_of(t, struct runner_node, kill));
}

static void on_drain(struct env_timer *t)
{
    runner_node_drain(container_of(t, struct runner_node, drain));
}

struct runner_node *runner_node_create(struct world *w, uint32_t index)
{
    struct runner_node *r = sim_alloc(sizeof(*r));
    struct runner_deps deps = { .file_exists = file_exists };
    struct fn_error e = ERR_INIT;
    unsigned char ip[4] = { 10, 0, 1, (unsigned char)index };

    node_init(&r->n, w, "runner", index);
    r->n.is_runner = true;
    r->n.over = is_over;
    r->n.destroy = destroy;
    r->index = index;
    r->kill.cb = on_kill;
    r->drain.cb = on_drain;
    r->late.cb = on_late;
    snprintf(r->instance, sizeof(r->instance), "%032x", r->n.life);
    id_maker_init(&r->ids, ip, (uint16_t)(9190 + r->n.life));
    r->sockets = engine_sockets_create(r);
    open_driver(r);
    deps.env = r->n.env;
    deps.fnsock = r->sockets;
    deps.hub = r->hub;
    deps.driver = r->driver;
    deps.ids = &r->ids;
    deps.totals = (struct account_totals){ .mem_bytes = w->plan->runner_mem_mb * ACCOUNT_MIB,
                                           .cpu_milli = CPU_MILLI };
    deps.options = options_of(r);
    must_be(runner_create(&deps, &r->r, &e), &e);
    must_be(runner_attach(r->r, net_server_table(), &r->cb, &r->cb_ud, &e), &e);
    runner_start(r->r);
    w->runners[index] = r;
    net_serve(w->net, r);
    return r;
}
