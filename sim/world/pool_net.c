/* The way between load balancers and their node pool manager: what core/rpc's raw calls are to
 * both, so that pool-npm, "fn.rpc" and the wire service are the real ones.
 *
 * Messages of one call arrive in order, later, or not at all. A cut delays them; who waits longer
 * than its patience believes that the connection is gone. */
#include "way.h"

#include <assert.h>
#include <model/grpc.h>
#include <rpc/plugin_rpc.h>
#include <rpc/raw.h>
#include <rpc/rpc_int.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS    (8 * ENV_S)
#define PATH_MAX_BYTES 64

struct rpc_incoming {
    void *owner;
};

struct pool_call {
    struct rpc_raw raw;
    LIST_ENTRY(pool_call) link; /* of the world */
    struct lb_node *lb;
    struct npm_node *npm;
    struct rpc_raw_cb cb;
    void *ud;
    bool client_open; /* it wants to hear more */
    bool called;      /* the manager has it */
    bool server_open; /* and did not end it */
    bool full;        /* the manager waits for room */
    bool lost;        /* the manager is dead: nothing of it is heard any more */
    uint32_t busy;    /* depth of our own frames that still use it */
    char path[PATH_MAX_BYTES];
    struct way up, down;
    struct env_timer deadline, broken;
    struct rpc_incoming in;
};

struct rpc_channel {
    struct lb_node *lb;
};

/* What the plugins of a load balancer know as the node's rpc. */
struct pool_client {
    struct rpc rpc; /* first; only its env is used */
    struct lb_node *lb;
    struct plugin_rpc *plugins;
};

static struct pool_call *call_of(const struct rpc_incoming *in)
{
    return container_of(in, struct pool_call, in);
}

static struct pool_call *of_raw(struct rpc_raw *raw)
{
    return container_of(raw, struct pool_call, raw);
}

static void call_send(struct pool_call *c, struct way *y, enum packet_kind kind, int status,
                 const void *data, size_t len)
{
    struct world *w = c->lb->n.w;
    uint64_t jitter_ns = sim_rng_below(&w->pool_rng, (uint64_t)w->plan->jitter_ns);

    way_send(y, w->plan->latency_ns + (int64_t)jitter_ns, kind, status, data, len);
}

static struct packet *call_take(struct pool_call *c, struct way *y)
{
    return way_take(y, c->lb->n.w->pool_cut_until_ns[c->lb->index]);
}

/* ---- ends of calls ------------------------------------------------------------------------- */

static void call_maybe_free(struct pool_call *c)
{
    if (!c->busy && !c->client_open && !c->server_open && c->up.n == 0 && c->down.n == 0) {
        LIST_REMOVE(c, link);
        free(c);
    }
}

/* The client hears no more of it; the manager learns that. */
static void client_close(struct pool_call *c)
{
    c->client_open = false;
    env_timer_clear(c->lb->n.env, &c->deadline);
    env_timer_clear(c->lb->n.env, &c->broken);
    way_clear(&c->down);
    if (!c->called) {
        way_clear(&c->up);
    } else if (c->server_open && !c->lost) {
        call_send(c, &c->up, PACKET_GONE, 0, NULL, 0);
    }
}

static void client_end(struct pool_call *c, int status, const char *text)
{
    struct rpc_raw_cb cb = c->cb;

    c->busy++;
    client_close(c);
    cb.end(c->ud, status, text);
    c->busy--;
    call_maybe_free(c);
}

static void on_down(struct env_timer *t)
{
    struct pool_call *c = container_of(t, struct pool_call, down.timer);
    struct packet *p = call_take(c, &c->down);

    if (!p) {
        return;
    }
    if (c->full && !c->lost) {
        c->full = false;
        call_send(c, &c->up, PACKET_ROOM, 0, NULL, 0);
    }
    if (p->kind == PACKET_END) {
        client_end(c, p->status, p->len ? p->data : NULL);
    } else {
        c->busy++;
        c->cb.message(c->ud, p->data, p->len);
        c->busy--;
        call_maybe_free(c);
    }
    free(p);
}

static void on_deadline(struct env_timer *t)
{
    client_end(container_of(t, struct pool_call, deadline), GRPC_DEADLINE, "no answer in time");
}

static void on_broken(struct env_timer *t)
{
    client_end(container_of(t, struct pool_call, broken), GRPC_UNAVAILABLE, "the connection is gone");
}

static void call_begin(struct pool_call *c, const struct packet *p)
{
    const struct rpc_service *s = npm_node_service(c->npm);
    const struct rpc_method *m = s->methods;

    while (m->path && strcmp(m->path, c->path) != 0) {
        m++;
    }
    c->called = c->server_open = true;
    if (m->path) {
        m->called(s->ud, &c->in, p->data, p->len);
    } else {
        rpc_incoming_end(&c->in, GRPC_UNIMPLEMENTED, NULL);
    }
}

static void on_up(struct env_timer *t)
{
    struct pool_call *c = container_of(t, struct pool_call, up.timer);
    const struct rpc_service *s = npm_node_service(c->npm);
    struct packet *p = call_take(c, &c->up);

    if (!p) {
        return;
    }
    c->busy++;
    if (p->kind == PACKET_DATA) {
        call_begin(c, p);
    } else if (p->kind == PACKET_ROOM && c->server_open) {
        s->room(s->ud, &c->in);
    } else if (c->server_open) {
        c->server_open = false;
        s->gone(s->ud, &c->in);
    }
    c->busy--;
    free(p);
    call_maybe_free(c);
}

/* ---- the client's table -------------------------------------------------------------------- */

int rpc_channel_open(struct rpc *r, const char *address, struct net_identity *identity,
                     const char *tls_name, struct rpc_channel **ret, struct fn_error *reterr)
{
    struct rpc_channel *ch = sim_alloc(sizeof(*ch));

    (void)address;
    (void)identity;
    (void)tls_name;
    (void)reterr;
    ch->lb = ((struct pool_client *)(void *)r)->lb;
    *ret = ch;
    return 0;
}

void rpc_channel_close(struct rpc_channel *ch)
{
    free(ch); /* plugin_rpc ended its calls before */
}

static void call_close(struct rpc_raw *raw)
{
    struct pool_call *c = of_raw(raw);

    client_close(c);
    call_maybe_free(c);
}

void rpc_raw_close(struct rpc_raw *c)
{
    c->close(c);
}

int rpc_raw_start(struct rpc_channel *ch, const char *method, const void *message, size_t len,
                  int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
                  struct fn_error *reterr)
{
    struct pool_call *c = sim_alloc(sizeof(*c));
    struct world *w = ch->lb->n.w;

    (void)reterr;
    c->raw.close = call_close;
    c->lb = ch->lb;
    c->npm = ch->lb->n.dead ? NULL : w->npm;
    c->cb = *cb;
    c->ud = ud;
    c->client_open = true;
    strncpy(c->path, method, sizeof(c->path) - 1);
    way_open(&c->up, c->npm ? npm_node_base(c->npm) : NULL, on_up);
    way_open(&c->down, &c->lb->n, on_down);
    c->deadline.cb = on_deadline;
    c->broken.cb = on_broken;
    LIST_INSERT_HEAD(&w->pool_calls, c, link);
    if (deadline_ns) {
        world_at(&c->lb->n, &c->deadline, deadline_ns);
    }
    if (w->pool_cut_until_ns[c->lb->index] > w->now_ns + PATIENCE_NS) {
        world_at(&c->lb->n, &c->broken, w->now_ns + PATIENCE_NS);
    }
    if (c->npm) {
        call_send(c, &c->up, PACKET_DATA, 0, message, len);
    } else {
        call_send(c, &c->down, PACKET_END, GRPC_UNAVAILABLE, NULL, 0);
    }
    *ret = &c->raw;
    return 0;
}

/* ---- the server's table -------------------------------------------------------------------- */

bool rpc_incoming_has_room(struct rpc_incoming *in)
{
    struct pool_call *c = call_of(in);

    c->full = c->down.n >= RPC_QUEUE_MAX;
    return !c->full;
}

int rpc_incoming_send(struct rpc_incoming *in, const void *data, size_t len)
{
    struct pool_call *c = call_of(in);

    if (c->down.n >= RPC_QUEUE_MAX) {
        return FN_E_EXHAUSTED;
    }
    if (c->client_open && !c->lost) {
        call_send(c, &c->down, PACKET_DATA, 0, data, len);
    }
    return 0;
}

void rpc_incoming_end(struct rpc_incoming *in, int status, const char *text)
{
    struct pool_call *c = call_of(in);

    c->server_open = false;
    if (c->client_open && !c->lost) {
        call_send(c, &c->down, PACKET_END, status, text, text ? strlen(text) + 1 : 0);
    }
    call_maybe_free(c);
}

void rpc_incoming_set(struct rpc_incoming *in, void *owner)
{
    in->owner = owner;
}

void *rpc_incoming_get(const struct rpc_incoming *in)
{
    return in->owner;
}

const char *rpc_incoming_path(const struct rpc_incoming *in)
{
    return call_of(in)->path;
}

bool rpc_incoming_identity(const struct rpc_incoming *in, char *ret, size_t cap)
{
    (void)in;
    (void)ret;
    (void)cap;
    return false;
}

/* ---- faults, life -------------------------------------------------------------------------- */

void pool_net_cut(struct world *w, uint32_t lb, int64_t until_ns)
{
    struct pool_call *c;

    if (until_ns > w->pool_cut_until_ns[lb]) {
        w->pool_cut_until_ns[lb] = until_ns;
    }
    LIST_FOREACH(c, &w->pool_calls, link) {
        if (c->lb->index == lb && c->client_open && until_ns > w->now_ns + PATIENCE_NS &&
            !env_timer_is_set(&c->broken)) {
            world_at(&c->lb->n, &c->broken, w->now_ns + PATIENCE_NS);
        }
    }
}

void pool_net_heal(struct world *w)
{
    memset(w->pool_cut_until_ns, 0, sizeof(w->pool_cut_until_ns));
}

void pool_net_lose(struct npm_node *npm)
{
    struct pool_call *c, *next;

    for (c = LIST_FIRST(&npm_node_base(npm)->w->pool_calls); c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->npm == npm) {
            c->lost = true;
            way_clear(&c->up);
            c->up.to = NULL;
            if (c->client_open) {
                call_send(c, &c->down, PACKET_END, GRPC_UNAVAILABLE, NULL, 0);
            }
            call_maybe_free(c);
        }
    }
}

/* Calls look whom the world has. */
void pool_net_serve(struct npm_node *npm)
{
    (void)npm;
}

void pool_client_create(struct lb_node *l)
{
    struct pool_client *pc = sim_alloc(sizeof(*pc));
    struct fn_error e = ERR_INIT;

    pc->rpc.env = l->n.env;
    pc->lb = l;
    if (plugin_rpc_create(&pc->rpc, l->host, NULL, NULL, &pc->plugins, &e) < 0) {
        abort();
    }
    l->pool_client = pc;
}

void pool_client_destroy(struct pool_client *pc)
{
    if (pc) {
        plugin_rpc_destroy(pc->plugins);
        free(pc);
    }
}
