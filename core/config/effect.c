/* Effect: what a configuration says without effect for its kind of node, and defaults that an
 * operator may not expect. All of these are warnings.
 *
 * A file that several kinds of node share names none: FN_NODE_TYPE does, and then sections of the
 * others are what the file is for. */
#include <config/config_int.h>

#include <string.h>

#define LB (1u << CONFIG_LB)
#define RUNNER (1u << CONFIG_RUNNER)
#define NPM (1u << CONFIG_NPM)
#define FULL (1u << CONFIG_FULL)

struct user {
    const char *key;
    uint32_t nodes; /* bits of enum config_node */
};

static const struct user sections[] = {
    { "lb", LB | FULL }, { "runner", RUNNER | FULL }, { "npm", NPM }, { "apps", LB | FULL },
    { NULL, 0 },
};

static const struct user plugins[] = {
    { "placer", LB | FULL },
    { "shadow", LB | FULL },
    { "fallback", LB | FULL },
    { "pool", LB | FULL },
    { "driver", RUNNER | FULL },
    { "control_plane", NPM },
    { "predictor", NPM },
    { "overriders", LB | RUNNER | FULL },
    { "listeners", LB | RUNNER | FULL },
    { NULL, 0 },
};

static const char *const node_words[] = { [CONFIG_FULL] = "full",
                                          [CONFIG_LB] = "lb",
                                          [CONFIG_RUNNER] = "pure-runner",
                                          [CONFIG_NPM] = "npm" };

/* "lb or full" */
static void print_nodes(uint32_t nodes, struct buf *out)
{
    static const enum config_node order[] = { CONFIG_LB, CONFIG_RUNNER, CONFIG_NPM, CONFIG_FULL };

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if (nodes & 1u << order[i]) {
            nodes &= ~(1u << order[i]);
            buf_printf(out, "%s%s",
                       out->len == 0 ? ""
                       : nodes       ? ", "
                                     : " or ",
                       node_words[order[i]]);
        }
    }
}

static void check_map(const struct config *c, const struct conf_node *map, const struct user *users,
                      struct conf_problems *p)
{
    for (const struct user *u = users; u->key; u++) {
        const struct conf_node *n = conf_get(map, u->key);
        struct buf nodes = BUF_INIT(64);

        if (!n || u->nodes & 1u << c->node || (n->type == CONF_SCALAR && !n->text[0])) {
            continue;
        }
        print_nodes(u->nodes, &nodes);
        conf_warning(p, "CFG710", conf_where_key(c->priv->file, n),
                     "%s: has no effect, got node: %s; expected it in node: %s", u->key,
                     node_words[c->node], buf_text(&nodes));
        buf_finish(&nodes);
    }
}

static bool is_shared(const struct config *c)
{
    return strncmp(config_source_of(c, SECTION_TOP, "node"), "FN_", 3) == 0;
}

static void check_control_plane(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const struct conf_node *map = conf_get(root, "plugins");

    if (c->node == CONFIG_NPM && !conf_get(map, "control_plane") &&
        !conf_is_misspelt(root, config_top_others, "plugins") &&
        !conf_is_misspelt(map, config_plugin_kinds, "control_plane")) {
        conf_warning(p, "CFG710", map ? conf_where(c->priv->file, map) : c->path,
                     "control_plane is missing: runners become processes of this machine; expected "
                     "{ use: process } or another one");
    }
}

/* A manager takes demand of a load balancer that has a certificate only under its name. */
static void check_lb_id(const struct config *c, struct conf_problems *p)
{
    const struct config_tls *tls =
        c->grpc->client_tls ? config_tls_find(c, c->grpc->client_tls) : NULL;

    if (c->node == CONFIG_LB && c->pool.use && strcmp(c->pool.use, "npm") == 0 && tls &&
        tls->cert && !conf_get(c->pool.node, "lb_id")) {
        conf_warning(p, "CFG710", c->pool.where,
                     "pool npm: lb_id is missing: the manager gives runners only to the name of "
                     "the certificate that it sees; expected the name in %s",
                     tls->cert);
    }
}

/* The start of the pool would find that there is none. */
static void check_pool_tls(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *n = conf_get(c->pool.node, "tls");

    if (c->node == CONFIG_LB && c->pool.use && strcmp(c->pool.use, "npm") == 0 && n && n->text &&
        n->text[0] && !config_tls_find(c, n->text)) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, n),
                     "tls, got %s; expected the name of an entry of tls:", conf_quote(n->text));
    }
}

void config_effect_check(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);

    if (c->priv->node_unknown) {
        return;
    }
    if (!is_shared(c)) {
        check_map(c, root, sections, p);
        check_map(c, conf_get(root, "plugins"), plugins, p);
    }
    check_control_plane(c, p);
    check_lb_id(c, p);
    check_pool_tls(c, p);
}
