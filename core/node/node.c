/* A node's parts in the order of their making: gRPC, TLS, sides, ports. node_open() makes what
 * needs no peer, node_serve() opens the ports, node_close() undoes both. */
#include <node/logs.h>
#include <node/node.h>
#include <process/crash.h>

#include <arpa/inet.h>
#include <base/addr.h>
#include <base/log.h>
#include <ifaddrs.h>
#include <loop/exec.h>
#include <loop/proc.h>
#include <net/if.h>
#include <net/inherit.h>
#include <netinet/in.h>
#include <override/override.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first IPv4 address of an interface that is neither lo nor docker0, as Go Fn takes for ids. */
static void own_ipv4(unsigned char ret[4])
{
    struct ifaddrs *list = NULL;
    bool found = false;

    memcpy(ret, (unsigned char[]){ 127, 0, 0, 1 }, 4);
    if (getifaddrs(&list) < 0) {
        return;
    }
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && strcmp(i->ifa_name, "lo") != 0 &&
            strcmp(i->ifa_name, "docker0") != 0) {
            struct in_addr a = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;

            found = (ntohl(a.s_addr) >> 24) != 127;
            if (found) {
                memcpy(ret, &a.s_addr, 4);
            }
        }
    }
    freeifaddrs(list);
}

/* Of an option that was checked. */
static struct addr addr_of(const char *listen)
{
    struct addr a;

    addr_parse(listen, &a);
    return a;
}

static int open_rpc(struct node *n, struct fn_error *reterr)
{
    struct rpc_config c = *n->config->rpc;
    int r = rpc_transport_find(n->config->transport_dir, n->config->grpc->transport, &c.transport,
                               reterr);

    if (r < 0) {
        return r;
    }
    rpc_config_fix(&c);
    c.tls = node_tls_of(&n->tls.client);
    c.tls_server = node_tls_of(&n->tls.server);
    return rpc_create(n->loop, &c, &n->rpc, reterr);
}

static void close_streams(void *impl, const struct fn_host *host)
{
    fetch_close_all(impl, host);
}

int node_offer(struct node *n, struct fn_error *reterr)
{
    struct addr http = addr_of(n->config->http->listen);
    unsigned char ipv4[4];
    int r;

    plugin_host_on_open(n->host, crash_know);
    plugin_host_budget(n->host, PLUGIN_BUDGET_LOOP_NS);
    plugin_host_deadline(n->host, loop_aside, n->config->plugins->start_timeout_ns);
    plugin_host_waits(n->host, loop_waited_ns);
    own_ipv4(ipv4);
    id_maker_init(&n->ids, ipv4, addr_port(&http));
    node_set_budget(n);
    r = fetch_create(n->env, &n->fetch, reterr);
    r = r < 0 ? r : proc_create(&n->proc, reterr);
    r = r < 0 ? r : open_rpc(n, reterr);
    r = r < 0 ? r
              : plugin_rpc_create(n->rpc, n->host, node_tls_find, &n->tls, &n->plugin_rpc, reterr);
    if (r < 0) {
        return r;
    }
    plugin_host_offer(n->host, "fn.op", 1, 0, loop_op_if(), NULL);
    plugin_host_offer(n->host, "fn.exec", 1, 0, exec_if(), NULL);
    plugin_host_offer(n->host, "fn.proc", 1, 1, proc_if(), n->proc);
    plugin_host_on_release(n->host, "fn.proc", false, proc_release);
    /* Released behind it: who hears of a child's end may open a stream. */
    plugin_host_offer(n->host, "fn.http", 1, 1, fetch_if(), n->fetch);
    plugin_host_on_release(n->host, "fn.http", false, close_streams);
    override_offer(n->host);
    return 0;
}

/* The parts that plugins need come first, then all of them, so that every mistake is told. */
static int open_parts(struct node *n, struct config *config, struct fn_error *reterr)
{
    struct generation *g;
    int r = 0;

    for (uint32_t i = n->n_sides; i-- > 0 && r == 0;) {
        r = n->sides[i]->open(n, reterr);
    }
    if (r < 0) {
        return r;
    }
    g = generation_create(n, config, false);
    if (!g) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    r = generation_load(g, NULL, n->problems) < 0
            ? err_set(reterr, FN_E_INVALID, "a plugin could not be loaded")
            : generation_adopt(g, reterr);
    if (r < 0 && n->gen != g) {
        generation_abandon(g);
    }
    return r;
}

static void find_sides(struct node *n)
{
    for (int i = 0; i < SIDES_N; i++) {
        if (config_has(n->config, (enum config_side)i)) {
            n->sides[n->n_sides++] = node_sides[i];
        }
    }
    n->front = node_sides[n->config->type->front];
}

int node_make(struct node *n, struct config *config, struct fn_error *reterr)
{
    int r = loop_create(NULL, &n->loop, reterr);

    if (r < 0) {
        return r;
    }
    n->config = config;
    find_sides(n);
    n->env = loop_env(n->loop);
    n->opened_ns = env_now_ns(n->env);
    LIST_INIT(&n->generations);
    n->host = plugin_host_create(n->env);
    n->reload = reload_create(n, n->problems->strict);
    return n->host && n->reload ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

int node_open(struct node *n, struct config *config, struct fn_error *reterr)
{
    int r = node_make(n, config, reterr);

    if (r < 0) {
        return r;
    }
    if (config_plugin_policy(config, n->host, n->problems) < 0) {
        return err_set(reterr, FN_E_INVALID, "plugins.keys cannot be used");
    }
    r = node_tls_open(&n->tls, n->env, config, reterr);
    r = r < 0 ? r : node_offer(n, reterr);
    r = r < 0 ? r : node_traces_open(n, reterr);
    return r < 0 ? r : open_parts(n, config, reterr);
}

/* Once, with what follows: a port without TLS believes whoever reaches it. */
static void warn_plain(const struct node *n)
{
    const char *listen = n->config->grpc->listen;
    struct addr at = addr_of(listen);

    if (n->rpc_server && !n->tls.server.config && !addr_is_local(&at)) {
        log_warn(n->front->exposed, "grpc", listen);
    }
}

/* C core reads what strangers send before it is known who they are, and Debian does not mend it. */
static void warn_core(const struct node *n)
{
    const char *listen = n->config->grpc->listen;
    struct addr at = addr_of(listen);

    if (n->rpc_server && strcmp(n->config->grpc->transport, "core") == 0 && !at.path &&
        (!n->tls.server.config || !n->tls.server.config->ca)) {
        log_warn("gRPC C core reads the bytes of whoever reaches this port; expected grpc.tls with "
                 "ca, so that only peers with a certificate do, or transport: nghttp2",
                 "grpc", listen);
    }
}

static const char *unready(void *ud, char *text, size_t cap)
{
    return node_unready(ud, text, cap);
}

int node_serve(struct node *n, struct fn_error *reterr)
{
    struct web_config web = { .listen = n->config->http->listen,
                              .limits = *n->config->http_limits,
                              .cors = *n->config->cors,
                              .bodies = &n->bodies,
                              .identity = n->tls.web.identity,
                              .lb = n->lb,
                              .api = n->management,
                              .api_options = n->config->api,
                              .unready = unready,
                              .ud = n };
    int r = 0;

    if (!n->front->serves_clients) { /* functions may call others, but not read metrics */
        web.refuse_interfaces = n->config->rpc->refuse_interfaces;
    }
    for (uint32_t i = n->n_sides; i-- > 0 && r == 0;) {
        r = n->sides[i]->serve ? n->sides[i]->serve(n, reterr) : 0;
    }
    r = r < 0 ? r : web_create(n->loop, &web, &n->web, reterr);
    net_inherit_keep_no_more(); /* the operator's page is this process's, to the end of its drain */
    node_tls_watch(&n->tls, n->rpc);
    warn_plain(n);
    warn_core(n);
    r = r < 0 ? r : node_admin_open(n, reterr);
    for (uint32_t i = n->n_sides; i-- > 0 && r == 0;) {
        if (n->sides[i]->begin) {
            n->sides[i]->begin(n);
        }
    }
    return r;
}

void node_close(struct node *n)
{
    struct plugin_host *host;

    if (!n->loop) {
        return;
    }
    loop_enter(n->loop); /* lane threads still deliver */
    node_logs_close(n);
    admin_destroy(n->admin); /* whose requests may be the page's */
    page_destroy(n->page);
    web_destroy(n->web);
    for (uint32_t i = 0; i < n->n_sides; i++) {
        n->sides[i]->close(n);
    }
    tracer_destroy(n->tracer);
    loop_leave(n->loop);
    config_undo_free(n->settings_undo);
    generations_close(n);
    reload_destroy(n->reload);
    while (n->n_plugins > 0) {
        plugin_destroy(n->plugins[--n->n_plugins]);
    }
    free(n->plugins);
    driver_hub_destroy(n->hub);
    plugin_rpc_destroy(n->plugin_rpc);
    if (n->rpc) {
        rpc_destroy(n->rpc);
    }
    asker_finish(&n->asker);
    proc_destroy(n->proc);
    fetch_destroy(n->fetch);
    host = n->host;
    n->host = NULL; /* the signals' thread may look for who hangs until the process has ended */
    plugin_host_destroy(host);
    loop_destroy(n->loop);
    node_tls_close(&n->tls);
}
