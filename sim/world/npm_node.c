/* The node pool manager: core/npm with its control plane and core/poolserver's wire service, on a
 * host of its own. Runners are asked by core/poolserver's asker. */
#include "world.h"

#include "npm_watch.h"
#include "plugins.h"

#include <base/err.h>
#include <poolserver/asker.h>
#include <poolserver/service.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct npm_node {
    struct node n; /* first */
    struct plugin_host *host;
    struct plugin *cplane;
    struct npm_manager *m;
    struct npm_service *service;
    struct rpc *rpc;
    struct asker asker;
    struct npm_watch watch;
    struct env_timer kill, drain;
    bool stopping, stopped;
};

struct node *npm_node_base(struct npm_node *m)
{
    return &m->n;
}

const struct rpc_service *npm_node_service(const struct npm_node *m)
{
    return npm_service_table(m->service);
}

/* ---- questions ----------------------------------------------------------------------------- */

static void told(void *ud, uint64_t ticket, const struct npm_event *answer)
{
    struct npm_node *m = ud;

    npm_watch_told(&m->watch, ticket, answer);
    npm_manager_reported(m->m, ticket, answer);
    npm_watch_look(&m->watch, npm_manager_group(m->m, FN_GROUP_DEFAULT));
}

static int ask(void *ud, const char *address, uint64_t ticket)
{
    struct npm_node *m = ud;
    int r = asker_ask(&m->asker, address, ticket);

    if (r == 0) {
        npm_watch_asked(&m->watch, npm_manager_group(m->m, FN_GROUP_DEFAULT), address, ticket);
    }
    return r;
}

/* ---- the manager --------------------------------------------------------------------------- */

static void published(void *ud, const char *group)
{
    struct npm_node *m = ud;

    tell(&m->n, "publishes the members");
    npm_watch_look(&m->watch, npm_manager_group(m->m, group));
    npm_service_published(m->service, group);
}

static void wishes_changed(void *ud)
{
    (void)ud; /* nobody commands it */
}

/* Short enough that a pool grows, shrinks and recovers within a world. */
static struct npm_options options_of(const struct world *w)
{
    struct npm_options o = NPM_OPTIONS_INIT;

    o.runners_max = w->plan->runners;
    o.runner_mb = w->plan->runner_mem_mb;
    o.cooldown_ns = POOL_COOLDOWN_NS;
    o.settle_ns = 5 * ENV_S;
    o.loss_brake_ns = 10 * ENV_S;
    o.request_life_ns = 60 * ENV_S;
    o.boot_max_ns = NPM_WATCH_SILENT_NS;
    o.silent_max_ns = NPM_WATCH_SILENT_NS;
    o.status_idle_ns = 5 * ENV_S;
    o.backoff_max_ns = 4 * ENV_S;
    o.stillborn_backoff_max_ns = 4 * ENV_S;
    return o;
}

static void open_manager(struct npm_node *m)
{
    static const char *groups[] = { FN_GROUP_DEFAULT };
    struct npm_deps deps = {
        .env = m->n.env,
        .cplane = m->cplane,
        .ask = ask,
        .published = published,
        .wishes_changed = wishes_changed,
        .ud = m,
        .options = options_of(m->n.w),
        .settings = { .groups = { .items = groups, .n = 1 },
                      .runners_max = 1000,
                      .cplane_timeout_ns = 6 * ENV_S },
    };
    struct fn_error e = ERR_INIT;

    must_be(npm_manager_create(&deps, &m->m, &e), &e);
    must_be(npm_service_create(m->n.env, m->m, &m->service, &e), &e);
}

void npm_node_look(struct npm_node *m)
{
    npm_watch_look(&m->watch, npm_manager_group(m->m, FN_GROUP_DEFAULT));
}

uint32_t npm_node_members(const struct npm_node *m)
{
    const struct npm_group *g = npm_manager_group(m->m, FN_GROUP_DEFAULT);
    uint32_t n = 0;

    for (uint32_t i = 0; i < npm_host_count(g); i++) {
        n += npm_is_listed(npm_host_at(g, i));
    }
    return n;
}

/* ---- its end ------------------------------------------------------------------------------- */

static void on_stopped(void *ud)
{
    struct npm_node *m = ud;

    m->stopped = true;
}

static void npm_node_stop(struct npm_node *m)
{
    if (!m->stopping) {
        m->stopping = true;
        npm_service_close(m->service);
        npm_manager_stop(m->m, on_stopped, m);
    }
}

static void on_drain(struct env_timer *t)
{
    npm_node_stop(container_of(t, struct npm_node, drain));
}

static void on_kill(struct env_timer *t)
{
    struct npm_node *m = container_of(t, struct npm_node, kill);

    if (!m->n.dead) {
        tell(&m->n, "is killed");
        m->n.dead = true;
        if (m->n.w->npm == m) {
            m->n.w->npm = NULL;
        }
        pool_net_lose(m);
        ask_net_lose_npm(m->rpc);
        npm_node_stop(m);
    }
}

void npm_node_kill(struct npm_node *m)
{
    m->n.frozen_until_ns = m->n.w->now_ns;
    world_at(&m->n, &m->kill, m->n.w->now_ns);
}

void npm_node_drain(struct npm_node *m)
{
    world_at(&m->n, &m->drain, m->n.w->now_ns);
}

static bool is_over(const struct node *n)
{
    return ((const struct npm_node *)(const void *)n)->stopped;
}

static void destroy(struct node *n)
{
    struct npm_node *m = container_of(n, struct npm_node, n);
    struct world *w = n->w;

    asker_stop(&m->asker);
    npm_watch_finish(&m->watch);
    pool_net_lose(m);
    npm_service_destroy(m->service);
    npm_manager_destroy(m->m);
    plugin_destroy(m->cplane);
    plugin_host_destroy(m->host);
    pool_net_close(m->rpc);
    net_forget(w->net, n);
    asker_finish(&m->asker);
    if (!books_broken(w->books) && sim_due_ns(n->sim) != INT64_MAX) {
        books_break(w->books, BOOKS_NOTHING_LEFT, 0, "%s left a timer", n->name);
    }
    node_finish(n);
    free(m);
}

void npm_node_create(struct world *w)
{
    struct npm_node *m = sim_alloc(sizeof(*m));
    struct fn_error e = ERR_INIT;

    node_init(&m->n, w, "npm", 0);
    m->n.over = is_over;
    m->n.destroy = destroy;
    m->kill.cb = on_kill;
    m->drain.cb = on_drain;
    m->host = plugin_host_create(m->n.env);
    plugin_host_budget(m->host, 0);
    must_be(plugins_create_own(m->host, &cloud_cplane, &m->n, &m->cplane, &e), &e);
    m->rpc = pool_net_open(m);
    asker_init(&m->asker, m->n.env, m->rpc, told, m);
    npm_watch_init(&m->watch, &m->n);
    open_manager(m);
    w->npm = m;
    pool_net_serve(m);
}
