/* Streams: gRPC's framing on an HTTP/2 stream.
 *
 * Receiving: a message that lies whole in what was read is handed over in place; otherwise, and
 * while the stream is paused, bytes are kept in `in`. It is bounded by the limit of a message, with
 * which the length prefix is compared before memory is taken, by the stream's window, which is not
 * given back while the stream is paused, and by the memory that all streams share.
 *
 * Sending: messages are appended to `out` and taken from it when nghttp2 asks for DATA, straight
 * into the connection's output. */
#include <rpc/nghttp2/h2_int.h>

#include <assert.h>
#include <base/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX          512
#define NAME_VALUE(n, v)  text_nv((n), sizeof(n) - 1, (v), sizeof(v) - 1, STATIC_NV)
#define STATIC_NV         (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)
#define VARYING_NV        (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX)

/* ---- life ------------------------------------------------------------------------------------ */

static void keep_none(struct rpc_stream *base)
{
    struct h2_stream *st = stream_of(base);

    stream_release(base, st->in.len);
    buf_finish(&st->in);
}

/* NULL: it has none, or none any more. */
static struct h2_conn *h2_conn_of(const struct h2_stream *st)
{
    return st->base.conn ? conn_of(st->base.conn) : NULL;
}

static bool is_live(const struct h2_stream *st)
{
    return st->base.conn && !st->base.conn->dead;
}

static void reset(struct h2_stream *st, uint32_t code)
{
    struct h2_conn *c = h2_conn_of(st);

    if (is_live(st) && st->id > 0) {
        conn_submitted(c, nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, st->id, code));
    }
}

static void h2_stream_cancel(struct rpc_stream *st, int status, const char *text)
{
    (void)status;
    (void)text;
    reset(stream_of(st), NGHTTP2_CANCEL);
}

static void h2_stream_over(struct rpc_stream *base)
{
    struct h2_stream *st = stream_of(base);

    env_timer_clear(base->env, &base->deadline);
    if (!base->server && is_live(st) && st->id > 0 &&
        nghttp2_session_get_stream_local_close(h2_conn_of(st)->session, st->id) == 0) {
        reset(st, NGHTTP2_NO_ERROR);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void give_window_back(struct h2_stream *st)
{
    struct h2_conn *c = h2_conn_of(st);

    if (st->unconsumed > 0 && is_live(st) && st->id > 0) {
        nghttp2_session_consume_stream(c->session, st->id, st->unconsumed);
        conn_touch(c);
    }
    st->unconsumed = 0;
}

/* The length of the message that begins at `data`, or the reason against it. */
static bool check_prefix(struct h2_stream *st, const unsigned char *data, uint32_t *ret)
{
    uint32_t max = st->h->base.limits.message_max_bytes;
    uint32_t n = (uint32_t)data[1] << 24 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 8 |
                 data[4];
    char text[96];

    if (data[0] != 0) {
        stream_fail(&st->base, GRPC_INTERNAL, "RUN403 a message is compressed; expected identity");
        return false;
    }
    if (n > max) {
        snprintf(text, sizeof(text), "RUN402 received message larger than max (%u vs. %u)", n, max);
        stream_fail(&st->base, GRPC_EXHAUSTED, text);
        return false;
    }
    *ret = n;
    return true;
}

/* Hands over whole messages; how many bytes were taken. */
static size_t stream_deliver(struct h2_stream *st, const unsigned char *data, size_t len)
{
    size_t off = 0;
    uint32_t n;

    while (stream_listens(&st->base) && len - off >= RPC_PREFIX_BYTES) {
        if (!check_prefix(st, data + off, &n)) {
            return len;
        }
        if (len - off - RPC_PREFIX_BYTES < n) {
            break;
        }
        off += RPC_PREFIX_BYTES + n;
        st->base.cb->message(st->base.ud, data + off - n, n);
    }
    return off;
}

static void stream_keep(struct h2_stream *st, const unsigned char *data, size_t len)
{
    stream_make_room(&st->h->base, len);
    if (!st->base.cb || st->base.over) {
        return; /* it held most itself */
    }
    if (buf_add(&st->in, data, len) < 0) {
        stream_fail(&st->base, GRPC_EXHAUSTED, "out of memory");
    } else {
        stream_hold(&st->base, len);
    }
}

static void deliver_kept(struct h2_stream *st)
{
    /* Apart, so that the bytes stay where they are whatever the owner does. */
    struct buf all = st->in;
    size_t taken;

    if (all.len == 0 || !stream_listens(&st->base)) {
        return;
    }
    st->in = BUF_INIT(0);
    st->base.delivering = true;
    taken = stream_deliver(st, (const unsigned char *)all.data, all.len);
    st->base.delivering = false;
    stream_release(&st->base, taken);
    buf_consume(&all, taken);
    st->in = all;
    if (!st->base.cb || st->in.len == 0) {
        keep_none(&st->base);
    }
}

void stream_input(struct h2_stream *st, const unsigned char *data, size_t len)
{
    size_t taken = 0;

    st->unconsumed += (uint32_t)len;
    if (!st->base.cb || st->base.over) {
        give_window_back(st);
        return;
    }
    stream_enter(&st->base);
    if (st->in.len == 0) {
        st->base.delivering = true;
        taken = stream_deliver(st, data, len);
        st->base.delivering = false;
    }
    if (taken < len && st->base.cb && !st->base.over) {
        stream_keep(st, data + taken, len - taken);
        deliver_kept(st);
    }
    if (!st->base.paused) {
        give_window_back(st);
    }
    stream_tell_end(&st->base);
    stream_leave(&st->base);
}

static bool h2_stream_has_to_go_on(const struct rpc_stream *base)
{
    const struct h2_stream *st = stream_of(base);

    return st->in.len > 0 || st->unconsumed > 0 || (base->half && !base->half_told) ||
           (base->over && !base->told);
}

static void h2_stream_go_on(struct rpc_stream *base)
{
    struct h2_stream *st = stream_of(base);

    deliver_kept(st);
    if (!base->paused) {
        give_window_back(st);
    }
}

static bool h2_stream_has_rest(const struct rpc_stream *st)
{
    return stream_of(st)->in.len > 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* DATA of which so much is ready; nghttp2 asks stream_take() for it. */
static ssize_t stream_provide(struct h2_stream *st, size_t room, uint32_t *flags)
{
    size_t ready = rpc_stream_queued(&st->base);
    size_t n = ready < room ? ready : room;

    if (n == 0 && !st->base.end_wanted) {
        st->asleep = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    st->base.out.promised = n;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == ready && st->base.end_wanted) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | (st->base.server ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0);
    }
    return (ssize_t)n;
}

void stream_take(struct h2_stream *st, unsigned char *to, size_t len, uint64_t produced)
{
    memcpy(to, rpc_out_next(&st->base), len);
    rpc_out_take(&st->base, len);
    st->base.out.promised = 0;
    if (rpc_out_is_marked(&st->base) && st->mark_wire == 0) {
        st->mark_wire = produced - (st->base.out.total - st->base.out.mark);
    }
    if (rpc_out_is_low(&st->base) && st->base.cb) {
        env_defer(st->base.env, &st->base.task);
    }
}

/* grpc-status and, when there is a text, grpc-message; how many. */
static size_t status_headers(const struct h2_stream *st, nghttp2_nv nv[2], char code[16],
                             char text[3 * TEXT_MAX])
{
    size_t n = 0;

    if (st->base.end_status == GRPC_OK) {
        memcpy(code, "0", 2);
    } else {
        snprintf(code, 16, "%d", st->base.end_status);
    }
    nv[n++] = text_nv("grpc-status", 11, code, strlen(code), NGHTTP2_NV_FLAG_NO_COPY_NAME);
    if (st->base.end_text) {
        text_percent_encode(st->base.end_text, text, 3 * TEXT_MAX);
        nv[n++] = text_nv("grpc-message", 12, text, strlen(text), VARYING_NV);
    }
    return n;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *ud)
{
    struct h2_stream *st = source->ptr;
    ssize_t n = stream_provide(st, room, flags);

    (void)buf;
    (void)ud;
    if (st->base.server && n >= 0 && *flags & NGHTTP2_DATA_FLAG_EOF) {
        char code[16], text[3 * TEXT_MAX];
        nghttp2_nv nv[2];

        if (nghttp2_submit_trailer(session, id, nv, status_headers(st, nv, code, text)) < 0) {
            return NGHTTP2_ERR_CALLBACK_FAILURE; /* the peer would wait for it */
        }
    }
    return n;
}

/* Response headers; with the status when there is nothing else to send. */
static void send_headers(struct h2_stream *st)
{
    nghttp2_data_provider provider = { .source.ptr = st, .read_callback = on_read };
    bool only = st->base.end_wanted && rpc_stream_queued(&st->base) == 0;
    struct h2_conn *c = h2_conn_of(st);
    nghttp2_nv nv[4] = { NAME_VALUE(":status", "200"),
                         NAME_VALUE("content-type", "application/grpc") };
    char code[16], text[3 * TEXT_MAX];
    size_t n = 2;

    if (only) {
        n += status_headers(st, nv + 2, code, text);
    }
    st->base.headers_out = true;
    conn_submitted(c, nghttp2_submit_response(c->session, st->id, nv, n,
                                              only ? NULL : &provider));
}

static void h2_stream_send(struct rpc_stream *base)
{
    struct h2_stream *st = stream_of(base);

    if (!is_live(st)) {
        return;
    }
    if (st->base.server && !st->base.headers_out) {
        send_headers(st);
    } else if (st->asleep) {
        st->asleep = false;
        nghttp2_session_resume_data(h2_conn_of(st)->session, st->id);
    }
    conn_touch(h2_conn_of(st));
}

/* What is produced and not written yet, or framed and not produced, goes out as long as the
 * connection lives. */
static bool h2_stream_is_sent(const struct rpc_stream *base)
{
    const struct h2_stream *st = stream_of(base);
    const struct h2_conn *c = conn_of(base->conn);

    if (c->life.dead) {
        return st->mark_wire > 0 && c->written >= st->mark_wire;
    }
    return st->mark_wire > 0 ||
           (base->out.mark > 0 && base->out.total + base->out.promised >= base->out.mark);
}

void stream_refuse(struct h2_stream *st, const char *http_status)
{
    struct h2_conn *c = h2_conn_of(st);
    nghttp2_nv nv[1] = { text_nv(":status", 7, http_status, strlen(http_status),
                                 NGHTTP2_NV_FLAG_NO_COPY_NAME) };

    /* Broken by h2_recv.c, if it refused a request after it had been handed over. */
    assert(st->base.server && !st->base.headers_out);
    st->base.end_wanted = st->base.headers_out = true;
    if (is_live(st)) {
        conn_submitted(c, nghttp2_submit_response(c->session, st->id, nv, 1, NULL));
    }
    rpc_stream_finish(&st->base, GRPC_OK, NULL);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static const struct rpc_stream_ops stream_ops = { .send = h2_stream_send,
                                                  .is_sent = h2_stream_is_sent,
                                                  .go_on = h2_stream_go_on,
                                                  .has_to_go_on = h2_stream_has_to_go_on,
                                                  .has_rest = h2_stream_has_rest,
                                                  .drop_kept = keep_none,
                                                  .cancel = h2_stream_cancel,
                                                  .over = h2_stream_over };

struct h2_stream *stream_create(struct h2_conn *c, int32_t id)
{
    struct h2_stream *st = alloc_zeroed(sizeof(*st));

    if (st) {
        stream_init(&st->base, &stream_ops, &c->life);
        st->h = c->h;
        st->id = id;
    }
    return st;
}

static int32_t stream_submit(struct h2_stream *st, const struct rpc_call *call)
{
    struct h2_conn *c = h2_conn_of(st);
    nghttp2_data_provider provider = { .source.ptr = st, .read_callback = on_read };
    char timeout[24];
    nghttp2_nv nv[10] = {
        NAME_VALUE(":method", "POST"),
        text_nv(":scheme", 7, c->tls ? "https" : "http", c->tls ? 5 : 4, STATIC_NV),
        text_nv(":path", 5, call->path, strlen(call->path), NGHTTP2_NV_FLAG_NO_COPY_NAME),
        text_nv(":authority", 10, c->authority, strlen(c->authority), STATIC_NV),
        NAME_VALUE("te", "trailers"),
        NAME_VALUE("content-type", "application/grpc"),
        NAME_VALUE("user-agent", "fnd/" FND_VERSION),
    };
    size_t n = 7;

    if (call->deadline_ns) {
        text_timeout(call->deadline_ns - env_now_ns(st->base.env), timeout);
        nv[n++] = text_nv("grpc-timeout", 12, timeout, strlen(timeout), VARYING_NV);
    }
    if (call->request_id && rpc_is_printable(call->request_id)) {
        nv[n++] = text_nv("fn_request_id", 13, call->request_id, strlen(call->request_id),
                          VARYING_NV);
    }
    return nghttp2_submit_request(c->session, NULL, nv, n, &provider, st);
}

struct rpc_stream *h2_stream_open(struct rpc_conn *life, const struct rpc_call *call,
                                  const struct rpc_stream_cb *cb, void *ud)
{
    struct h2_conn *c = conn_of(life);
    struct h2_stream *st = stream_create(c, 0);

    if (!st) {
        return NULL;
    }
    st->id = stream_submit(st, call);
    if (st->id < 0) {
        stream_drop(&st->base);
        return NULL;
    }
    rpc_stream_adopt(&st->base, cb, ud, call->low_mark);
    if (call->deadline_ns) {
        stream_set_deadline(&st->base, call->deadline_ns);
    }
    conn_ids_used(c, st->id);
    conn_touch(c);
    return &st->base;
}
