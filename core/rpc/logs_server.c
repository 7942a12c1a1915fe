/* StreamLogs at a server: Start, then one message for each Ack.
 *
 * The stream is paused while a message is owed, and while more than LOW_BYTES wait to be sent, so
 * that Acks wait where the transport bounds them, and messages at their owner.
 * A peer that is owed nothing and asks for nothing is ended after ack_ns. The deadline of the call
 * is kept here, because only a transport's client watches it.
 *
 * A stream has an owner from on_logs() until logs_end() or on_logs_gone(). */
#include <rpc/server_int.h>

#include <stdio.h>
#include <stdlib.h>

#define LOW_BYTES (64u << 10)
#define TEXT_MAX  64

struct log_call {
    struct server_call call; /* first */
    struct engage_logs logs;
    struct env_timer timer; /* deadline of the call, or of the Ack */
    bool owned;
};

static struct log_call *call_of(struct engage_logs *l)
{
    return container_of(l, struct log_call, logs);
}

/* Its owner hears of it no more, but of this. */
static void log_call_gone(struct server_call *call)
{
    struct log_call *c = container_of(call, struct log_call, call);

    if (c->owned) {
        c->owned = false;
        call->server->cb->on_logs_gone(call->server->ud, &c->logs);
    }
}

static void log_call_refuse(struct log_call *c, int status, const char *text)
{
    log_call_gone(&c->call);
    server_call_finish(&c->call, status, text);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void log_call_arm(struct log_call *c)
{
    int64_t end_ns = rpc_stream_deadline_ns(c->call.stream);
    int64_t idle_ns = env_now_ns(c->call.server->rpc->env) + c->call.server->rpc->config.ack_ns;

    if (!c->logs.wanted && (end_ns == 0 || idle_ns < end_ns)) {
        end_ns = idle_ns;
    }
    if (end_ns == 0) {
        env_timer_clear(c->call.server->rpc->env, &c->timer);
    } else {
        env_timer_set(c->call.server->rpc->env, &c->timer, end_ns);
    }
}

static void log_call_on_timer(struct env_timer *t)
{
    struct log_call *c = container_of(t, struct log_call, timer);
    int64_t end_ns = rpc_stream_deadline_ns(c->call.stream);
    bool is_end = end_ns != 0 && end_ns <= env_now_ns(c->call.server->rpc->env);
    char text[TEXT_MAX];

    snprintf(text, sizeof(text), "RUN415 no Ack came within %lld ms",
             (long long)(c->call.server->rpc->config.ack_ns / ENV_MS));
    server_call_enter(&c->call);
    log_call_refuse(c, GRPC_DEADLINE, is_end ? "deadline exceeded" : text);
    server_call_leave(&c->call);
}

/* ---- what the owner does --------------------------------------------------------------------- */

/* A reader that asks ahead and reads nothing gets no more than one message beyond the mark. */
static void listen_on(struct log_call *c)
{
    if (rpc_stream_queued(c->call.stream) <= LOW_BYTES) {
        rpc_stream_pause(c->call.stream, false);
    } else {
        rpc_stream_want_writable(c->call.stream);
    }
}

static int logs_send(struct engage_logs *l, const struct engage_line *lines, uint32_t n)
{
    struct log_call *c = call_of(l);
    int r = wire_encode_lines(&c->call.server->rpc->out, lines, n, rpc_stream_out(c->call.stream));

    if (r == 0) {
        l->wanted = false;
        rpc_stream_wrote(c->call.stream);
        listen_on(c);
        log_call_arm(c);
    }
    return r;
}

static void logs_end(struct engage_logs *l, int grpc_status, const char *text)
{
    struct log_call *c = call_of(l);

    server_call_enter(&c->call);
    c->owned = false;
    server_call_finish(&c->call, grpc_status, text);
    server_call_leave(&c->call);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void on_start(struct log_call *c, const struct wire_logs_msg *m)
{
    server_call_heard(&c->call);
    if (m->kind != WIRE_LOGS_START) {
        log_call_refuse(c, GRPC_INVALID, "RUN401 expected Start first (expected start session)");
        return;
    }
    c->logs.keys = m->keys;
    c->logs.n = m->n;
    c->owned = true;
    log_call_arm(c);
    c->call.server->cb->on_logs(c->call.server->ud, &c->logs);
}

static void log_call_on_message(void *ud, const void *data, size_t len)
{
    struct log_call *c = ud;
    struct wire_logs_msg m;

    wire_decode_logs(&c->call.server->rpc->in, data, len, &m);
    server_call_enter(&c->call);
    if (m.kind == WIRE_BAD || m.kind == WIRE_TOO_MUCH) {
        log_call_refuse(c, GRPC_INVALID, "RUN403 not a LogRequestMsg");
    } else if (!c->owned) {
        on_start(c, &m);
    } else if (m.kind == WIRE_LOGS_START) {
        log_call_refuse(c, GRPC_INVALID, "RUN401 a second Start (expected ack)");
    } else if (m.kind == WIRE_LOGS_MORE) {
        c->logs.wanted = true;
        rpc_stream_pause(c->call.stream, true);
        log_call_arm(c);
        c->call.server->cb->on_logs_wanted(c->call.server->ud, &c->logs);
    }
    server_call_leave(&c->call);
}

static void log_call_on_writable(void *ud)
{
    struct log_call *c = ud;

    if (c->owned && !c->logs.wanted) {
        listen_on(c);
    }
}

/* All that it asked for was sent. */
static void log_call_half_closed(void *ud)
{
    struct log_call *c = ud;

    server_call_enter(&c->call);
    log_call_refuse(c, c->owned ? GRPC_OK : GRPC_INVALID,
                    c->owned ? NULL : "RUN401 expected Start first (expected start session)");
    server_call_leave(&c->call);
}

static void log_call_expired(struct server_call *c)
{
    server_call_finish(c, GRPC_DEADLINE, "RUN401 expected Start first, none came");
}

static void log_call_forget(struct server_call *call)
{
    container_of(call, struct log_call, call)->owned = false;
}

static void log_call_free(struct server_call *call)
{
    struct log_call *c = container_of(call, struct log_call, call);

    env_timer_clear(call->server->rpc->env, &c->timer);
    free(c);
}

void logs_begin(struct rpc_server *s, struct rpc_stream *st)
{
    static const struct rpc_stream_cb stream_cb = { .message = log_call_on_message,
                                                    .half_closed = log_call_half_closed,
                                                    .writable = log_call_on_writable,
                                                    .ended = server_call_on_ended };
    static const struct server_call_kind kind = { &stream_cb, log_call_expired, log_call_gone,
                                                  log_call_forget, log_call_free };
    struct log_call *c = calloc(1, sizeof(*c));

    if (!c) {
        rpc_stream_finish(st, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    *c = (struct log_call){ .logs = { .send = logs_send, .end = logs_end },
                            .timer.cb = log_call_on_timer };
    server_call_begin(&c->call, &kind, s, st, LOW_BYTES);
}
