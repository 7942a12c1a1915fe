/* Connections: an nghttp2 session over a net_io.
 *
 * Writing: whoever gives nghttp2 something to send touches the connection, which queues a flush.
 * The flush goes once behind the tasks that are queued already, so that what they add is in the
 * same write. What the socket does not take is kept in `pending`; nothing more is produced before
 * it is gone, so that streams keep what they have and tell their owners to wait.
 *
 * A connection that ends (conn_fail) does not touch nghttp2 or its owners at once: its death is a
 * task, which tells the owner, so that nobody begins calls on it, then the streams, and frees. */
#include <rpc/nghttp2/h2_int.h>

#include <assert.h>
#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFACE_MS       RPC_ANSWER_MS
#define STREAM_IDS_SPARE 1000

/* ---- what all share -------------------------------------------------------------------------- */

static void h2_conn_close(struct rpc_conn *base);

static int make_option(nghttp2_option **ret)
{
    if (nghttp2_option_new(ret) != 0) {
        return FN_E_EXHAUSTED;
    }
    nghttp2_option_set_no_auto_window_update(*ret, 1);
    nghttp2_option_set_no_closed_streams(*ret, 1);
    nghttp2_option_set_max_outbound_ack(*ret, 1000);
    /* Cancelled calls are daily business here; h2_recv.c counts resets with our own limit. */
    nghttp2_option_set_stream_reset_rate_limit(*ret, 2 * RPC_RESETS_MAX, 2 * RPC_RESETS_MAX);
    return 0;
}

static void h2_destroy(struct transport *t)
{
    struct h2 *h = container_of(t, struct h2, base);
    struct h2_conn *c;

    while ((c = LIST_FIRST(&h->conns))) {
        assert(c->entered == 0);
        h2_conn_close(&c->base);
    }
    nghttp2_session_callbacks_del(h->callbacks);
    nghttp2_option_del(h->option);
    free(h);
}

static int h2_create(const struct rpc_transport_host *host, const struct rpc_limits *limits,
                     struct transport **ret)
{
    struct h2 *h = calloc(1, sizeof(*h));

    if (!h) {
        return FN_E_EXHAUSTED;
    }
    h->base.table = &rpc_transport_nghttp2;
    h->env = host->env;
    h->limits = *limits;
    LIST_INIT(&h->conns);
    h->callbacks = recv_callbacks();
    if (!h->callbacks || make_option(&h->option) < 0) {
        h2_destroy(&h->base);
        return FN_E_EXHAUSTED;
    }
    *ret = &h->base;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void conn_free(struct h2_conn *c)
{
    struct env *env = c->h->env;

    assert(LIST_EMPTY(&c->streams));
    LIST_REMOVE(c, entry);
    env_undefer(env, &c->flush);
    env_undefer(env, &c->death);
    env_timer_clear(env, &c->timer);
    nghttp2_session_del(c->session);
    net_io_close(c->io);
    buf_finish(&c->pending);
    free(c->authority);
    free(c->why);
    free(c);
}

static void enter(struct h2_conn *c)
{
    c->entered++;
}

/* False: the connection was closed meanwhile and is freed. */
static bool leave(struct h2_conn *c)
{
    if (--c->entered == 0 && c->doomed) {
        conn_free(c);
        return false;
    }
    return true;
}

void conn_fail(struct h2_conn *c, const char *why)
{
    if (!c->dead) {
        c->dead = true;
        c->going = true;
        c->why = strdup(why);
        env_timer_clear(c->h->env, &c->timer);
        env_defer(c->h->env, &c->death);
    }
}

static void on_death(struct env_task *t)
{
    struct h2_conn *c = container_of(t, struct h2_conn, death);
    const char *why = c->why ? c->why : "out of memory";
    struct h2_stream *st;

    enter(c);
    net_io_close(c->io);
    c->io = NULL;
    if (c->cb) {
        const struct rpc_conn_cb *cb = c->cb;

        c->cb = NULL;
        cb->closed(c->ud, why);
    }
    while ((st = LIST_FIRST(&c->streams))) {
        stream_orphan(st, why);
    }
    c->doomed = true;
    leave(c);
}

static void h2_conn_close(struct rpc_conn *base)
{
    struct h2_conn *c = conn_of(base);
    struct h2_stream *st;

    c->cb = NULL;
    while ((st = LIST_FIRST(&c->streams))) {
        stream_drop(st);
    }
    c->dead = c->doomed = true;
    env_undefer(c->h->env, &c->death);
    enter(c);
    leave(c);
}

static void h2_conn_break(struct rpc_conn *base, const char *why)
{
    struct h2_conn *c = conn_of(base);

    conn_fail(c, why);
}

void conn_set_timer(struct h2_conn *c, enum conn_timer what, int64_t at_ns)
{
    c->timer_for = what;
    env_timer_set(c->h->env, &c->timer, at_ns);
}

static int64_t next_ping_ns(const struct h2_conn *c)
{
    const struct rpc_limits *l = &c->h->limits;
    int64_t silent = c->heard_ns + (c->left ? l->left_silence_ms : l->client_silence_ms) * ENV_MS;
    int64_t apart = c->pinged_ns ? c->pinged_ns + RPC_PINGS_APART_MS * ENV_MS : 0;

    return c->left && apart > silent ? apart : silent;
}

static void h2_conn_leave(struct rpc_conn *base)
{
    struct h2_conn *c = conn_of(base);

    c->cb = NULL;
    c->left = true;
    conn_idle(c);
    if (!c->dead && c->h->limits.left_silence_ms > 0) {
        conn_set_timer(c, CONN_SILENCE, next_ping_ns(c));
    }
}

void conn_idle(struct h2_conn *c)
{
    if (c->streams_n > 0 || c->dead) {
        return;
    }
    if (c->left) {
        conn_fail(c, "nobody needs the connection any more");
    } else if (c->goaway_final) {
        /* The client closes when it has read everything; a connection that we close first could
         * lose what is on its way. */
        conn_set_timer(c, CONN_PART, env_now_ns(c->h->env) + RPC_PART_MS * ENV_MS);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool take_input(struct h2_conn *c);

/* The socket is broken for writing. What came before may still be read, and may be an answer. */
static void write_failed(struct h2_conn *c)
{
    char why[256];

    snprintf(why, sizeof(why), "%s", net_io_error(c->io));
    while (!c->dead && take_input(c)) {
    }
    conn_fail(c, why);
}

/* Bytes taken; fewer than len: the socket is full, or broken. */
static size_t write_some(struct h2_conn *c, const void *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct iovec iov = { (char *)data + done, len - done };
        ssize_t n = net_io_writev(c->io, &iov, 1);

        if (n == NET_AGAIN) {
            c->blocked = true;
            break;
        }
        if (n < 0) {
            write_failed(c);
            break;
        }
        done += (size_t)n;
        c->written += (uint64_t)n;
    }
    return done;
}

/* Whether nothing is left of what was produced before. */
static bool write_pending(struct h2_conn *c)
{
    size_t len = c->pending.len - c->pending_off;

    if (len > 0) {
        c->pending_off += write_some(c, c->pending.data + c->pending_off, len);
        if (c->pending_off < c->pending.len) {
            return false;
        }
        buf_finish(&c->pending);
        c->pending_off = 0;
    }
    return true;
}

/* Fills `out`; whether there is more. */
static bool produce(struct h2_conn *c)
{
    struct h2 *h = c->h;

    h->out_len = 0;
    while (h->out_len <= H2_OUT_BYTES - H2_FRAME_MAX) {
        const uint8_t *data;
        ssize_t n;

        c->out_full = false;
        n = nghttp2_session_mem_send(c->session, &data);
        if (n < 0) {
            conn_fail(c, nghttp2_strerror((int)n));
            return false;
        }
        if (n == 0) {
            return c->out_full;
        }
        assert((size_t)n <= H2_OUT_BYTES - h->out_len);
        memcpy(h->out + h->out_len, data, (size_t)n);
        h->out_len += (size_t)n;
        c->produced += (uint64_t)n;
    }
    return true;
}

static void write_now(struct h2_conn *c)
{
    struct h2 *h = c->h;
    bool more = write_pending(c);

    while (more && !c->dead && !c->doomed) {
        size_t len, done;

        more = produce(c);
        len = h->out_len; /* an owner may be told by a failure below */
        done = len > 0 && !c->doomed ? write_some(c, h->out, len) : 0;
        if (done < len && !c->dead && !c->doomed) {
            if (buf_add(&c->pending, h->out + done, len - done) < 0) {
                conn_fail(c, "out of memory");
            }
            return;
        }
    }
}

static void flush(struct h2_conn *c)
{
    enter(c);
    write_now(c);
    if (!c->dead && !c->doomed && (!c->draining || c->calmed) && !c->blocked &&
        !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session)) {
        conn_fail(c, "the connection was ended by GOAWAY");
    }
    leave(c);
}

static void on_flush(struct env_task *t)
{
    struct h2_conn *c = container_of(t, struct h2_conn, flush);

    c->flushing = !c->flushing;
    if (c->flushing) {
        env_defer(c->h->env, &c->flush);
    } else if (!c->dead && !c->blocked) {
        flush(c);
    }
}

void conn_touch(struct h2_conn *c)
{
    if (!c->dead && !c->blocked) {
        env_defer(c->h->env, &c->flush);
    }
}

static void on_writable(void *ud)
{
    struct h2_conn *c = ud;

    c->blocked = false;
    if (!c->dead) {
        flush(c);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One read; whether bytes came and the connection still stands. */
static bool take_input(struct h2_conn *c)
{
    struct h2 *h = c->h;
    ssize_t n = net_io_read(c->io, h->in, sizeof(h->in));
    ssize_t r;

    if (n == 0) {
        conn_fail(c, "the peer closed the connection");
        return false;
    }
    if (n < 0) {
        if (n != NET_AGAIN) {
            conn_fail(c, net_io_error(c->io));
        }
        return false;
    }
    c->heard_ns = env_now_ns(h->env);
    c->pinged = false;
    r = nghttp2_session_mem_recv(c->session, h->in, (size_t)n);
    if (c->doomed) {
        return false;
    }
    if (r < 0) {
        conn_fail(c, nghttp2_strerror((int)r));
        return false;
    }
    return true;
}

static void on_readable(void *ud)
{
    struct h2_conn *c = ud;

    if (c->dead) {
        return;
    }
    enter(c);
    if (take_input(c)) {
        if (nghttp2_session_want_write(c->session) || !nghttp2_session_want_read(c->session)) {
            conn_touch(c);
        }
    }
    leave(c);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void final_goaway(struct h2_conn *c)
{
    c->goaway_final = true;
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
    conn_touch(c);
    conn_idle(c);
}

static void look_at_silence(struct h2_conn *c)
{
    int64_t now = env_now_ns(c->h->env);

    if (!c->ready) {
        conn_fail(c, "no HTTP/2 preface came");
    } else if (c->pinged) {
        conn_fail(c, "the peer does not answer a ping");
    } else if (!c->left && c->h->limits.client_silence_ms == 0) {
        return;
    } else if (now >= next_ping_ns(c)) {
        c->pinged = true;
        c->pinged_ns = now;
        nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
        conn_touch(c);
        conn_set_timer(c, CONN_SILENCE, now + RPC_ANSWER_MS * ENV_MS);
    } else {
        conn_set_timer(c, CONN_SILENCE, next_ping_ns(c));
    }
}

static void on_timer(struct env_timer *t)
{
    struct h2_conn *c = container_of(t, struct h2_conn, timer);

    enter(c);
    switch (c->timer_for) {
    case CONN_IDS_OUT:
        if (c->cb && c->cb->going) {
            c->cb->going(c->ud);
        }
        break;
    case CONN_PART:
        conn_fail(c, "drained");
        break;
    case CONN_DRAIN:
        conn_drain_heard(c); /* it said nothing, but had its time */
        if (env_timer_is_set(&c->timer)) {
            break; /* CONN_PART */
        }
        /* fall through */
    case CONN_SILENCE:
        look_at_silence(c);
        break;
    }
    leave(c);
}

static void h2_conn_drain(struct rpc_conn *base)
{
    struct h2_conn *c = conn_of(base);
    static const uint8_t mark[8] = "drain";

    if (c->dead || c->draining) {
        return;
    }
    if (!c->ready) {
        conn_fail(c, "shutting down");
        return;
    }
    /* First one that refuses nothing; what the client sent before it read that is still served. Its
     * answer to the ping says that it has read it. */
    c->draining = true;
    nghttp2_submit_shutdown_notice(c->session);
    nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, mark);
    conn_touch(c);
    conn_set_timer(c, CONN_DRAIN, env_now_ns(c->h->env) + RPC_PART_MS * ENV_MS);
}

void conn_drain_heard(struct h2_conn *c)
{
    if (c->draining && !c->goaway_final) {
        final_goaway(c);
    }
}

void conn_ids_used(struct h2_conn *c, int32_t id)
{
    uint32_t calls_max = c->h->limits.calls_max;

    if (!c->going && (id > INT32_MAX - STREAM_IDS_SPARE ||
                      (calls_max > 0 && (uint32_t)id / 2 + 1 >= calls_max))) {
        c->going = true;
        conn_set_timer(c, CONN_IDS_OUT, env_now_ns(c->h->env));
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

static const struct net_io_cb io_cb = { on_readable, on_writable };

static int settle(struct h2_conn *c)
{
    nghttp2_settings_entry iv[4];
    size_t n = 0;
    int r;

    if (c->server) {
        iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                            c->h->limits.streams_max };
    } else {
        iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 };
    }
    iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                        RPC_STREAM_WINDOW_BYTES };
    iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
                                        RPC_HEADERS_MAX_BYTES };
    r = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, iv, n);
    return r ? r
             : nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                     RPC_CONN_WINDOW_BYTES);
}

static struct rpc_conn *h2_conn_create(struct transport *t, struct net_io *io,
                                       const char *authority, bool tls,
                                       const struct rpc_conn_cb *cb, void *ud)
{
    struct h2 *h = container_of(t, struct h2, base);
    struct h2_conn *c = calloc(1, sizeof(*c));
    int r = -1;

    if (!c) {
        net_io_close(io);
        return NULL;
    }
    c->base.transport = &rpc_transport_nghttp2;
    c->h = h;
    c->io = io;
    c->tls = tls;
    c->ud = ud;
    c->server = !authority;
    c->authority = authority ? strdup(authority) : NULL;
    c->flush.cb = on_flush;
    c->death.cb = on_death;
    c->timer.cb = on_timer;
    c->heard_ns = env_now_ns(h->env);
    LIST_INIT(&c->streams);
    LIST_INSERT_HEAD(&h->conns, c, entry);
    if (c->server) {
        r = nghttp2_session_server_new2(&c->session, h->callbacks, c, h->option);
        conn_set_timer(c, CONN_SILENCE, c->heard_ns + PREFACE_MS * ENV_MS);
    } else if (c->authority) {
        r = nghttp2_session_client_new2(&c->session, h->callbacks, c, h->option);
    }
    if (r != 0 || settle(c) != 0) {
        conn_free(c);
        return NULL;
    }
    c->cb = cb;
    net_io_set(io, &io_cb, c);
    conn_touch(c);
    return &c->base;
}

static bool h2_conn_takes_calls(const struct rpc_conn *base)
{
    const struct h2_conn *c = conn_of(base);

    return c->ready && !c->going;
}

static int64_t h2_conn_heard_ns(const struct rpc_conn *base)
{
    const struct h2_conn *c = conn_of(base);

    return c->heard_ns;
}

static bool h2_conn_is_full(const struct rpc_conn *base)
{
    const struct h2_conn *c = conn_of(base);

    return c->streams_n >= nghttp2_session_get_remote_settings(
                               c->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

static void h2_conn_ping(struct rpc_conn *base)
{
    struct h2_conn *c = conn_of(base);

    nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
    conn_touch(c);
}

const struct rpc_transport rpc_transport_nghttp2 = {
    .size = sizeof(struct rpc_transport),
    .name = "nghttp2",
    .library = "libnghttp2 " NGHTTP2_VERSION,
    .build = RPC_TRANSPORT_BUILD,
    .create = h2_create,
    .destroy = h2_destroy,
    .conn_create = h2_conn_create,
    .conn_takes_calls = h2_conn_takes_calls,
    .conn_heard_ns = h2_conn_heard_ns,
    .conn_is_full = h2_conn_is_full,
    .conn_ping = h2_conn_ping,
    .conn_break = h2_conn_break,
    .conn_leave = h2_conn_leave,
    .conn_drain = h2_conn_drain,
    .conn_close = h2_conn_close,
    .stream_open = h2_stream_open,
    .stream_adopt = h2_stream_adopt,
    .stream_close = h2_stream_close,
    .stream_out = h2_stream_out,
    .stream_wrote = h2_stream_wrote,
    .stream_queued = h2_stream_queued,
    .stream_mark = h2_stream_mark,
    .stream_is_sent = h2_stream_is_sent,
    .stream_is_answered = h2_stream_is_answered,
    .stream_half_close = h2_stream_half_close,
    .stream_finish = h2_stream_finish,
    .stream_abort = h2_stream_abort,
    .stream_pause = h2_stream_pause,
    .stream_deadline_ns = h2_stream_deadline_ns,
    .stream_io = h2_stream_io,
};
