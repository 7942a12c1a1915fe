/* Sessions: one Engage stream of the server.
 *
 * A session has an owner from on_try() until session_finish(), abort_session() or on_gone(). Its
 * stream is paused but while the owner wants body. What the owner sends is appended to the stream;
 * session_finish() and abort_session() leave the rest to it, and the session is gone.
 *
 * Without memory for what its owner sends, this call alone is lost: its stream is broken off, so
 * that a cut answer never looks whole, and its owner is told as of a peer that went away.
 *
 * States: see exchange.h.
 *
 *   OFFER to OWNED   session_offer(): TryCall came; its owner may answer inside on_try()
 *   OWNED to GONE    is_kept(): no memory; the stream is ended already, the task says on_gone()
 *   to OVER          session_over(): the stream, if there still is one, is ended behind it */
#include <rpc/exchange.h>
#include <rpc/server_int.h>

#include <assert.h>
#include <base/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX           256
#define ANSWER_BYTES_USUAL 500 /* head, a short body and CallFinished */

struct engage_session {
    struct server_call call; /* first; its stream is NULL in GONE and OVER */
    void *ud;
    char *request_id;
    enum session_state state;
    bool full;     /* the owner was told to wait */
    bool wanted;   /* the owner asked for body */
    bool body_end; /* eof was delivered */
    struct env_task lost; /* tells the owner */
    uint32_t unknown; /* messages passed over */
};

static struct engage_session *session_of(struct server_call *c)
{
    return container_of(c, struct engage_session, call);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void session_over(struct engage_session *e)
{
    e->call.owed = false;
    if (e->state != SESSION_OVER) {
        session_enter(&e->state, SESSION_OVER);
    }
}

/* Over, and its owner is told. */
static void session_gone(struct server_call *c)
{
    struct engage_session *e = session_of(c);
    bool tell = session_has_owner(e->state);

    session_over(e);
    if (tell) {
        c->server->cb->on_gone(e->ud);
    }
}

/* Ends the stream with a status behind what was sent. */
static void session_close(struct engage_session *e, int status, const char *text)
{
    session_over(e);
    server_call_finish(&e->call, status, text);
}

static void session_forget(struct server_call *c)
{
    session_over(session_of(c));
}

static void session_free(struct server_call *c)
{
    struct engage_session *e = session_of(c);

    env_undefer(c->server->rpc->env, &e->lost);
    free(e->request_id);
    free(e);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void on_lost(struct env_task *t)
{
    struct engage_session *e = container_of(t, struct engage_session, lost);

    server_call_enter(&e->call);
    session_gone(&e->call);
    server_call_leave(&e->call);
}

/* Whether a message was encoded; else the stream has ended. */
static bool is_kept(struct engage_session *e, int r)
{
    if (r < 0) {
        server_call_abort(&e->call, GRPC_EXHAUSTED, "out of memory");
        session_enter(&e->state, SESSION_GONE);
        e->call.owed = true;
        env_defer(e->call.server->rpc->env, &e->lost);
    }
    return r >= 0;
}

static void session_send_start(struct engage_session *e, const struct engage_start *start)
{
    struct buf *out;

    /* Broken by core/runner, which has let go of a session that ended or is gone. */
    assert(session_has_owner(e->state));
    if (!e->call.stream) {
        return;
    }
    out = rpc_stream_out(e->call.stream);
    buf_reserve(out, ANSWER_BYTES_USUAL); /* else it grows with what follows */
    if (is_kept(e, wire_encode_start(&e->call.server->rpc->out, start, out))) {
        rpc_stream_wrote(e->call.stream);
    }
}

static int send_data(struct engage_session *e, const void *data, size_t len)
{
    const char *p = data;

    /* Broken by core/runner, which has let go of a session that ended or is gone. */
    assert(session_has_owner(e->state));
    if (!e->call.stream) {
        return 0;
    }
    while (len > 0) {
        size_t n = len < WIRE_FRAME_BYTES ? len : WIRE_FRAME_BYTES;

        if (!is_kept(e, wire_encode_runner_data(p, n, rpc_stream_out(e->call.stream)))) {
            return 0;
        }
        p += n;
        len -= n;
    }
    rpc_stream_wrote(e->call.stream);
    e->full = rpc_stream_queued(e->call.stream) > e->call.server->rpc->config.send_queue_bytes;
    return e->full ? 1 : 0;
}

static void session_finish(struct engage_session *e, const struct engage_finished *f)
{
    struct rpc_stream *st = e->call.stream;

    /* Broken by core/runner, which has let go of a session that ended or is gone. */
    assert(session_has_owner(e->state));
    server_call_enter(&e->call);
    if (st && is_kept(e, wire_encode_finished(&e->call.server->rpc->out, f, rpc_stream_out(st)))) {
        rpc_stream_wrote(st);
    }
    session_close(e, GRPC_OK, NULL);
    server_call_leave(&e->call);
}

static void abort_session(struct engage_session *e, int grpc_status, const char *text)
{
    /* Broken by core/runner, which aborts with statuses of its own, and once. */
    assert(session_has_owner(e->state) && grpc_status != GRPC_OK);
    server_call_enter(&e->call);
    server_call_abort(&e->call, grpc_status, text);
    session_over(e);
    server_call_leave(&e->call);
}

static void session_on_writable(void *ud)
{
    struct engage_session *e = ud;

    if (e->state == SESSION_OWNED && e->full) {
        e->full = false;
        server_call_enter(&e->call);
        e->call.server->cb->on_writable(e->ud);
        server_call_leave(&e->call);
    }
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* The peer broke the protocol: its stream ends with a status; the owner loses its peer. */
static void session_refuse(struct engage_session *e, int status, const char *text)
{
    session_gone(&e->call);
    session_close(e, status, text);
}

static void session_offer(struct engage_session *e, struct wire_client_msg *m)
{
    struct rpc_server *s = e->call.server;
    int r;

    m->try_call.request_id = e->request_id;
    session_enter(&e->state, SESSION_OWNED);
    r = s->cb->on_try(s->ud, e, &m->try_call, rpc_stream_deadline_ns(e->call.stream), &e->ud);
    if (r < 0) {
        /* Broken by core/runner, which has let go of a session that ended or is gone. */
        assert(session_has_owner(e->state));
        session_close(e, -r, err_name(r));
    }
}

/* What is wrong with a message of any kind. */
static bool refuse_message(struct engage_session *e, enum wire_kind kind)
{
    char text[TEXT_MAX];

    if (kind == WIRE_BAD) {
        session_refuse(e, GRPC_INTERNAL, "RUN403 a message cannot be decoded");
    } else if (kind == WIRE_TOO_MUCH) {
        snprintf(text, sizeof(text), "RUN402 a message of more than %u fields", WIRE_FIELDS_MAX);
        session_refuse(e, GRPC_EXHAUSTED, text);
    }
    return kind == WIRE_BAD || kind == WIRE_TOO_MUCH;
}

static void on_first(struct engage_session *e, struct wire_client_msg *m)
{
    server_call_heard(&e->call);
    if (m->kind == WIRE_TRY) {
        session_offer(e, m);
    } else if (!refuse_message(e, m->kind)) {
        session_close(e, GRPC_INVALID,
                      "RUN401 expected TryCall first (Protocol failure: expected ClientMsg_Try)");
    }
}

static void session_on_body(struct engage_session *e, const struct wire_client_msg *m)
{
    char text[TEXT_MAX];

    if (refuse_message(e, m->kind)) {
        return;
    }
    if (m->kind != WIRE_DATA) {
        session_refuse(e, GRPC_INVALID, "Protocol failure: expected ClientMsg_Data");
    } else if (m->data.len > WIRE_FRAME_MAX_BYTES) {
        snprintf(text, sizeof(text), "RUN402 data frame %zu > %u", m->data.len,
                 WIRE_FRAME_MAX_BYTES);
        session_refuse(e, GRPC_EXHAUSTED, text);
    } else {
        e->body_end = m->data.eof;
        e->call.server->cb->on_body(e->ud, m->data.data, m->data.len, m->data.eof);
    }
}

/* A newer peer's, behind the TryCall; the next one is still wanted. */
static bool pass_over(struct engage_session *e, enum wire_kind kind)
{
    return e->state != SESSION_OFFER && kind == WIRE_UNKNOWN && e->unknown++ < WIRE_UNKNOWN_MAX;
}

static void session_on_message(void *ud, const void *data, size_t len)
{
    struct engage_session *e = ud;
    struct wire_client_msg m;

    wire_decode_client(&e->call.server->rpc->in, data, len, &m);
    if (pass_over(e, m.kind)) {
        return;
    }
    server_call_enter(&e->call);
    e->wanted = false;
    rpc_stream_pause(e->call.stream, true);
    if (e->state == SESSION_OFFER) {
        on_first(e, &m);
    } else {
        session_on_body(e, &m);
    }
    server_call_leave(&e->call);
}

static void on_half_closed(void *ud)
{
    struct engage_session *e = ud;

    server_call_enter(&e->call);
    if (e->state == SESSION_OFFER) {
        session_close(e, GRPC_INVALID,
                      "RUN401 expected TryCall first (Protocol failure: expected ClientMsg_Try)");
    } else {
        session_refuse(e, GRPC_INVALID,
                       "Protocol failure: expected ClientMsg_Data, the client closed its side");
    }
    server_call_leave(&e->call);
}

static void session_more(struct engage_session *e)
{
    /* Broken by core/runner, if it asks behind the end of the body, of which it was told. */
    assert(session_has_owner(e->state) && !e->body_end);
    if (!e->wanted && e->call.stream) {
        e->wanted = true;
        rpc_stream_pause(e->call.stream, false);
    }
}

static void session_expired(struct server_call *c)
{
    char text[TEXT_MAX];

    snprintf(text, sizeof(text), "RUN401 expected TryCall first, none came within %lld ms",
             (long long)(c->server->rpc->config.first_message_ns / ENV_MS));
    session_close(session_of(c), GRPC_DEADLINE, text);
}

void session_begin(struct rpc_server *s, struct rpc_stream *st, const char *request_id)
{
    static const struct rpc_stream_cb stream_cb = { .message = session_on_message,
                                                    .half_closed = on_half_closed,
                                                    .writable = session_on_writable,
                                                    .ended = server_call_on_ended };
    static const struct server_call_kind kind = { &stream_cb, session_expired, session_gone,
                                                  session_forget, session_free };
    struct engage_session *e = alloc_zeroed(sizeof(*e));

    if (e && request_id) {
        e->request_id = strdup(request_id);
    }
    if (!e || (request_id && !e->request_id)) {
        free(e);
        rpc_stream_finish(st, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    e->lost.cb = on_lost;
    server_call_begin(&e->call, &kind, s, st, s->rpc->config.send_queue_bytes / 2);
}

struct engage_server *rpc_server_table(void)
{
    static struct engage_server table = {
        .session_more = session_more,
        .send_start = session_send_start,
        .send_data = send_data,
        .finish = session_finish,
        .abort = abort_session,
    };

    return &table;
}
