/* Server side of raw calls: methods that RunnerProtocol does not have.
 *
 * A call has an owner from called() until rpc_incoming_end() or gone(). What is sent is queued; one
 * batch is out at a time, the first carries the headers, the last the status. Freed when the peer's
 * end was told, nothing is out and nobody owns it. */
#include <rpc/raw.h>
#include <rpc/server_int.h>

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 256

struct rpc_incoming {
    struct rpc_tag message_tag, send_tag, close_tag;
    struct rpc_server *server;
    const struct rpc_method *method;
    LIST_ENTRY(rpc_incoming) entry;
    grpc_call *call;
    grpc_byte_buffer *message;
    grpc_byte_buffer *queue[RPC_QUEUE_MAX];
    uint32_t first, n;
    bool receiving, sending;
    bool headers_sent;
    bool owned;
    bool end_wanted, end_sent;
    bool over; /* the peer's end came back */
    int cancelled;
    int status;
    char text[TEXT_MAX];
    void *owner;
};

static void maybe_free(struct rpc_incoming *in)
{
    struct rpc_server *s = in->server;

    if (!in->over || in->sending || in->receiving || in->owned) {
        return;
    }
    while (in->n > 0) {
        grpc_byte_buffer_destroy(in->queue[in->first]);
        in->first = (in->first + 1) % RPC_QUEUE_MAX;
        in->n--;
    }
    LIST_REMOVE(in, entry);
    grpc_byte_buffer_destroy(in->message);
    grpc_call_unref(in->call);
    free(in);
    server_unref(s);
}

static void gone(struct rpc_incoming *in)
{
    const struct rpc_service *service = in->server->service;

    if (in->owned) {
        in->owned = false;
        if (!in->server->closed) {
            service->gone(service->ud, in);
        }
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_next(struct rpc_incoming *in)
{
    grpc_slice details = grpc_slice_from_copied_string(in->text);
    grpc_byte_buffer *bb = NULL;
    grpc_op ops[3];
    size_t n = 0;

    if (!in->headers_sent) {
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
        in->headers_sent = true;
    }
    if (in->n > 0) {
        bb = in->queue[in->first];
        in->first = (in->first + 1) % RPC_QUEUE_MAX;
        in->n--;
        ops[n++] = rpc_op_send_message(bb, 0);
    }
    if (in->end_wanted && in->n == 0) {
        in->end_sent = true;
        ops[n++] = (grpc_op){
            .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
            .data.send_status_from_server = {.status = in->status, .status_details = &details}};
    }
    in->sending = true;
    rpc_batch(in->call, ops, n, &in->send_tag);
    grpc_byte_buffer_destroy(bb);
    grpc_slice_unref(details);
}

static void pump(struct rpc_incoming *in)
{
    if (!in->sending && !in->end_sent && !in->over && (in->n > 0 || in->end_wanted)) {
        send_next(in);
    }
}

static void on_sent(struct rpc_tag *tag, bool ok)
{
    struct rpc_incoming *in = container_of(tag, struct rpc_incoming, send_tag);

    (void)ok; /* a failure ends the call, which close_tag tells */
    in->sending = false;
    pump(in);
    maybe_free(in);
}

int rpc_incoming_send(struct rpc_incoming *in, const void *data, size_t len)
{
    grpc_slice slice;

    if (in->n == RPC_QUEUE_MAX) {
        return FN_E_EXHAUSTED;
    }
    slice = grpc_slice_from_copied_buffer(data ? data : "", len);
    in->queue[(in->first + in->n++) % RPC_QUEUE_MAX] = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    pump(in);
    return 0;
}

void rpc_incoming_end(struct rpc_incoming *in, int status, const char *text)
{
    assert(in->owned);
    in->owned = false;
    in->end_wanted = true;
    in->status = status;
    snprintf(in->text, sizeof(in->text), "%s", text ? text : "");
    pump(in);
    maybe_free(in);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void on_message(struct rpc_tag *tag, bool ok)
{
    struct rpc_incoming *in = container_of(tag, struct rpc_incoming, message_tag);
    struct rpc_server *s = in->server;
    grpc_byte_buffer_reader reader;
    grpc_slice all = grpc_empty_slice();

    if (ok && in->message && grpc_byte_buffer_reader_init(&reader, in->message)) {
        grpc_slice_unref(all);
        all = grpc_byte_buffer_reader_readall(&reader);
        grpc_byte_buffer_reader_destroy(&reader);
    }
    in->owned = !in->over;
    if (s->closed) {
        in->owned = false;
        grpc_call_cancel(in->call, NULL);
    } else if (in->owned) {
        in->method->called(s->service->ud, in, ok && in->message ? GRPC_SLICE_START_PTR(all) : NULL,
                           GRPC_SLICE_LENGTH(all));
    }
    grpc_slice_unref(all);
    in->receiving = false; /* kept it alive during called() */
    maybe_free(in);
}

static void on_closed(struct rpc_tag *tag, bool ok)
{
    struct rpc_incoming *in = container_of(tag, struct rpc_incoming, close_tag);

    (void)ok;
    in->over = true;
    gone(in);
    maybe_free(in);
}

bool incoming_begin(struct rpc_server *s, grpc_call *call, const char *path)
{
    const struct rpc_method *m = s->service ? s->service->methods : NULL;
    struct rpc_incoming *in;
    grpc_op op;

    while (m && m->path && strcmp(m->path, path) != 0) {
        m++;
    }
    in = m && m->path ? calloc(1, sizeof(*in)) : NULL;
    if (!in) {
        return false;
    }
    in->message_tag.fn = on_message;
    in->send_tag.fn = on_sent;
    in->close_tag.fn = on_closed;
    in->server = s;
    in->method = m;
    in->call = call;
    in->receiving = true;
    server_ref(s);
    LIST_INSERT_HEAD(&s->incoming, in, entry);
    op = rpc_op_recv_message(&in->message);
    rpc_batch(call, &op, 1, &in->message_tag);
    op = (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                   .data.recv_close_on_server.cancelled = &in->cancelled};
    rpc_batch(call, &op, 1, &in->close_tag);
    return true;
}

void incoming_forget(struct rpc_server *s)
{
    struct rpc_incoming *in, *next;

    for (in = LIST_FIRST(&s->incoming); in; in = next) {
        next = LIST_NEXT(in, entry);
        in->owned = false; /* freed when gRPC has given it back */
    }
}

void rpc_server_serve(struct rpc_server *s, const struct rpc_service *service)
{
    assert(!s->service);
    s->service = service;
}

/* ---- what the owner may ask ------------------------------------------------------------------ */

void rpc_incoming_set(struct rpc_incoming *in, void *owner)
{
    in->owner = owner;
}

void *rpc_incoming_get(const struct rpc_incoming *in)
{
    return in->owner;
}

bool rpc_incoming_identity(const struct rpc_incoming *in, char *ret, size_t cap)
{
    return identity_of_peer(in->call, ret, cap);
}
