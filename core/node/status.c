/* What a node is and does, as GET /status and the operator's page show it. */
#include <node/node.h>
#include <node/rights.h>

#include <jansson.h>
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
