/* The way from a node pool manager to its runners: what lies beneath core/rpc's unary calls
 * (unary.c), so that the manager's asker, the question's deadline and bytes, and the runner's
 * status are the real ones.
 *
 * Each question has a connection of its own. Whoever runs at the machine when it is dialled takes
 * it, and nobody else ever answers on it; what a process has said before it dies may arrive behind
 * its death. Where no process listens the machine refuses; where no machine is, nobody says a word.
 *
 * A link is named once by its owner and once by its call, as in core/rpc/link.c. */
#include "way.h"

#include <base/buf.h>
#include <model/grpc.h>
#include <rpc/client_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_AROUND 40u /* of a packet */

/* What is wrong between the manager and one runner. */
struct ask_faults {
    int64_t to_until_ns, from_until_ns; /* nothing passes before */
    int64_t slow_ns, slow_until_ns;
    int64_t hangs_until_ns; /* its process takes questions and answers none before */
    bool breaks;            /* the next connection, in one direction and behind so many bytes: */
    struct ask_break {
        bool back, is_void;
        uint32_t bytes;
    } how;
};

struct ask_net {
    struct world *w;
    struct sim_rng rng;
    struct scratch out;
    LIST_HEAD(, ask_conn) conns;
    struct ask_faults faults[RUNNERS_MAX];
};

/* What a manager's process has of it. */
struct ask_client {
    struct rpc rpc; /* first */
    struct npm_node *npm;
    bool lost; /* the process is dead */
};

struct ask_conn {
    struct engage_link link; /* first: unary.c knows its rpc and its peer */
    struct rpc_raw raw;      /* the question */
    LIST_ENTRY(ask_conn) entry;
    struct ask_net *net;
    struct ask_client *client;
    uint32_t slot;
    struct env_timer syn;       /* of the world: the machine gets it */
    struct runner_node *runner; /* whose process has it; NULL: nobody's, or no more */
    struct env_timer accept, hold; /* of that process */
    struct way to, back;
    bool breaks, broken;
    bool is_void; /* packets vanish */
    struct ask_break how;
    bool up, calling, sent;
    const struct rpc_raw_cb *cb;
    void *ud;
    struct env_timer deadline;
    struct engage_ask ask;
    bool asked; /* the runner owns it */
};

static struct env *env_of(const struct ask_conn *c)
{
    return c->link.rpc->env;
}

static int64_t ask_latency_ns(struct ask_conn *c)
{
    const struct world *w = c->net->w;
    const struct ask_faults *f = &c->net->faults[c->slot];
    int64_t ns = w->plan->latency_ns +
                 (int64_t)sim_rng_below(&c->net->rng, (uint64_t)w->plan->jitter_ns);

    return w->now_ns < f->slow_until_ns ? ns + f->slow_ns : ns;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void maybe_free(struct ask_conn *c)
{
    if (c->link.refs == 0 && !c->runner) {
        env_timer_clear(sim_env(c->net->w->outside), &c->syn);
        LIST_REMOVE(c, entry);
        free(c);
    }
}

/* The process has nothing of it any more. */
static void runner_side_close(struct ask_conn *c)
{
    struct runner_node *r = c->runner;

    if (!r) {
        return;
    }
    env_timer_clear(r->n.env, &c->accept);
    env_timer_clear(r->n.env, &c->hold);
    way_clear(&c->to);
    c->to.to = NULL;
    c->runner = NULL;
    if (c->asked) {
        c->asked = false;
        r->cb.on_status_gone(r->cb_ud, &c->ask);
    }
}

static void to_client(struct ask_conn *c, enum packet_kind kind, int status, const void *data,
                      size_t len)
{
    if (c->link.refs > 0 && !c->client->lost) {
        way_send(&c->back, ask_latency_ns(c), kind, status, data, len);
    }
}

/* Both sides are told, by whom it was or by the machines. */
static void conn_break(struct ask_conn *c)
{
    c->broken = true;
    runner_side_close(c);
    to_client(c, PACKET_END, GRPC_UNAVAILABLE, "reset", sizeof("reset"));
}

/* Whether this packet, too, is on its way. */
static bool passes(struct ask_conn *c, bool back, size_t len)
{
    if (c->is_void || c->broken) {
        return false;
    }
    if (!c->breaks || c->how.back != back) {
        return true;
    }
    if (c->how.bytes >= len + BYTES_AROUND) {
        c->how.bytes -= (uint32_t)(len + BYTES_AROUND);
        return true;
    }
    c->breaks = false;
    c->is_void = c->how.is_void;
    if (!c->is_void) {
        conn_break(c);
    }
    return false;
}

static void send_to(struct ask_conn *c, enum packet_kind kind)
{
    if (c->runner && passes(c, false, 0)) {
        way_send(&c->to, ask_latency_ns(c), kind, 0, NULL, 0);
    }
}

static void send_back(struct ask_conn *c, enum packet_kind kind, int status, const void *data,
                      size_t len)
{
    if (passes(c, true, len)) {
        to_client(c, kind, status, data, len);
    }
}

/* ---- the runner's side --------------------------------------------------------------------- */

static void on_answer(struct engage_ask *ask, const struct engage_status *st)
{
    struct ask_conn *c = container_of(ask, struct ask_conn, ask);
    struct buf out = BUF_INIT(0);
    int r = wire_encode_status(&c->net->out, st, &out);

    c->asked = false;
    if (r == 0) {
        c->net->w->said_ns[c->slot] = c->net->w->now_ns;
        send_back(c, PACKET_DATA, 0, out.data + WIRE_PREFIX_BYTES, out.len - WIRE_PREFIX_BYTES);
    }
    send_back(c, PACKET_END, r < 0 ? GRPC_EXHAUSTED : GRPC_OK, NULL, 0);
    buf_finish(&out);
}

static void on_hold(struct env_timer *t)
{
    struct ask_conn *c = container_of(t, struct ask_conn, hold);
    struct runner_node *r = c->runner;

    if (c->net->w->now_ns < c->net->faults[c->slot].hangs_until_ns) {
        world_at(&r->n, t, c->net->faults[c->slot].hangs_until_ns);
        return;
    }
    c->ask = (struct engage_ask){ .request = "{}", .request_len = 2, .answer = on_answer };
    c->asked = true;
    r->cb.on_status(r->cb_ud, &c->ask);
    maybe_free(c);
}

static void on_to(struct env_timer *t)
{
    struct ask_conn *c = container_of(t, struct ask_conn, to.timer);
    struct packet *p = way_take(&c->to, c->net->faults[c->slot].to_until_ns);

    if (!p) {
        return;
    }
    if (p->kind == PACKET_DATA) {
        world_at(&c->runner->n, &c->hold, c->net->w->now_ns);
    } else {
        runner_side_close(c);
        maybe_free(c);
    }
    free(p);
}

static void on_accept(struct env_timer *t)
{
    struct ask_conn *c = container_of(t, struct ask_conn, accept);

    send_back(c, PACKET_HELLO, 0, NULL, 0);
    maybe_free(c);
}

/* The machine gets it, if there is one. */
static void on_syn(struct env_timer *t)
{
    struct ask_conn *c = container_of(t, struct ask_conn, syn);
    struct world *w = c->net->w;
    struct ask_faults *f = &c->net->faults[c->slot];
    struct runner_node *r = w->runners[c->slot];

    if (w->now_ns < f->to_until_ns) {
        sim_at(w->outside, t, f->to_until_ns);
    } else if (r && !r->draining) {
        c->runner = r;
        c->to.to = &r->n;
        c->breaks = f->breaks;
        c->how = f->how;
        f->breaks = false;
        world_at(&r->n, &c->accept, w->now_ns);
    } else if (cloud_runs(w->cloud, c->slot)) {
        to_client(c, PACKET_END, GRPC_UNAVAILABLE, "refused", sizeof("refused"));
    }
}

/* ---- the manager's side -------------------------------------------------------------------- */

static void call_over(struct ask_conn *c)
{
    c->calling = false;
    env_timer_clear(env_of(c), &c->deadline);
}

static void call_end(struct ask_conn *c, int status, const char *text)
{
    if (c->calling) {
        call_over(c);
        c->cb->end(c->ud, status, text);
    }
}

static void on_deadline(struct env_timer *t)
{
    struct ask_conn *c = container_of(t, struct ask_conn, deadline);

    if (c->up) {
        c->net->w->slow_ns[c->slot] = c->net->w->now_ns;
    }
    call_end(c, GRPC_DEADLINE, "deadline exceeded");
}

static void maybe_send(struct ask_conn *c)
{
    if (c->up && c->calling && !c->sent) {
        c->sent = true;
        send_to(c, PACKET_DATA);
    }
}

/* The last touch of c may be inside. */
static void on_back(struct env_timer *t)
{
    struct ask_conn *c = container_of(t, struct ask_conn, back.timer);
    struct packet *p = way_take(&c->back, c->net->faults[c->slot].from_until_ns);

    if (!p) {
        return;
    }
    if (p->kind == PACKET_HELLO) {
        c->up = true;
        maybe_send(c);
    } else if (p->kind == PACKET_DATA && c->calling) {
        c->cb->message(c->ud, p->data, p->len);
    } else if (p->kind == PACKET_END) {
        c->up = c->up && p->status == GRPC_OK;
        call_end(c, p->status, p->len ? p->data : NULL);
    }
    free(p);
}

static void question_close(struct rpc_raw *raw)
{
    call_over(container_of(raw, struct ask_conn, raw));
}

int raw_start(struct peer *p, const char *method, const void *message, size_t len,
              int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
              struct fn_error *reterr)
{
    struct engage_link *l = container_of(p, struct engage_link, peer);
    struct ask_conn *c = container_of(l, struct ask_conn, link);

    (void)message;
    (void)len;
    (void)reterr;
    if (strcmp(method, RPC_METHOD_STATUS) != 0) {
        abort();
    }
    c->raw.close = question_close;
    c->calling = true;
    c->cb = cb;
    c->ud = ud;
    env_timer_set(env_of(c), &c->deadline, deadline_ns);
    maybe_send(c);
    *ret = &c->raw;
    return 0;
}

void link_ref(struct engage_link *l)
{
    l->refs++;
}

void link_unref(struct engage_link *l)
{
    struct ask_conn *c = container_of(l, struct ask_conn, link);

    if (--l->refs == 0) {
        way_clear(&c->back);
        send_to(c, PACKET_GONE); /* where it vanishes, the process keeps its side */
        maybe_free(c);
    }
}

static struct engage_link *ask_link_open(struct engage_client *client, const char *address,
                                         const char *tls_name, const struct engage_link_cb *cb,
                                         void *ud)
{
    struct ask_client *ac = container_of(container_of(client, struct rpc, client),
                                         struct ask_client, rpc);
    struct world *w = npm_node_base(ac->npm)->w;
    struct ask_conn *c;
    unsigned slot = RUNNERS_MAX;

    (void)tls_name;
    (void)cb;
    (void)ud;
    if (scarce_hits((const void *)(uintptr_t)ask_link_open)) {
        return NULL;
    }
    if (sscanf(address, "10.0.1.%u", &slot) != 1 || slot >= RUNNERS_MAX) {
        abort();
    }
    c = sim_alloc(sizeof(*c));
    c->link.rpc = &ac->rpc;
    c->link.refs = 1;
    c->net = w->asks;
    c->client = ac;
    c->slot = slot;
    c->syn.cb = on_syn;
    c->accept.cb = on_accept;
    c->hold.cb = on_hold;
    c->deadline.cb = on_deadline;
    way_open(&c->to, NULL, on_to);
    way_open(&c->back, npm_node_base(ac->npm), on_back);
    LIST_INSERT_HEAD(&w->asks->conns, c, entry);
    if (!ac->lost) {
        sim_at(w->outside, &c->syn, w->now_ns + ask_latency_ns(c));
    }
    return &c->link;
}

static bool ask_link_is_up(const struct engage_link *l)
{
    return container_of(l, struct ask_conn, link)->up;
}

struct engage_client *rpc_client(struct rpc *r)
{
    return &r->client;
}

/* ---- processes that come and go ------------------------------------------------------------ */

struct rpc *pool_net_open(struct npm_node *npm)
{
    struct ask_client *ac = sim_alloc(sizeof(*ac));

    ac->rpc.env = npm_node_base(npm)->env;
    ac->rpc.client = (struct engage_client){ .link_open = ask_link_open,
                                             .link_close = link_unref,
                                             .link_is_up = ask_link_is_up };
    LIST_INIT(&ac->rpc.unaries);
    must_be(scratch_init(&ac->rpc.in), NULL);
    ac->npm = npm;
    return &ac->rpc;
}

void pool_net_close(struct rpc *r)
{
    struct ask_client *ac = container_of(r, struct ask_client, rpc);
    struct ask_conn *c, *next;

    unary_close_all(r);
    for (c = LIST_FIRST(&npm_node_base(ac->npm)->w->asks->conns); c; c = next) {
        next = LIST_NEXT(c, entry);
        if (c->client == ac && c->link.refs > 0) {
            link_unref(&c->link);
        }
    }
    scratch_finish(&r->in);
    free(ac);
}

void ask_net_lose_npm(struct rpc *r)
{
    struct ask_client *ac = container_of(r, struct ask_client, rpc);
    struct ask_net *net = npm_node_base(ac->npm)->w->asks;
    struct ask_conn *c;

    ac->lost = true;
    LIST_FOREACH(c, &net->conns, entry) {
        if (c->client == ac) {
            way_clear(&c->back);
            env_timer_clear(sim_env(net->w->outside), &c->syn);
            send_to(c, PACKET_GONE);
        }
    }
}

/* Its machine may tell, or have gone with it. */
void ask_net_lose_runner(struct runner_node *r)
{
    struct ask_net *net = r->n.w->asks;
    struct ask_conn *c, *next;

    for (c = net ? LIST_FIRST(&net->conns) : NULL; c; c = next) {
        next = LIST_NEXT(c, entry);
        if (c->runner == r) {
            runner_side_close(c);
            if (sim_rng_below(&net->rng, 2) == 0) {
                to_client(c, PACKET_END, GRPC_UNAVAILABLE, "reset", sizeof("reset"));
            }
            maybe_free(c);
        }
    }
}

/* ---- faults -------------------------------------------------------------------------------- */

void ask_net_part(struct world *w, uint32_t runner, enum net_way way, int64_t until_ns)
{
    struct ask_faults *f = &w->asks->faults[runner];

    if ((way & NET_TO) && until_ns > f->to_until_ns) {
        f->to_until_ns = until_ns;
    }
    if ((way & NET_FROM) && until_ns > f->from_until_ns) {
        f->from_until_ns = until_ns;
    }
}

void ask_net_slow(struct world *w, uint32_t runner, int64_t more_ns, int64_t until_ns)
{
    w->asks->faults[runner].slow_ns = more_ns;
    w->asks->faults[runner].slow_until_ns = until_ns;
}

void ask_net_break(struct world *w, uint32_t runner, bool back, bool is_void, uint32_t bytes)
{
    w->asks->faults[runner].breaks = true;
    w->asks->faults[runner].how = (struct ask_break){ back, is_void, bytes };
}

void ask_net_hang(struct world *w, uint32_t runner, int64_t until_ns)
{
    w->asks->faults[runner].hangs_until_ns = until_ns;
}

/* What waits for the end of a fault finds that there is none when its time has come. */
void ask_net_heal(struct world *w)
{
    memset(w->asks->faults, 0, sizeof(w->asks->faults));
}

struct ask_net *ask_net_create(struct world *w)
{
    struct ask_net *net = sim_alloc(sizeof(*net));

    net->w = w;
    net->rng = sim_rng_make(w->plan->seed, 107);
    must_be(scratch_init(&net->out), NULL);
    LIST_INIT(&net->conns);
    return net;
}

void ask_net_destroy(struct ask_net *net)
{
    if (net) {
        scratch_finish(&net->out);
        free(net);
    }
}
