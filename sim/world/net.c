/* The network: connections between load balancers and runners, and what happens to them.
 *
 * Bytes that a socket has taken arrive in order or not at all, and each side learns for itself, at
 * its own time, that a connection is gone: by a word of the other side, by a break, or because
 * probes are not answered. A partition delays; it loses nothing unless somebody loses patience. */
#include "net_int.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES_AROUND 40u
#define DIAL_FIRST_NS   (100 * ENV_MS)
#define DIAL_MAX_NS     ENV_S
#define PROBE_EVERY_NS  (2 * ENV_S)
#define LB_PATIENCE_NS  (4 * ENV_S)
#define RUNNER_PATIENCE_NS (9 * ENV_S)

static int64_t latency_ns(struct conn *c)
{
    struct net *net = c->net;
    uint32_t lb = c->lb->index, runner = c->runner->index;
    const struct plan *p = net->w->plan;
    int64_t ns = p->latency_ns + (int64_t)sim_rng_below(&net->rng, (uint64_t)p->jitter_ns);

    return net->w->now_ns < net->slow_until_ns[lb][runner] ? ns + net->slow_ns[lb][runner] : ns;
}

static struct node *receiver(const struct pipe *p)
{
    return p->to_runner ? &p->conn->runner->n : &p->conn->lb->n;
}

/* ---- pipes --------------------------------------------------------------------------------- */

struct frame *frame_new(struct stream *st, enum frame_kind kind, const void *data, size_t len)
{
    struct frame *f = sim_resize(NULL, sizeof(*f) + len);

    *f = (struct frame){ .kind = kind, .stream = st, .len = len };
    if (len > 0) {
        memcpy(f->data, data, len);
    }
    return f;
}

static void pipe_arm(struct pipe *p)
{
    struct frame *first = TAILQ_FIRST(&p->frames);

    if (first && !p->is_void && !env_timer_is_set(&p->timer)) {
        world_at(receiver(p), &p->timer, first->at_ns);
    }
}

static uint64_t size_of(const struct frame *f)
{
    return f->len + FRAME_BYTES_AROUND;
}

static void give(struct pipe *p, struct frame *f)
{
    int64_t at_ns = p->conn->net->w->now_ns + latency_ns(p->conn);

    f->given = true;
    f->at_ns = at_ns > p->last_ns ? at_ns : p->last_ns;
    p->last_ns = f->at_ns;
    p->given_bytes += size_of(f);
    if (f->stream) {
        stream_given(f->stream, f);
    }
}

/* The socket takes more. */
static void give_waiting(struct pipe *p)
{
    struct frame *f;

    TAILQ_FOREACH(f, &p->frames, link) {
        if (f->given) {
            continue;
        }
        if (p->given_bytes + size_of(f) > p->conn->net->w->plan->socket_bytes &&
            p->given_bytes > 0) {
            return;
        }
        give(p, f);
    }
}

static void drop_frames(struct pipe *p, bool all)
{
    struct frame *f, *next;

    p->conn->busy++;
    for (f = TAILQ_FIRST(&p->frames); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (all || !f->given) {
            TAILQ_REMOVE(&p->frames, f, link);
            p->given_bytes -= f->given ? size_of(f) : 0;
            frame_free(f);
        }
    }
    if (TAILQ_EMPTY(&p->frames)) {
        env_timer_clear(receiver(p)->env, &p->timer);
    }
    p->conn->busy--;
}

void pipe_forget(struct pipe *p, const struct stream *st)
{
    struct frame *f, *next;

    for (f = TAILQ_FIRST(&p->frames); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (!f->given && f->stream == st) {
            TAILQ_REMOVE(&p->frames, f, link);
            frame_free(f);
        }
    }
}

static void conn_break(struct conn *c)
{
    c->broken = true;
    c->to_runner.closed = c->to_lb.closed = true;
    drop_frames(&c->to_runner, false); /* what waits is never sent */
    drop_frames(&c->to_lb, false);
    if (c->lb_open) {
        world_at(&c->lb->n, &c->lb_probe, c->net->w->now_ns + latency_ns(c));
    }
    if (c->runner_open) {
        world_at(&c->runner->n, &c->runner_probe, c->net->w->now_ns + latency_ns(c));
    }
}

void pipe_send(struct pipe *p, struct frame *f)
{
    if (!p->closed && p->break_in > 0 && --p->break_in == 0) {
        conn_break(p->conn); /* in the middle of this frame */
    }
    if (p->closed) {
        frame_free(f);
        return;
    }
    TAILQ_INSERT_TAIL(&p->frames, f, link);
    give_waiting(p);
    pipe_arm(p);
}

/* This side is gone; the other one hears of it behind what is on its way, or instead of it. */
static void pipe_close(struct pipe *p)
{
    struct net *net = p->conn->net;
    struct frame *f;

    if (p->closed) {
        return;
    }
    drop_frames(p, sim_rng_below(&net->rng, 2) == 0);
    f = frame_new(NULL, FRAME_CLOSE, NULL, 0);
    TAILQ_INSERT_TAIL(&p->frames, f, link);
    give(p, f);
    p->closed = true;
    pipe_arm(p);
}

static void conn_lose_lb(struct conn *c, const char *why);
static void conn_lose_runner(struct conn *c);

static void conn_arrived(struct conn *c, struct pipe *p, struct frame *f)
{
    enum frame_kind kind = f->kind;

    if (f->stream) {
        stream_arrived(c, f);
        return;
    }
    frame_free(f);
    if (kind == FRAME_PING) {
        pipe_send(&c->to_lb, frame_new(NULL, FRAME_PONG, NULL, 0));
    } else if (kind == FRAME_CLOSE && p->to_runner) {
        conn_lose_runner(c);
    } else if (kind == FRAME_CLOSE) {
        conn_lose_lb(c, "the runner closed the connection");
    }
}

static void on_pipe(struct env_timer *t)
{
    struct pipe *p = container_of(t, struct pipe, timer);
    struct conn *c = p->conn;
    uint32_t lb = c->lb->index, runner = c->runner->index;
    int64_t open_ns = p->to_runner ? c->net->to_until_ns[lb][runner]
                                   : c->net->from_until_ns[lb][runner];
    struct frame *f = TAILQ_FIRST(&p->frames);

    if (c->net->w->now_ns < open_ns) {
        world_at(receiver(p), t, open_ns);
        return;
    }
    TAILQ_REMOVE(&p->frames, f, link);
    p->given_bytes -= size_of(f);
    give_waiting(p);
    pipe_arm(p);
    if (p->to_runner) {
        c->runner_heard_ns = c->net->w->now_ns;
    } else {
        c->lb_heard_ns = c->net->w->now_ns;
    }
    conn_arrived(c, p, f);
}

/* ---- connections --------------------------------------------------------------------------- */

static void on_lb_probe(struct env_timer *t)
{
    struct conn *c = container_of(t, struct conn, lb_probe);
    int64_t now_ns = c->net->w->now_ns;

    if (c->broken) {
        conn_lose_lb(c, "the connection broke");
    } else if (now_ns - c->lb_heard_ns >= LB_PATIENCE_NS) {
        conn_lose_lb(c, "the runner does not answer probes");
    } else {
        world_at(&c->lb->n, t, now_ns + PROBE_EVERY_NS);
        pipe_send(&c->to_runner, frame_new(NULL, FRAME_PING, NULL, 0));
    }
}

static void on_runner_probe(struct env_timer *t)
{
    struct conn *c = container_of(t, struct conn, runner_probe);
    int64_t now_ns = c->net->w->now_ns;

    if (c->broken || now_ns - c->runner_heard_ns >= RUNNER_PATIENCE_NS) {
        conn_lose_runner(c);
    } else {
        world_at(&c->runner->n, t, now_ns + PROBE_EVERY_NS);
    }
}

static void pipe_open(struct pipe *p, struct conn *c, bool to_runner)
{
    p->conn = c;
    p->to_runner = to_runner;
    p->timer.cb = on_pipe;
    TAILQ_INIT(&p->frames);
}

static void conn_create(struct engage_link *l)
{
    struct net *net = l->of->net;
    struct conn *c = sim_alloc(sizeof(*c));

    c->net = net;
    c->link = l;
    c->lb = l->of->lb;
    c->runner = net->listening[l->runner];
    c->lb_open = c->runner_open = true;
    pipe_open(&c->to_runner, c, true);
    pipe_open(&c->to_lb, c, false);
    c->lb_probe.cb = on_lb_probe;
    c->runner_probe.cb = on_runner_probe;
    c->lb_heard_ns = c->runner_heard_ns = net->w->now_ns;
    LIST_INIT(&c->streams);
    LIST_INSERT_HEAD(&net->conns, c, entry);
    l->conn = c;
    world_at(&c->lb->n, &c->lb_probe, net->w->now_ns + PROBE_EVERY_NS);
    world_at(&c->runner->n, &c->runner_probe, net->w->now_ns + PROBE_EVERY_NS);
}

static void link_redial(struct engage_link *l, int64_t in_ns)
{
    if (!l->of->lb->n.dead) {
        world_at(&l->of->lb->n, &l->dial, l->of->net->w->now_ns + in_ns);
    }
}

static void lb_side_close(struct conn *c)
{
    env_timer_clear(c->lb->n.env, &c->lb_probe);
    c->lb_open = false;
    drop_frames(&c->to_lb, true);
    pipe_close(&c->to_runner);
    if (!c->runner_open) {
        drop_frames(&c->to_runner, true);
    }
}

void conn_maybe_end(struct conn *c)
{
    if (c->busy || c->link) {
        return;
    }
    if (c->lb_open && c->streams_n == 0) {
        lb_side_close(c); /* its link was closed before */
    }
    if (!c->lb_open && !c->runner_open && LIST_EMPTY(&c->streams)) {
        assert(TAILQ_EMPTY(&c->to_runner.frames) && TAILQ_EMPTY(&c->to_lb.frames));
        LIST_REMOVE(c, entry);
        free(c);
    }
}

/* The load balancer's side is gone, and it knows. */
static void conn_lose_lb(struct conn *c, const char *why)
{
    struct engage_link *l = c->link;

    tell(&c->lb->n, "loses its connection to %s: %s", c->runner->n.name, why);
    lb_side_close(c);
    c->link = NULL;
    c->busy++;
    if (l) {
        l->conn = NULL;
        link_redial(l, l->pause_ns);
        if (l->cb && l->cb->on_state) {
            l->cb->on_state(l->ud, false);
        }
    }
    streams_lose_lb(c, why);
    c->busy--;
    conn_maybe_end(c);
}

/* The runner's side. */
static void conn_lose_runner(struct conn *c)
{
    tell(&c->runner->n, "loses its connection to %s", c->lb->n.name);
    env_timer_clear(c->runner->n.env, &c->runner_probe);
    c->runner_open = false;
    drop_frames(&c->to_runner, true);
    pipe_close(&c->to_lb);
    if (!c->lb_open) {
        drop_frames(&c->to_lb, true);
    }
    c->busy++;
    streams_lose_runner(c);
    c->busy--;
    conn_maybe_end(c);
}

/* ---- links --------------------------------------------------------------------------------- */

static void on_dial(struct env_timer *t)
{
    struct engage_link *l = container_of(t, struct engage_link, dial);
    struct net *net = l->of->net;
    uint32_t lb = l->of->lb->index;
    struct runner_node *r = net->listening[l->runner];
    int64_t now_ns = net->w->now_ns;

    if (!r || now_ns < r->n.frozen_until_ns || now_ns < net->to_until_ns[lb][l->runner] ||
        now_ns < net->from_until_ns[lb][l->runner]) {
        l->pause_ns = l->pause_ns * 16 / 10 < DIAL_MAX_NS ? l->pause_ns * 16 / 10 : DIAL_MAX_NS;
        link_redial(l, l->pause_ns);
        return;
    }
    l->pause_ns = DIAL_FIRST_NS;
    conn_create(l);
    tell(&l->of->lb->n, "is connected to %s", r->n.name);
    if (l->cb && l->cb->on_state) {
        l->cb->on_state(l->ud, true);
    }
}

static struct engage_link *link_open(struct engage_client *client, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct net_client *nc = (struct net_client *)(void *)client;
    struct engage_link *l = sim_alloc(sizeof(*l));
    unsigned runner = RUNNERS_MAX;

    (void)tls_name;
    if (sscanf(address, "10.0.1.%u", &runner) != 1 || runner >= RUNNERS_MAX) {
        abort();
    }
    l->of = nc;
    l->runner = runner;
    l->cb = cb;
    l->ud = ud;
    l->dial.cb = on_dial;
    l->pause_ns = DIAL_FIRST_NS;
    LIST_INSERT_HEAD(&nc->links, l, entry);
    link_redial(l, 2 * nc->net->w->plan->latency_ns);
    return l;
}

/* Attempts that run keep going: their connection goes with the last one. */
static void link_close(struct engage_link *l)
{
    struct conn *c = l->conn;

    env_timer_clear(l->of->lb->n.env, &l->dial);
    LIST_REMOVE(l, entry);
    free(l);
    if (c) {
        c->link = NULL;
        conn_maybe_end(c);
    }
}

static bool link_is_up(const struct engage_link *l)
{
    return l->conn != NULL;
}

struct engage_client *net_client_create(struct net *net, struct lb_node *lb)
{
    struct net_client *nc = sim_alloc(sizeof(*nc));

    nc->net = net;
    nc->lb = lb;
    LIST_INIT(&nc->links);
    LIST_INIT(&nc->unsent);
    nc->client.link_open = link_open;
    nc->client.link_close = link_close;
    nc->client.link_is_up = link_is_up;
    net_client_fill(&nc->client);
    return &nc->client;
}

void net_client_destroy(struct engage_client *client)
{
    struct net_client *nc = (struct net_client *)(void *)client;

    assert(LIST_EMPTY(&nc->links) && LIST_EMPTY(&nc->unsent));
    free(nc);
}

/* ---- processes that come and go ------------------------------------------------------------ */

void net_serve(struct net *net, struct runner_node *r)
{
    net->listening[r->index] = r;
}

void net_enter(struct net *net, const struct node *n)
{
    (void)net;
    (void)n;
}

/* There are no bytes. */
bool net_has_broken(const struct net *net)
{
    (void)net;
    return false;
}

/* A session that was finished is on its way as a whole. */
void net_drain_runner(struct net *net, struct runner_node *r, void (*done)(void *ud), void *ud)
{
    (void)net;
    (void)r;
    done(ud);
}

/* Callbacks may end other connections, so that each step begins anew. */
void net_lose_runner(struct net *net, struct runner_node *r)
{
    struct conn *c = LIST_FIRST(&net->conns);

    if (net->listening[r->index] == r) {
        net->listening[r->index] = NULL;
    }
    while (c) {
        bool mine = c->runner == r && c->runner_open;

        if (mine) {
            conn_lose_runner(c);
        }
        c = mine ? LIST_FIRST(&net->conns) : LIST_NEXT(c, entry);
    }
}

void net_lose_lb(struct net *net, struct lb_node *lb)
{
    struct conn *c = LIST_FIRST(&net->conns);

    while (c) {
        bool mine = c->lb == lb && c->lb_open;

        if (mine) {
            conn_lose_lb(c, "it is dead");
        }
        c = mine ? LIST_FIRST(&net->conns) : LIST_NEXT(c, entry);
    }
}

/* Its attempts and sessions have ended: what is still on its way keeps streams, nothing else. */
static void drop_ended(struct conn *c)
{
    c->busy++;
    drop_frames(&c->to_runner, true);
    drop_frames(&c->to_lb, true);
    assert(LIST_EMPTY(&c->streams));
    env_timer_clear(c->lb->n.env, &c->lb_probe);
    env_timer_clear(c->runner->n.env, &c->runner_probe);
    LIST_REMOVE(c, entry);
    free(c);
}

void net_forget(struct net *net, const struct node *n)
{
    struct conn *c, *next;

    for (c = LIST_FIRST(&net->conns); c; c = next) {
        next = LIST_NEXT(c, entry);
        if (&c->lb->n == n || &c->runner->n == n) {
            drop_ended(c);
        }
    }
}

void net_check_times(struct net *net)
{
    struct conn *c;

    LIST_FOREACH(c, &net->conns, entry) {
        streams_check_times(c);
    }
}

/* ---- faults -------------------------------------------------------------------------------- */

void net_part(struct net *net, uint32_t lb, uint32_t runner, enum net_way way, int64_t until_ns)
{
    if ((way & NET_TO) && until_ns > net->to_until_ns[lb][runner]) {
        net->to_until_ns[lb][runner] = until_ns;
    }
    if ((way & NET_FROM) && until_ns > net->from_until_ns[lb][runner]) {
        net->from_until_ns[lb][runner] = until_ns;
    }
}

void net_slow(struct net *net, uint32_t lb, uint32_t runner, int64_t more_ns, int64_t until_ns)
{
    net->slow_ns[lb][runner] = more_ns;
    net->slow_until_ns[lb][runner] = until_ns;
}

static struct conn *conn_between(struct net *net, uint32_t lb, uint32_t runner)
{
    struct conn *c;

    LIST_FOREACH(c, &net->conns, entry) {
        if (c->lb->index == lb && c->runner->index == runner && c->lb_open && c->runner_open) {
            return c;
        }
    }
    return NULL;
}

void net_break_after(struct net *net, uint32_t lb, uint32_t runner, uint32_t frames, bool to)
{
    struct conn *c = conn_between(net, lb, runner);

    if (c) {
        *(to ? &c->to_runner.break_in : &c->to_lb.break_in) = frames + 1;
    }
}

void net_make_void(struct net *net, uint32_t lb, uint32_t runner)
{
    struct conn *c = conn_between(net, lb, runner);

    if (c) {
        c->to_runner.is_void = c->to_lb.is_void = true;
        env_timer_clear(c->runner->n.env, &c->to_runner.timer);
        env_timer_clear(c->lb->n.env, &c->to_lb.timer);
    }
}

void net_refuse(struct net *net, uint32_t runner, uint32_t streams)
{
    net->refuse[runner] = streams;
}

static void pipe_heal(struct pipe *p)
{
    p->break_in = 0;
    if (env_timer_is_set(&p->timer)) {
        world_at(receiver(p), &p->timer, TAILQ_FIRST(&p->frames)->at_ns);
    }
}

void net_heal(struct net *net)
{
    struct conn *c;

    memset(net->to_until_ns, 0, sizeof(net->to_until_ns));
    memset(net->from_until_ns, 0, sizeof(net->from_until_ns));
    memset(net->slow_until_ns, 0, sizeof(net->slow_until_ns));
    memset(net->refuse, 0, sizeof(net->refuse));
    LIST_FOREACH(c, &net->conns, entry) {
        pipe_heal(&c->to_runner);
        pipe_heal(&c->to_lb);
    }
}

bool net_carries_api(void)
{
    return true;
}

struct net *net_create(struct world *w)
{
    struct net *net = sim_alloc(sizeof(*net));

    net->w = w;
    net->rng = sim_rng_make(w->plan->seed, 103);
    LIST_INIT(&net->conns);
    return net;
}

void net_destroy(struct net *net)
{
    assert(LIST_EMPTY(&net->conns));
    free(net);
}
