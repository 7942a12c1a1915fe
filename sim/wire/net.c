/* The network of worlds in which everything between the nodes is bytes: core/rpc over core/net over
 * the kernel of this folder. */
#include "net.h"
#include "syscalls.h"
#include "tls.h"
#include "watch.h"
#include "witness.h"

#include <base/err.h>
#include <rpc/plugin_rpc.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>

#define ENCRYPTED_ONE_IN 3u
#define IP_OF_CLIENTS 0x0a000201u
#define IP_OF_NPM   0x0a000301u
#define ADDRESS_OF_NPM "10.0.3.1:9191"
#define BREAK_BYTES 97u /* of a "frame" of the plan */

uint32_t net_ip_of_lb(uint32_t index)
{
    return 0x0a000000u + index;
}

static uint32_t ip_of_runner(uint32_t index)
{
    return 0x0a000100u + index;
}

/* What one process has of the network. */
struct place_in_net {
    LIST_ENTRY(place_in_net) entry;
    const struct node *node;
    struct host host;
    struct rpc *rpc;
    struct rpc_server *server; /* of a runner, or a manager */
};

struct net {
    struct world *w;
    struct kernel *kernel;
    struct host clients;
    bool encrypted; /* between nodes */
    struct net_identity *https; /* of load balancers to clients; NULL: in the clear */
    struct net_tls tls;
    LIST_HEAD(, place_in_net) places;
};

static struct place_in_net *place_of(struct net *net, const struct node *n)
{
    struct place_in_net *p;

    LIST_FOREACH(p, &net->places, entry) {
        if (p->node == n) {
            return p;
        }
    }
    return NULL;
}

struct host *net_host(struct net *net, const struct node *n)
{
    return &place_of(net, n)->host;
}

struct net_identity *net_https(const struct net *net)
{
    return net->https;
}

struct host *net_clients(struct net *net)
{
    return &net->clients;
}

void net_enter(struct net *net, const struct node *n)
{
    struct place_in_net *p = n ? place_of(net, n) : NULL;

    syscalls_as(p ? &p->host : NULL);
}

static struct place_in_net *settle(struct net *net, struct node *n, uint32_t ip)
{
    struct place_in_net *p = sim_alloc(sizeof(*p));
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error e = ERR_INIT;

    p->node = n;
    host_open(&p->host, net->kernel, n->sim, ip, host_look);
    LIST_INSERT_HEAD(&net->places, p, entry);
    if (net->encrypted) {
        config.tls = config.tls_server = net->tls;
    }
    config.streams_max = net->w->plan->streams_max;
    config.send_queue_bytes = net->w->plan->window_bytes;
    must_be(rpc_create(host_loop(&p->host), &config, &p->rpc, &e), &e);
    return p;
}

struct engage_client *net_client_create(struct net *net, struct lb_node *l)
{
    struct place_in_net *p = settle(net, &l->n, net_ip_of_lb(l->index));

    return witness_client(witness_create(l, rpc_client(p->rpc)));
}

void net_client_destroy(struct engage_client *client)
{
    witness_destroy((struct witness *)(void *)client);
}

struct engage_server *net_server_table(void)
{
    return &witness_server;
}

void net_serve(struct net *net, struct runner_node *r)
{
    struct place_in_net *p = settle(net, &r->n, ip_of_runner(r->index));
    struct host *last = syscalls_as(&p->host);
    struct fn_error e = ERR_INIT;
    char address[32];

    snprintf(address, sizeof(address), "10.0.1.%u:9190", r->index);
    must_be(rpc_server_open(p->rpc, address, &witness_server_cb, r, &p->server, &e), &e);
    syscalls_as(last);
}

void net_drain_runner(struct net *net, struct runner_node *r, void (*done)(void *ud), void *ud)
{
    rpc_server_drain(place_of(net, &r->n)->server, done, ud);
}

void net_lose_runner(struct net *net, struct runner_node *r)
{
    host_die(&place_of(net, &r->n)->host);
}

void net_lose_lb(struct net *net, struct lb_node *l)
{
    host_die(&place_of(net, &l->n)->host);
}

void net_forget(struct net *net, const struct node *n)
{
    struct place_in_net *p = place_of(net, n);

    rpc_destroy(p->rpc);
    host_close(&p->host);
    LIST_REMOVE(p, entry);
    free(p);
}

void net_check_times(struct net *net)
{
    for (uint32_t i = 0; i < RUNNERS_MAX; i++) {
        if (net->w->runners[i]) {
            witness_check_times(net->w->runners[i]);
        }
    }
}

/* ---- a node pool manager --------------------------------------------------------------------- */

struct pool_client {
    struct plugin_rpc *plugins;
};

struct rpc *pool_net_open(struct npm_node *npm)
{
    struct node *n = npm_node_base(npm);

    return settle(n->w->net, n, IP_OF_NPM)->rpc;
}

/* net_forget() does. */
void pool_net_close(struct rpc *rpc)
{
    (void)rpc;
}

void pool_net_serve(struct npm_node *npm)
{
    struct node *n = npm_node_base(npm);
    struct place_in_net *p = place_of(n->w->net, n);
    struct host *last = syscalls_as(&p->host);
    struct fn_error e = ERR_INIT;

    must_be(rpc_server_open(p->rpc, ADDRESS_OF_NPM, NULL, NULL, &p->server, &e), &e);
    rpc_server_serve(p->server, npm_node_service(npm));
    syscalls_as(last);
}

void pool_net_lose(struct npm_node *npm)
{
    const struct node *n = npm_node_base(npm);

    host_die(&place_of(n->w->net, n)->host);
}

void pool_client_create(struct lb_node *l)
{
    struct pool_client *pc = sim_alloc(sizeof(*pc));
    struct fn_error e = ERR_INIT;

    must_be(plugin_rpc_create(place_of(l->n.w->net, &l->n)->rpc, l->host, NULL, NULL, &pc->plugins,
                              &e),
            &e);
    l->pool_client = pc;
}

void pool_client_destroy(struct pool_client *pc)
{
    if (pc) {
        plugin_rpc_destroy(pc->plugins);
        free(pc);
    }
}

void pool_net_cut(struct world *w, uint32_t lb, int64_t until_ns)
{
    kernel_cut(w->net->kernel, net_ip_of_lb(lb), IP_OF_NPM, until_ns);
    kernel_cut(w->net->kernel, IP_OF_NPM, net_ip_of_lb(lb), until_ns);
}

void pool_net_heal(struct world *w)
{
    (void)w; /* net_heal() has */
}

/* ---- its questions to runners ---------------------------------------------------------------- */

struct ask_net *ask_net_create(struct world *w)
{
    (void)w;
    return NULL;
}

void ask_net_destroy(struct ask_net *net)
{
    (void)net;
}

/* What the host of a dead process has is gone with it. */
void ask_net_lose_npm(struct rpc *rpc)
{
    (void)rpc;
}

void ask_net_lose_runner(struct runner_node *r)
{
    (void)r;
}

void ask_net_part(struct world *w, uint32_t runner, enum net_way way, int64_t until_ns)
{
    if (way & NET_TO) {
        kernel_cut(w->net->kernel, IP_OF_NPM, ip_of_runner(runner), until_ns);
    }
    if (way & NET_FROM) {
        kernel_cut(w->net->kernel, ip_of_runner(runner), IP_OF_NPM, until_ns);
    }
}

void ask_net_slow(struct world *w, uint32_t runner, int64_t more_ns, int64_t until_ns)
{
    kernel_slow(w->net->kernel, IP_OF_NPM, ip_of_runner(runner), more_ns, until_ns);
    kernel_slow(w->net->kernel, ip_of_runner(runner), IP_OF_NPM, more_ns, until_ns);
}

void ask_net_break(struct world *w, uint32_t runner, bool back, bool is_void, uint32_t bytes)
{
    kernel_break_next(w->net->kernel, IP_OF_NPM, ip_of_runner(runner), back, bytes,
                      is_void ? KERNEL_VOID : KERNEL_RESET);
}

/* There is no status that takes its time. */
void ask_net_hang(struct world *w, uint32_t runner, int64_t until_ns)
{
    (void)w;
    (void)runner;
    (void)until_ns;
}

void ask_net_heal(struct world *w)
{
    (void)w; /* net_heal() has */
}

/* ---- faults ---------------------------------------------------------------------------------- */

void net_part(struct net *net, uint32_t lb, uint32_t runner, enum net_way way, int64_t until_ns)
{
    if (way & NET_TO) {
        kernel_cut(net->kernel, net_ip_of_lb(lb), ip_of_runner(runner), until_ns);
    }
    if (way & NET_FROM) {
        kernel_cut(net->kernel, ip_of_runner(runner), net_ip_of_lb(lb), until_ns);
    }
}

void net_slow(struct net *net, uint32_t lb, uint32_t runner, int64_t more_ns, int64_t until_ns)
{
    kernel_slow(net->kernel, net_ip_of_lb(lb), ip_of_runner(runner), more_ns, until_ns);
    kernel_slow(net->kernel, ip_of_runner(runner), net_ip_of_lb(lb), more_ns, until_ns);
}

void net_break_after(struct net *net, uint32_t lb, uint32_t runner, uint32_t frames, bool to)
{
    kernel_break_after(net->kernel, to ? net_ip_of_lb(lb) : ip_of_runner(runner),
                       to ? ip_of_runner(runner) : net_ip_of_lb(lb), (uint64_t)frames * BREAK_BYTES,
                       frames % 3 ? KERNEL_RESET : KERNEL_END);
}

void net_make_void(struct net *net, uint32_t lb, uint32_t runner)
{
    kernel_break_after(net->kernel, net_ip_of_lb(lb), ip_of_runner(runner), 0, KERNEL_VOID);
}

/* There is no transport that refuses for no reason. */
void net_refuse(struct net *net, uint32_t runner, uint32_t streams)
{
    (void)net;
    (void)runner;
    (void)streams;
}

void net_heal(struct net *net)
{
    kernel_heal(net->kernel);
}

static void open_https(struct net *net)
{
    const struct net_tls tls = { .cert_pem = net->tls.cert_pem, .key_pem = net->tls.key_pem };
    struct fn_error e = ERR_INIT;

    must_be(net_identity_create(&tls, &net->https, &e), &e);
}

static void break_at_byte(struct net *net, const struct plan_byte *b)
{
    static const enum kernel_break how[PLAN_BREAKS_N] = { [PLAN_RESET] = KERNEL_RESET,
                                                          [PLAN_VANISH] = KERNEL_VOID,
                                                          [PLAN_END] = KERNEL_END,
                                                          [PLAN_STALL] = KERNEL_STALL };
    const uint32_t lb = net_ip_of_lb(0), runner = ip_of_runner(0);
    /* Who connects, to whom, and whether the byte goes the other way. */
    const struct {
        uint32_t from, to;
        bool back;
    } ways[] = {
        [PLAN_TO_LB] = { IP_OF_CLIENTS, lb, false }, [PLAN_TO_CLIENT] = { IP_OF_CLIENTS, lb, true },
        [PLAN_TO_RUNNER] = { lb, runner, false },    [PLAN_FROM_RUNNER] = { lb, runner, true },
        [PLAN_TO_NPM] = { lb, IP_OF_NPM, false },    [PLAN_FROM_NPM] = { lb, IP_OF_NPM, true },
    };

    net->encrypted = b->speech != PLAN_PLAIN;
    kernel_break_next(net->kernel, ways[b->way].from, ways[b->way].to, ways[b->way].back, b->at,
                      how[b->how]);
}

bool net_has_broken(const struct net *net)
{
    return kernel_has_broken(net->kernel);
}

/* Functions are those of fn.yaml. */
bool net_carries_api(void)
{
    return false;
}

struct net *net_create(struct world *w)
{
    struct net *net = sim_alloc(sizeof(*net));

    net->w = w;
    net->kernel = kernel_create(w);
    net->tls = tls_begin(w->plan->seed);
    LIST_INIT(&net->places);
    host_open(&net->clients, net->kernel, w->outside, IP_OF_CLIENTS, host_look);
    syscalls_open(net->kernel);
    /* A manager wants a name of its own from each load balancer: managed worlds are plain. */
    net->encrypted = w->plan->seed / ENCRYPTED_ONE_IN % ENCRYPTED_ONE_IN == 0 && !w->plan->managed;
    if (w->plan->byte) {
        break_at_byte(net, w->plan->byte);
    }
    if (w->plan->byte ? net->encrypted : w->plan->seed / ENCRYPTED_ONE_IN % ENCRYPTED_ONE_IN == 1) {
        open_https(net);
    }
    return net;
}

void net_destroy(struct net *net)
{
    syscalls_open(NULL);
    net_identity_unref(net->https);
    host_close(&net->clients);
    kernel_destroy(net->kernel);
    free(net);
}
