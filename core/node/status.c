/* What a node is and does, as GET /status and the operator's page show it. */
#include <node/node.h>
#include <node/rights.h>

#include <jansson.h>
#include <unistd.h>

#define HOUR_NS       (3600 * ENV_S)
#define UNREADY_BYTES 256

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

/* When the certificates of the node end, which is when its peers and clients turn away. */
static json_t *certs_json(const struct node *n)
{
    json_t *list = json_array();
    const struct node_tls_side *side;

    for (uint32_t i = 0; (side = node_tls_next(&n->tls, &i));) {
        int64_t left_ns = side->files.not_after_ns - env_wall_ns(n->env);

        if (side->config->cert) {
            json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "tls", side->config->name,
                                                  "cert", side->config->cert, "hours_left",
                                                  (json_int_t)(left_ns / HOUR_NS)));
        }
    }
    return list;
}

static json_t *degraded_json(void)
{
    json_t *list = json_array();

    for (int i = 0; i < DEGRADED_N; i++) {
        const char *word = plugin_degraded_word((enum degraded_reason)i);

        if (word) {
            json_array_append_new(list, json_string(word));
        }
    }
    return list;
}

/* What the page draws of a side is what there is to count of it. */
static json_t *series_json(const struct node *n, const struct node_side *side)
{
    int64_t values[HISTORY_SERIES_MAX] = { 0 };
    json_t *counts = json_object();

    side->sample(n, values);
    for (size_t i = 0; side->series[i]; i++) {
        json_object_set_new(counts, side->series[i], json_integer((json_int_t)values[i]));
    }
    return counts;
}

/* Each side is asked whether it can take calls; the first reason not to is the sentence of the
 * page. */
const char *node_unready(const struct node *n, char *text, size_t cap)
{
    const char *why = NULL;

    if (n->draining) {
        return "draining: new calls are refused, running ones end";
    }
    for (uint32_t i = n->n_sides; i-- > 0 && !why;) {
        why = n->sides[i]->unready ? n->sides[i]->unready(n, text, cap) : NULL;
    }
    return why;
}

/* {s:o} takes the reference, also when packing fails; {s:o*} leaves a text out that is none, or no
 * UTF-8. */
json_t *node_status(const struct node *n)
{
    char text[UNREADY_BYTES];
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:I, s:i, s:I, s:s, s:s, s:s, s:i, s:o, s:o, s:o*, s:o, s:o, s:o, s:I, "
        "s:I, s:o*}",
        "node", n->config->top->node, "version", FND_VERSION, "state",
        n->draining ? "draining" : "serving", "generation", (json_int_t)n->gen->number, "pid",
        (int)getpid(), "uptime_s", (json_int_t)((env_now_ns(n->env) - n->opened_ns) / ENV_S),
        "http", n->config->http->listen, "transport", rpc_transport_library(n->rpc), "summary",
        plugin_host_summary(n->host), "port", (int)http_server_port(web_server(n->web)), "plugins",
        plugins_json(n), "config", reload_json(n->reload), "unready",
        json_string(node_unready(n, text, sizeof(text))), "degraded", degraded_json(), "certs",
        certs_json(n), "hardening", rights_json(&n->hardening), "tainted",
        (json_int_t)plugin_tainted(), "lost", (json_int_t)plugin_lost(), "file",
        json_string(n->config->path));

    for (uint32_t i = 0; root && i < n->n_sides; i++) {
        const struct node_side *side = n->sides[i];

        if (side->status) {
            json_object_set_new(root, side->name, side->status(n));
        } else if (side->series) {
            json_object_set_new(root, side->name, series_json(n, side));
        }
    }
    return root;
}
