/* Server side of raw calls: methods that carry one message there and any number back.
 *
 * A call has an owner from called() until rpc_incoming_end() or service_gone(). */
#include <rpc/server_int.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOW_BYTES (64u << 10)

struct rpc_incoming {
    struct rpc_server *server;
    const struct rpc_service *service;
    const struct rpc_method *method;
    LIST_ENTRY(rpc_incoming) entry;
    struct rpc_stream *stream; /* NULL: over */
    uint64_t ends[RPC_QUEUE_MAX]; /* where messages end that may wait, in bytes sent */
    uint32_t first, n;
    uint64_t sent;
    struct server_wait wait; /* for the message */
    bool called;
    bool owned;
    bool full; /* its owner waits for room() */
    uint32_t entered;
    void *owner;
};

static void service_enter(struct rpc_incoming *in)
{
    in->entered++;
}

static void service_leave(struct rpc_incoming *in)
{
    struct rpc_server *s = in->server;

    if (--in->entered == 0 && !in->stream) {
        server_wait_end(s, &in->wait);
        LIST_REMOVE(in, entry);
        free(in);
        server_unref(s);
    }
}

static void service_gone(struct rpc_incoming *in)
{
    if (in->owned) {
        in->owned = false;
        in->service->gone(in->service->ud, in);
    }
}

void incoming_forget(struct rpc_server *s)
{
    struct rpc_incoming *in, *next;

    for (in = LIST_FIRST(&s->incoming); in; in = next) {
        next = LIST_NEXT(in, entry);
        service_enter(in);
        if (in->owned && in->service == &s->runner) {
            free(in->owner); /* a question that nobody answers any more */
        }
        in->owned = false;
        if (in->stream) {
            rpc_stream_close(in->stream);
            in->stream = NULL;
        }
        service_leave(in);
    }
}

void incoming_cancel(struct rpc_server *s, const char *text)
{
    struct rpc_incoming *in = LIST_FIRST(&s->incoming);

    while (in && !s->closed) {
        service_enter(in);
        service_gone(in);
        if (in->stream) {
            rpc_stream_abort(in->stream, GRPC_UNAVAILABLE, text);
            in->stream = NULL;
        }
        service_leave(in);
        in = LIST_FIRST(&s->incoming);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Those that the connection has taken wait no more. */
static void service_drop_taken(struct rpc_incoming *in)
{
    uint64_t taken = in->sent - rpc_stream_queued(in->stream);

    while (in->n > 0 && in->ends[in->first] <= taken) {
        in->first = (in->first + 1) % RPC_QUEUE_MAX;
        in->n--;
    }
}

bool rpc_incoming_has_room(struct rpc_incoming *in)
{
    service_drop_taken(in);
    in->full = in->n == RPC_QUEUE_MAX;
    if (in->full) {
        rpc_stream_want_writable(in->stream); /* small messages never pass its low mark */
    }
    return !in->full;
}

int rpc_incoming_send(struct rpc_incoming *in, const void *data, size_t len)
{
    uint64_t before = rpc_stream_queued(in->stream);
    int r;

    service_drop_taken(in);
    if (in->n == RPC_QUEUE_MAX) {
        return FN_E_EXHAUSTED;
    }
    r = rpc_stream_send(in->stream, data, len);
    if (r == 0) {
        in->sent += rpc_stream_queued(in->stream) - before;
        in->ends[(in->first + in->n++) % RPC_QUEUE_MAX] = in->sent;
    }
    return r;
}

void rpc_incoming_end(struct rpc_incoming *in, int status, const char *text)
{
    struct rpc_stream *st = in->stream;

    /* Broken by an owner that ends a call twice, or after gone(). */
    assert(in->owned);
    service_enter(in);
    in->owned = false;
    in->stream = NULL;
    rpc_stream_finish(st, status, text);
    service_leave(in);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void call(struct rpc_incoming *in, const void *data, size_t len)
{
    if (!in->called) {
        in->called = in->owned = true;
        server_wait_end(in->server, &in->wait);
        service_enter(in);
        in->method->called(in->service->ud, in, data, len);
        service_leave(in);
    }
}

static void service_on_message(void *ud, const void *data, size_t len)
{
    call(ud, data, len);
}

static void on_half_closed(void *ud)
{
    call(ud, NULL, 0);
}

/* The connection took something; whether a whole message is looked at. */
static void service_on_writable(void *ud)
{
    struct rpc_incoming *in = ud;

    service_enter(in);
    if (in->owned && in->full && in->service->room && rpc_incoming_has_room(in)) {
        in->service->room(in->service->ud, in);
    }
    service_leave(in);
}

static void service_on_ended(void *ud, int status, const char *text, bool refused)
{
    struct rpc_incoming *in = ud;

    (void)status;
    (void)text;
    (void)refused;
    service_enter(in);
    service_gone(in);
    if (in->stream) {
        rpc_stream_close(in->stream);
        in->stream = NULL;
    }
    service_leave(in);
}

static const struct rpc_stream_cb stream_cb = { .message = service_on_message,
                                                .half_closed = on_half_closed,
                                                .writable = service_on_writable,
                                                .ended = service_on_ended };

static void on_wait_expired(struct server_wait *w)
{
    struct rpc_incoming *in = container_of(w, struct rpc_incoming, wait);
    struct rpc_stream *st = in->stream;

    service_enter(in);
    in->stream = NULL;
    rpc_stream_finish(st, GRPC_DEADLINE, "no message came");
    service_leave(in);
}

bool incoming_begin(struct rpc_server *s, struct rpc_stream *st, const char *path,
                    const struct rpc_service *service)
{
    const struct rpc_method *m = service->methods;
    struct rpc_incoming *in;

    while (m->path && strcmp(m->path, path) != 0) {
        m++;
    }
    if (!m->path) {
        return false;
    }
    in = calloc(1, sizeof(*in));
    if (!in) {
        rpc_stream_finish(st, GRPC_EXHAUSTED, "out of memory");
        return true;
    }
    in->server = s;
    in->service = service;
    in->method = m;
    in->stream = st;
    server_ref(s);
    LIST_INSERT_HEAD(&s->incoming, in, entry);
    server_wait_begin(s, &in->wait, on_wait_expired);
    rpc_stream_adopt(st, &stream_cb, in, LOW_BYTES);
    return true;
}

void rpc_server_serve(struct rpc_server *s, const struct rpc_service *service)
{
    /* Broken by core/node, which has one service. */
    assert(!s->service);
    s->service = service;
}

/* ---- what the owner may ask ------------------------------------------------------------------ */

void rpc_incoming_set(struct rpc_incoming *in, void *owner)
{
    in->owner = owner;
}

const char *rpc_incoming_path(const struct rpc_incoming *in)
{
    return in->method->path;
}

void *rpc_incoming_get(const struct rpc_incoming *in)
{
    return in->owner;
}

bool rpc_incoming_identity(const struct rpc_incoming *in, char *ret, size_t cap)
{
    const struct net_io *io = rpc_stream_io(in->stream);

    ret[0] = '\0';
    return io && net_io_peer_identity(io, ret, cap);
}
