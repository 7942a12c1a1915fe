/* Attempts: one Engage stream of the client.
 *
 * Sending: TryCall with the headers, then the body in frames, the last one with eof and the
 * half-close; the next frames are made when those before have gone to the connection. Receiving:
 * messages as they come; the end comes behind them.
 *
 * What is known about a failed attempt: the stream knows whether the last byte of
 * TryCall was given to the socket, and whether the transport refused it (RST_STREAM with
 * REFUSED_STREAM, GOAWAY with a lower stream id).
 *
 * Owned by its owner until attempt_close(); freed when none of our own frames is on it. */
#include <rpc/client_int.h>
#include <rpc/exchange.h>

#include <assert.h>
#include <base/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX        512
#define SEND_HIGH_BYTES (64u << 10) /* frames are made up to here ... */
#define SEND_LOW_BYTES  (32u << 10) /* ... and again from here */

struct engage_attempt {
    struct rpc *rpc;
    struct engage_link *link;
    LIST_ENTRY(engage_attempt) entry;
    struct rpc_stream *stream; /* NULL: the link was down, or the end was told */
    const struct engage_client_cb *cb;
    void *ud;
    struct env_task task; /* ends an attempt that never began */
    bool full;            /* why it did not: the runner lets in no more */
    struct env_timer end_timer;

    struct body *body;
    size_t sent;
    enum attempt_state state;
    bool heard; /* a message came */
    bool illegal;
    uint32_t unknown; /* messages passed over */
    uint32_t entered; /* depth of our own frames that still use it */
};

/* ---- life ----------------------------------------------------------------------------------- */

static void attempt_release(struct engage_attempt *a)
{
    env_undefer(a->rpc->env, &a->task);
    env_timer_clear(a->rpc->env, &a->end_timer);
    LIST_REMOVE(a, entry);
    body_unref(a->body);
    link_unref(a->link);
    free(a);
}

static void attempt_count_in(struct engage_attempt *a)
{
    a->entered++;
}

static void attempt_count_out(struct engage_attempt *a)
{
    if (--a->entered == 0 && a->state == ATTEMPT_CLOSED) {
        attempt_release(a);
    }
}

static void drop_stream(struct engage_attempt *a)
{
    if (a->stream) {
        rpc_stream_close(a->stream);
        a->stream = NULL;
    }
}

void attempt_close(struct engage_attempt *a)
{
    attempt_count_in(a);
    attempt_enter(&a->state, ATTEMPT_CLOSED);
    drop_stream(a);
    env_undefer(a->rpc->env, &a->task);
    env_timer_clear(a->rpc->env, &a->end_timer);
    attempt_count_out(a);
}

void attempts_close(struct engage_link *l)
{
    struct engage_attempt *a;

    while ((a = LIST_FIRST(&l->attempts))) {
        attempt_close(a);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

/* A runner that has answered may have run the call, whatever it has read of it; response headers
 * are an answer already. */
static enum engage_proof proof_of(const struct engage_attempt *a, bool refused)
{
    bool heard = a->heard || (a->stream && rpc_stream_is_answered(a->stream));

    if (!heard && (!a->stream || !rpc_stream_is_sent(a->stream))) {
        return a->full ? ENGAGE_PROOF_FULL : ENGAGE_PROOF_NOT_SENT;
    }
    return refused && !heard ? ENGAGE_PROOF_REFUSED : ENGAGE_PROOF_NONE;
}

static void attempt_end(struct engage_attempt *a, int status, const char *text, bool refused)
{
    enum engage_proof proof = status ? proof_of(a, refused) : ENGAGE_PROOF_NONE;

    attempt_enter(&a->state, ATTEMPT_ENDED);
    drop_stream(a);
    env_timer_clear(a->rpc->env, &a->end_timer);
    a->cb->on_end(a->ud, status, text, proof, !a->illegal);
}

/* The runner broke the protocol. */
static void attempt_give_up(struct engage_attempt *a, const char *why)
{
    char text[TEXT_MAX];

    a->illegal = true;
    snprintf(text, sizeof(text), "runner %s: %s", a->link->peer.address, why);
    attempt_end(a, GRPC_INTERNAL, text, false);
}

/* Nothing is missing but the trailers, which prove nothing. */
static void on_end_timer(struct env_timer *t)
{
    struct engage_attempt *a = container_of(t, struct engage_attempt, end_timer);
    char text[TEXT_MAX];

    attempt_count_in(a);
    snprintf(text, sizeof(text), "runner %s: the stream did not end after CallFinished",
             a->link->peer.address);
    attempt_end(a, GRPC_INTERNAL, text, false);
    attempt_count_out(a);
}

static void attempt_on_ended(void *ud, int status, const char *text, bool refused)
{
    struct engage_attempt *a = ud;
    char own[TEXT_MAX];

    attempt_count_in(a);
    if (status == GRPC_OK && a->state != ATTEMPT_FINISHED) {
        snprintf(own, sizeof(own), "runner %s: the stream ended without CallFinished",
                 a->link->peer.address);
        attempt_end(a, GRPC_INTERNAL, own, false);
    } else {
        attempt_end(a, status, text, refused);
    }
    attempt_count_out(a);
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* A newer runner's, as Go Fn does; proofs do not rest on it. */
static const char *attempt_pass_over(struct engage_attempt *a)
{
    if (a->unknown++ == 0) {
        log_stranger(FN_LOG_INFO, "a runner sent a message of an unknown kind, which is passed over",
                     "runner", a->link->peer.address);
    }
    return a->unknown <= WIRE_UNKNOWN_MAX ? NULL : "too many messages of unknown kind came";
}

/* Hands one message to the owner; the reason if it is not a legal one. */
static const char *attempt_deliver(struct engage_attempt *a, const struct wire_runner_msg *m)
{
    const char *illegal = attempt_step(&a->state, m->kind);

    if (illegal) {
        return illegal;
    }
    switch (m->kind) {
    case WIRE_START:
        a->cb->on_start(a->ud, &m->start);
        return NULL;
    case WIRE_DATA:
        if (m->data.len > WIRE_FRAME_MAX_BYTES) {
            return "a data frame is larger than 64 KiB";
        }
        if (m->data.len > 0) {
            a->cb->on_data(a->ud, m->data.data, m->data.len);
        }
        return NULL;
    case WIRE_FINISHED:
        env_timer_set(a->rpc->env, &a->end_timer,
                      env_now_ns(a->rpc->env) + a->rpc->config.end_timeout_ns);
        a->cb->on_finished(a->ud, &m->finished);
        return NULL;
    case WIRE_UNKNOWN:
        return attempt_pass_over(a);
    case WIRE_TOO_MUCH:
        return "a message of too many fields came";
    default:
        return "a message cannot be decoded";
    }
}

static void attempt_on_message(void *ud, const void *data, size_t len)
{
    struct engage_attempt *a = ud;
    struct wire_runner_msg m;
    const char *illegal;

    attempt_count_in(a);
    a->heard = true;
    wire_decode_runner(&a->rpc->in, data, len, &m);
    illegal = attempt_deliver(a, &m);
    if (illegal) {
        attempt_give_up(a, illegal);
    }
    attempt_count_out(a);
}

static void attempt_on_task(struct env_task *t)
{
    struct engage_attempt *a = container_of(t, struct engage_attempt, task);
    char text[TEXT_MAX];

    attempt_count_in(a);
    snprintf(text, sizeof(text), "runner %s: %s", a->link->peer.address,
             a->full ? "as many calls run on the connection as it lets in" : "not connected");
    attempt_end(a, a->full ? GRPC_EXHAUSTED : GRPC_UNAVAILABLE, text, false);
    attempt_count_out(a);
}

void attempt_pause(struct engage_attempt *a, bool paused)
{
    if (a->stream) {
        rpc_stream_pause(a->stream, paused);
    }
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Frames until enough waits, or the last one. False: out of memory. */
static bool send_frames(struct engage_attempt *a)
{
    struct buf *out = rpc_stream_out(a->stream);
    bool last = false;

    while (a->sent != SIZE_MAX && rpc_stream_queued(a->stream) < SEND_HIGH_BYTES) {
        size_t len = a->body ? a->body->bytes.len - a->sent : 0;

        last = len <= WIRE_FRAME_BYTES;
        len = last ? len : WIRE_FRAME_BYTES;
        if (wire_encode_client_data(len ? a->body->bytes.data + a->sent : NULL, len, last, out) <
            0) {
            return false;
        }
        a->sent = last ? SIZE_MAX : a->sent + len;
    }
    rpc_stream_wrote(a->stream);
    if (last) {
        rpc_stream_half_close(a->stream);
        body_unref(a->body);
        a->body = NULL;
    }
    return true;
}

static void attempt_on_writable(void *ud)
{
    struct engage_attempt *a = ud;

    attempt_count_in(a);
    if (a->sent != SIZE_MAX && !send_frames(a)) {
        attempt_end(a, GRPC_EXHAUSTED, "out of memory", false);
    }
    attempt_count_out(a);
}

static const struct rpc_stream_cb stream_cb = { .message = attempt_on_message,
                                                .writable = attempt_on_writable,
                                                .ended = attempt_on_ended };

static bool attempt_begin(struct engage_attempt *a, const struct engage_try *t, int64_t deadline_ns)
{
    struct rpc_call call = { .path = RPC_METHOD_ENGAGE,
                            .request_id = t->request_id,
                            .deadline_ns = deadline_ns,
                            .low_mark = SEND_LOW_BYTES };

    a->stream = rpc_stream_open(a->link->peer.conn, &call, &stream_cb, a);
    if (!a->stream || wire_encode_try(&a->rpc->out, t, rpc_stream_out(a->stream)) < 0) {
        return false;
    }
    rpc_stream_mark(a->stream);
    return send_frames(a);
}

struct engage_attempt *attempt_open(struct engage_link *l, const struct engage_try *t,
                                    struct body *body, int64_t deadline_ns,
                                    const struct engage_client_cb *cb, void *ud)
{
    struct engage_attempt *a = alloc_zeroed(sizeof(*a));

    if (!a) {
        return NULL;
    }
    a->task.cb = attempt_on_task;
    a->end_timer.cb = on_end_timer;
    a->rpc = l->rpc;
    a->link = l;
    a->cb = cb;
    a->ud = ud;
    link_ref(l);
    LIST_INSERT_HEAD(&l->attempts, a, entry);
    a->full = peer_is_full(&l->peer);
    if (a->full || !peer_takes_calls(&l->peer)) {
        env_defer(l->rpc->env, &a->task);
        return a;
    }
    a->body = body ? body_ref(body) : NULL;
    if (!attempt_begin(a, t, deadline_ns)) {
        attempt_close(a);
        return NULL;
    }
    return a;
}
