/* Side of the load balancer: its placers and its pool where nobody names them, and what of its
 * settings has no effect, or one that nobody means. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <lb/catalog.h>
#include <rpc/rpc.h>
#include <store/store.h>
#include <string.h>

static void set_placers(struct config *c)
{
    const char *use = c->priv->placer;

    for (uint32_t i = 0; use && i < c->placers.n; i++) {
        if (strcmp(c->placers.items[i].use, use) == 0) {
            return; /* the variable agrees with the file, whose options count */
        }
    }
    if (use || !c->placers.items) {
        config_plugin_only(c, &c->placers,
                           config_plugin_default(FN_KIND_PLACER, use ? use : "naive",
                                                 use ? "FN_PLACER" : "default"));
    }
}

/* Fallback and shadow placers beside those that decide. */
static void check_placer(const struct config *c, const struct config_plugin *placer,
                         struct conf_problems *p)
{
    for (uint32_t i = 0; placer->use && i < c->placers.n; i++) {
        if (strcmp(c->placers.items[i].name, placer->name) == 0) {
            config_plugin_twice(placer, &c->placers.items[i], p);
        }
    }
}

/* Where the section plugins: is, else what made this node one that needs it; NULL without file. */
static const char *where_of_plugins(struct config *c)
{
    struct conf_node *root = conf_root(c->priv->file);
    struct conf_node *n = conf_get(root, "plugins");

    n = n ? n : conf_get(root, "node");
    return n ? config_where(c, n) : c->path;
}

/* The pool is there under a name that nobody knows, which is told. */
static bool meant_pool(const struct config *c)
{
    struct conf_node *root = conf_root(c->priv->file);
    const char *const *names = config_plugin_names(c);

    return conf_is_misspelt(root, config_top_others, "plugins") ||
           (names && conf_is_misspelt(conf_get(root, "plugins"), names, "pool"));
}

static bool has_manager(const struct config *c)
{
    return c->pool.use && strcmp(c->pool.use, "npm") == 0;
}

static void set_pool(struct config *c, struct conf_problems *p)
{
    static const struct conf_override inside = { "runners", "default", "local:" };
    bool given = c->pool.where || c->priv->npm;

    if (c->type->inside) {
        if (c->pool.where && !c->priv->node_unknown) {
            conf_problem(p, "CFG704", c->pool.where,
                         "pool, got one in a full node, which has its runner inside; expected no "
                         "pool, or node: lb");
        }
        c->pool = config_plugin_default(FN_KIND_POOL, "static", "default");
        c->pool.overrides[0] = inside;
        return;
    }
    if (c->priv->npm && !has_manager(c)) { /* else the file's options count */
        c->pool = config_plugin_default(FN_KIND_POOL, "npm", "FN_NPM_ADDRESS");
    } else if (!c->pool.where) {
        c->pool = config_plugin_default(FN_KIND_POOL, "static", "default");
    }
    config_plugin_override(&c->pool, c->priv->overrides[SECTION_POOL]);
    if (!given && !c->pool.overrides[0].key && !meant_pool(c)) {
        conf_problem(p, "CFG711", where_of_plugins(c),
                     c->path ? "plugins.pool is missing; expected the runners of this load "
                               "balancer: pool: { use: static, runners: [\"host:port\"] }, or "
                               "FN_RUNNER_ADDRESSES"
                             : "FN_RUNNER_ADDRESSES is missing; expected host:port of each runner");
    }
    c->pool.incomplete = !given && !c->pool.overrides[0].key;
}

static void lb_plugins(struct config *c, struct conf_problems *p)
{
    set_placers(c);
    check_placer(c, &c->fallback, p);
    for (uint32_t i = 0; i < c->shadow.n; i++) {
        check_placer(c, &c->shadow.items[i], p);
    }
    set_pool(c, p);
}

/* The manager provides them. */
static void check_runners(const struct config *c, struct conf_problems *p)
{
    const struct conf_override *o = c->priv->overrides[SECTION_POOL];

    for (; has_manager(c) && o->key; o++) {
        if (strcmp(o->key, "runners") == 0) {
            conf_warning(p, "CFG710", NULL, "%s has no effect: pool is npm", o->where);
        }
    }
}

/* A manager takes demand of a load balancer that has a certificate only under its name. */
static void check_lb_id(const struct config *c, struct conf_problems *p)
{
    const struct config_tls *tls =
        c->grpc->client_tls ? config_tls_find(c, c->grpc->client_tls) : NULL;

    if (has_manager(c) && tls && tls->cert && !conf_get(c->pool.node, "lb_id")) {
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

    if (has_manager(c) && n && n->text && n->text[0] && !config_tls_find(c, n->text)) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, n),
                     "tls, got %s; expected the name of an entry of tls:", conf_quote(n->text));
    }
}

/* Without a file a node that cannot know any function is a mistake, as for Go Fn. */
static void check_functions(const struct config *c, struct conf_problems *p)
{
    if (c->catalog->api_url || c->n_apps > 0 || (c->store->url && config_has(c, SIDE_API))) {
        return;
    }
    if (!c->type->inside && !c->path) {
        conf_problem(p, "CFG711", NULL,
                     "FN_RUNNER_API_URL is missing; expected the address of an API node, "
                     "http://host:port");
        return;
    }
    conf_note(p, "CFG710", c->path,
              "neither apps: nor lb.api_url is given: every call is answered 404");
}

static void lb_effect(const struct config *c, struct conf_problems *p)
{
    check_functions(c, p);
    check_runners(c, p);
    check_lb_id(c, p);
    check_pool_tls(c, p);
}

const struct config_side_part config_side_lb = { lb_plugins, lb_effect };
