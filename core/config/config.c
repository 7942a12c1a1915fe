/* Config: from a file and variables to data, part by part. */
#include <config/config_int.h>

#include <api/api.h>
#include <base/addr.h>
#include <http/server.h>
#include <rpc/rpc.h>
#include <store/store.h>
#include <stdlib.h>
#include <string.h>

#define API_LISTEN  "127.0.0.1:8080"
#define API_CLIENTS "127.0.0.0/8,::1"
#define STORE_URL   "sqlite3://data/fn.db"

void config_destroy(struct config *c)
{
    if (!c) {
        return;
    }
    for (int i = 0; i < SECTIONS_N; i++) {
        conf_values_destroy(c->priv->values[i]);
    }
    conf_destroy(c->priv->file);
    arena_finish(&c->priv->arena);
    free(c->priv);
    free(c);
}

/* ---- sections -------------------------------------------------------------------------------- */

/* The section of a key that is in no other one, too; else NULL. */
static const char *owner_of(const char *key)
{
    const char *owner = NULL;

    for (int i = 0; i < SECTIONS_N; i++) {
        if (opt_find(config_rows(i), key)) {
            if (owner) {
                return NULL;
            }
            owner = config_sections[i].key;
        }
    }
    return owner;
}

/* Ends at the first section that there is no memory for. */
static void bind_sections(struct config *c, struct conf_problems *p)
{
    struct conf_node *root = conf_root(c->priv->file);

    for (int i = 0; i < SECTIONS_N; i++) {
        const struct config_section_def *s = &config_sections[i];
        struct conf_node *map = i == SECTION_TOP ? root : conf_get(root, s->key);
        const char *const *others = i == SECTION_TOP       ? config_top_others
                                    : i == SECTION_PLUGINS ? config_plugin_names(c)
                                                           : NULL;

        conf_bind(c->priv->file, map, i == SECTION_TOP ? "top level" : s->key,
                  config_rows(i), config_rows_size(i), others, c->priv->overrides[i],
                  &c->priv->values[i], p);
        if (!c->priv->values[i]) {
            return;
        }
        config_give(c, i);
    }
}

/* FN_PORT names a port only: the host of the file stays. */
static void set_port(struct config *c, enum config_section section, const char *listen,
                     const char *port, const char *variable, struct conf_problems *p)
{
    char host[ADDR_HOST_MAX + 3];
    const char *text;
    struct addr a;

    if (port && addr_parse(listen, &a) == 0) { /* else it is refused as it stands in the file */
        addr_print_host(&a, host);
        text = arena_printf(&c->priv->arena, "%s:%s", host, port);
        if (text) {
            conf_override(c->priv->values[section], "listen", variable, text, p);
        }
    }
}

/* A value that was refused leaves the default behind. */
static bool node_is_known(const struct config *c)
{
    const struct conf_node *n = conf_get(conf_root(c->priv->file), "node");
    const struct conf_override *o = c->priv->overrides[SECTION_TOP];

    while (o->key && strcmp(o->key, "node") != 0) {
        o++;
    }
    if (o->key) {
        return strcmp(o->text, c->top->node) == 0;
    }
    return !n || (n->type == CONF_SCALAR &&
                  (!n->text[0] || strcmp(n->text, c->top->node) == 0));
}

/* An API node has a database as Go Fn's, and without a word a port for this machine alone: whoever
 * names a port means all addresses, as there. Where the port is for callers too, the API is for the
 * machine. A full node without a file is what `fn start` starts. */
static void set_api(struct config *c, struct conf_problems *p)
{
    bool start = c->type->inside && !c->path;

    if ((start || c->type->front == SIDE_API) && !c->store->url) {
        conf_override(c->priv->values[SECTION_STORE], "url", "default", STORE_URL, p);
    }
    if (c->type->front != SIDE_API) {
        if (c->api->clients.n == 0) {
            conf_override(c->priv->values[SECTION_API], "clients", "default", API_CLIENTS, p);
        }
        return;
    }
    if (!c->priv->port && config_is_default(c, SECTION_HTTP, "listen")) {
        conf_override(c->priv->values[SECTION_HTTP], "listen", "default", API_LISTEN, p);
    }
}

static void set_derived(struct config *c, struct conf_problems *p)
{
    const char *plugins;

    c->type = config_type_of(c->top->node);
    set_api(c, p);
    set_port(c, SECTION_HTTP, c->http->listen, c->priv->port, "FN_PORT", p);
    set_port(c, SECTION_GRPC, c->grpc->listen, c->priv->grpc_port, "FN_GRPC_PORT", p);
    plugins = c->top->plugin_dir ? NULL : config_find_dir(c, "plugins");
    if (plugins) {
        conf_override(c->priv->values[SECTION_TOP], "plugin_dir", "default", plugins, p);
    }
    c->transport_dir = config_find_dir(c, "transports");
    c->priv->node_unknown = !node_is_known(c);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static struct config *config_create(const char *path)
{
    struct config *c = calloc(1, sizeof(*c));

    if (!c || !(c->priv = calloc(1, sizeof(*c->priv)))) {
        free(c);
        return NULL;
    }
    arena_init(&c->priv->arena, 0);
    c->path = path ? arena_strdup(&c->priv->arena, path) : NULL;
    return c;
}

bool config_is_complete(const struct config *c)
{
    return c && (!c->path || c->priv->file);
}

/* Whether all that was read until now found memory. */
static bool config_is_whole(const struct config *c)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        if (!c->priv->values[i] || !conf_values_whole(c->priv->values[i])) {
            return false;
        }
    }
    return !c->priv->arena.failed;
}

/* What has no effect, or one that nobody means. */
static void check_effect(struct config *c, struct conf_problems *p)
{
    if (!c->priv->node_unknown) {
        config_effect_check(c, p);
        config_sides_effect(c, p);
    }
}

typedef void (*config_part)(struct config *c, struct conf_problems *p);

/* Each relies on what those before it have read, to the last text. */
static bool read_parts(struct config *c, const config_part *parts, struct conf_problems *p)
{
    bool whole = config_is_whole(c);

    for (; *parts && whole; parts++) {
        (*parts)(c, p);
        whole = config_is_whole(c);
    }
    return whole;
}

int config_load(const char *path, char *const *environ_, struct config **ret,
                struct conf_problems *p)
{
    /* Without its file a config has these alone: what it would have said is unknown. */
    static const config_part first[] = { set_derived, NULL };
    static const config_part rest[] = { config_tls_read,     config_apps_read,
                                        config_plugins_read, config_sides_plugins,
                                        config_check_values, config_check_paths,
                                        check_effect,        NULL };
    struct config *c = config_create(path);
    bool whole = c != NULL;

    if (whole) {
        if (path) {
            conf_load(path, &c->priv->file, p);
            conf_set_owner(c->priv->file, owner_of);
        }
        config_env_read(c, environ_, p);
        bind_sections(c, p);
        whole = read_parts(c, first, p) && (!config_is_complete(c) || read_parts(c, rest, p));
    }
    if (!whole) {
        conf_problem(p, "CFG705", path, "out of memory for the configuration");
        config_destroy(c);
        c = NULL;
    }
    *ret = c;
    return whole ? p->n > 0 ? FN_E_INVALID : 0 : FN_E_EXHAUSTED;
}
