/* Effect: what a configuration says without effect for its kind of node, and defaults that an
 * operator may not expect. Most of these are warnings.
 *
 * A file that several kinds of node share names none: FN_NODE_TYPE does, and then sections of the
 * others are what the file is for. */
#include <config/config_int.h>

#include <api/api.h>
#include <base/addr.h>
#include <conf/opts.h>
#include <fnmatch.h>
#include <http/server.h>
#include <lb/catalog.h>
#include <rpc/rpc.h>
#include <runner/runner.h>
#include <store/store.h>
#include <string.h>

#define LIVE_SETTINGS_MAX 256u

static void check_key(const struct config *c, const struct conf_node *map, const char *key,
                      uint32_t sides, struct conf_problems *p)
{
    const struct conf_node *n = conf_get(map, key);
    struct buf nodes = BUF_INIT(64);

    if (!n || sides == 0 || sides & c->type->sides || (n->type == CONF_SCALAR && !n->text[0])) {
        return;
    }
    config_print_types(sides, &nodes);
    conf_warning(p, "CFG710", conf_where_key(c->priv->file, n),
                 "%s: has no effect, got node: %s; expected it in node: %s", key, c->type->word,
                 buf_text(&nodes));
    buf_finish(&nodes);
}

static void check_keys(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const struct conf_node *map = conf_get(root, "plugins");

    for (int i = 0; i < SECTIONS_N; i++) {
        check_key(c, root, config_sections[i].key, config_sections[i].sides, p);
    }
    check_key(c, root, "apps", 1u << SIDE_LB, p);
    for (const struct config_plugin_key *k = config_plugin_keys; k->key; k++) {
        check_key(c, map, k->key, k->sides, p);
    }
}

static bool is_shared(const struct config *c)
{
    return strncmp(config_source_of(c, SECTION_TOP, "node"), "FN_", 3) == 0;
}

/* Runners that nobody asked to be processes of this machine. */
void config_npm_effect(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const struct conf_node *map = conf_get(root, "plugins");

    if (!conf_get(map, "control_plane") &&
        !conf_is_misspelt(root, config_top_others, "plugins") &&
        !conf_is_misspelt(map, config_plugin_names(c), "control_plane")) {
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

    if (c->pool.use && strcmp(c->pool.use, "npm") == 0 && tls &&
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

    if (c->pool.use && strcmp(c->pool.use, "npm") == 0 && n && n->text &&
        n->text[0] && !config_tls_find(c, n->text)) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, n),
                     "tls, got %s; expected the name of an entry of tls:", conf_quote(n->text));
    }
}

/* Without a file a node that cannot know any function is a mistake, as for Go Fn. */
static void check_functions(const struct config *c, struct conf_problems *p)
{
    if (c->catalog->api_url || c->n_apps > 0 ||
        (c->store->url && config_has(c, SIDE_API))) {
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

void config_lb_effect(const struct config *c, struct conf_problems *p)
{
    check_functions(c, p);
    check_lb_id(c, p);
    check_pool_tls(c, p);
}

#define NOT_ASKED "a full node has no gRPC port that could be asked"

static void check_down_file(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *n = conf_get(c->operator_.node, "down_file");

    if (n && c->type->inside && strcmp(c->operator_.use, "file") == 0) {
        conf_warning(p, "CFG710", conf_where_key(c->priv->file, n),
                     "operator file: down_file: has no effect: " NOT_ASKED);
    }
}

static void check_status_key(const struct config *c, const char *key, const char *why,
                             struct conf_problems *p)
{
    conf_warning(p, "CFG710", config_source_of(c, SECTION_RUNNER, key),
                 "runner.%s: has no effect: %s", key, why);
}

/* "runner.freeze_idle" and the like: all that a reload may change. NULL at the end; NULL: there is
 * no memory. */
static const char **live_settings(const struct config *c)
{
    const char **all = config_alloc(c, (LIVE_SETTINGS_MAX + 1) * sizeof(*all));
    uint32_t n = 0;

    for (int s = SECTION_TOP + 1; all && s < SECTIONS_N; s++) {
        for (const struct fn_opt *o = config_rows(s); o->key && n < LIVE_SETTINGS_MAX; o++) {
            if (o->flags & OPT_IS_LIVE) {
                all[n++] = arena_printf(&c->priv->arena, "%s.%s", config_sections[s].key, o->key);
            }
        }
    }
    return all;
}

static void check_pattern(const struct config *c, const char *pattern, const char *const *settings,
                          struct conf_problems *p)
{
    const char *nearest = conf_nearest(pattern, settings);

    for (; *settings; settings++) {
        if (fnmatch(pattern, *settings, 0) == 0) {
            return;
        }
    }
    config_refuse(c, SECTION_RUNNER, "configurable", pattern,
                  arena_printf(&c->priv->arena,
                               "a setting that a reload can change, or a pattern of some%s%s",
                               nearest ? ", such as " : "", nearest ? nearest : ""),
                  p);
}

static void check_configurable(const struct config *c, struct conf_problems *p)
{
    const struct fn_strlist *patterns = &c->runner->configurable;
    const char *const *settings = patterns->n > 0 ? live_settings(c) : NULL;

    for (uint64_t i = 0; settings && i < patterns->n; i++) {
        check_pattern(c, patterns->items[i], settings, p);
    }
}

void config_runner_effect(const struct config *c, struct conf_problems *p)
{
    if (c->runner->status_network_file && !c->runner->status_image) {
        check_status_key(c, "status_network_file", "there is no runner.status_image", p);
    }
    if (c->runner->status_image && c->type->inside) {
        check_status_key(c, "status_image", NOT_ASKED, p);
    }
    check_down_file(c, p);
    if (c->warm.use && c->runner->warm_max == 0) {
        conf_warning(p, "CFG710", c->warm.where,
                     "warm: has no effect: runner.warm_max is 0");
    }
    check_configurable(c, p);
}

/* Somebody who asked for nothing gets a port of this machine; somebody who asked is told what a
 * stranger may do there. */
void config_api_effect(const struct config *c, struct conf_problems *p)
{
    struct addr at;
    bool for_all = c->api->clients.n == 0 && c->api->tokens.n == 0;

    if (c->store->url && for_all && addr_parse(c->http->listen, &at) == 0 &&
        addr_is_everywhere(&at)) {
        conf_note(p, "CFG710", c->path,
                  "http.listen %s: whoever reaches this port may change apps and functions; "
                  "expected api.tokens, api.clients, a firewall or a listen address of a trusted "
                  "network",
                  c->http->listen);
    }
    if (!c->store->url && c->api->public_url) {
        conf_warning(p, "CFG710", config_source_of(c, SECTION_API, "public_url"),
                     "public_url: has no effect: without store.url this node has no API");
    }
}

/* Whether a value of the tree, or an item of its lists, is that text. */
static bool says(const struct conf_node *n, const char *text)
{
    if (n->type == CONF_SCALAR) {
        return strcmp(n->text, text) == 0;
    }
    for (const struct conf_node *i = n->first; i; i = i->next) {
        if (says(i, text)) {
            return true;
        }
    }
    return false;
}

static bool is_named(const struct config *c, const struct config_tls *tls)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const char *const used[] = { c->grpc->server_tls, c->grpc->client_tls, c->http->tls };

    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        if (used[i] && strcmp(used[i], tls->name) == 0) {
            return true;
        }
    }
    for (const struct conf_node *i = root->first; i; i = i->next) {
        if (strcmp(i->key, "tls") != 0 && says(i, tls->name)) {
            return true; /* also by a plugin, which may call the option as it likes */
        }
    }
    return false;
}

/* Files of such an entry are read by nobody, so that its mistakes show nowhere. */
static void check_tls_names(const struct config *c, struct conf_problems *p)
{
    for (uint32_t i = 0; i < c->n_tls; i++) {
        const struct config_tls *tls = &c->tls[i];

        if (tls->node && !is_named(c, tls)) {
            conf_warning(p, "CFG710", conf_where_key(c->priv->file, tls->node),
                         "%s: has no effect: nothing names this entry of tls:", tls->name);
        }
    }
}

void config_effect_check(const struct config *c, struct conf_problems *p)
{
    if (!is_shared(c)) {
        check_keys(c, p);
    }
    check_tls_names(c, p);
}
