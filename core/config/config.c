/* Config: from a file and variables to data; what holds between options is checked here. */
#include <config/config_int.h>

#include <admin/admin.h>
#include <api/api.h>
#include <base/addr.h>
#include <base/log.h>
#include <base/metric.h>
#include <conf/opts.h>
#include <inttypes.h>
#include <http/cors.h>
#include <http/fnsock.h>
#include <http/server.h>
#include <lb/lb.h>
#include <npm/manager.h>
#include <limits.h>
#include <loop/log_dest.h>
#include <net/network.h>
#include <rpc/rpc.h>
#include <runner/account.h>
#include <runner/runner.h>
#include <store/store.h>
#include <trace/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSTALLED_DIR "/usr/lib/fnd"
#define API_LISTEN  "127.0.0.1:8080"
#define API_CLIENTS "127.0.0.0/8,::1"
#define STORE_URL   "sqlite3://data/fn.db"
#define RULE_NETWORK                                                                               \
    "a network such as 10.1.0.0/16, with no bits behind its length, or an address"
#define RULE_LISTEN          "host:port, [ipv6]:port, :port or unix:/path"

struct config_kept {
    struct conf_values *values;
    struct config_kept *next;
};

void *config_alloc(const struct config *c, size_t size)
{
    return arena_alloc(&c->priv->arena, size);
}

const char *config_where(const struct config *c, const struct conf_node *n)
{
    return arena_strdup(&c->priv->arena, conf_where(c->priv->file, n));
}

void config_bind_into(struct config *c, struct conf_node *map, const char *what,
                      const struct fn_opt *opts, void *ret, uint32_t size, const char *const *skip,
                      struct conf_problems *p)
{
    struct config_kept *kept = config_alloc(c, sizeof(*kept));

    if (!kept) {
        return;
    }
    if (conf_bind(c->priv->file, map, what, opts, size, skip, &kept->values, p) == 0) {
        memcpy(ret, kept->values->data, size);
    }
    kept->next = c->priv->kept;
    c->priv->kept = kept;
}

void config_destroy(struct config *c)
{
    if (!c) {
        return;
    }
    for (struct config_kept *k = c->priv->kept; k; k = k->next) {
        conf_values_destroy(k->values);
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

        conf_bind_with(c->priv->file, map, i == SECTION_TOP ? "top level" : s->key,
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

/* Beside the program in a build tree, else what is installed with it: /opt/fnd/bin and
 * /opt/fnd/lib/fnd; else where packages put them. */
const char *config_find_dir(struct config *c, const char *name)
{
    static const char *const folders[2] = { "", "/lib/fnd" };
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    const char *dir;
    char *slash;

    exe[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < 2 && (slash = strrchr(exe, '/')); i++) {
        *slash = '\0';
        dir = arena_printf(&c->priv->arena, "%s%s/%s", exe, folders[i], name);
        if (dir && access(dir, X_OK) == 0) {
            return dir;
        }
    }
    return arena_printf(&c->priv->arena, INSTALLED_DIR "/%s", name);
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
    if (!c->priv->port && strcmp(config_source_of(c, SECTION_HTTP, "listen"), "default") == 0) {
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

/* The sentence behind the code; *code is "" when there is none. */
static const char *split_code(const char *line, char code[8])
{
    size_t len = strcspn(line, " ");
    bool has = len < 8 && line[len] == ' ';

    snprintf(code, 8, "%.*s", has ? (int)len : 0, line);
    return has ? line + len + 1 : line;
}

void config_tell(struct conf_problems *p, const char *where, const char *line)
{
    char code[8];
    const char *text = split_code(line, code);

    conf_problem(p, code[0] ? code : NULL, where, "%s", text);
}

/* ---- rules of values ------------------------------------------------------------------------- */

/* The option's place in its section; n_opts when there is no such key. */
static uint32_t option_of(const struct conf_values *v, const char *key)
{
    uint32_t i = 0;

    while (i < v->n_opts && strcmp(v->opts[i].key, key) != 0) {
        i++;
    }
    return i;
}

const char *config_source_of(const struct config *c, enum config_section section, const char *key)
{
    const struct conf_values *v = c->priv->values[section];
    uint32_t i = option_of(v, key);

    return i < v->n_opts && v->source[i] ? v->source[i] : "default";
}

/* The value of an option is refused, under the code and the place of who gave it. */
static void config_refuse(const struct config *c, enum config_section section, const char *key,
                          const char *got, const char *rule, struct conf_problems *p)
{
    const char *source = config_source_of(c, section, key);

    if (strncmp(source, "FN_", 3) == 0) {
        conf_problem(p, "CFG706", NULL, "%s, got %s; expected %s", source, conf_quote(got), rule);
    } else {
        conf_problem(p, "CFG704", source, "%s, got %s; expected %s", key, conf_quote(got), rule);
    }
}

void config_transport_tell(const struct config *c, const char *sentence, struct conf_problems *p)
{
    config_tell(p, config_source_of(c, SECTION_GRPC, "transport"), sentence);
}

static void check_listen(struct config *c, struct conf_problems *p)
{
    struct addr a;

    if (addr_parse(c->http->listen, &a) < 0) {
        config_refuse(c, SECTION_HTTP, "listen", c->http->listen, RULE_LISTEN, p);
    }
    if (addr_parse(c->grpc->listen, &a) < 0) {
        config_refuse(c, SECTION_GRPC, "listen", c->grpc->listen, RULE_LISTEN, p);
    }
}

/* Port 0 is another one for each. */
static bool is_same_place(const struct addr *a, const struct addr *b)
{
    if (a->path || b->path) {
        return a->path && b->path && strcmp(a->path, b->path) == 0;
    }
    return addr_port(a) != 0 && addr_port(a) == addr_port(b) &&
           (strcmp(a->host, b->host) == 0 || addr_is_everywhere(a) || addr_is_everywhere(b));
}

/* The second one to listen would find the address in use, by this very node. */
static void check_own_ports(struct config *c, struct conf_problems *p)
{
    const char *http = c->http->listen;
    const char *grpc = c->grpc->listen;
    bool by_default = strcmp(config_source_of(c, SECTION_GRPC, "listen"), "default") == 0;
    struct addr a, b;

    if (!c->type->has_port || addr_parse(http, &a) < 0 || addr_parse(grpc, &b) < 0 ||
        !is_same_place(&a, &b)) {
        return;
    }
    config_refuse(c, by_default ? SECTION_HTTP : SECTION_GRPC, "listen", by_default ? http : grpc,
                  arena_printf(&c->priv->arena,
                               "another address than %s, which this node has for %s",
                               by_default ? grpc : http, by_default ? "gRPC" : "HTTP"),
                  p);
}

static void check_cors(struct config *c, struct conf_problems *p)
{
    const struct fn_strlist *origins = &c->cors->origins;

    for (uint64_t i = 0; i < origins->n; i++) {
        if (cors_origin_check(origins->items[i], i) < 0) {
            config_refuse(c, SECTION_HTTP, "cors_origins", origins->items[i],
                   "http://..., https://..., or * as the first one", p);
        }
    }
}

static void check_proxies(struct config *c, struct conf_problems *p)
{
    const struct fn_strlist *proxies = &c->http_limits->proxies;
    const char *from = c->http_limits->client_from;
    struct net_network network;

    for (uint64_t i = 0; i < proxies->n; i++) {
        if (net_network_parse(proxies->items[i], &network) < 0) {
            config_refuse(c, SECTION_HTTP, "proxies", proxies->items[i], RULE_NETWORK, p);
        }
    }
    if (proxies->n == 0 && from && strcmp(from, "connection") != 0) {
        config_refuse(c, SECTION_HTTP, "client_from", from,
                      "connection, as long as http.proxies names nobody whose word counts", p);
    }
}

static void check_log(struct config *c, struct conf_problems *p)
{
    const char *dest_rule = log_dest_refused(c->log->dest);
    const char *prefix_rule = log_prefix_refused(c->log->prefix);

    if (dest_rule) {
        config_refuse(c, SECTION_LOG, "dest", c->log->dest, dest_rule, p);
    }
    if (prefix_rule) {
        config_refuse(c, SECTION_LOG, "prefix", c->log->prefix, prefix_rule, p);
    }
}

/* The value of an option as it is printed. */
static const char *value_of(const struct config *c, enum config_section section, const char *key)
{
    const struct conf_values *v = c->priv->values[section];
    struct buf text = BUF_INIT(256);
    uint32_t i = option_of(v, key);
    const char *ret;

    if (i < v->n_opts) {
        conf_print_option(v, i, &text);
    }
    ret = arena_strdup(&c->priv->arena, buf_text(&text));
    buf_finish(&text);
    return ret;
}

static void check_traces(struct config *c, struct conf_problems *p)
{
    const struct trace_options *o = c->traces;
    const char *url = o->endpoint;
    const char *rule;

    if (url && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        config_refuse(c, SECTION_TRACES, "endpoint", url, "http://... or https://...", p);
    }
    if (url && o->ca && strncmp(url, "https://", 8) != 0) {
        config_refuse(c, SECTION_TRACES, "ca", o->ca, "an endpoint with https:// for it", p);
    }
    rule = o->headers ? trace_headers_refused(o->headers) : NULL;
    if (rule) { /* the value may be a secret */
        conf_problem(p, "CFG704", config_source_of(c, SECTION_TRACES, "headers"),
                     "headers, got others; expected %s", rule);
    }
}

static void check_buckets(struct config *c, struct conf_problems *p)
{
    const struct fn_strlist *all = &c->buckets->latency;
    const struct fn_strlist *own = &c->buckets->own;

    if (!metric_buckets_good(all->items, all->n)) {
        config_refuse(c, SECTION_METRICS, "latency_buckets",
                      value_of(c, SECTION_METRICS, "latency_buckets"),
                      "numbers of milliseconds that ascend, 32 at most", p);
    }
    for (uint64_t i = 0; i < own->n; i++) {
        if (!metric_buckets_of_good(own->items[i])) {
            config_refuse(c, SECTION_METRICS, "buckets", own->items[i],
                          "a histogram of latencies, = and numbers of milliseconds that ascend, 32 "
                          "at most",
                          p);
        }
    }
}

/* "http://host:port" of a URL, whose path is dropped as by Go Fn; NULL: it has no host. */
static const char *origin_of(struct config *c, const char *url)
{
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    size_t host = scheme ? strcspn(url + scheme, "/?#") : 0;

    return host == 0 || url[scheme] == ':' ? NULL
                                           : arena_strndup(&c->priv->arena, url, scheme + host);
}

static void check_api_url(struct config *c, struct conf_problems *p)
{
    const char *url = c->catalog->api_url;
    const char *origin = url ? origin_of(c, url) : NULL;

    if (url && !origin) {
        config_refuse(c, SECTION_LB, "api_url", url,
                      "http://host:port (no host specified for client)", p);
    } else if (url) {
        c->catalog->api_url = origin;
    }
}

/* Of another kind of database only the kind is shown: the rest has its password. */
static void check_store(struct config *c, struct conf_problems *p)
{
    const char *url = c->store->url;
    struct fn_error e = ERR_INIT;
    struct net_network network;

    if (url && config_has(c, SIDE_API) && store_check_url(url, &e) < 0) {
        config_refuse(c, SECTION_STORE, "url",
                      arena_printf(&c->priv->arena, "%.*s", (int)strcspn(url, ":"), url), e.msg,
                      p);
    }
    for (uint64_t i = 0; i < c->api->clients.n; i++) {
        if (net_network_parse(c->api->clients.items[i], &network) < 0) {
            config_refuse(c, SECTION_API, "clients", c->api->clients.items[i], RULE_NETWORK, p);
        }
    }
    for (uint64_t i = 0; i < c->api->tokens.n; i++) {
        if (api_check_token(c->api->tokens.items[i], &e) < 0) {
            config_refuse(c, SECTION_API, "tokens", "an entry that is something else", e.msg, p);
        }
    }
    if (c->api->public_url && !origin_of(c, c->api->public_url)) {
        config_refuse(c, SECTION_API, "public_url", c->api->public_url, "http://host:port", p);
    }
}

/* Told where the one stands that somebody wrote. */
static void check_order(struct config *c, enum config_section section, const char *low_key,
                        int64_t low, const char *high_key, int64_t high, struct conf_problems *p)
{
    bool high_given = strcmp(config_source_of(c, section, high_key), "default") != 0;
    const char *key = high_given ? high_key : low_key;
    const char *other = high_given ? low_key : high_key;

    if (low > high) {
        config_refuse(c, section, key, value_of(c, section, key),
                      arena_printf(&c->priv->arena, "%s %s, which is %s",
                                   high_given ? "at least" : "at most", other,
                                   value_of(c, section, other)),
                      p);
    }
}

static void check_runner(struct config *c, struct conf_problems *p)
{
    const char *owner = c->runner->owner;
    const struct fnsock_config *f = c->fnsock;

    if (owner && owner[strspn(owner, "abcdefghijklmnopqrstuvwxyz0123456789-")]) {
        config_refuse(c, SECTION_RUNNER, "owner", owner, "1 to 63 of a-z, 0-9 and -", p);
    }
    if (f->iofs_path && f->iofs_path[0] != '/') {
        config_refuse(c, SECTION_RUNNER, "iofs_path", f->iofs_path, "an absolute path", p);
    }
    if (f->engine_path && !f->iofs_path) {
        config_refuse(c, SECTION_RUNNER, "iofs_engine_path", f->engine_path,
                      "iofs_path (FN_IOFS_PATH) beside it", p);
    }
}

static void check_tls_name(struct config *c, enum config_section section, const char *key,
                           const char *name, struct conf_problems *p)
{
    const char *names[65] = { NULL };
    const char *nearest;

    if (!name || config_tls_find(c, name)) {
        return;
    }
    for (uint32_t i = 0; i < c->n_tls && i < 64; i++) {
        names[i] = c->tls[i].name;
    }
    nearest = conf_nearest(name, names);
    config_refuse(c, section, key, name,
           arena_printf(&c->priv->arena, "the name of an entry of tls:%s%s",
                        nearest ? ", such as " : "", nearest ? nearest : ""),
           p);
}

/* Whoever reaches the page in plain text could read it and, with its token, act. */
static void check_admin(struct config *c, struct conf_problems *p)
{
    const struct admin_options *o = c->admin;
    const struct config_tls *tls = o->page_tls ? config_tls_find(c, o->page_tls) : NULL;
    bool off = strcmp(o->page, "off") == 0;
    struct addr a;

    if (o->socket && o->socket[0] != '/' && strcmp(o->socket, "off") != 0) {
        config_refuse(c, SECTION_ADMIN, "socket", o->socket, "an absolute path, or off", p);
    }
    check_tls_name(c, SECTION_ADMIN, "page_tls", o->page_tls, p);
    if (tls && (!tls->cert || !tls->ca)) {
        config_refuse(c, SECTION_ADMIN, "page_tls", o->page_tls,
                      "an entry with cert, key and ca, so that operators need a certificate", p);
    }
    if (!off && (addr_parse(o->page, &a) < 0 || a.path)) {
        config_refuse(c, SECTION_ADMIN, "page", o->page, "host:port, [ipv6]:port or off", p);
    } else if (!off && !o->page_tls && !addr_is_local(&a)) {
        config_refuse(c, SECTION_ADMIN, "page", o->page,
                      "an address of the loopback such as 127.0.0.1:9080, or page_tls beside it",
                      p);
    }
}

/* The seed's names need no mention. */
static const char *or_seed(const struct config *c, const char *name, const char *seed)
{
    return name ? name : config_tls_find(c, seed) ? seed : NULL;
}

static void check_tls(struct config *c, struct conf_problems *p)
{
    struct rpc_port *grpc = c->grpc;
    struct http_port *http = c->http;
    const struct config_tls *web;

    check_tls_name(c, SECTION_GRPC, "tls", grpc->tls, p);
    check_tls_name(c, SECTION_GRPC, "server_tls", grpc->server_tls, p);
    check_tls_name(c, SECTION_GRPC, "client_tls", grpc->client_tls, p);
    check_tls_name(c, SECTION_HTTP, "tls", http->tls, p);
    grpc->server_tls = or_seed(c, grpc->server_tls ? grpc->server_tls : grpc->tls, "TLSGRPCServer");
    grpc->client_tls = or_seed(c, grpc->client_tls ? grpc->client_tls : grpc->tls, "TLSGRPCClient");
    http->tls = or_seed(c, http->tls, "TLSWebServer");
    web = http->tls ? config_tls_find(c, http->tls) : NULL;
    if (web && !web->cert) {
        config_refuse(c, SECTION_HTTP, "tls", http->tls, "an entry with cert and key", p);
    }
}

static void check_plugins(struct config *c, struct conf_problems *p)
{
    const struct plugin_policy *rules = c->plugins;
    const struct conf_node *said =
        conf_get(conf_get(conf_root(c->priv->file), "plugins"), "unsigned");

    if (rules->keys.n == 0 && said && said->text && strcmp(said->text, "refuse") == 0) {
        config_refuse(c, SECTION_PLUGINS, "unsigned", "refuse", "keys beside it, or allow", p);
    }
    for (uint64_t i = 0; i < rules->keys.n; i++) {
        if (rules->keys.items[i][0] != '/') {
            config_refuse(c, SECTION_PLUGINS, "keys", rules->keys.items[i], "absolute paths", p);
        }
    }
}

/* Groups come from the file only. */
static const char *where_of_group(const struct config *c, uint64_t index)
{
    const struct conf_node *npm = conf_get(conf_root(c->priv->file), "npm");
    const struct conf_node *n = conf_get(npm, "groups")->first;

    while (index-- > 0) {
        n = n->next;
    }
    return conf_where(c->priv->file, n);
}

static void check_npm(struct config *c, struct conf_problems *p)
{
    struct npm_settings *npm = c->npm;
    static const char *const dflt[] = { "default" };
    char got[32];

    if (npm->groups.n == 0) {
        npm->groups = (struct fn_strlist){ dflt, 1 };
    }
    for (uint64_t i = 0; i < npm->groups.n; i++) {
        const char *name = npm->groups.items[i];

        if (!name[0] || strlen(name) > NPM_GROUP_NAME_MAX) {
            config_refuse(c, SECTION_NPM, "groups", name, "names of 1 to 63 characters", p);
        }
        for (uint64_t k = 0; k < i && npm->groups.n <= NPM_GROUPS_MAX; k++) {
            if (strcmp(npm->groups.items[k], name) == 0) {
                conf_problem(p, "CFG703", where_of_group(c, i),
                             "group %s is named twice; expected each group once",
                             conf_quote(name));
                break;
            }
        }
    }
    if (npm->groups.n > NPM_GROUPS_MAX) {
        snprintf(got, sizeof(got), "%" PRIu64 " names", npm->groups.n);
        config_refuse(c, SECTION_NPM, "groups", got, "at most 1000 names", p);
    }
    check_order(c, SECTION_NPM, "runners_min", c->npm_groups->runners_min, "group_runners_max",
                c->npm_groups->runners_max, p);
}

void config_check_values(struct config *c, struct conf_problems *p)
{
    const struct place_options *place = c->place;
    const struct rpc_config *rpc = c->rpc;

    check_listen(c, p);
    check_own_ports(c, p);
    check_cors(c, p);
    check_proxies(c, p);
    check_log(c, p);
    check_traces(c, p);
    check_buckets(c, p);
    check_admin(c, p);
    check_api_url(c, p);
    check_store(c, p);
    check_order(c, SECTION_LB, "retry_min", place->retry_min_ns, "retry_max",
                place->retry_max_ns, p);
    check_order(c, SECTION_GRPC, "reconnect_first", rpc->reconnect_first_ns, "reconnect_max",
                rpc->reconnect_max_ns, p);
    check_runner(c, p);
    check_tls(c, p);
    check_plugins(c, p);
    check_npm(c, p);
    config_effect_check(c, p);
}

/* ---- tls ------------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct config_tls, field)
const struct fn_opt config_tls_opts[] = {
    OPT_ABSENT("cert", STR, AT(cert), 1, 1024,
               "PEM file with this node's certificate, followed by its intermediate "
               "certificates. A changed file is used for new connections within five seconds."),
    OPT_ABSENT("key", STR, AT(key), 1, 1024,
               "PEM file with the private key, readable by its owner only."),
    OPT_ABSENT("ca", STR, AT(ca), 1, 1024,
               "PEM file with the certificates of the CAs that sign peers. A server that has it "
               "accepts only clients with such a certificate (mutual TLS)."),
    OPT_ABSENT("crl", STR, AT(crl), 1, 1024,
               "PEM file with the revocation lists (CRLs) of all CAs in `ca`. Revoked peers are "
               "refused, and once a list has expired, all peers. When absent: nothing is revoked."),
    OPT_ABSENT("server_name", STR, AT(server_name), 1, 253,
               "Name that a server's certificate must have. When absent: the host in the "
               "server's address. Set it if servers are reached by addresses that are not in "
               "their certificates."),
    OPT_ABSENT("peers", STRLIST, AT(peers), 0, 0,
               "Patterns of which a peer's certificate must match one, by its URI, DNS or common "
               "name; * stands for any text without a slash. When absent: every certificate that "
               "`ca` signed is accepted."),
    { .key = NULL },
};

const struct config_tls *config_tls_find(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_tls; i++) {
        if (strcmp(c->tls[i].name, name) == 0) {
            return &c->tls[i];
        }
    }
    return NULL;
}

/* The option whose file a sentence "path: ..." is about. */
static const char *where_of_file(const struct config *c, const struct config_tls *tls,
                                 const char *text)
{
    static const char *const keys[] = { "cert", "key", "ca", "crl" };
    const char *const paths[] = { tls->cert, tls->key, tls->ca, tls->crl };

    for (size_t i = 0; tls->node && i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t len = paths[i] ? strlen(paths[i]) : 0;

        if (len > 0 && strncmp(text, paths[i], len) == 0 && text[len] == ':') {
            return conf_where(c->priv->file, conf_get(tls->node, keys[i]));
        }
    }
    return tls->node ? conf_where(c->priv->file, tls->node) : NULL;
}

void config_tls_tell(const struct config *c, const struct config_tls *tls, const char *sentence,
                     struct conf_problems *p)
{
    char code[8];
    const char *text = split_code(sentence, code);
    const char *where = where_of_file(c, tls, text);

    if (strcmp(code, "TLS800") == 0) {
        conf_warning(p, code, where, "%s", text);
    } else {
        conf_problem(p, code, where, "%s", text);
    }
}

static const char *tls_variable(const struct config *c, const char *key)
{
    for (const struct conf_override *o = c->priv->overrides[SECTION_TLS]; o->key; o++) {
        if (strcmp(o->key, key) == 0) {
            return o->text;
        }
    }
    return NULL;
}

/* Go Fn's three variables make both ends of gRPC use TLS, only all of them together. */
static void add_tls_of_variables(struct config *c, struct config_tls *tls, struct conf_problems *p)
{
    struct config_tls t = { .name = "FN_NODE_CERT",
                            .cert = tls_variable(c, "cert"),
                            .key = tls_variable(c, "key"),
                            .ca = tls_variable(c, "ca") };

    if (t.cert && t.key && t.ca) {
        tls[c->n_tls++] = t;
        conf_override(c->priv->values[SECTION_GRPC], "tls", "FN_NODE_CERT", t.name, p);
    } else if (t.cert || t.key || t.ca) {
        conf_problem(p, "CFG706", NULL,
                     "FN_NODE_CERT, FN_NODE_CERT_KEY and FN_NODE_CERT_AUTHORITY; "
                     "expected all three or none of them");
    }
}

static void read_tls(struct config *c, struct conf_problems *p)
{
    struct conf_node *map = conf_get(conf_root(c->priv->file), "tls");
    struct config_tls *tls;
    uint32_t n = 1;

    if (map && map->type != CONF_MAP) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, map),
                     "tls, got %s; expected a map of names",
                     map->text ? conf_quote(map->text) : "a list");
        map = NULL;
    }
    for (struct conf_node *i = map ? map->first : NULL; i; i = i->next) {
        n++;
    }
    tls = config_alloc(c, n * sizeof(*tls));
    c->tls = tls;
    if (!tls) {
        return;
    }
    for (struct conf_node *i = map ? map->first : NULL; i; i = i->next) {
        struct config_tls *t = &tls[c->n_tls++];

        config_bind_into(c, i, i->key, config_tls_opts, t, sizeof(*t), NULL, p);
        t->name = i->key;
        t->node = i;
        if (!t->cert != !t->key) {
            conf_problem(p, "CFG704", conf_where(c->priv->file, i),
                         "%s, got %s alone; expected cert and key, or none of them", i->key,
                         t->cert ? "cert" : "key");
        }
        if (t->crl && !t->ca) {
            conf_problem(p, "CFG704", conf_where(c->priv->file, i),
                         "%s, got crl without ca; expected the authorities whose lists it has",
                         i->key);
        }
    }
    add_tls_of_variables(c, tls, p);
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
    static const config_part rest[] = { read_tls, config_apps_read, config_plugins_read,
                                        config_check_values, NULL };
    struct config *c = config_create(path);
    bool whole = c != NULL;

    if (whole) {
        if (path) {
            conf_load(path, &c->priv->file, p);
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
