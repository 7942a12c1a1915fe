/* The node pool manager side of a node: control plane, manager, its service. */
#include <node/node.h>
#include <node/rights.h>

#include <base/log.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPLANE_THREADS_MAX 64u
#define OTHER_THREADS      4u
#define CPLANE_FAILURES    3 /* in a row; one or two are a hiccup */

/* ---- what the manager asks for --------------------------------------------------------------- */

static void on_told(void *ud, uint64_t ticket, const struct npm_event *answer)
{
    npm_manager_reported(((struct node *)ud)->npm, ticket, answer);
}

static int ask_runner(void *ud, const char *address, uint64_t ticket)
{
    return asker_ask(&((struct node *)ud)->asker, address, ticket);
}

static void on_published(void *ud, const char *group)
{
    npm_service_published(((struct node *)ud)->npm_service, group);
}

static void on_wishes_changed(void *ud)
{
    npm_keep_changed(((struct node *)ud)->npm_keep);
}

/* ---- admin socket ---------------------------------------------------------------------------- */

static json_t *host_json(const struct npm_group *g, const char *group, const struct npm_host *h,
                         int64_t now_ns)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:I, s:b, s:b, s:I, s:o*, s:s*, s:s*, s:o*, s:o*}", "group",
        group, "id", h->id, "address", h->address, "state", npm_state_names[h->state], "active",
        (int)h->active, "capacity_mb", (json_int_t)h->capacity_mb, "operator_drain",
        h->wish == NPM_WISH_DRAIN, "empty", npm_is_empty(g, h), "since_s",
        (json_int_t)((now_ns - h->since_ns) / ENV_S), "labels",
        json_string(h->labels_1 != 0 ? npm_labels(g, h) : NULL), "wish",
        h->wish != NPM_WISH_NONE ? npm_wish_names[h->wish] : NULL, "why",
        h->state == NPM_DRAINING ? npm_reason_texts[h->reason] : NULL, "fault",
        json_string(h->fault[0] ? h->fault : NULL), "silent_s",
        h->silent_ns != 0 ? json_integer((now_ns - h->silent_ns) / ENV_S) : NULL);
}

/* Seconds since, or until; -1: never. */
static json_int_t seconds(int64_t from_ns, int64_t to_ns)
{
    return from_ns == 0 ? -1 : to_ns > from_ns ? (to_ns - from_ns) / ENV_S : 0;
}

static json_t *group_json(const struct node *n, const char *name, const struct npm_group *g)
{
    int64_t now_ns = env_now_ns(n->env);
    char says[NPM_EXPLAIN_MAX];
    struct npm_figures f;

    npm_figures(g, &f);
    npm_explain(g, now_ns, says, sizeof(says));
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:b, s:b, s:i, s:s, s:s, s:b, "
                     "s:I, s:I, s:I, s:I, s:I, s:I}",
                     "name", name, "version", (json_int_t)f.version, "wanted_mb",
                     (json_int_t)f.wanted_mb, "desired_mb", (json_int_t)f.desired_mb, "waiting",
                     (json_int_t)f.waiting, "asked", (int)f.asked_n, "lbs", (int)f.lbs_n,
                     "lbs_twice", (int)f.lbs_twice, "cplane_failures", (int)f.cplane_failures,
                     "settled", f.settled, "at_max", f.at_max, "stillborn", (int)f.stillborn,
                     "says", says, "cplane_error", npm_manager_cplane_error(n->npm, name),
                     "standby", f.standby, "active_mb", (json_int_t)f.state_mb[NPM_ACTIVE],
                     "asked_for_s", seconds(f.asked_since_ns, now_ns), "listed_s",
                     seconds(f.listed_ns, now_ns), "stillborn_pause_s",
                     seconds(now_ns, f.stillborn_until_ns), "provision_pause_s",
                     seconds(now_ns, f.provision_until_ns), "list_pause_s",
                     seconds(now_ns, f.list_until_ns));
}

static void on_runners(void *ud, struct admin_request *rq)
{
    struct node *n = ud;
    json_t *runners = json_array();
    json_t *groups = json_array();

    for (uint32_t i = 0; i < npm_manager_count(n->npm); i++) {
        const char *name = npm_manager_name_at(n->npm, i);
        const struct npm_group *g = npm_manager_group(n->npm, name);

        json_array_append_new(groups, group_json(n, name, g));
        for (uint32_t k = 0; k < npm_host_count(g); k++) {
            json_array_append_new(runners,
                                  host_json(g, name, npm_host_at(g, k), env_now_ns(n->env)));
        }
    }
    admin_answer(rq, 200,
                 json_pack("{s:o, s:o, s:s, s:b}", "groups", groups, "runners", runners,
                           "wishes_error", npm_keep_error(n->npm_keep), "wishes_writing",
                           npm_keep_is_writing(n->npm_keep)));
}

/* What an operator wishes of the runner that the rest of the path names. */
static const struct {
    const char *path;
    enum npm_event_kind order;
} orders[] = {
    { "/runners/drain/", NPM_DRAIN },     { "/runners/undrain/", NPM_UNDRAIN },
    { "/runners/replace/", NPM_REPLACE }, { "/runners/remove/", NPM_RETIRE },
    { "/runners/end/", NPM_END },
};

/* Its path begins with one of those above, as all routes to here do. */
static void on_order(void *ud, struct admin_request *rq)
{
    struct node *n = ud;
    struct fn_error e = ERR_INIT;
    uint32_t i = 0;

    while (strncmp(rq->path, orders[i].path, strlen(orders[i].path)) != 0) {
        i++;
    }
    if (npm_manager_order(n->npm, rq->rest, orders[i].order, &e) < 0) {
        admin_refuse(rq, e.code == FN_E_NOT_FOUND ? 404 : 409, "%s", e.msg);
    } else {
        admin_answer_json(rq, 200, "{}");
    }
}

/* Where no file is set. */
static void npm_with_admin(struct node *n)
{
    char path[ADMIN_PATH_MAX + 16];

    if (!n->npm_keep) {
        snprintf(path, sizeof(path), "%s.runners", n->admin_path);
        n->npm_keep = npm_keep_open(n->env, npm_manager_wishes(n->npm), path);
    }
}

static const struct node_route npm_routes[] = {
    { "GET", "/runners", on_runners },
    { "POST", "/runners/drain/", on_order },
    { "POST", "/runners/undrain/", on_order },
    { "POST", "/runners/replace/", on_order },
    { "POST", "/runners/remove/", on_order },
    { "POST", "/runners/end/", on_order },
    { NULL, NULL, NULL },
};

/* One that refuses more machines (a cloud's quota) answers, and the runners that there are do well
 * with it. */
static const char *npm_unready(const struct node *n, char *text, size_t cap)
{
    for (uint32_t i = 0; i < npm_manager_count(n->npm); i++) {
        const char *name = npm_manager_name_at(n->npm, i);
        struct npm_figures f;

        npm_figures(npm_manager_group(n->npm, name), &f);
        if (f.cplane_away >= CPLANE_FAILURES) {
            snprintf(text, cap, "the control plane fails: %u calls for group %.64s in a row",
                     f.cplane_away, name);
            return text;
        }
    }
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* One for each group, whose calls may hang for cplane_timeout, and some for everybody else:
 * reloads, the end of an old configuration. */
static uint32_t cplane_threads(const struct npm_settings *c)
{
    uint32_t groups = (uint32_t)c->groups.n;

    return OTHER_THREADS + (groups < CPLANE_THREADS_MAX ? groups : CPLANE_THREADS_MAX);
}

static int npm_open(struct node *n, struct fn_error *reterr)
{
    const struct npm_settings *c = n->config->npm;
    struct npm_deps deps = { .env = n->env,
                             .ask = ask_runner,
                             .published = on_published,
                             .wishes_changed = on_wishes_changed,
                             .ud = n,
                             .options = *n->config->npm_groups,
                             .settings = *c };
    int r = node_plugin(n, &n->config->cplane, &deps.cplane, reterr);

    r = r < 0 ? r : node_plugin(n, &n->config->predictor, &deps.predictor, reterr);
    if (r < 0) {
        return r;
    }
    if (strcmp(n->config->cplane.where, "default") == 0) {
        log_warn("no control plane is configured: runners are processes of this machine",
                 "missing", "plugins.control_plane", "used", n->config->cplane.use);
    }
    if (loop_set_threads(n->loop, ENV_LANE_CONTROL, cplane_threads(c)) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory for the control plane's threads");
    }
    asker_init(&n->asker, n->env, n->rpc, on_told, n);
    r = npm_manager_create(&deps, &n->npm, reterr);
    if (r == 0 && c->wishes_file) { /* the operator's page wishes, too, also without a socket */
        n->npm_keep = npm_keep_open(n->env, npm_manager_wishes(n->npm), c->wishes_file);
    }
    return r < 0 ? r : npm_service_create(n->env, n->npm, &n->npm_service, reterr);
}

static void npm_apply(struct node *n)
{
    npm_manager_set_options(n->npm, n->config->npm_groups, n->config->npm);
}

static int npm_serve(struct node *n, struct fn_error *reterr)
{
    int r = rpc_server_open(n->rpc, n->config->grpc->listen, NULL, NULL, &n->rpc_server, reterr);

    if (r == 0) {
        rpc_server_serve(n->rpc_server, npm_service_table(n->npm_service));
    }
    return r;
}

static void on_manager_stopped(void *ud)
{
    struct node *n = ud;

    npm_keep_stop(n->npm_keep, n->drained, n->drained_ud);
}

static void npm_drain(struct node *n, void (*done)(void *ud), void *ud)
{
    n->drained = done;
    n->drained_ud = ud;
    npm_service_close(n->npm_service);
    npm_manager_stop(n->npm, on_manager_stopped, n);
}

static void npm_close(struct node *n)
{
    npm_keep_close(n->npm_keep);
    asker_stop(&n->asker);
    npm_manager_destroy(n->npm);
    npm_service_destroy(n->npm_service);
}

static void npm_try_plugins(struct node *n)
{
    struct fn_error e = ERR_INIT;
    struct plugin *made;

    node_plugin(n, &n->config->cplane, &made, &e);
    node_plugin(n, &n->config->predictor, &made, &e);
}

static void npm_rights(const struct config *c, struct harden_plan *p)
{
    rights_add_cplane(p, &c->cplane);
}

static const char *npm_keeps(const struct config *c)
{
    return c->npm->wishes_file;
}

const struct node_side node_side_npm = {
    .name = "npm",
    .open = npm_open,
    .serve = npm_serve,
    .apply = npm_apply,
    .drain = npm_drain,
    .close = npm_close,
    .try_plugins = npm_try_plugins,
    .exposed = "gRPC is in plain text: whoever reaches it may size the pool and learn its runners; "
               "expected grpc.tls, a firewall or a listen address of a trusted network",
    .unready = npm_unready,
    .routes = npm_routes,
    .lists = node_npm_lists,
    .tables = node_npm_tables,
    .series = node_npm_series,
    .sample = node_npm_sample,
    .elsewhere = { "this node is of type ",
                   ", and a node pool manager has the list of runners: fnd runners --config "
                   "<the manager's fn.yaml>" },
    .with_admin = npm_with_admin,
    .rights = npm_rights,
    .keeps = npm_keeps,
};
