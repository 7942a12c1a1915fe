/* Clients who speak HTTP/1.1 over the kernel to core/web and core/http of a load balancer. They
 * keep their connections, some send bodies in chunks, and some connections break. Answers are read
 * by http-parser, which shares nothing with the server. */
#include "../world/front.h"

#include "net.h"
#include "syscalls.h"
#include "watch.h"

#include <base/buf.h>
#include <base/err.h>
#include <errno.h>
#include <http_parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <web/web.h>

#define PORT          8080
#define CHUNKED_ONE_IN 4u
#define REUSED_ONE_IN 2u
#define BROKEN_ONE_IN 12u /* connections of requests that the plan has */
#define BREAK_BYTES   6000u
#define PATIENCE_NS   (15 * ENV_S) /* of a client whose packets vanish */
#define POLL_NS       (20 * ENV_MS)
#define GRACE_NS      ENV_S
#define IDLE_MAX      4u
#define OUTCOME_BYTES 32
#define READ_BYTES    4096
#define TOLD_BYTES    100 /* of an answer that cannot be read */

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

/* A connection of a client, and the request on it. */
struct front_call {
    LIST_ENTRY(front_call) entry;
    struct front *front;
    struct loop_fd w;
    struct env_timer patience;
    const struct front_cb *cb; /* NULL: it is kept, and has no request */
    uint32_t seq;
    void *ud;
    struct buf out;
    size_t sent;
    http_parser parser;
    bool headed, whole, keep, paused;
    bool in_outcome; /* the value of that header is being read */
    char name[OUTCOME_BYTES], outcome[OUTCOME_BYTES];
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
    buf_finish(&c->out);
    free(c);
}

static void call_end(struct front_call *c, enum front_end how)
{
    const struct front_cb *cb = c->cb;
    void *ud = c->ud;

    if (how == FRONT_WHOLE && c->keep && c->sent == c->out.len && c->front->idle < IDLE_MAX) {
        c->cb = NULL;
        c->front->idle++;
        c->paused = false;
        watch_for(c);
    } else {
        conn_close(c);
    }
    cb->end(ud, how);
}

static void conn_lost(struct front_call *c)
{
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

/* ---- answers --------------------------------------------------------------------------------- */

static void append(char *to, const char *at, size_t len)
{
    size_t n = strlen(to);

    len = len < OUTCOME_BYTES - 1 - n ? len : OUTCOME_BYTES - 1 - n;
    memcpy(to + n, at, len);
    to[n + len] = '\0';
}

static int on_field(http_parser *p, const char *at, size_t len)
{
    struct front_call *c = p->data;

    if (c->in_outcome) {
        c->in_outcome = false;
        c->name[0] = '\0';
    }
    append(c->name, at, len);
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
    struct front_call *c = p->data;

    if (strcasecmp(c->name, "Fn-Outcome") == 0) {
        append(c->outcome, at, len);
    }
    c->in_outcome = true; /* a field that follows is another one */
    return 0;
}

static int on_headers(http_parser *p)
{
    struct front_call *c = p->data;
    const char *outcome = c->outcome[0] ? c->outcome : NULL;

    if (p->status_code / 100 == 1) {
        return 0;
    }
    c->headed = true;
    c->cb->head(c->ud, p->status_code, outcome, !outcome && p->status_code == 200);
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    struct front_call *c = p->data;

    if (p->status_code >= 400) {
        tell(&c->front->lb->n, "request %u is told %d: %.*s", c->seq, p->status_code, (int)len, at);
    }
    c->paused = c->cb->data(c->ud, at, len) || c->paused;
    return 0;
}

static int on_complete(http_parser *p)
{
    struct front_call *c = p->data;

    c->whole = p->status_code / 100 != 1;
    c->keep = http_should_keep_alive(p);
    return 0;
}

static const http_parser_settings settings = { .on_header_field = on_field,
                                               .on_header_value = on_value,
                                               .on_headers_complete = on_headers,
                                               .on_body = on_body,
                                               .on_message_complete = on_complete };

/* False: the connection is gone. */
static bool read_answer(struct front_call *c)
{
    char bytes[READ_BYTES];
    ssize_t got = sock_recv(sock_of(c), bytes, sizeof(bytes));

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (got <= 0 || !c->cb) { /* nobody has asked for anything */
        conn_lost(c);
        return false;
    }
    if (http_parser_execute(&c->parser, &settings, bytes, (size_t)got) != (size_t)got) {
        const struct node *n = &c->front->lb->n;

        books_break(n->w->books, BOOKS_WHOLE, 0, "an answer of %s is no HTTP: %s: %.*s", n->name,
                    http_errno_description(HTTP_PARSER_ERRNO(&c->parser)),
                    (int)(got < TOLD_BYTES ? got : TOLD_BYTES), bytes);
    }
    if (c->whole) {
        call_end(c, FRONT_WHOLE);
        return false;
    }
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

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

    return c->sent == 0 && peer && peer != net_host(c->front->lb->n.w->net, &c->front->lb->n);
}

static void on_event(struct loop_fd *w, uint32_t events)
{
    struct front_call *c = container_of(w, struct front_call, w);

    if (has_other_peer(c)) {
        conn_lost(c);
        return;
    }
    if (events & LOOP_WRITE && c->sent < c->out.len) {
        write_request(c);
    }
    if (events & LOOP_READ && !read_answer(c)) {
        return;
    }
    watch_for(c);
}

static void put_body(struct buf *out, const struct front_request *rq, bool chunked)
{
    char piece[1024];

    for (uint64_t at = 0; at < rq->body_bytes;) {
        uint64_t left = rq->body_bytes - at;
        size_t n = left < sizeof(piece) ? (size_t)left : sizeof(piece);

        n = chunked ? 1 + (size_t)sim_rng_below(rq->rng, n) : n;
        books_write(rq->seq, true, at, piece, n);
        if (chunked) {
            buf_printf(out, "%zx\r\n", n);
        }
        buf_add(out, piece, n);
        buf_add(out, "\r\n", chunked ? 2 : 0);
        at += n;
    }
    buf_add(out, "0\r\n\r\n", chunked ? 5 : 0);
}

static void put_request(struct buf *out, const struct front_request *rq)
{
    bool chunked = sim_rng_below(rq->rng, CHUNKED_ONE_IN) == 0;

    buf_printf(out, "POST /invoke/fn-%u HTTP/1.1\r\nHost: sim:8080\r\nX-Do: %s\r\n", rq->function,
               rq->what);
    if (rq->detached) {
        buf_printf(out, "Fn-Invoke-Type: detached\r\n");
    }
    if (chunked) {
        buf_printf(out, "Transfer-Encoding: chunked\r\n\r\n");
    } else {
        buf_printf(out, "Content-Length: %llu\r\n\r\n", (unsigned long long)rq->body_bytes);
    }
    put_body(out, rq, chunked);
}

static struct front_call *conn_create(struct front *f)
{
    struct front_call *c = sim_alloc(sizeof(*c));
    struct host *clients = net_clients(f->lb->n.w->net);

    c->front = f;
    c->patience.cb = on_patience;
    c->w = (struct loop_fd){ .fd = sock_open(clients), .cb = on_event };
    c->out = (struct buf)BUF_INIT(0);
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
    c = c ? c : conn_create(f);
    c->cb = cb;
    c->ud = ud;
    c->seq = rq->seq;
    c->sent = 0;
    c->headed = c->whole = c->keep = c->in_outcome = false;
    c->name[0] = c->outcome[0] = '\0';
    http_parser_init(&c->parser, HTTP_RESPONSE);
    c->parser.data = c;
    buf_clear(&c->out);
    put_request(&c->out, rq);
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

void front_leave(struct front_call *c)
{
    conn_close(c);
}

/* ---- the load balancer ----------------------------------------------------------------------- */

static void on_poll(struct env_timer *t)
{
    struct front *f = container_of(t, struct front, poll);

    if (!f->calm && web_is_calm(f->web)) {
        f->calm = true;
        lb_node_drain_calls(f->lb);
    }
    if (web_connections(f->web) > 0 || !f->calm) {
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
    web_drain(l->front->web, l->n.dead ? 0 : GRACE_NS);
    world_at(&l->n, &l->front->poll, l->n.w->now_ns);
}

bool front_is_empty(const struct lb_node *l)
{
    return web_connections(l->front->web) == 0;
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
