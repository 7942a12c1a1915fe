/* Client side of raw calls.
 *
 * States: waiting (for the peer to come up), running (stream), ending (the task tells an end that
 * is known without a stream). Freed when the end was told, or closed. */
#include <rpc/client_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX  256
#define LOW_BYTES (64u << 10)

struct rpc_channel {
    struct rpc *rpc;
    LIST_ENTRY(rpc_channel) entry;
    struct peer peer;
    struct net_identity *identity; /* ref */
};

struct rpc_raw {
    struct rpc *rpc;
    LIST_ENTRY(rpc_raw) entry;
    struct peer *peer; /* NULL: closed; only to be compared, but while waiting */
    struct rpc_stream *stream;
    const struct rpc_raw_cb *cb;
    void *ud;
    bool waiting;
    struct env_task task;
    struct env_timer timer; /* the deadline while waiting */
    int64_t deadline_ns;
    char *method;
    struct buf messages; /* framed, until the stream begins */
    bool stays_open;     /* more messages may follow: raw_more() */
    int status;
    char text[TEXT_MAX];
};

/* ---- channels -------------------------------------------------------------------------------- */

int rpc_channel_open(struct rpc *r, const char *address, struct net_identity *identity,
                     const char *tls_name, struct rpc_channel **ret, struct fn_error *reterr)
{
    struct rpc_channel *ch = calloc(1, sizeof(*ch));

    if (!ch) {
        return err_set(reterr, FN_E_EXHAUSTED, "grpc: out of memory");
    }
    ch->rpc = r;
    ch->identity = net_identity_ref(identity ? identity : r->identity);
    if (peer_open(&ch->peer, r, address, tls_name, ch->identity, 0, NULL) < 0) {
        net_identity_unref(ch->identity);
        free(ch);
        return err_set(reterr, FN_E_EXHAUSTED, "grpc: out of memory");
    }
    LIST_INSERT_HEAD(&r->channels, ch, entry);
    *ret = ch;
    return 0;
}

void rpc_channel_close(struct rpc_channel *ch)
{
    struct rpc_raw *c, *next;

    if (!ch) {
        return;
    }
    for (c = LIST_FIRST(&ch->rpc->raws); c; c = next) {
        next = LIST_NEXT(c, entry);
        if (c->peer == &ch->peer) {
            rpc_raw_close(c);
        }
    }
    LIST_REMOVE(ch, entry);
    peer_close(&ch->peer);
    peer_finish(&ch->peer);
    net_identity_unref(ch->identity);
    free(ch);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void stop(struct rpc_raw *c)
{
    c->waiting = false;
    env_timer_clear(c->rpc->env, &c->timer);
    if (c->stream) {
        rpc_stream_close(c->stream);
        c->stream = NULL;
    }
}

void rpc_raw_close(struct rpc_raw *c)
{
    stop(c);
    env_undefer(c->rpc->env, &c->task);
    LIST_REMOVE(c, entry);
    buf_finish(&c->messages);
    free(c->method);
    free(c);
}

static void raw_tell_end(struct rpc_raw *c, int status, const char *text)
{
    const struct rpc_raw_cb *cb = c->cb;
    void *ud = c->ud;

    rpc_raw_close(c);
    cb->end(ud, status, text);
}

static void raw_on_task(struct env_task *t)
{
    struct rpc_raw *c = container_of(t, struct rpc_raw, task);
    char text[TEXT_MAX];

    memcpy(text, c->text, sizeof(text));
    raw_tell_end(c, c->status, text);
}

/* The end comes from the loop. */
static void raw_fail(struct rpc_raw *c, int status, const char *text)
{
    stop(c);
    c->status = status;
    snprintf(c->text, sizeof(c->text), "%s", text);
    env_defer(c->rpc->env, &c->task);
}

static void raw_on_timer(struct env_timer *t)
{
    raw_fail(container_of(t, struct rpc_raw, timer), GRPC_DEADLINE, "deadline exceeded");
}

static void raw_on_message(void *ud, const void *data, size_t len)
{
    struct rpc_raw *c = ud;

    c->cb->message(c->ud, data, len);
}

static void raw_on_ended(void *ud, int status, const char *text, bool refused)
{
    (void)refused;
    raw_tell_end(ud, status, text);
}

static const struct rpc_stream_cb stream_cb = { .message = raw_on_message, .ended = raw_on_ended };

static void raw_begin(struct rpc_raw *c)
{
    struct rpc_call call = { .path = c->method,
                            .deadline_ns = c->deadline_ns,
                            .low_mark = LOW_BYTES };

    c->waiting = false;
    env_timer_clear(c->rpc->env, &c->timer);
    if (peer_is_full(c->peer)) {
        raw_fail(c, GRPC_EXHAUSTED, "as many calls run on the connection as the peer lets in");
        return;
    }
    c->stream = rpc_stream_open(c->peer->conn, &call, &stream_cb, c);
    if (!c->stream ||
        buf_add(rpc_stream_out(c->stream), c->messages.data, c->messages.len) < 0) {
        raw_fail(c, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    rpc_stream_wrote(c->stream);
    if (!c->stays_open) {
        rpc_stream_half_close(c->stream);
    }
    buf_finish(&c->messages);
}

void raws_begin(struct peer *p)
{
    struct rpc_raw *c;

    LIST_FOREACH(c, &p->rpc->raws, entry) {
        if (c->waiting && c->peer == p && peer_takes_calls(p)) {
            raw_begin(c);
        } else if (c->waiting && c->peer == p) { /* the call before took the last stream's number */
            raw_fail(c, GRPC_UNAVAILABLE, "the connection takes no more calls");
        }
    }
}

void raws_fail(struct peer *p, const char *why)
{
    struct rpc_raw *c;

    LIST_FOREACH(c, &p->rpc->raws, entry) {
        if (c->waiting && c->peer == p) {
            raw_fail(c, GRPC_UNAVAILABLE, why);
        }
    }
}

void raws_leave(struct peer *p)
{
    struct rpc_raw *c;

    LIST_FOREACH(c, &p->rpc->raws, entry) {
        c->peer = c->peer == p ? NULL : c->peer;
    }
}

/* Begins, or waits for the peer; its messages are there. */
static void raw_go(struct rpc_raw *c)
{
    struct peer *p = c->peer;

    if (!peer_want(p)) {
        raw_fail(c, GRPC_UNAVAILABLE, p->why);
    } else if (peer_takes_calls(p)) {
        raw_begin(c);
    } else {
        c->waiting = true;
        if (c->deadline_ns) {
            env_timer_set(p->rpc->env, &c->timer, c->deadline_ns);
        }
    }
}

struct rpc_raw *raw_open(struct peer *p, const char *method, struct buf *messages,
                         int64_t deadline_ns, bool stays_open, const struct rpc_raw_cb *cb,
                         void *ud)
{
    struct rpc_raw *c = calloc(1, sizeof(*c));

    if (!c) {
        return NULL;
    }
    *c = (struct rpc_raw){ .rpc = p->rpc,
                           .peer = p,
                           .cb = cb,
                           .ud = ud,
                           .task.cb = raw_on_task,
                           .timer.cb = raw_on_timer,
                           .deadline_ns = deadline_ns,
                           .stays_open = stays_open,
                           .messages = *messages,
                           .method = strdup(method) };
    *messages = BUF_INIT(0);
    LIST_INSERT_HEAD(&p->rpc->raws, c, entry);
    if (!c->method) {
        rpc_raw_close(c);
        return NULL;
    }
    raw_go(c);
    return c;
}

int raw_start(struct peer *p, const char *method, const void *message, size_t len,
              int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
              struct fn_error *reterr)
{
    struct buf framed = BUF_INIT(0);

    *ret = rpc_frame(&framed, message, len) < 0
               ? NULL
               : raw_open(p, method, &framed, deadline_ns, false, cb, ud);
    buf_finish(&framed);
    return *ret ? 0 : err_set(reterr, FN_E_EXHAUSTED, "grpc: out of memory");
}

int raw_more(struct rpc_raw *c, const struct buf *messages)
{
    struct buf *out = c->stream ? rpc_stream_out(c->stream) : &c->messages;
    int r = buf_add(out, messages->data, messages->len);

    if (r == 0 && c->stream) {
        rpc_stream_wrote(c->stream);
    }
    return r;
}

int rpc_raw_start(struct rpc_channel *ch, const char *method, const void *message, size_t len,
                  int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
                  struct fn_error *reterr)
{
    return raw_start(&ch->peer, method, message, len, deadline_ns, cb, ud, ret, reterr);
}
