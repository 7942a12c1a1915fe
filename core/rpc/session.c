/* Sessions: one Engage stream of the server.
 *
 * A session has an owner from on_try() until finish(), abort() or on_gone(). What the owner sends
 * is queued as encoded messages; one batch is out at a time: the first carries the headers, the
 * last the status. Messages that are followed by another one are hinted, so that gRPC writes them
 * together; never in the batch with the headers, whose completion waits for the write.
 *
 * Freed when the call's end was told (RECV_CLOSE) and no batch is out. */
#include <rpc/server_int.h>

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 256

/* A draining server closes a connection behind its last stream. A client that still has to read
 * then fails to write its window updates and throws away what it has not read; so the end of a
 * large answer waits until the client has had time to take the rest from the socket. */
#define LINGER_BYTES (16u << 10)
#define LINGER_NS    (200 * ENV_MS)

struct out_message {
    STAILQ_ENTRY(out_message) entry;
    grpc_byte_buffer *bb;
    size_t bytes;
};

struct engage_session {
    struct rpc_tag send_tag;
    struct rpc_tag recv_tag;
    struct rpc_tag close_tag;
    struct rpc_server *server;
    LIST_ENTRY(engage_session) entry;
    grpc_call *call;
    void *ud;
    bool owned; /* callbacks may be made */

    STAILQ_HEAD(, out_message) queue;
    size_t queued_bytes; /* in the queue and in the batch that is out */
    size_t sending_bytes;
    bool sending;
    bool full;       /* the owner was told to wait */
    bool headers_sent;
    bool status_set; /* the end was asked for */
    bool status_sent;
    int status;
    char text[TEXT_MAX];
    uint64_t data_bytes;
    struct env_timer linger;
    bool lingered;

    grpc_byte_buffer *message;
    bool receiving;
    bool wanted;   /* the owner asked for body */
    bool body_end; /* eof was delivered */

    bool over; /* RECV_CLOSE came back */
    int cancelled;
    uint32_t entered;
};

/* ---- life ----------------------------------------------------------------------------------- */

static void release(struct engage_session *e)
{
    struct rpc_server *s = e->server;
    struct out_message *m;

    while ((m = STAILQ_FIRST(&e->queue))) {
        STAILQ_REMOVE_HEAD(&e->queue, entry);
        grpc_byte_buffer_destroy(m->bb);
        free(m);
    }
    env_timer_clear(s->rpc->env, &e->linger);
    LIST_REMOVE(e, entry);
    grpc_byte_buffer_destroy(e->message);
    grpc_call_unref(e->call);
    free(e);
    server_unref(s);
}

static void enter(struct engage_session *e)
{
    e->entered++;
}

static void leave(struct engage_session *e)
{
    e->entered--;
    if (e->entered == 0 && e->over && !e->sending && !e->receiving && !e->owned) {
        release(e);
    }
}

static void gone(struct engage_session *e)
{
    if (e->owned) {
        e->owned = false;
        if (!e->server->closed) {
            e->server->cb->on_gone(e->ud);
        }
    }
}

void sessions_forget(struct rpc_server *s)
{
    struct engage_session *e = LIST_FIRST(&s->sessions);

    while (e) {
        struct engage_session *next = LIST_NEXT(e, entry);

        e->owned = false;
        e = next;
    }
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Whether the last batch has to wait. */
static bool lingers(struct engage_session *e)
{
    struct rpc_server *s = e->server;

    if (!s->draining || s->cancelled || e->lingered || e->data_bytes < LINGER_BYTES) {
        return false;
    }
    if (!env_timer_is_set(&e->linger)) {
        env_timer_set(s->rpc->env, &e->linger, env_now_ns(s->rpc->env) + LINGER_NS);
    }
    return true;
}

/* Starts the next batch, if there is something to send and none is out. */
static void pump(struct engage_session *e)
{
    struct out_message *m = STAILQ_FIRST(&e->queue);
    struct out_message *next = m ? STAILQ_NEXT(m, entry) : NULL;
    bool with_status = e->status_set && !next;
    grpc_slice details;
    grpc_op ops[3];
    size_t n = 0;

    if (e->sending || e->status_sent || e->over || (!m && !with_status) ||
        (with_status && lingers(e))) {
        return;
    }
    if (!e->headers_sent) {
        ops[n++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
    }
    if (m) {
        bool more = next || with_status;

        ops[n++] = rpc_op_send_message(m->bb,
                                       more && e->headers_sent ? GRPC_WRITE_BUFFER_HINT : 0);
        STAILQ_REMOVE_HEAD(&e->queue, entry);
        e->sending_bytes = m->bytes;
    }
    if (with_status) {
        details = grpc_slice_from_copied_string(e->text);
        ops[n++] = (grpc_op){ .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                              .data.send_status_from_server = { .status = e->status,
                                                                .status_details = &details } };
        e->status_sent = true;
    }
    e->headers_sent = true;
    e->sending = true;
    rpc_batch(e->call, ops, n, &e->send_tag);
    if (with_status) {
        grpc_slice_unref(details);
    }
    if (m) {
        grpc_byte_buffer_destroy(m->bb);
        free(m);
    }
}

static void on_linger(struct env_timer *t)
{
    struct engage_session *e = container_of(t, struct engage_session, linger);

    e->lingered = true;
    pump(e);
}

static void on_sent(struct rpc_tag *tag, bool ok)
{
    struct engage_session *e = container_of(tag, struct engage_session, send_tag);
    uint32_t limit = e->server->rpc->config.send_queue_bytes;

    enter(e);
    e->sending = false;
    e->queued_bytes -= e->sending_bytes;
    e->sending_bytes = 0;
    if (ok) {
        pump(e);
        if (e->full && e->queued_bytes <= limit / 2) {
            e->full = false;
            if (e->owned) {
                e->server->cb->on_writable(e->ud);
            }
        }
    }
    leave(e);
}

static void enqueue(struct engage_session *e, grpc_byte_buffer *bb)
{
    struct out_message *m = malloc(sizeof(*m));

    if (!m || !bb) {
        abort(); /* a message lost in the middle of an answer would make a cut answer look whole */
    }
    m->bb = bb;
    m->bytes = grpc_byte_buffer_length(bb);
    e->queued_bytes += m->bytes;
    STAILQ_INSERT_TAIL(&e->queue, m, entry);
}

static void send_start(struct engage_session *e, const struct engage_start *start)
{
    assert(e->owned);
    enqueue(e, wire_encode_start(&e->server->rpc->out, start));
    pump(e);
}

static int send_data(struct engage_session *e, const void *data, size_t len)
{
    const char *p = data;

    assert(e->owned);
    while (len > 0) {
        size_t n = len < WIRE_FRAME_BYTES ? len : WIRE_FRAME_BYTES;

        enqueue(e, wire_encode_runner_data(p, n));
        e->data_bytes += n;
        p += n;
        len -= n;
    }
    pump(e);
    e->full = e->queued_bytes > e->server->rpc->config.send_queue_bytes;
    return e->full ? 1 : 0;
}

/* Ends the stream behind what is queued. */
static void set_status(struct engage_session *e, int status, const char *text)
{
    e->status_set = true;
    e->status = status;
    snprintf(e->text, sizeof(e->text), "%s", text ? text : "");
    pump(e);
}

static void finish(struct engage_session *e, const struct engage_finished *f)
{
    assert(e->owned);
    enter(e);
    e->owned = false;
    e->status_set = true; /* so that a message before is hinted */
    enqueue(e, wire_encode_finished(&e->server->rpc->out, f));
    pump(e);
    leave(e);
}

static void abort_session(struct engage_session *e, int grpc_status, const char *text)
{
    struct out_message *m;

    assert(e->owned && grpc_status != 0);
    enter(e);
    e->owned = false;
    while ((m = STAILQ_FIRST(&e->queue))) {
        STAILQ_REMOVE_HEAD(&e->queue, entry);
        e->queued_bytes -= m->bytes;
        grpc_byte_buffer_destroy(m->bb);
        free(m);
    }
    set_status(e, grpc_status, text);
    leave(e);
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* The peer broke the protocol: its stream ends with a status; the owner loses its peer. */
static void refuse(struct engage_session *e, int status, const char *text)
{
    gone(e);
    set_status(e, status, text);
}

static void recv_batch(struct engage_session *e)
{
    grpc_op op = rpc_op_recv_message(&e->message);

    e->receiving = true;
    rpc_batch(e->call, &op, 1, &e->recv_tag);
}

static void on_body_message(struct engage_session *e)
{
    grpc_byte_buffer *bb = e->message;
    char text[TEXT_MAX];
    struct wire_client_msg m;

    e->message = NULL;
    wire_decode_client(&e->server->rpc->in, bb, &m);
    if (m.kind == WIRE_BAD) {
        refuse(e, GRPC_STATUS_INTERNAL, "RUN403 a message cannot be decoded");
    } else if (m.kind != WIRE_DATA) {
        refuse(e, GRPC_STATUS_INVALID_ARGUMENT, "Protocol failure: expected ClientMsg_Data");
    } else if (m.data.len > WIRE_FRAME_MAX_BYTES) {
        snprintf(text, sizeof(text), "RUN402 data frame %zu > %u", m.data.len,
                 WIRE_FRAME_MAX_BYTES);
        refuse(e, GRPC_STATUS_RESOURCE_EXHAUSTED, text);
    } else {
        e->body_end = m.data.eof;
        e->server->cb->on_body(e->ud, m.data.data, m.data.len, m.data.eof);
    }
    grpc_byte_buffer_destroy(bb);
}

static void on_received(struct rpc_tag *tag, bool ok)
{
    struct engage_session *e = container_of(tag, struct engage_session, recv_tag);

    (void)ok;
    enter(e);
    e->receiving = false;
    e->wanted = false;
    if (e->owned && e->message) {
        on_body_message(e);
    } else if (e->owned && !e->over && ok) {
        refuse(e, GRPC_STATUS_INVALID_ARGUMENT,
               "Protocol failure: expected ClientMsg_Data, the client closed its side");
    }
    leave(e);
}

static void session_more(struct engage_session *e)
{
    assert(e->owned && !e->body_end);
    if (!e->wanted) {
        e->wanted = true;
        recv_batch(e);
    }
}

static void on_closed(struct rpc_tag *tag, bool ok)
{
    struct engage_session *e = container_of(tag, struct engage_session, close_tag);

    (void)ok;
    enter(e);
    e->over = true;
    gone(e);
    leave(e);
}

/* ---- the beginning -------------------------------------------------------------------------- */

static void offer(struct engage_session *e, struct wire_client_msg *m, const char *request_id,
                  int64_t deadline_ns)
{
    struct rpc_server *s = e->server;
    int r;

    m->try_call.request_id = request_id;
    e->owned = true;
    r = s->cb->on_try(s->ud, e, &m->try_call, deadline_ns, &e->ud);
    if (r < 0) {
        assert(e->owned);
        e->owned = false;
        set_status(e, -r, err_name(r));
    }
}

void session_begin(struct rpc_server *s, grpc_call *call, grpc_byte_buffer *payload,
                   const char *request_id, int64_t deadline_ns)
{
    struct engage_session *e = calloc(1, sizeof(*e));
    struct wire_client_msg m = { .kind = WIRE_UNKNOWN };
    grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

    if (!e) {
        grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory", NULL);
        grpc_call_unref(call);
        grpc_byte_buffer_destroy(payload);
        return;
    }
    e->send_tag.fn = on_sent;
    e->recv_tag.fn = on_received;
    e->close_tag.fn = on_closed;
    e->linger.cb = on_linger;
    e->server = s;
    e->call = call;
    STAILQ_INIT(&e->queue);
    LIST_INSERT_HEAD(&s->sessions, e, entry);
    server_ref(s);
    enter(e);
    op.data.recv_close_on_server.cancelled = &e->cancelled;
    rpc_batch(call, &op, 1, &e->close_tag);
    if (payload) {
        wire_decode_client(&s->rpc->in, payload, &m);
    }
    if (m.kind == WIRE_TRY) {
        offer(e, &m, request_id, deadline_ns);
    } else if (m.kind == WIRE_BAD) {
        set_status(e, GRPC_STATUS_INTERNAL, "RUN403 a message cannot be decoded");
    } else {
        set_status(e, GRPC_STATUS_INVALID_ARGUMENT,
                   "RUN401 expected TryCall first (Protocol failure: expected ClientMsg_Try)");
    }
    grpc_byte_buffer_destroy(payload);
    leave(e);
}

struct engage_server *rpc_server_table(void)
{
    static struct engage_server table = {
        .session_more = session_more,
        .send_start = send_start,
        .send_data = send_data,
        .finish = finish,
        .abort = abort_session,
    };

    return &table;
}
