/* Clients of load balancers, who speak over the kernel to core/web and core/http. They keep their
 * connections, some send bodies in chunks, and some connections break. In a third of the worlds
 * they use TLS, and half of them HTTP/2 then. */
#include "front_int.h"
#include "net.h"
#include "syscalls.h"
#include "watch.h"

#include <base/err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <web/web.h>

#define PORT          8080
#define REUSED_ONE_IN 2u
#define BROKEN_ONE_IN 12u /* connections of requests that the plan has */
#define BREAK_BYTES   6000u
#define PATIENCE_NS   (15 * ENV_S) /* of a client whose packets vanish */
#define POLL_NS       (20 * ENV_MS)
#define GRACE_NS      ENV_S
#define IDLE_MAX      4u
#define READ_BYTES    4096

/* A load balancer's side. */
struct front {
    struct lb_node *lb;
    struct budget bodies;
    struct web *web;
    struct env_timer poll; /* while it is drained */
    bool calm;
    LIST_HEAD(, front_call) conns;
    uint32_t idle;
};

static struct kernel *kernel_of(const struct front_call *c)
{
    return net_clients(c->front->lb->n.w->net)->kernel;
}

static struct sock *sock_of(const struct front_call *c)
{
    return kernel_sock(kernel_of(c), c->w.fd);
}

static struct loop *loop_of(const struct front_call *c)
{
    return host_loop(net_clients(c->front->lb->n.w->net));
}

static void watch_for(struct front_call *c)
{
    loop_fd_set(loop_of(c), &c->w,
                (c->paused ? 0 : LOOP_READ) | (c->sent < c->out.len ? LOOP_WRITE : 0));
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void conn_close(struct front_call *c)
{
    env_timer_clear(sim_env(c->front->lb->n.w->outside), &c->patience);
    loop_fd_remove(loop_of(c), &c->w);
    sock_close(sock_of(c));
    c->front->idle -= !c->cb;
    LIST_REMOVE(c, entry);
    if (c->h2) {
        h2_end(c);
    }
    if (c->ssl) {
        tls_end(c);
    }
    buf_finish(&c->plain);
    buf_finish(&c->out);
    free(c);
}

/* The connection has no request any more; it is kept, or gone. */
static void conn_rest(struct front_call *c, bool keep)
{
    if (keep && c->keep && c->front->idle < IDLE_MAX) {
        c->cb = NULL;
        c->front->idle++;
        c->ended = c->paused = false;
        watch_for(c);
    } else {
        conn_close(c);
    }
}

static void call_end(struct front_call *c, enum front_end how)
{
    const struct front_cb *cb = c->cb;
    void *ud = c->ud;

    conn_rest(c, how == FRONT_WHOLE && (c->h2 || c->sent == c->out.len));
    cb->end(ud, how);
}

static void conn_lost(struct front_call *c)
{
    c->keep = false;
    if (c->cb) {
        call_end(c, c->headed ? FRONT_CUT : FRONT_LOST);
    } else {
        conn_close(c);
    }
}

static void on_patience(struct env_timer *t)
{
    conn_lost(container_of(t, struct front_call, patience));
}

/* ---- what the protocols hand over ------------------------------------------------------------ */

struct node *front_node(const struct front_call *c)
{
    return &c->front->lb->n;
}

void front_head(struct front_call *c, int status)
{
    const char *outcome = c->outcome[0] ? c->outcome : NULL;

    c->headed = true;
    c->cb->head(c->ud, status, outcome, !outcome && status == 200);
}

void front_body(struct front_call *c, int status, const char *data, size_t len)
{
    if (status >= 400) {
        tell(front_node(c), "request %u is told %d: %.*s", c->seq, status, (int)len, data);
    }
    c->paused = c->cb->data(c->ud, data, len) || c->paused;
}

void front_garbage(struct front_call *c, const char *why, const char *data, size_t len)
{
    const struct node *n = front_node(c);

    books_break(n->w->books, BOOKS_WHOLE, 0, "an answer of %s is no HTTP: %s: %.*s", n->name, why,
                (int)(len < TOLD_BYTES ? len : TOLD_BYTES), data);
}

/* ---- reading and writing --------------------------------------------------------------------- */

static void take(struct front_call *c, const char *data, size_t len)
{
    if (c->h2) {
        h2_take(c, data, len);
    } else if (c->cb) {
        h1_take(c, data, len);
    } else {
        c->stray = true; /* nobody has asked for anything */
    }
}

/* What the protocol has to say goes towards the socket. */
static void put(struct front_call *c)
{
    if (c->sent == c->out.len) {
        buf_clear(&c->out);
        c->sent = 0;
    }
    if (c->ssl) {
        tls_put(c);
    } else {
        buf_add(&c->out, c->plain.data, c->plain.len);
        buf_clear(&c->plain);
    }
}

/* False: the connection is gone, or the call. */
static bool read_answer(struct front_call *c)
{
    char bytes[READ_BYTES];
    ssize_t got = sock_recv(sock_of(c), bytes, sizeof(bytes));
    bool good = true;

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (got > 0 && c->ssl) {
        good = tls_take(c, bytes, (size_t)got, take);
    } else if (got > 0) {
        take(c, bytes, (size_t)got);
    }
    if (got <= 0 || !good || c->stray) {
        conn_lost(c);
        return false;
    }
    put(c);
    if (c->ended && c->cb) {
        call_end(c, c->how);
        return false;
    }
    return true;
}

/* A connection that is not there any more has told so as an answer. */
static void write_request(struct front_call *c)
{
    ssize_t n = sock_send(sock_of(c), c->out.data + c->sent, c->out.len - c->sent);

    c->sent += n > 0 ? (size_t)n : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        c->sent = c->out.len;
    }
}

/* A load balancer that started meanwhile has the address of the one that was dialled: whose request
 * it is could not be told any more. */
static bool has_other_peer(const struct front_call *c)
{
    const struct host *peer = sock_peer(sock_of(c));

    return !c->met && peer && peer != net_host(c->front->lb->n.w->net, &c->front->lb->n);
}

static void on_event(struct loop_fd *w, uint32_t events)
{
    struct front_call *c = container_of(w, struct front_call, w);

    if (has_other_peer(c)) {
        conn_lost(c);
        return;
    }
    c->met = true;
    if (events & LOOP_WRITE && c->sent < c->out.len) {
        write_request(c);
    }
    if (events & LOOP_READ && !read_answer(c)) {
        return;
    }
    watch_for(c);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void conn_speak(struct front_call *c, struct sim_rng *rng)
{
    const struct world *w = c->front->lb->n.w;
    bool h2 = w->plan->byte ? w->plan->byte->speech == PLAN_TLS_H2 : sim_rng_below(rng, 2) == 0;

    if (net_is_https(w->net)) {
        tls_start(c, h2 ? "h2" : "http/1.1");
        if (h2) {
            h2_begin(c);
        }
    }
}

static struct front_call *conn_create(struct front *f, struct sim_rng *rng)
{
    struct front_call *c = sim_alloc(sizeof(*c));
    struct host *clients = net_clients(f->lb->n.w->net);

    c->front = f;
    c->patience.cb = on_patience;
    c->w = (struct loop_fd){ .fd = sock_open(clients), .cb = on_event };
    c->out = c->plain = c->body = BUF_INIT(0);
    conn_speak(c, rng);
    LIST_INSERT_HEAD(&f->conns, c, entry);
    sock_connect(sock_of(c), net_ip_of_lb(f->lb->index), PORT);
    host_watch(clients, &c->w, 0);
    return c;
}

static struct front_call *kept_conn(struct front *f)
{
    struct front_call *c;

    LIST_FOREACH(c, &f->conns, entry) {
        if (!c->cb) {
            f->idle--;
            return c;
        }
    }
    return NULL;
}

/* Either way, and in any of the ways in which connections end. */
static void maybe_break(struct front_call *c, struct sim_rng *rng)
{
    struct world *w = c->front->lb->n.w;
    const struct plan_byte *byte = w->plan->byte;
    enum kernel_break how = (enum kernel_break)sim_rng_below(rng, 3);

    if (byte && byte->how == PLAN_VANISH && byte->way <= PLAN_TO_CLIENT) {
        sim_at(w->outside, &c->patience, w->now_ns + PATIENCE_NS);
    }
    if (byte || w->now_ns >= w->heal_ns || sim_rng_below(rng, BROKEN_ONE_IN) > 0) {
        return;
    }
    sock_break_after(sock_of(c), sim_rng_below(rng, 2), sim_rng_below(rng, BREAK_BYTES), how);
    if (how == KERNEL_VOID) {
        sim_at(w->outside, &c->patience, w->now_ns + PATIENCE_NS);
    }
}

struct front_call *front_ask(struct lb_node *l, const struct front_request *rq,
                             const struct front_cb *cb, void *ud)
{
    struct front *f = l->front;
    struct front_call *c;

    sim_outside_begin();
    c = sim_rng_below(rq->rng, REUSED_ONE_IN) ? kept_conn(f) : NULL;
    c = c ? c : conn_create(f, rq->rng);
    c->cb = cb;
    c->ud = ud;
    c->seq = rq->seq;
    c->headed = c->ended = false;
    c->outcome[0] = '\0';
    if (c->h2) {
        h2_ask(c, rq);
    } else {
        c->keep = false;
        h1_ask(c, rq);
    }
    put(c);
    maybe_break(c, rq->rng);
    watch_for(c);
    sim_outside_end();
    return c;
}

void front_resume(struct front_call *c)
{
    c->paused = false;
    watch_for(c);
}

/* Some leave a stream, and stay connected. */
void front_leave(struct front_call *c)
{
    bool stays = c->h2 && c->stream > 0 && c->seq % 2;

    sim_outside_begin();
    if (stays) {
        h2_cancel(c);
        put(c);
    }
    conn_rest(c, stays);
    sim_outside_end();
}

/* ---- the load balancer ----------------------------------------------------------------------- */

static void on_poll(struct env_timer *t)
{
    struct front *f = container_of(t, struct front, poll);

    if (!f->calm && http_server_is_calm(web_server(f->web))) {
        f->calm = true;
        lb_node_drain_calls(f->lb);
    }
    if (http_server_connections(web_server(f->web)) > 0 || !f->calm) {
        world_at(&f->lb->n, t, f->lb->n.w->now_ns + POLL_NS);
    } else {
        lb_node_maybe_leave(f->lb);
    }
}

static const char *unready(void *ud, char *text, size_t cap)
{
    (void)ud;
    (void)text;
    (void)cap;
    return NULL;
}

void front_open(struct lb_node *l)
{
    struct front *f = sim_alloc(sizeof(*f));
    struct host *host = net_host(l->n.w->net, &l->n);
    struct host *last = syscalls_as(host);
    struct fn_error e = ERR_INIT;
    char listen[32];
    struct web_config config = { .listen = listen,
                                 .bodies = &f->bodies,
                                 .identity = net_https(l->n.w->net),
                                 .lb = l->lb,
                                 .unready = unready };

    f->lb = l;
    f->poll.cb = on_poll;
    LIST_INIT(&f->conns);
    l->front = f;
    snprintf(listen, sizeof(listen), "10.0.0.%u:%d", l->index, PORT);
    opt_defaults(&http_limits_table, &config.limits);
    must_be(web_create(host_loop(host), &config, &f->web, &e), &e);
    syscalls_as(last);
}

void front_drain(struct lb_node *l)
{
    http_server_drain(web_server(l->front->web), l->n.dead ? 0 : GRACE_NS);
    world_at(&l->n, &l->front->poll, l->n.w->now_ns);
}

bool front_is_empty(const struct lb_node *l)
{
    return http_server_connections(web_server(l->front->web)) == 0;
}

void front_forget(struct lb_node *l)
{
    (void)l; /* it has none of them */
}

void front_close(struct lb_node *l)
{
    struct front *f = l->front;

    while (!LIST_EMPTY(&f->conns)) {
        conn_close(LIST_FIRST(&f->conns));
    }
    env_timer_clear(l->n.env, &f->poll);
    web_destroy(f->web);
    books_equal(l->n.w->books, BOOKS_NOTHING_LEFT, "bytes of bodies", f->bodies.used_bytes, 0);
    free(f);
    l->front = NULL;
}

static void at_least(struct lb_node *l, const char *what, uint64_t counted, uint64_t seen)
{
    if (counted < seen) {
        books_break(l->n.w->books, BOOKS_COUNTS_LB, 0,
                    "%s counts %llu calls as %s, its clients %llu", l->n.name,
                    (unsigned long long)counted, what, (unsigned long long)seen);
    }
}

/* A client may have heard less than it was told; what comes while a load balancer is drained is
 * refused at its door, and no call. */
void front_check_counts(struct lb_node *l)
{
    struct books *b = l->n.w->books;
    struct books_tally t = books_tally(b, l->n.life);
    struct lb_counts n;

    lb_count(l->lb, &n);
    books_equal(b, BOOKS_COUNTS_LB, "outcomes in all",
                n.ok + n.failed + n.not_executed + n.unknown + n.aborted, n.received);
    books_equal(b, BOOKS_COUNTS_LB, "calls in flight", n.in_flight, 0);
    at_least(l, "ok", n.ok, t.seen[BOOKS_TOLD_OK]);
    at_least(l, "ok, failed or unknown", n.ok + n.failed + n.unknown,
             t.seen[BOOKS_TOLD_OK] + t.seen[BOOKS_TOLD_FAILED] + t.seen[BOOKS_STREAMED]);
}
