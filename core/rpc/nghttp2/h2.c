/* Connections: an nghttp2 session over a net_io.
 *
 * Writing: whoever gives nghttp2 something to send touches the connection, which queues a flush.
 * The flush goes once behind the tasks that are queued already, so that what they add is in the
 * same write. What the socket does not take is kept in `pending`; nothing more is produced before
 * it is gone, so that streams keep what they have and tell their owners to wait.
 */
#include <rpc/nghttp2/h2_int.h>

#include <assert.h>
#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_IDS_SPARE 1000

/* ---- what all share -------------------------------------------------------------------------- */

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

    life_end_all(t);
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
    h->base.env = host->env;
    h->base.limits = *limits;
    h->callbacks = recv_callbacks();
    if (!h->callbacks || make_option(&h->option) < 0) {
        h2_destroy(&h->base);
        return FN_E_EXHAUSTED;
    }
    *ret = &h->base;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void h2_conn_free(struct rpc_conn *l)
{
    struct h2_conn *c = conn_of(l);

    env_undefer(l->env, &c->flush);
    nghttp2_session_del(c->session);
    buf_finish(&c->pending);
    free(c->authority);
    life_finish(l);
    free(c);
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool take_input(struct h2_conn *c);

/* The socket is broken for writing. What came before may still be read, and may be an answer. */
static void h2_write_failed(struct h2_conn *c)
{
    char why[256];

    snprintf(why, sizeof(why), "%s", net_io_error(c->life.io));
    while (!c->life.dead && take_input(c)) {
    }
    rpc_conn_break(&c->life, why);
}

/* Bytes taken; fewer than len: the socket is full, or broken. */
static size_t write_some(struct h2_conn *c, const void *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct iovec iov = { (char *)data + done, len - done };
        ssize_t n = net_io_writev(c->life.io, &iov, 1);

        if (n == NET_AGAIN) {
            c->blocked = true;
            break;
        }
        if (n < 0) {
            h2_write_failed(c);
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
            rpc_conn_break(&c->life, nghttp2_strerror((int)n));
            return false;
        }
        if (n == 0) {
            return c->out_full;
        }
        /* Broken by nghttp2: its pieces are smaller, whatever a peer's settings allow. */
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

    while (more && !c->life.dead && !c->life.doomed) {
        size_t len, done;

        more = produce(c);
        len = h->out_len; /* an owner may be told by a failure below */
        done = len > 0 && !c->life.doomed ? write_some(c, h->out, len) : 0;
        if (done < len && !c->life.dead && !c->life.doomed) {
            if (buf_add(&c->pending, h->out + done, len - done) < 0) {
                rpc_conn_break(&c->life, "out of memory");
            }
            return;
        }
    }
}

static void flush(struct h2_conn *c)
{
    life_enter(&c->life);
    if (c->poor) {
        rpc_conn_break(&c->life, "out of memory");
    } else {
        write_now(c);
    }
    if (!c->life.dead && !c->life.doomed && (!c->life.draining || c->life.calmed) && !c->blocked &&
        !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session)) {
        rpc_conn_break(&c->life, "the connection was ended by GOAWAY");
    }
    life_leave(&c->life);
}

static void on_flush(struct env_task *t)
{
    struct h2_conn *c = container_of(t, struct h2_conn, flush);

    c->flushing = !c->flushing;
    if (c->flushing) {
        env_defer(c->h->base.env, &c->flush);
    } else if (!c->life.dead && !c->blocked) {
        flush(c);
    }
}

void conn_touch(struct h2_conn *c)
{
    if (!c->life.dead && !c->blocked) {
        env_defer(c->h->base.env, &c->flush);
    }
}

void conn_submitted(struct h2_conn *c, int result)
{
    c->poor = c->poor || result == NGHTTP2_ERR_NOMEM;
    conn_touch(c);
}

static void h2_on_writable(void *ud)
{
    struct h2_conn *c = ud;

    c->blocked = false;
    if (!c->life.dead) {
        flush(c);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The client makes us answer and does not read it. */
static bool owes_too_much(const struct h2_conn *c)
{
    return c->life.server && c->blocked &&
           nghttp2_session_get_outbound_queue_size(c->session) >
               H2_QUEUE_MAX + 4u * c->life.streams_n;
}

/* One read; whether bytes came and the connection still stands. */
static bool take_input(struct h2_conn *c)
{
    struct h2 *h = c->h;
    ssize_t n = net_io_read(c->life.io, h->in, sizeof(h->in));
    ssize_t r;

    if (n == 0) {
        rpc_conn_break(&c->life, "the peer closed the connection");
        return false;
    }
    if (n < 0) {
        if (n != NET_AGAIN) {
            rpc_conn_break(&c->life, net_io_error(c->life.io));
        }
        return false;
    }
    life_heard(&c->life);
    r = nghttp2_session_mem_recv(c->session, h->in, (size_t)n);
    if (c->life.doomed) {
        return false;
    }
    if (r < 0) {
        rpc_conn_break(&c->life, nghttp2_strerror((int)r));
        return false;
    }
    if (owes_too_much(c)) {
        rpc_conn_break(&c->life, "the peer does not read what it makes us answer");
        return false;
    }
    return true;
}

static void h2_on_readable(void *ud)
{
    struct h2_conn *c = ud;

    if (c->life.dead) {
        return;
    }
    life_enter(&c->life);
    if (take_input(c)) {
        if (nghttp2_session_want_write(c->session) || !nghttp2_session_want_read(c->session)) {
            conn_touch(c);
        }
    }
    life_leave(&c->life);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void ping(struct rpc_conn *l, bool asked)
{
    struct h2_conn *c = conn_of(l);

    (void)asked;
    conn_submitted(c, nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL));
}

static void goaway(struct rpc_conn *l, bool final)
{
    struct h2_conn *c = conn_of(l);
    static const uint8_t mark[8] = "drain";

    if (final) {
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

        l->served_max = (uint32_t)last;
        conn_submitted(c, nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last,
                                                NGHTTP2_NO_ERROR, NULL, 0));
    } else {
        conn_submitted(c, nghttp2_submit_shutdown_notice(c->session));
        conn_submitted(c, nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, mark));
    }
}

void conn_ids_used(struct h2_conn *c, int32_t id)
{
    uint32_t calls_max = c->h->base.limits.calls_max;

    if (id > INT32_MAX - STREAM_IDS_SPARE ||
        (calls_max > 0 && (uint32_t)id / 2 + 1 >= calls_max)) {
        life_calls_out(&c->life);
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

static const struct net_io_cb io_cb = { h2_on_readable, h2_on_writable };

static bool is_full(const struct rpc_conn *l)
{
    return l->streams_n >= nghttp2_session_get_remote_settings(
                               conn_of(l)->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

/* Under TLS the last record may wait below. */
static bool has_output(const struct rpc_conn *l)
{
    return conn_of(l)->blocked || net_io_writev(l->io, NULL, 0) == NET_AGAIN;
}

static const struct rpc_life_ops life_ops = { .open = h2_stream_open,
                                              .is_full = is_full,
                                              .has_output = has_output,
                                              .ping = ping,
                                              .goaway = goaway,
                                              .free = h2_conn_free };

static int h2_settle(struct h2_conn *c)
{
    nghttp2_settings_entry iv[4];
    size_t n = 0;
    int r;

    if (c->life.server) {
        iv[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                            c->h->base.limits.streams_max };
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
    life_init(&c->life, &life_ops, t, !authority);
    c->life.ud = ud;
    c->life.io = io;
    c->life.io_close = net_io_close;
    c->h = h;
    c->tls = tls;
    c->authority = authority ? strdup(authority) : NULL;
    c->flush.cb = on_flush;
    if (c->life.server) {
        r = nghttp2_session_server_new2(&c->session, h->callbacks, c, h->option);
    } else if (c->authority) {
        r = nghttp2_session_client_new2(&c->session, h->callbacks, c, h->option);
    }
    if (r != 0 || h2_settle(c) != 0) {
        h2_conn_free(&c->life);
        return NULL;
    }
    c->life.cb = cb;
    net_io_set(io, &io_cb, c);
    conn_touch(c);
    return &c->life;
}

const struct rpc_transport rpc_transport_nghttp2 = {
    .size = sizeof(struct rpc_transport),
    .name = "nghttp2",
    .library = "libnghttp2 " NGHTTP2_VERSION,
    .build = RPC_TRANSPORT_BUILD,
    .create = h2_create,
    .destroy = h2_destroy,
    .conn_create = h2_conn_create,
};
