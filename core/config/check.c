/* Rules that the table of a room's options cannot say: of values by themselves, and of several. */
#include <config/config_int.h>

#include <admin/admin.h>
#include <api/api.h>
#include <base/addr.h>
#include <base/metric.h>
#include <base/url.h>
#include <http/cors.h>
#include <http/fnsock.h>
#include <http/server.h>
#include <inttypes.h>
#include <lb/lb.h>
#include <loop/log_dest.h>
#include <net/network.h>
#include <npm/manager.h>
#include <rpc/rpc.h>
#include <runner/account.h>
#include <runner/runner.h>
#include <stdio.h>
#include <store/store.h>
#include <string.h>
#include <sys/un.h>
#include <trace/trace.h>

#define RULE_NETWORK                                                                               \
    "a network such as 10.1.0.0/16, with no bits behind its length, or an address"
#define RULE_LISTEN "host:port, [ipv6]:port, :port or unix:/path"

void config_transport_tell(const struct config *c, const char *sentence, struct conf_problems *p)
{
    config_tell(p, config_source_of(c, SECTION_GRPC, "transport"), sentence);
}

static void check_address(struct config *c, enum config_section section, const char *listen,
                          struct conf_problems *p)
{
    const char *rule = RULE_LISTEN;
    struct addr a;

    if (addr_parse(listen, &a) == 0) {
        if (a.path && strlen(a.path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
            config_refuse(c, section, "listen", listen, "unix: and a path of at most 107 bytes", p);
        }
        return;
    }
    if (listen[0] && listen[strspn(listen, "0123456789")] == '\0') {
        rule = arena_printf(&c->priv->arena, RULE_LISTEN "; did you mean \":%s\"?", listen);
    }
    config_refuse(c, section, "listen", listen, rule ? rule : RULE_LISTEN, p);
}

static void check_listen(struct config *c, struct conf_problems *p)
{
    check_address(c, SECTION_HTTP, c->http->listen, p);
    check_address(c, SECTION_GRPC, c->grpc->listen, p);
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

/* Of two that listen at one place the second would find the address in use, by this very node. */
static void refuse_place(struct config *c, enum config_section section, const char *key,
                         const char *listen, const char *other, const char *other_name,
                         struct conf_problems *p)
{
    struct addr a, b;

    if (addr_parse(listen, &a) == 0 && addr_parse(other, &b) == 0 && is_same_place(&a, &b)) {
        config_refuse(c, section, key, listen,
                      arena_printf(&c->priv->arena,
                                   "another address than %s, which this node has for %s", other,
                                   other_name),
                      p);
    }
}

/* A page of the default address that is in use is done without. */
static void check_own_ports(struct config *c, struct conf_problems *p)
{
    const char *http = c->http->listen;
    const char *grpc = c->grpc->listen;
    bool page = !config_is_default(c, SECTION_ADMIN, "page");

    if (c->type->has_port && config_is_default(c, SECTION_GRPC, "listen")) {
        refuse_place(c, SECTION_HTTP, "listen", http, grpc, "gRPC", p);
    } else if (c->type->has_port) {
        refuse_place(c, SECTION_GRPC, "listen", grpc, http, "HTTP", p);
    }
    if (page) {
        refuse_place(c, SECTION_ADMIN, "page", c->admin->page, http, "HTTP", p);
    }
    if (page && c->type->has_port) {
        refuse_place(c, SECTION_ADMIN, "page", c->admin->page, grpc, "gRPC", p);
    }
}

/* Each item of the list that is not good. */
static void check_items(struct config *c, enum config_section section, const char *key,
                        const struct fn_strlist *list, bool (*good)(const char *item),
                        const char *rule, struct conf_problems *p)
{
    for (uint64_t i = 0; i < list->n; i++) {
        if (!good(list->items[i])) {
            config_refuse(c, section, key, list->items[i], rule, p);
        }
    }
}

static bool is_network(const char *text)
{
    struct net_network network;

    return net_network_parse(text, &network) == 0;
}

static bool is_absolute(const char *path)
{
    return path[0] == '/';
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

    check_items(c, SECTION_HTTP, "proxies", proxies, is_network, RULE_NETWORK, p);
    if (proxies->n == 0 && from && strcmp(from, "connection") != 0) {
        config_refuse(c, SECTION_HTTP, "client_from", from,
                      "connection, as long as http.proxies names nobody whose word counts", p);
    }
}

/* For messages: a password is nobody's to read. */
static const char *without_user(struct config *c, const char *url)
{
    const char *at = strrchr(url, '@');
    size_t scheme = strcspn(url, ":");

    return !at ? url
               : arena_printf(&c->priv->arena, "%.*s://...%s",
                              strncmp(url + scheme, "://", 3) == 0 ? (int)scheme : 0, url, at);
}

static void check_log(struct config *c, struct conf_problems *p)
{
    const char *dest_rule = log_dest_refused(c->log->dest);
    const char *prefix_rule = log_prefix_refused(c->log->prefix);

    if (dest_rule) {
        config_refuse(c, SECTION_LOG, "dest", without_user(c, c->log->dest), dest_rule, p);
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
    const struct fn_opt *o = opt_find(v->opts, key);
    const char *ret;

    if (o) {
        conf_print_option(v, (uint32_t)(o - v->opts), &text);
    }
    ret = arena_strdup(&c->priv->arena, buf_text(&text));
    buf_finish(&text);
    return ret;
}

static bool split_http(const char *text, struct url *ret)
{
    return url_split(text, ret) && url_is_http(ret);
}

static bool url_has_address(const struct url *u)
{
    char text[ADDR_HOST_MAX + 16];
    struct addr a;

    if (u->host_len >= sizeof(text)) {
        return false;
    }
    snprintf(text, sizeof(text), "%.*s", (int)u->host_len, u->host);
    return addr_parse_host(text, &a) == 0 && a.host[0] && addr_port(&a) > 0;
}

/* "http://host:port" of a URL; NULL: it has none. */
static const char *origin_of(struct config *c, const char *url)
{
    struct url u;

    return !split_http(url, &u) || !url_has_address(&u)
               ? NULL
               : arena_printf(&c->priv->arena, "%.*s%.*s", (int)(u.begin - url), url,
                              (int)u.host_len, u.host);
}

static void check_traces(struct config *c, struct conf_problems *p)
{
    const struct trace_options *o = c->traces;
    const char *url = o->endpoint;
    const char *rule;
    struct url u;

    if (url && !split_http(url, &u)) {
        config_refuse(c, SECTION_TRACES, "endpoint", without_user(c, url),
                      "http://... or https://...", p);
    } else if (url && !url_has_address(&u)) {
        config_refuse(c, SECTION_TRACES, "endpoint", without_user(c, url),
                      "a host, with a port of 1..65535 if it has one", p);
    } else if (url && u.host != u.begin) { /* nobody would send it, and fnd check prints it */
        config_refuse(c, SECTION_TRACES, "endpoint", without_user(c, url),
                      "a URL without user and password; a token belongs in traces.headers", p);
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

    if (!metric_buckets_good(all->items, all->n)) {
        config_refuse(c, SECTION_METRICS, "latency_buckets",
                      value_of(c, SECTION_METRICS, "latency_buckets"),
                      "numbers of milliseconds that ascend, 32 at most", p);
    }
    check_items(c, SECTION_METRICS, "buckets", &c->buckets->own, metric_buckets_of_good,
                "a histogram of latencies, = and numbers of milliseconds that ascend, 32 at most",
                p);
}

static void check_api_url(struct config *c, struct conf_problems *p)
{
    bool by_file = strncmp(config_source_of(c, SECTION_LB, "api_url"), "FN_", 3) != 0;
    const char *url = c->catalog->api_url;
    struct url u;

    if (!url) {
        return;
    }
    if (!split_http(url, &u) || u.host_len == 0 || *u.host == ':') {
        config_refuse(c, SECTION_LB, "api_url", without_user(c, url),
                      "http://host:port (no host specified for client)", p);
    } else if (!url_has_address(&u)) {
        config_refuse(c, SECTION_LB, "api_url", without_user(c, url),
                      "http://host:port, with a port of 1..65535", p);
    } else if (by_file && (u.host != u.begin || (*u.rest && strcmp(u.rest, "/") != 0))) {
        config_refuse(c, SECTION_LB, "api_url", without_user(c, url),
                      "http://host:port and nothing else", p);
    } else {
        c->catalog->api_url = origin_of(c, url); /* the rest is dropped, as by Go Fn */
    }
}

static void check_public_url(struct config *c, struct conf_problems *p)
{
    const char *url = c->api->public_url;
    struct url u;

    if (url && !origin_of(c, url)) {
        config_refuse(c, SECTION_API, "public_url", without_user(c, url), "http://host:port", p);
    } else if (url && split_http(url, &u) && u.host != u.begin) {
        config_refuse(c, SECTION_API, "public_url", without_user(c, url),
                      "a URL without user and password: everybody is shown it", p);
    }
}

/* Of another kind of database only the kind is shown: the rest has its password. */
static void check_store(struct config *c, struct conf_problems *p)
{
    const char *url = c->store->url;
    struct fn_error e = ERR_INIT;

    if (url && config_has(c, SIDE_API) && store_check_url(url, &e) < 0) {
        config_refuse(c, SECTION_STORE, "url",
                      arena_printf(&c->priv->arena, "%.*s", (int)strcspn(url, ":"), url), e.msg,
                      p);
    }
    check_items(c, SECTION_API, "clients", &c->api->clients, is_network, RULE_NETWORK, p);
    for (uint64_t i = 0; i < c->api->tokens.n; i++) {
        if (api_check_token(c->api->tokens.items[i], &e) < 0) {
            config_refuse(c, SECTION_API, "tokens", "an entry that is something else", e.msg, p);
        } else if (api_check_twin(&c->api->tokens, i, &e) < 0) {
            conf_problem(p, "CFG703", config_source_of(c, SECTION_API, "tokens"), "tokens: %s",
                         e.msg);
        }
    }
}

/* Told where the one stands that somebody wrote. */
static void check_order(struct config *c, enum config_section section, const char *low_key,
                        int64_t low, const char *high_key, int64_t high, struct conf_problems *p)
{
    bool high_given = !config_is_default(c, section, high_key);
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

/* Of the functions of the file; 0: there are none. */
static uint64_t smallest_function_mb(const struct config *c)
{
    uint64_t least = 0;

    for (uint32_t i = 0; i < c->n_apps; i++) {
        for (uint32_t k = 0; k < c->apps[i].n_fns; k++) {
            uint64_t mb = c->apps[i].fns[k].fn.mem_mb;

            least = least == 0 || mb < least ? mb : least;
        }
    }
    return least;
}

/* Bytes that were meant as MB would have every call refused. */
static void check_memory(struct config *c, struct conf_problems *p)
{
    uint64_t total = c->account->mem_bytes_max;
    uint64_t least = c->runner->mem_mb_min;
    uint64_t smallest = c->store->url ? 0 : smallest_function_mb(c);
    bool by_function = config_has(c, SIDE_RUNNER) && smallest > least;

    least = by_function ? smallest : least;
    if (total == 0 || total / ACCOUNT_MIB >= least) {
        return;
    }
    config_refuse(c, SECTION_RUNNER, "memory_total", value_of(c, SECTION_RUNNER, "memory_total"),
                  arena_printf(&c->priv->arena, "at least %" PRIu64 "MiB, %s", least,
                               by_function ? "which the smallest function of apps: needs"
                                           : "which is memory_min"),
                  p);
}

/* Names of containers begin with "<owner>--": no owner may be the start of another's names. */
static bool is_owner(const char *owner)
{
    size_t n = strspn(owner, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && !owner[n] && owner[n - 1] != '-' && !strstr(owner, "--");
}

static void check_runner(struct config *c, struct conf_problems *p)
{
    const char *owner = c->runner->owner;
    const struct fnsock_config *f = c->fnsock;

    if (owner && !is_owner(owner)) {
        config_refuse(c, SECTION_RUNNER, "owner", owner,
                      "1 to 63 of a-z, 0-9 and -, without -- and not - at the end", p);
    }
    if (f->iofs_path && f->iofs_path[0] != '/') {
        config_refuse(c, SECTION_RUNNER, "iofs_path", f->iofs_path, "an absolute path", p);
    }
    if (f->engine_path && !f->iofs_path) {
        config_refuse(c, SECTION_RUNNER, "iofs_engine_path", f->engine_path,
                      "iofs_path (FN_IOFS_PATH) beside it", p);
    }
    check_memory(c, p);
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
    check_items(c, SECTION_PLUGINS, "keys", &rules->keys, is_absolute, "absolute paths", p);
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

    if (npm->wishes_file && npm->wishes_file[0] != '/') {
        config_refuse(c, SECTION_NPM, "wishes_file", npm->wishes_file, "an absolute path", p);
    }
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
    check_public_url(c, p);
    check_store(c, p);
    check_order(c, SECTION_LB, "retry_min", place->retry_min_ns, "retry_max",
                place->retry_max_ns, p);
    check_order(c, SECTION_GRPC, "reconnect_first", rpc->reconnect_first_ns, "reconnect_max",
                rpc->reconnect_max_ns, p);
    check_runner(c, p);
    check_tls(c, p);
    check_plugins(c, p);
    check_npm(c, p);
}
