/* Clients who call core/lb themselves: no byte lies between. A call that is over stays until the
 * next night, so that one that ends twice does so before the books. */
#include "front.h"

#include <base/arena.h>
#include <lb/lookups.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

LIST_HEAD(front_calls, front_call);

struct front {
    struct budget bodies; /* of its requests */
    struct front_calls over;
};

struct front_call {
    LIST_ENTRY(front_call) link; /* of those that are over */
    struct lb_node *lb;
    uint32_t seq;
    const struct front_cb *cb;
    void *ud;
    struct arena arena;
    struct headers headers;
    struct lb_call *call; /* NULL: not yet known */
    bool over;
};

static void call_over(struct front_call *c)
{
    if (!c->over) {
        c->over = true;
        arena_finish(&c->arena);
        LIST_INSERT_HEAD(&c->lb->front->over, c, link);
    }
}

static void call_end(struct front_call *c, enum front_end how)
{
    call_over(c);
    c->cb->end(c->ud, how);
}

static void reply_whole(void *ud, int status, const struct headers *h, const void *data, size_t len)
{
    struct front_call *c = ud;

    c->cb->head(c->ud, status, headers_get(h, "Fn-Outcome"), false);
    c->cb->data(c->ud, data, len);
    call_end(c, FRONT_WHOLE);
}

static void reply_error(void *ud, int status, const struct headers *h, const char *text)
{
    struct front_call *c = ud;

    tell(&c->lb->n, "request %u is told %d: %s", c->seq, status, text);
    c->cb->head(c->ud, status, headers_get(h, "Fn-Outcome"), false);
    call_end(c, FRONT_WHOLE);
}

static void reply_head(void *ud, int status, const struct headers *h, int64_t content_length)
{
    struct front_call *c = ud;

    (void)h;
    (void)content_length;
    c->cb->head(c->ud, status, NULL, true);
}

static int reply_data(void *ud, const void *data, size_t len)
{
    struct front_call *c = ud;

    return c->cb->data(c->ud, data, len);
}

static void reply_end(void *ud)
{
    call_end(ud, FRONT_WHOLE);
}

static void reply_cut(void *ud)
{
    call_end(ud, FRONT_CUT);
}

static const struct lb_reply reply = { reply_whole, reply_error, reply_head,
                                       reply_data,  reply_end,   reply_cut };

static struct body *write_body(struct budget *bodies, uint32_t seq, uint64_t bytes)
{
    struct body *b = body_create(bodies, 0);
    char piece[1024];

    if (!b) {
        abort();
    }
    for (uint64_t at = 0; at < bytes; at += sizeof(piece)) {
        size_t n = bytes - at < sizeof(piece) ? (size_t)(bytes - at) : sizeof(piece);

        books_write(seq, true, at, piece, n);
        body_append(b, piece, n);
    }
    return b;
}

/* A client knows the id that it was told of last. */
static char *path_of(const struct world *w, struct arena *arena, uint32_t function)
{
    if (!w->plan->api) {
        return arena_printf(arena, "/invoke/fn-%u", function);
    }
    return arena_printf(arena, "/invoke/%s",
                        w->a.fn_id[function][0]     ? w->a.fn_id[function]
                        : w->a.last_id[function][0] ? w->a.last_id[function]
                                                    : "none");
}

struct front_call *front_ask(struct lb_node *l, const struct front_request *from,
                             const struct front_cb *cb, void *ud)
{
    static const unsigned char address[LOOKUPS_ADDRESS];
    struct front_call *c = sim_alloc(sizeof(*c));
    struct lb_request rq = { .arena = &c->arena,
                             .method = "POST",
                             .scheme = "http",
                             .host = "sim:8080",
                             .headers = &c->headers,
                             .peer = "10.0.2.1:1",
                             .client = address };
    struct body *body;

    c->lb = l;
    c->seq = from->seq;
    c->cb = cb;
    c->ud = ud;
    arena_init(&c->arena, 0);
    headers_init(&c->headers, &c->arena);
    sim_outside_begin();
    rq.body = body = write_body(&l->front->bodies, from->seq, from->body_bytes);
    headers_add(&c->headers, "X-Do", from->what);
    if (from->detached) {
        headers_add(&c->headers, "Fn-Invoke-Type", "detached");
    }
    rq.path = rq.target = path_of(l->n.w, &c->arena, from->function);
    sim_outside_end();
    c->call = lb_submit(l->lb, &rq, &reply, c);
    body_unref(body);
    return c->over ? NULL : c;
}

void front_resume(struct front_call *c)
{
    lb_call_writable(c->call);
}

void front_leave(struct front_call *c)
{
    lb_call_gone(c->call);
    call_over(c);
}

/* ---- the load balancer ----------------------------------------------------------------------- */

void front_open(struct lb_node *l)
{
    l->front = sim_alloc(sizeof(*l->front));
}

void front_drain(struct lb_node *l)
{
    lb_node_drain_calls(l);
}

bool front_is_empty(const struct lb_node *l)
{
    (void)l;
    return true;
}

void front_forget(struct lb_node *l)
{
    struct front_call *c;

    while ((c = LIST_FIRST(&l->front->over))) {
        LIST_REMOVE(c, link);
        free(c);
    }
}

void front_close(struct lb_node *l)
{
    books_equal(l->n.w->books, BOOKS_NOTHING_LEFT, "bytes of bodies", l->front->bodies.used_bytes,
                0);
    front_forget(l);
    free(l->front);
}

/* What its clients were told, as far as they were told; a detached call has two ends. */
void front_check_counts(struct lb_node *l)
{
    struct books *b = l->n.w->books;
    struct books_tally t = books_tally(b, l->n.life);
    struct lb_counts n;
    uint64_t known = t.seen[BOOKS_TOLD_OK] + t.seen[BOOKS_TOLD_FAILED] +
                     t.seen[BOOKS_TOLD_UNKNOWN] + t.seen[BOOKS_STREAMED] + t.seen[BOOKS_CUT] +
                     t.seen[BOOKS_TOLD_ACK];

    lb_count(l->lb, &n);
    books_equal(b, BOOKS_COUNTS_LB, "received", n.received, t.all);
    books_equal(b, BOOKS_COUNTS_LB, "outcomes in all",
                n.ok + n.failed + n.not_executed + n.unknown + n.aborted, t.all);
    books_equal(b, BOOKS_COUNTS_LB, "calls in flight", n.in_flight, 0);
    if (l->n.w->plan->detached) {
        return;
    }
    books_equal(b, BOOKS_COUNTS_LB, "not executed", n.not_executed,
                t.seen[BOOKS_TOLD_NOT_EXECUTED]);
    books_equal(b, BOOKS_COUNTS_LB, "ok, failed and unknown", n.ok + n.failed + n.unknown, known);
    books_equal(b, BOOKS_COUNTS_LB, "aborted", n.aborted,
                t.seen[BOOKS_LEFT] + t.seen[BOOKS_NODE_LOST]);
    if (n.ok < t.seen[BOOKS_TOLD_OK] ||
        n.ok > t.seen[BOOKS_TOLD_OK] + t.seen[BOOKS_STREAMED]) {
        books_break(b, BOOKS_COUNTS_LB, 0, "%s counts %llu calls as ok, its clients %llu",
                    l->n.name, (unsigned long long)n.ok, (unsigned long long)t.seen[BOOKS_TOLD_OK]);
    }
}
