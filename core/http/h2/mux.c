/* Connections: an nghttp2 session over a net_io.
 *
 *   OPEN ──▶ PARTING ──▶ PARTED ──▶ LINGER      each of them ──▶ gone
 *     │          └──────────────────────▲
 *     └──────────────────────▲
 *
 *   OPEN to PARTING    mux_part_soon(): the server drains, or enough requests came
 *   to PARTED          mux_part_now(): the client has read that, its time is over, or it was idle.
 *                      GOAWAY names the last stream that is served, and for the client proves that
 *                      none behind it was: those that come before it is out are refused
 *   to LINGER          mux_linger(): no stream runs and all is written, or an error was told
 *   gone               mux_end()
 *
 * Writing: whoever gives nghttp2 something to send touches the connection, which queues a flush for
 * the end of the turn. What the socket does not take is kept in `pending`, and nothing more is
 * produced before it is gone, so that streams keep what they have and tell their handlers to wait.
 *
 * Time limits: as in HTTP/1.1 the timer is moved only when it would fire too late. */
#include <http/h2/mux_int.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PART_NS    (2 * ENV_S) /* for the client to read that it shall leave */
#define DRAIN_MARK "fnd away" /* the ping behind the first GOAWAY; 8 bytes */

static const uint32_t follows[MUX_STATES_N] = {
    [MUX_OPEN] = STATE(MUX_PARTING) | STATE(MUX_PARTED) | STATE(MUX_LINGER),
    [MUX_PARTING] = STATE(MUX_PARTED) | STATE(MUX_LINGER),
    [MUX_PARTED] = STATE(MUX_LINGER),
    [MUX_LINGER] = 0,
};
static const char *const names[MUX_STATES_N] = { "open", "parting", "parted", "linger" };
const struct states mux_states = { "HTTP/2 connection", names, follows, MUX_STATES_N };

static void mux_enter(struct mux *m, enum mux_state state)
{
    m->state = (enum mux_state)states_next(&mux_states, m->state, state);
}

/* ---- time limits ---------------------------------------------------------------------------- */

static int64_t first_wait(const struct mux *m)
{
    int64_t first = 0;

    for (int i = 0; i < MUX_WAITS_N; i++) {
        if (m->waits_ns[i] != 0 && (first == 0 || m->waits_ns[i] < first)) {
            first = m->waits_ns[i];
        }
    }
    return first;
}

static void mux_arm(struct mux *m)
{
    int64_t at = first_wait(m);

    if (at != 0 && (!env_timer_is_set(&m->timer) || m->timer.at_ns > at)) {
        env_timer_set(m->s->env, &m->timer, at);
    }
}

void mux_wait(struct mux *m, enum mux_wait what, int64_t at_ns)
{
    m->waits_ns[what] = at_ns;
    mux_arm(m);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* cut: with a reset, so that nothing looks whole. */
static void mux_end(struct mux *m, bool cut)
{
    struct http_server *s = m->s;
    struct mux_stream *st;

    m->dead = true;
    while ((st = TAILQ_FIRST(&m->streams))) {
        mux_stream_gone(st);
    }
    turn_leave(s, &m->turn);
    env_timer_clear(s->env, &m->timer);
    env_undefer(s->env, &m->flush);
    nghttp2_session_del(m->session);
    free(m->queue);
    if (cut) {
        net_io_reset(m->io);
    } else {
        net_io_close(m->io);
    }
    LIST_REMOVE(m, entry);
    server_conn_closed(s, m->peer_count);
    mux_head_finish(&m->head);
    buf_finish(&m->pending);
    free(m);
}

/* What runs is lost; the socket may still carry what says so. */
static void mux_linger(struct mux *m)
{
    struct mux_stream *st;

    mux_enter(m, MUX_LINGER);
    while ((st = TAILQ_FIRST(&m->streams))) {
        mux_stream_gone(st);
    }
    memset(m->waits_ns, 0, sizeof(m->waits_ns));
    net_io_end(m->io);
    mux_wait(m, WAIT_END, mux_after(m, LINGER_NS));
}

/* ---- writing -------------------------------------------------------------------------------- */

void mux_touch(struct mux *m)
{
    if (!m->dead && !m->blocked && m->state != MUX_LINGER) {
        env_defer(m->s->env, &m->flush);
    }
}

void mux_submitted(struct mux *m, int result)
{
    m->poor = m->poor || result == NGHTTP2_ERR_NOMEM;
    mux_touch(m);
}

/* Bytes taken; fewer than len: the socket is full. < 0: it is broken. */
static ssize_t write_some(struct mux *m, const void *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct iovec iov = { (char *)(uintptr_t)data + done, len - done };
        ssize_t n = net_io_writev(m->io, &iov, 1);

        if (n == NET_AGAIN) {
            m->blocked = true;
            break;
        }
        if (n < 0) {
            return n;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Fills the part's `out`; < 0: the session is broken. */
static int produce(struct mux *m)
{
    struct mux_part *p = m->part;

    p->out_len = 0;
    if (m->poor) {
        return NGHTTP2_ERR_NOMEM;
    }
    while (p->out_len <= MUX_OUT_BYTES - MUX_FRAME_BYTES) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(m->session, &data);

        if (n <= 0) {
            return (int)n;
        }
        /* Broken by nghttp2: its pieces are smaller, whatever a client's settings allow. */
        assert((size_t)n <= MUX_FRAME_BYTES);
        memcpy(p->out + p->out_len, data, (size_t)n);
        p->out_len += (size_t)n;
    }
    return 0;
}

static bool write_pending(struct mux *m, bool *ret_moved)
{
    ssize_t n = write_some(m, m->pending.data + m->pending_off, m->pending.len - m->pending_off);

    if (n < 0) {
        return false;
    }
    *ret_moved |= n > 0;
    m->pending_off += (size_t)n;
    if (m->pending_off == m->pending.len) {
        buf_finish(&m->pending);
        m->pending_off = 0;
    }
    return true;
}

/* What waits and what nghttp2 has, as far as the socket takes it. false: it is broken. */
static bool write_all(struct mux *m, bool *ret_moved)
{
    struct mux_part *p = m->part;

    while (!m->blocked) {
        ssize_t n;

        if (m->pending.len > 0) {
            if (!write_pending(m, ret_moved)) {
                return false;
            }
            continue;
        }
        if (produce(m) < 0) {
            return false;
        }
        if (p->out_len == 0) {
            break;
        }
        n = write_some(m, p->out, p->out_len);
        *ret_moved |= n > 0;
        if (n < 0 || buf_add(&m->pending, p->out + n, p->out_len - (size_t)n) < 0) {
            return false;
        }
    }
    /* Under TLS the last record may wait for the socket although all bytes were taken. */
    m->blocked = m->blocked || net_io_writev(m->io, NULL, 0) == NET_AGAIN;
    return true;
}

/* Their output is with the socket: handlers may send more. */
static void tell_roomy(struct mux *m)
{
    struct mux_stream *st;

    while (!m->blocked && (st = TAILQ_FIRST(&m->roomy))) {
        TAILQ_REMOVE(&m->roomy, st, other);
        st->in_roomy = false;
        st->q->wants_writable = false;
        if (st->q->pub.on_writable) {
            st->q->pub.on_writable(&st->q->pub);
        }
    }
}

static bool is_over(const struct mux *m)
{
    if (m->blocked || nghttp2_session_want_write(m->session)) {
        return false;
    }
    return m->terminated || (m->streams_n == 0 && (m->state == MUX_PARTED || m->left));
}

/* From events and tasks; m may be gone then. */
static void mux_flush(struct mux *m)
{
    bool moved = false;

    if (!write_all(m, &moved)) {
        mux_end(m, false);
        return;
    }
    if (!m->blocked) {
        mux_wait(m, WAIT_SOCKET, 0);
    } else if (moved || m->waits_ns[WAIT_SOCKET] == 0) {
        mux_wait(m, WAIT_SOCKET, mux_after(m, m->s->config.limits.write_stall_ns));
    }
    tell_roomy(m);
    if (is_over(m)) {
        mux_linger(m);
    }
}

static void mux_on_flush(struct env_task *t)
{
    struct mux *m = container_of(t, struct mux, flush);

    if (!m->blocked && m->state != MUX_LINGER) {
        mux_flush(m);
    }
}

static void mux_on_writable(void *ud)
{
    struct mux *m = ud;

    m->blocked = false;
    if (m->state != MUX_LINGER) {
        mux_flush(m);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The client makes us answer and does not read it. */
static bool owes_too_much(const struct mux *m)
{
    return m->blocked && nghttp2_session_get_outbound_queue_size(m->session) >
                             MUX_QUEUE_MAX + 4u * m->streams_n;
}

static void mux_take(struct mux *m, const char *data, size_t len)
{
    if (nghttp2_session_mem_recv(m->session, (const uint8_t *)data, len) < 0 ||
        owes_too_much(m)) {
        mux_end(m, true);
        return;
    }
    if (!m->turn.waits) {
        mux_serve(m);
    }
    if (nghttp2_session_want_write(m->session) || m->terminated) {
        mux_touch(m);
    }
}

static void mux_on_readable(void *ud)
{
    struct mux *m = ud;
    struct http_server *s = m->s;
    ssize_t n = net_io_read(m->io, s->scratch, sizeof(s->scratch));

    if (n == NET_AGAIN) {
        return;
    }
    if (n <= 0) {
        mux_end(m, false);
    } else if (m->state == MUX_LINGER || m->calmed || m->terminated) {
        m->lingered_bytes += (uint64_t)n;
        if (m->lingered_bytes > LINGER_BYTES) {
            mux_end(m, false);
        }
    } else {
        mux_take(m, s->scratch, (size_t)n);
    }
}

/* ---- leaving -------------------------------------------------------------------------------- */

void mux_part_soon(struct mux *m)
{
    if (m->state == MUX_OPEN) {
        mux_enter(m, MUX_PARTING);
        mux_wait(m, WAIT_PART, mux_after(m, PART_NS));
        mux_submitted(m, nghttp2_submit_shutdown_notice(m->session));
        mux_submitted(m, nghttp2_submit_ping(m->session, NGHTTP2_FLAG_NONE,
                                             (const uint8_t *)DRAIN_MARK));
    }
}

void mux_part_now(struct mux *m)
{
    if (m->state == MUX_OPEN || m->state == MUX_PARTING) {
        mux_enter(m, MUX_PARTED);
        mux_wait(m, WAIT_PART, 0);
        m->last_id = nghttp2_session_get_last_proc_stream_id(m->session);
        mux_submitted(m, nghttp2_submit_goaway(m->session, NGHTTP2_FLAG_NONE, m->last_id,
                                               NGHTTP2_NO_ERROR, NULL, 0));
    }
}

/* The server drains: what its clients send before drain_until_ns is served. */
static void mux_part_drained(struct mux *m)
{
    if (mux_now_ns(m) >= m->s->drain_until_ns) {
        mux_part_now(m);
        return;
    }
    mux_part_soon(m);
    if (m->state == MUX_PARTING) {
        mux_wait(m, WAIT_PART, m->s->drain_until_ns);
    }
}

void mux_calm(struct mux *m, const char *why)
{
    if (!m->calmed) {
        m->calmed = true;
        log_gated(m->s, &m->s->calm_gate, "an HTTP/2 client was told to be calm",
                  net_io_peer(m->io), "too many", why);
        nghttp2_session_terminate_session(m->session, NGHTTP2_ENHANCE_YOUR_CALM);
        mux_touch(m);
    }
}

/* ---- time ----------------------------------------------------------------------------------- */

/* m may be gone then. */
static void on_waited(struct mux *m, enum mux_wait what)
{
    m->waits_ns[what] = 0;
    switch (what) {
    case WAIT_REQUEST:
    case WAIT_PART:
        mux_part_now(m);
        mux_arm(m);
        break;
    case WAIT_BLOCK:
        mux_calm(m, "header blocks that do not end");
        mux_arm(m);
        break;
    case WAIT_SOCKET:
        log_stranger(FN_LOG_INFO, "client does not read its answers, connection reset", "peer",
                     net_io_peer(m->io));
        mux_end(m, true);
        break;
    default:
        mux_end(m, false);
        break;
    }
}

static void mux_on_timer(struct env_timer *t)
{
    struct mux *m = container_of(t, struct mux, timer);
    int64_t now = mux_now_ns(m);

    for (int i = 0; i < MUX_WAITS_N; i++) {
        if (m->waits_ns[i] != 0 && m->waits_ns[i] <= now) {
            on_waited(m, (enum mux_wait)i);
            return;
        }
    }
    mux_arm(m);
}

/* ---- the beginning -------------------------------------------------------------------------- */

static int settle(struct mux *m)
{
    const struct http_limits *limits = &m->s->config.limits;
    const uint64_t list_bytes =
        (uint64_t)limits->header_bytes_max + MUX_FIELD_BYTES * (uint64_t)limits->headers_max;
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)m->streams_max },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, MUX_STREAM_WINDOW_BYTES },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)list_bytes },
        { NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
    };
    int r = nghttp2_submit_settings(m->session, NGHTTP2_FLAG_NONE, settings,
                                    sizeof(settings) / sizeof(settings[0]));

    return r ? r
             : nghttp2_session_set_local_window_size(m->session, NGHTTP2_FLAG_NONE, 0,
                                                     MUX_CONN_WINDOW_BYTES);
}

static void mux_adopt(void *part, struct net_io *io, struct visitor *peer_count, bool stranger)
{
    static const struct net_io_cb cb = { mux_on_readable, mux_on_writable };
    struct mux_part *p = part;
    struct mux *m = calloc(1, sizeof(*m));
    nghttp2_mem memory = mux_memory(m);

    if (!m ||
        nghttp2_session_server_new3(&m->session, p->callbacks, m, p->option, &memory) != 0) {
        free(m);
        net_io_close(io);
        server_conn_closed(p->s, peer_count);
        return;
    }
    m->part = p;
    m->s = p->s;
    m->io = io;
    m->peer_count = peer_count;
    m->stranger = stranger;
    m->streams_max = p->s->config.limits.h2_streams_max;
    m->timer.cb = mux_on_timer;
    m->flush.cb = mux_on_flush;
    m->turn.have = mux_have_turn;
    TAILQ_INIT(&m->streams);
    TAILQ_INIT(&m->ready);
    TAILQ_INIT(&m->roomy);
    LIST_INSERT_HEAD(&p->all, m, entry);
    if (settle(m) != 0) {
        mux_end(m, false);
        return;
    }
    net_io_set(io, &cb, m);
    mux_wait(m, WAIT_REQUEST, mux_after(m, m->s->config.limits.header_timeout_ns));
    if (m->s->draining) { /* it has shaken hands meanwhile */
        mux_part_drained(m);
    }
    mux_touch(m);
}

/* ---- HTTP/2's part of a server --------------------------------------------------------------- */

static nghttp2_option *make_option(void)
{
    nghttp2_option *option;

    if (nghttp2_option_new(&option) != 0) {
        return NULL;
    }
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, MUX_ACKS_MAX);
    /* Resets are counted in mux_recv.c, by the streams that a client may have. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
    return option;
}

static void mux_part_close(void *part)
{
    struct mux_part *p = part;
    struct mux *m;

    while ((m = LIST_FIRST(&p->all))) {
        mux_end(m, false);
    }
    nghttp2_session_callbacks_del(p->callbacks);
    nghttp2_option_del(p->option);
    buf_finish(&p->text);
    free(p);
}

static void *mux_part_open(struct http_server *s)
{
    struct mux_part *p = calloc(1, sizeof(*p));

    if (!p) {
        return NULL;
    }
    p->s = s;
    LIST_INIT(&p->all);
    p->callbacks = mux_callbacks();
    p->option = make_option();
    if (!p->callbacks || !p->option) {
        mux_part_close(p);
        return NULL;
    }
    return p;
}

static void mux_drain(void *part)
{
    struct mux_part *p = part;
    struct mux *m;

    LIST_FOREACH(m, &p->all, entry) {
        mux_part_drained(m);
    }
}

/* Whether a request that is to be served may still come, or is not with its handler. */
static bool may_serve(const struct mux *m)
{
    const struct mux_stream *st;

    if (m->state == MUX_OPEN || m->state == MUX_PARTING) {
        return true;
    }
    TAILQ_FOREACH(st, &m->streams, link) {
        if (st->state == STREAM_HEAD || st->state == STREAM_BODY || st->state == STREAM_READY) {
            return true;
        }
    }
    return false;
}

static bool mux_is_calm(const void *part)
{
    const struct mux_part *p = part;
    const struct mux *m;

    LIST_FOREACH(m, &p->all, entry) {
        if (may_serve(m)) {
            return false;
        }
    }
    return true;
}

const struct http_protocol http_h2 = {
    .alpn = "h2",
    .open = mux_part_open,
    .close = mux_part_close,
    .adopt = mux_adopt,
    .drain = mux_drain,
    .is_calm = mux_is_calm,
};
