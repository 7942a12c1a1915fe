/* The way between load balancers and their node pool manager: what core/rpc's raw calls are to
 * both, so that pool-npm, "fn.rpc" and the wire service are the real ones.
 *
 * Messages of one call arrive in order, later, or not at all. A cut delays them; who waits longer
 * than its patience believes that the connection is gone. */
#include "world.h"

#include <assert.h>
#include <model/grpc.h>
#include <rpc/plugin_rpc.h>
#include <rpc/raw.h>
#include <rpc/rpc_int.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS    (8 * ENV_S)
#define PATH_MAX_BYTES 64

enum packet_kind { PACKET_DATA, PACKET_END, PACKET_GONE, PACKET_ROOM };

struct packet {
    TAILQ_ENTRY(packet) link;
    enum packet_kind kind;
    int64_t at_ns;
    int status;
    size_t len; /* of an end: its text, with NUL; 0: none */
    char data[];
};

/* One direction of a call. */
struct way {
    TAILQ_HEAD(, packet) packets;
    uint32_t n;
    int64_t last_ns; /* when the last one arrives */
    struct node *to;
    struct env_timer timer;
};

struct rpc_incoming {
    void *owner;
};

struct rpc_raw {
    LIST_ENTRY(rpc_raw) link; /* of the world */
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

static struct rpc_raw *call_of(const struct rpc_incoming *in)
{
    return container_of(in, struct rpc_raw, in);
}

/* ---- ways ---------------------------------------------------------------------------------- */

static void way_clear(struct way *y)
{
    struct packet *p;

    while ((p = TAILQ_FIRST(&y->packets))) {
        TAILQ_REMOVE(&y->packets, p, link);
        free(p);
    }
    y->n = 0;
    if (y->to) {
        env_timer_clear(y->to->env, &y->timer);
    }
}

static void way_arm(struct way *y)
{
    struct packet *first = TAILQ_FIRST(&y->packets);

    if (first && !env_timer_is_set(&y->timer)) {
        world_at(y->to, &y->timer, first->at_ns);
    }
}

static void way_send(struct rpc_raw *c, struct way *y, enum packet_kind kind, int status,
                     const void *data, size_t len)
{
    struct world *w = c->lb->n.w;
    const struct plan *plan = w->plan;
    struct packet *p = sim_alloc(sizeof(*p) + len);
    int64_t at_ns = w->now_ns + plan->latency_ns +
                    (int64_t)sim_rng_below(&w->pool_rng, (uint64_t)plan->jitter_ns);

    p->kind = kind;
    p->status = status;
    p->len = len;
    if (len > 0) {
        memcpy(p->data, data, len);
    }
    p->at_ns = y->last_ns = at_ns > y->last_ns ? at_ns : y->last_ns;
    TAILQ_INSERT_TAIL(&y->packets, p, link);
    y->n++;
    way_arm(y);
}

/* NULL: it has not arrived, and comes when the cut is over. */
static struct packet *way_take(struct rpc_raw *c, struct way *y)
{
    struct world *w = c->lb->n.w;
    struct packet *p = TAILQ_FIRST(&y->packets);

    if (w->now_ns < w->pool_cut_until_ns[c->lb->index]) {
        world_at(y->to, &y->timer, w->pool_cut_until_ns[c->lb->index]);
        return NULL;
    }
    TAILQ_REMOVE(&y->packets, p, link);
    y->n--;
    way_arm(y);
    return p;
}

/* ---- ends of calls ------------------------------------------------------------------------- */

static void call_maybe_free(struct rpc_raw *c)
{
    if (!c->busy && !c->client_open && !c->server_open && c->up.n == 0 && c->down.n == 0) {
        LIST_REMOVE(c, link);
        free(c);
    }
}

/* The client hears no more of it; the manager learns that. */
static void client_close(struct rpc_raw *c)
{
    c->client_open = false;
    env_timer_clear(c->lb->n.env, &c->deadline);
    env_timer_clear(c->lb->n.env, &c->broken);
    way_clear(&c->down);
    if (!c->called) {
        way_clear(&c->up);
    } else if (c->server_open && !c->lost) {
        way_send(c, &c->up, PACKET_GONE, 0, NULL, 0);
    }
}

static void client_end(struct rpc_raw *c, int status, const char *text)
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
    struct rpc_raw *c = container_of(t, struct rpc_raw, down.timer);
    struct packet *p = way_take(c, &c->down);

    if (!p) {
        return;
    }
    if (c->full && !c->lost) {
        c->full = false;
        way_send(c, &c->up, PACKET_ROOM, 0, NULL, 0);
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
    client_end(container_of(t, struct rpc_raw, deadline), GRPC_DEADLINE, "no answer in time");
}

static void on_broken(struct env_timer *t)
{
    client_end(container_of(t, struct rpc_raw, broken), GRPC_UNAVAILABLE, "the connection is gone");
}

static void call_begin(struct rpc_raw *c, const struct packet *p)
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
    struct rpc_raw *c = container_of(t, struct rpc_raw, up.timer);
    const struct rpc_service *s = npm_node_service(c->npm);
    struct packet *p = way_take(c, &c->up);

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

int rpc_raw_start(struct rpc_channel *ch, const char *method, const void *message, size_t len,
                  int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
                  struct fn_error *reterr)
{
    struct rpc_raw *c = sim_alloc(sizeof(*c));
    struct world *w = ch->lb->n.w;

    (void)reterr;
    c->lb = ch->lb;
    c->npm = ch->lb->n.dead ? NULL : w->npm;
    c->cb = *cb;
    c->ud = ud;
    c->client_open = true;
    strncpy(c->path, method, sizeof(c->path) - 1);
    TAILQ_INIT(&c->up.packets);
    TAILQ_INIT(&c->down.packets);
    c->down.to = &c->lb->n;
    c->up.timer.cb = on_up;
    c->down.timer.cb = on_down;
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
        c->up.to = npm_node_base(c->npm);
        way_send(c, &c->up, PACKET_DATA, 0, message, len);
    } else {
        way_send(c, &c->down, PACKET_END, GRPC_UNAVAILABLE, NULL, 0);
    }
    *ret = c;
    return 0;
}

void rpc_raw_close(struct rpc_raw *c)
{
    client_close(c);
    call_maybe_free(c);
}

/* ---- the server's table -------------------------------------------------------------------- */

bool rpc_incoming_has_room(struct rpc_incoming *in)
{
    struct rpc_raw *c = call_of(in);

    c->full = c->down.n >= RPC_QUEUE_MAX;
    return !c->full;
}

int rpc_incoming_send(struct rpc_incoming *in, const void *data, size_t len)
{
    struct rpc_raw *c = call_of(in);

    if (c->down.n >= RPC_QUEUE_MAX) {
        return FN_E_EXHAUSTED;
    }
    if (c->client_open && !c->lost) {
        way_send(c, &c->down, PACKET_DATA, 0, data, len);
    }
    return 0;
}

void rpc_incoming_end(struct rpc_incoming *in, int status, const char *text)
{
    struct rpc_raw *c = call_of(in);

    c->server_open = false;
    if (c->client_open && !c->lost) {
        way_send(c, &c->down, PACKET_END, status, text, text ? strlen(text) + 1 : 0);
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
    struct rpc_raw *c;

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
    struct rpc_raw *c, *next;

    for (c = LIST_FIRST(&npm_node_base(npm)->w->pool_calls); c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->npm == npm) {
            c->lost = true;
            way_clear(&c->up);
            c->up.to = NULL;
            if (c->client_open) {
                way_send(c, &c->down, PACKET_END, GRPC_UNAVAILABLE, NULL, 0);
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
