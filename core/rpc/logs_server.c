/* StreamLogs at a server: Start, then one message for each Ack.
 *
 * The stream is paused while a message is owed, so that Acks wait where the transport bounds them.
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
    struct engage_logs logs;
    struct rpc_server *server;
    LIST_ENTRY(log_call) entry;
    struct rpc_stream *stream; /* NULL: over */
    struct server_wait wait;   /* for Start */
    struct env_timer timer;    /* deadline of the call, or of the Ack */
    bool owned;
    uint32_t entered;
};

static struct log_call *call_of(struct engage_logs *l)
{
    return container_of(l, struct log_call, logs);
}

static void log_call_enter(struct log_call *c)
{
    c->entered++;
}

static void log_call_leave(struct log_call *c)
{
    struct rpc_server *s = c->server;

    if (--c->entered == 0 && !c->stream) {
        server_wait_end(s, &c->wait);
        env_timer_clear(s->rpc->env, &c->timer);
        LIST_REMOVE(c, entry);
        free(c);
        server_unref(s);
    }
}

/* Its owner hears of it no more, but of this. */
static void log_call_gone(struct log_call *c)
{
    if (c->owned) {
        c->owned = false;
        c->server->cb->on_logs_gone(c->server->ud, &c->logs);
    }
}

static void log_call_refuse(struct log_call *c, int status, const char *text)
{
    struct rpc_stream *st = c->stream;

    log_call_gone(c);
    c->stream = NULL;
    rpc_stream_finish(st, status, text);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void log_call_arm(struct log_call *c)
{
    int64_t end_ns = rpc_stream_deadline_ns(c->stream);
    int64_t idle_ns = env_now_ns(c->server->rpc->env) + c->server->rpc->config.ack_ns;

    if (!c->logs.wanted && (end_ns == 0 || idle_ns < end_ns)) {
        end_ns = idle_ns;
    }
    if (end_ns == 0) {
        env_timer_clear(c->server->rpc->env, &c->timer);
    } else {
        env_timer_set(c->server->rpc->env, &c->timer, end_ns);
    }
}

static void log_call_on_timer(struct env_timer *t)
{
    struct log_call *c = container_of(t, struct log_call, timer);
    int64_t end_ns = rpc_stream_deadline_ns(c->stream);
    bool is_end = end_ns != 0 && end_ns <= env_now_ns(c->server->rpc->env);
    char text[TEXT_MAX];

    snprintf(text, sizeof(text), "RUN415 no Ack came within %lld ms",
             (long long)(c->server->rpc->config.ack_ns / ENV_MS));
    log_call_enter(c);
    log_call_refuse(c, GRPC_DEADLINE, is_end ? "deadline exceeded" : text);
    log_call_leave(c);
}

/* ---- what the owner does --------------------------------------------------------------------- */

static int logs_send(struct engage_logs *l, const struct engage_line *lines, uint32_t n)
{
    struct log_call *c = call_of(l);
    int r = wire_encode_lines(&c->server->rpc->out, lines, n, rpc_stream_out(c->stream));

    if (r == 0) {
        l->wanted = false;
        rpc_stream_wrote(c->stream);
        rpc_stream_pause(c->stream, false);
        log_call_arm(c);
    }
    return r;
}

static void logs_end(struct engage_logs *l, int grpc_status, const char *text)
{
    struct log_call *c = call_of(l);
    struct rpc_stream *st = c->stream;

    log_call_enter(c);
    c->owned = false;
    c->stream = NULL;
    rpc_stream_finish(st, grpc_status, text);
    log_call_leave(c);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void on_start(struct log_call *c, const struct wire_logs_msg *m)
{
    server_wait_end(c->server, &c->wait);
    if (m->kind != WIRE_LOGS_START) {
        log_call_refuse(c, GRPC_INVALID, "RUN401 expected Start first (expected start session)");
        return;
    }
    c->logs.keys = m->keys;
    c->logs.n = m->n;
    c->owned = true;
    log_call_arm(c);
    c->server->cb->on_logs(c->server->ud, &c->logs);
}

static void log_call_on_message(void *ud, const void *data, size_t len)
{
    struct log_call *c = ud;
    struct wire_logs_msg m;

    wire_decode_logs(&c->server->rpc->in, data, len, &m);
    log_call_enter(c);
    if (m.kind == WIRE_BAD || m.kind == WIRE_TOO_MUCH) {
        log_call_refuse(c, GRPC_INVALID, "RUN403 not a LogRequestMsg");
    } else if (!c->owned) {
        on_start(c, &m);
    } else if (m.kind == WIRE_LOGS_START) {
        log_call_refuse(c, GRPC_INVALID, "RUN401 a second Start (expected ack)");
    } else if (m.kind == WIRE_LOGS_MORE) {
        c->logs.wanted = true;
        rpc_stream_pause(c->stream, true);
        log_call_arm(c);
        c->server->cb->on_logs_wanted(c->server->ud, &c->logs);
    }
    log_call_leave(c);
}

/* All that it asked for was sent. */
static void log_call_half_closed(void *ud)
{
    struct log_call *c = ud;

    log_call_enter(c);
    log_call_refuse(c, c->owned ? GRPC_OK : GRPC_INVALID,
                    c->owned ? NULL : "RUN401 expected Start first (expected start session)");
    log_call_leave(c);
}

static void log_call_on_ended(void *ud, int status, const char *text, bool refused)
{
    struct log_call *c = ud;

    (void)status;
    (void)text;
    (void)refused;
    log_call_enter(c);
    log_call_gone(c);
    if (c->stream) {
        rpc_stream_close(c->stream);
        c->stream = NULL;
    }
    log_call_leave(c);
}

static const struct rpc_stream_cb stream_cb = { .message = log_call_on_message,
                                                .half_closed = log_call_half_closed,
                                                .ended = log_call_on_ended };

static void log_call_expired(struct server_wait *w)
{
    struct log_call *c = container_of(w, struct log_call, wait);

    log_call_enter(c);
    log_call_refuse(c, GRPC_DEADLINE, "RUN401 expected Start first, none came");
    log_call_leave(c);
}

void logs_begin(struct rpc_server *s, struct rpc_stream *st)
{
    struct log_call *c = calloc(1, sizeof(*c));

    if (!c) {
        rpc_stream_finish(st, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    *c = (struct log_call){ .logs = { .send = logs_send, .end = logs_end },
                            .server = s,
                            .stream = st,
                            .timer.cb = log_call_on_timer };
    server_ref(s);
    LIST_INSERT_HEAD(&s->logs, c, entry);
    server_wait_begin(s, &c->wait, log_call_expired);
    rpc_stream_adopt(st, &stream_cb, c, LOW_BYTES);
}

/* ---- the end of a server --------------------------------------------------------------------- */

void logs_cancel(struct rpc_server *s, const char *text)
{
    struct log_call *c;

    while (!s->closed && (c = LIST_FIRST(&s->logs))) {
        log_call_enter(c);
        log_call_gone(c);
        if (c->stream) {
            rpc_stream_abort(c->stream, GRPC_UNAVAILABLE, text);
            c->stream = NULL;
        }
        log_call_leave(c);
    }
}

void logs_forget(struct rpc_server *s)
{
    struct log_call *c, *next;

    for (c = LIST_FIRST(&s->logs); c; c = next) {
        next = LIST_NEXT(c, entry);
        log_call_enter(c);
        c->owned = false;
        if (c->stream) {
            rpc_stream_close(c->stream);
            c->stream = NULL;
        }
        log_call_leave(c);
    }
}
