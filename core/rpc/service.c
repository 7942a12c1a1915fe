/* Server side of raw calls: methods that carry one message there and any number back.
 *
 * A call has an owner from called() until rpc_incoming_end() or service_gone(). */
#include <rpc/server_int.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOW_BYTES (64u << 10)

struct rpc_incoming {
    struct server_call call; /* first */
    const struct rpc_service *service;
    const struct rpc_method *method;
    uint64_t ends[RPC_QUEUE_MAX]; /* where messages end that may wait, in bytes sent */
    uint32_t first, n;
    uint64_t sent;
    bool called;
    bool owned;
    bool full; /* its owner waits for room() */
    void *owner;
};

static struct rpc_incoming *incoming_of(struct server_call *c)
{
    return container_of(c, struct rpc_incoming, call);
}

static void service_gone(struct server_call *c)
{
    struct rpc_incoming *in = incoming_of(c);

    if (in->owned) {
        in->owned = false;
        in->service->gone(in->service->ud, in);
    }
}

static void incoming_forget(struct server_call *c)
{
    struct rpc_incoming *in = incoming_of(c);

    if (in->owned && in->service == &c->server->runner) {
        free(in->owner); /* a question that nobody answers any more */
    }
    in->owned = false;
}

static void incoming_free(struct server_call *c)
{
    free(incoming_of(c));
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Those that the connection has taken wait no more. */
static void service_drop_taken(struct rpc_incoming *in)
{
    uint64_t taken = in->sent - rpc_stream_queued(in->call.stream);

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
        rpc_stream_want_writable(in->call.stream); /* small messages never pass its low mark */
    }
    return !in->full;
}

int rpc_incoming_send(struct rpc_incoming *in, const void *data, size_t len)
{
    uint64_t before = rpc_stream_queued(in->call.stream);
    int r;

    service_drop_taken(in);
    if (in->n == RPC_QUEUE_MAX) {
        return FN_E_EXHAUSTED;
    }
    r = rpc_stream_send(in->call.stream, data, len);
    if (r == 0) {
        in->sent += rpc_stream_queued(in->call.stream) - before;
        in->ends[(in->first + in->n++) % RPC_QUEUE_MAX] = in->sent;
    }
    return r;
}

void rpc_incoming_end(struct rpc_incoming *in, int status, const char *text)
{
    /* Broken by an owner that ends a call twice, or after gone(). */
    assert(in->owned);
    server_call_enter(&in->call);
    in->owned = false;
    server_call_finish(&in->call, status, text);
    server_call_leave(&in->call);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void call(struct rpc_incoming *in, const void *data, size_t len)
{
    if (!in->called) {
        in->called = in->owned = true;
        server_call_heard(&in->call);
        server_call_enter(&in->call);
        in->method->called(in->service->ud, in, data, len);
        server_call_leave(&in->call);
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

    server_call_enter(&in->call);
    if (in->owned && in->full && in->service->room && rpc_incoming_has_room(in)) {
        in->service->room(in->service->ud, in);
    }
    server_call_leave(&in->call);
}

static void incoming_expired(struct server_call *c)
{
    server_call_finish(c, GRPC_DEADLINE, "no message came");
}

bool incoming_begin(struct rpc_server *s, struct rpc_stream *st, const char *path,
                    const struct rpc_service *service)
{
    static const struct rpc_stream_cb stream_cb = { .message = service_on_message,
                                                    .half_closed = on_half_closed,
                                                    .writable = service_on_writable,
                                                    .ended = server_call_on_ended };
    static const struct server_call_kind kind = { &stream_cb, incoming_expired, service_gone,
                                                  incoming_forget, incoming_free };
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
    in->service = service;
    in->method = m;
    server_call_begin(&in->call, &kind, s, st, LOW_BYTES);
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
    const struct net_io *io = rpc_stream_io(in->call.stream);

    ret[0] = '\0';
    return io && net_io_peer_identity(io, ret, cap);
}
