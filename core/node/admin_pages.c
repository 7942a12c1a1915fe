/* What a node shows on its admin socket. */
#include <node/logs.h>
#include <node/node.h>
#include <node/rights.h>

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

/* {s:o} takes the reference, also when packing fails. */
json_t *node_status(const struct node *n)
{
    int64_t up_s = (env_now_ns(n->env) - n->opened_ns) / ENV_S;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:I, s:i, s:I, s:s, s:s, s:s, s:i, s:o}", "node", n->config->top->node,
        "version", FND_VERSION, "state", n->draining ? "draining" : "serving", "generation",
        (json_int_t)n->gen->number, "pid", (int)getpid(), "uptime_s", (json_int_t)up_s, "http",
        n->config->http->listen, "transport", rpc_transport_library(n->rpc), "summary",
        plugin_host_summary(n->host), "port",
        (int)web_port(n->web), "plugins", plugins_json(n));

    if (root) {
        json_object_set_new(root, "config", reload_json(n->reload));
        json_object_set_new(root, "hardening", rights_json(&n->hardening));
        json_object_set_new(root, "tainted", json_integer(plugin_tainted()));
        json_object_set_new(root, "lost", json_integer(plugin_lost()));
        if (n->config->path) {
            json_object_set_new(root, "file", json_string(n->config->path));
        }
    }
    for (uint32_t i = 0; root && i < n->n_sides; i++) {
        if (n->sides[i]->status) {
            json_object_set_new(root, n->sides[i]->name, n->sides[i]->status(n));
        }
    }
    return root;
}

static void page_on_status(void *ud, struct admin_request *rq)
{
    json_t *root = node_status(ud);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

    admin_answer_json(rq, 200, text);
    free(text);
    json_decref(root);
}

static void on_elsewhere(void *ud, struct admin_request *rq)
{
    const struct node_elsewhere *e = ud;

    admin_refuse(rq, 404, "%s%s%s", e->side->elsewhere[0], e->node->config->type->word,
                 e->side->elsewhere[1]);
}

/* What sides of other nodes show is answered too: somebody asks the wrong node. */
static void open_routes(struct node *n)
{
    for (int i = 0; i < SIDES_N; i++) {
        const struct node_side *side = node_sides[i];
        bool here = config_has(n->config, (enum config_side)i);

        n->elsewhere[i] = (struct node_elsewhere){ n, side };
        for (const struct node_route *r = side->routes; r && r->method; r++) {
            admin_route(n->admin, r->method, r->prefix, here ? r->handler : on_elsewhere,
                        here ? (void *)n : &n->elsewhere[i]);
        }
        if (here && side->with_admin && n->admin_path[0]) {
            side->with_admin(n);
        }
    }
}

/* n->admin_path is "" when there is no socket. */
static int open_socket(struct node *n, struct fn_error *reterr)
{
    struct fn_error e = ERR_INIT;
    int r = admin_socket_path(n->config->admin, n->config->http->listen, web_port(n->web),
                              n->admin_path, &e);

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
        n->admin_path[0] = '\0';
    }
    return 0;
}

/* The page asks the same handlers, also where there is no socket. */
int node_admin_open(struct node *n, struct fn_error *reterr)
{
    int r = open_socket(n, reterr);

    if (r == 0 && node_has_page(n) && !n->admin) {
        r = admin_create(n->loop, NULL, &n->admin, reterr);
    }
    if (r < 0 || !n->admin) {
        return r;
    }
    admin_route(n->admin, "GET", "/status", page_on_status, n);
    reload_routes(n->reload, n->admin);
    node_lists_open(n);
    admin_route(n->admin, "GET", "/logs/", node_logs, n);
    open_routes(n);
    return node_page_open(n, reterr);
}
