/* What a node shows on its admin socket. */
#include <node/node.h>

#include <base/log.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static void add_plugins(json_t *list, struct plugin *const *plugins, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct plugin *p = plugins[i];
        const struct fn_factory *f = plugin_factory(p);

        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "kind", f->kind, "name",
                                              plugin_name(p), "use", f->name, "calls",
                                              (json_int_t)plugin_calls(p), "budget_misses",
                                              (json_int_t)plugin_budget_misses(p)));
    }
}

static json_t *plugins_json(const struct node *n)
{
    json_t *list = json_array();

    add_plugins(list, n->plugins, n->n_plugins);
    add_plugins(list, n->gen->plugins, n->gen->n_plugins);
    add_plugins(list, &n->gen->pool, n->gen->pool != NULL);
    return list;
}

static json_t *lb_json(const struct node *n)
{
    struct lb_counts c;
    struct place_counts p;

    lb_count(n->lb, &c);
    place_count(n->place, &p);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i}", "received",
                     (json_int_t)c.received, "ok", (json_int_t)c.ok, "failed", (json_int_t)c.failed,
                     "not_executed", (json_int_t)c.not_executed, "unknown", (json_int_t)c.unknown,
                     "aborted", (json_int_t)c.aborted, "in_flight", c.in_flight, "waiting",
                     p.waiting, "trying", p.trying, "groups", p.groups, "runners", p.runners,
                     "runners_up", p.runners_up);
}

static json_t *runner_json(const struct node *n)
{
    struct runner_counts c;

    runner_count(n->runner, &c);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:b}", "received",
                     (json_int_t)c.received, "ok", (json_int_t)c.ok, "failed", (json_int_t)c.failed,
                     "not_executed", (json_int_t)c.not_executed, "unknown", (json_int_t)c.unknown,
                     "aborted", (json_int_t)c.aborted, "in_flight", (json_int_t)c.in_flight,
                     "waiting", c.waiting, "running", c.running, "containers", c.containers,
                     "engine_up", c.engine_up);
}

/* {s:o} takes the reference, also when packing fails. */
static void on_status(void *ud, struct admin_request *rq)
{
    const struct node *n = ud;
    int64_t up_s = (env_now_ns(n->env) - n->opened_ns) / ENV_S;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:I, s:i, s:I, s:s, s:s, s:s, s:i, s:o}", "node", n->config->top->node,
        "version", FND_VERSION, "state", n->draining ? "draining" : "serving", "generation",
        (json_int_t)n->gen->number, "pid", (int)getpid(), "uptime_s", (json_int_t)up_s, "http",
        n->config->http->listen, "transport", rpc_transport_library(n->rpc), "summary",
        plugin_host_summary(n->host), "port",
        (int)web_port(n->web), "plugins", plugins_json(n));
    char *text;

    if (root) {
        json_object_set_new(root, "config", reload_json(n->reload));
        json_object_set_new(root, "tainted", json_integer(plugin_tainted()));
        json_object_set_new(root, "lost", json_integer(plugin_lost()));
    }
    if (root && n->lb) {
        json_object_set_new(root, "lb", lb_json(n));
    }
    if (root && n->runner) {
        json_object_set_new(root, "runner", runner_json(n));
    }
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    admin_answer_json(rq, 200, text);
    free(text);
    json_decref(root);
}

static void on_why(void *ud, struct admin_request *rq)
{
    const struct node *n = ud;
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;

    if (!n->lb) {
        admin_refuse(rq, 404, "a pure-runner places no calls: ask the load balancer that answered "
                              "the call");
    } else if (lb_why(n->lb, rq->rest, &out, &e) < 0) {
        admin_refuse(rq, e.code == FN_E_NOT_FOUND ? 404 : 500, "%s", e.msg);
    } else {
        admin_answer_json(rq, 200, buf_text(&out));
    }
    buf_finish(&out);
}

int node_admin_open(struct node *n, struct fn_error *reterr)
{
    struct fn_error e = ERR_INIT;
    int r = admin_socket_path(n->config, web_port(n->web), n->admin_path, &e);

    if (r == FN_E_NOT_FOUND) {
        return 0;
    }
    r = r < 0 ? r : admin_create(n->loop, n->admin_path, &n->admin, &e);
    if (r < 0 && (n->config->admin->socket || r == FN_E_UNAVAILABLE)) {
        return err_set(reterr, FN_E_UNAVAILABLE, "%s", e.msg);
    }
    if (r < 0) {
        log_warn("no admin socket: set admin.socket to a path in a folder of this user, or to off",
                 "error", e.msg);
        return 0;
    }
    admin_route(n->admin, "GET", "/status", on_status, n);
    admin_route(n->admin, "GET", "/why/", on_why, n);
    node_shadow_routes(n);
    reload_routes(n->reload, n->admin);
    if (node_has_npm(n)) {
        node_npm_routes(n);
    } else {
        node_npm_no_routes(n);
    }
    return 0;
}
