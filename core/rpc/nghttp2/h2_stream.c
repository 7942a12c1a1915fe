/* Streams: gRPC's framing on an HTTP/2 stream.
 *
 * Receiving: a message that lies whole in what was read is handed over in place; otherwise, and
 * while the stream is paused, bytes are kept in `in`. It is bounded by the limit of a message, with
 * which the length prefix is compared before memory is taken, by the stream's window, which is not
 * given back while the stream is paused, and by the memory that all streams share.
 *
 * Sending: messages are appended to `out` and taken from it when nghttp2 asks for DATA, straight
 * into the connection's output.
 *
 * The end as the owner sees it is in order behind the messages at a client; a server's owner hears
 * at once that its peer is gone. */
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

static void keep_none(struct h2_stream *st)
{
    st->h->held_bytes -= st->in.len;
    buf_finish(&st->in);
}

static void stream_maybe_free(struct h2_stream *st)
{
    if (st->cb || st->conn || st->entered > 0) {
        return;
    }
    env_undefer(st->h->env, &st->task);
    env_timer_clear(st->h->env, &st->deadline);
    keep_none(st);
    buf_finish(&st->base.out.bytes);
    free(st->text);
    free(st->end_text);
    free(st);
}

static void stream_enter(struct h2_stream *st)
{
    st->entered++;
}

static void stream_leave(struct h2_stream *st)
{
    st->entered--;
    stream_maybe_free(st);
}

static void reset(struct h2_stream *st, uint32_t code)
{
    struct h2_conn *c = st->conn;

    if (c && !c->life.dead && st->id > 0) {
        conn_submitted(c, nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, st->id, code));
    }
}

/* nghttp2 does not know it any more. */
static void detach(struct h2_stream *st, bool was_sent)
{
    struct h2_conn *c = st->conn;

    LIST_REMOVE(st, entry);
    c->life.streams_n--;
    st->conn = NULL;
    st->was_sent = was_sent;
    env_timer_clear(st->h->env, &st->deadline);
    if (!st->cb) {
        env_undefer(st->h->env, &st->task);
    }
}

void stream_forgotten(struct h2_stream *st)
{
    struct h2_conn *c = st->conn;

    detach(st, h2_stream_is_sent(&st->base));
    life_idle(&c->life);
    stream_maybe_free(st);
}

void stream_orphan(struct h2_stream *st, const char *why)
{
    stream_enter(st);
    detach(st, h2_stream_is_sent(&st->base));
    stream_over(st, GRPC_UNAVAILABLE, why, false);
    stream_leave(st);
}

void stream_drop(struct h2_stream *st)
{
    st->cb = NULL;
    detach(st, h2_stream_is_sent(&st->base));
    stream_maybe_free(st);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* In order behind the messages; an owner that reads nothing at the moment, or whose task has yet to
 * hand over what was kept, hears of it later, a server's at once. */
static void stream_tell_end(struct h2_stream *st)
{
    if (!st->over || st->told || !st->cb || st->delivering ||
        (!st->server && (st->paused || st->task.queued))) {
        return;
    }
    st->told = true;
    keep_none(st);
    st->cb->ended(st->ud, st->status, st->text ? st->text : "", st->refused);
}

void stream_over(struct h2_stream *st, int status, const char *text, bool refused)
{
    bool local_open;

    if (st->over) {
        return;
    }
    stream_enter(st);
    st->over = true;
    st->status = status;
    st->refused = refused;
    free(st->text);
    st->text = text[0] ? strdup(text) : NULL;
    env_timer_clear(st->h->env, &st->deadline);
    local_open = st->conn && !st->conn->life.dead && st->id > 0 &&
                 nghttp2_session_get_stream_local_close(st->conn->session, st->id) == 0;
    if (!st->server && local_open) {
        reset(st, NGHTTP2_NO_ERROR);
    }
    stream_tell_end(st);
    stream_leave(st);
}

void stream_fail(struct h2_stream *st, int status, const char *text)
{
    stream_enter(st);
    keep_none(st);
    st->paused = false;
    if (st->server) {
        const struct rpc_stream_cb *cb = st->cb;

        st->cb = NULL;
        h2_stream_abort(&st->base, status, text);
        st->cb = cb;
    } else {
        reset(st, NGHTTP2_CANCEL);
    }
    stream_over(st, status, text, false);
    stream_leave(st);
}

static void stream_on_deadline(struct env_timer *t)
{
    struct h2_stream *st = container_of(t, struct h2_stream, deadline);

    stream_enter(st);
    reset(st, NGHTTP2_CANCEL);
    keep_none(st); /* of a paused one, too: its answer will not be whole */
    st->paused = false;
    stream_over(st, GRPC_DEADLINE, "deadline exceeded", false);
    stream_leave(st);
}

void stream_set_deadline(struct h2_stream *st, int64_t deadline_ns)
{
    st->deadline_ns = deadline_ns;
    env_timer_set(st->h->env, &st->deadline, deadline_ns);
}

void h2_stream_close(struct rpc_stream *base)
{
    struct h2_stream *st = stream_of(base);

    /* Broken by an owner in core/rpc that closes a stream twice. */
    assert(st->cb);
    stream_enter(st);
    st->cb = NULL;
    env_undefer(st->h->env, &st->task);
    if (!st->over) {
        reset(st, NGHTTP2_CANCEL);
    }
    if (!st->delivering) {
        keep_none(st);
    }
    stream_leave(st);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void give_window_back(struct h2_stream *st)
{
    struct h2_conn *c = st->conn;

    if (st->unconsumed > 0 && c && !c->life.dead && st->id > 0) {
        nghttp2_session_consume_stream(c->session, st->id, st->unconsumed);
        conn_touch(c);
    }
    st->unconsumed = 0;
}

static bool listens(const struct h2_stream *st)
{
    return st->cb && !st->paused && !st->told && !(st->server && st->over);
}

/* The length of the message that begins at `data`, or the reason against it. */
static bool check_prefix(struct h2_stream *st, const unsigned char *data, uint32_t *ret)
{
    uint32_t max = st->h->limits.message_max_bytes;
    uint32_t n = (uint32_t)data[1] << 24 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 8 |
                 data[4];
    char text[96];

    if (data[0] != 0) {
        stream_fail(st, GRPC_INTERNAL, "RUN403 a message is compressed; expected identity");
        return false;
    }
    if (n > max) {
        snprintf(text, sizeof(text), "RUN402 received message larger than max (%u vs. %u)", n, max);
        stream_fail(st, GRPC_EXHAUSTED, text);
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

    while (listens(st) && len - off >= RPC_PREFIX_BYTES) {
        if (!check_prefix(st, data + off, &n)) {
            return len;
        }
        if (len - off - RPC_PREFIX_BYTES < n) {
            break;
        }
        off += RPC_PREFIX_BYTES + n;
        st->cb->message(st->ud, data + off - n, n);
    }
    return off;
}

static void stream_keep(struct h2_stream *st, const unsigned char *data, size_t len)
{
    struct h2 *h = st->h;

    if (h->held_bytes + len > h->limits.memory_max_bytes) {
        stream_fail(st, GRPC_EXHAUSTED, RPC_TOO_MUCH_HELD);
    } else if (buf_add(&st->in, data, len) < 0) {
        stream_fail(st, GRPC_EXHAUSTED, "out of memory");
    } else {
        h->held_bytes += len;
    }
}

/* Behind the messages: the peer's half-close and its end. */
static void deliver_ends(struct h2_stream *st)
{
    if (st->half && !st->half_told && !st->task.queued && listens(st)) {
        st->half_told = true;
        if (st->in.len > 0) {
            stream_fail(st, GRPC_INTERNAL, "the stream ended inside of a message");
        } else if (st->cb->half_closed) {
            st->cb->half_closed(st->ud);
        }
    }
    stream_tell_end(st);
}

static void deliver_kept(struct h2_stream *st)
{
    /* Apart, so that the bytes stay where they are whatever the owner does. */
    struct buf all = st->in;
    size_t taken;

    if (all.len == 0 || !listens(st)) {
        return;
    }
    st->in = BUF_INIT(0);
    st->delivering = true;
    taken = stream_deliver(st, (const unsigned char *)all.data, all.len);
    st->delivering = false;
    st->h->held_bytes -= taken;
    buf_consume(&all, taken);
    st->in = all;
    if (!st->cb || st->in.len == 0) {
        keep_none(st);
    }
}

void stream_input(struct h2_stream *st, const unsigned char *data, size_t len)
{
    size_t taken = 0;

    st->unconsumed += (uint32_t)len;
    if (!st->cb || st->over) {
        give_window_back(st);
        return;
    }
    stream_enter(st);
    if (st->in.len == 0) {
        st->delivering = true;
        taken = stream_deliver(st, data, len);
        st->delivering = false;
    }
    if (taken < len && st->cb && !st->over) {
        stream_keep(st, data + taken, len - taken);
        deliver_kept(st);
    }
    if (!st->paused) {
        give_window_back(st);
    }
    stream_tell_end(st);
    stream_leave(st);
}

void stream_half(struct h2_stream *st)
{
    stream_enter(st);
    st->half = true;
    deliver_ends(st);
    stream_leave(st);
}

void h2_stream_pause(struct rpc_stream *base, bool paused)
{
    struct h2_stream *st = stream_of(base);

    st->paused = paused;
    if (!paused && !st->delivering &&
        (st->in.len > 0 || st->unconsumed > 0 || (st->half && !st->half_told) ||
         (st->over && !st->told))) {
        env_defer(st->h->env, &st->task);
    }
}

/* After a pause, and when the owner may send again. */
static void stream_on_task(struct env_task *t)
{
    struct h2_stream *st = container_of(t, struct h2_stream, task);

    stream_enter(st);
    deliver_kept(st);
    if (!st->paused) {
        give_window_back(st);
    }
    deliver_ends(st);
    if (rpc_out_is_low(&st->base) && st->cb && !st->over) {
        st->base.out.was_full = false;
        if (st->cb->writable) {
            st->cb->writable(st->ud);
        }
    }
    stream_leave(st);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* DATA of which so much is ready; nghttp2 asks stream_take() for it. */
ssize_t stream_provide(struct h2_stream *st, size_t room, uint32_t *flags)
{
    size_t ready = rpc_stream_queued(&st->base);
    size_t n = ready < room ? ready : room;

    if (n == 0 && !st->end_wanted) {
        st->asleep = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    st->promised = n;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == ready && st->end_wanted) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | (st->server ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0);
    }
    return (ssize_t)n;
}

void stream_take(struct h2_stream *st, unsigned char *to, size_t len, uint64_t produced)
{
    memcpy(to, rpc_out_next(&st->base), len);
    rpc_out_take(&st->base, len);
    st->promised = 0;
    if (rpc_out_is_marked(&st->base) && st->mark_wire == 0) {
        st->mark_wire = produced - (st->base.out.total - st->base.out.mark);
    }
    if (rpc_out_is_low(&st->base) && st->cb) {
        env_defer(st->h->env, &st->task);
    }
}

/* grpc-status and, when there is a text, grpc-message; how many. */
static size_t status_headers(const struct h2_stream *st, nghttp2_nv nv[2], char code[16],
                             char text[3 * TEXT_MAX])
{
    size_t n = 0;

    if (st->end_status == GRPC_OK) {
        memcpy(code, "0", 2);
    } else {
        snprintf(code, 16, "%d", st->end_status);
    }
    nv[n++] = text_nv("grpc-status", 11, code, strlen(code), NGHTTP2_NV_FLAG_NO_COPY_NAME);
    if (st->end_text) {
        text_percent_encode(st->end_text, text, 3 * TEXT_MAX);
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
    if (st->server && n >= 0 && *flags & NGHTTP2_DATA_FLAG_EOF) {
        char code[16], text[3 * TEXT_MAX];
        nghttp2_nv nv[2];

        if (nghttp2_submit_trailer(session, id, nv, status_headers(st, nv, code, text)) < 0) {
            return NGHTTP2_ERR_CALLBACK_FAILURE; /* the peer would wait for it */
        }
    }
    return n;
}

static bool is_live(const struct h2_stream *st)
{
    return st->conn && !st->conn->life.dead;
}

/* Response headers; with the status when there is nothing else to send. */
static void send_headers(struct h2_stream *st)
{
    nghttp2_data_provider provider = { .source.ptr = st, .read_callback = on_read };
    bool only = st->end_wanted && rpc_stream_queued(&st->base) == 0;
    nghttp2_nv nv[4] = { NAME_VALUE(":status", "200"),
                         NAME_VALUE("content-type", "application/grpc") };
    char code[16], text[3 * TEXT_MAX];
    size_t n = 2;

    if (only) {
        n += status_headers(st, nv + 2, code, text);
    }
    st->headers_out = true;
    conn_submitted(st->conn, nghttp2_submit_response(st->conn->session, st->id, nv, n,
                                                     only ? NULL : &provider));
}

/* There is more to send, or the end. */
static void send_more(struct h2_stream *st)
{
    if (!is_live(st)) {
        return;
    }
    if (st->server && !st->headers_out) {
        send_headers(st);
    } else if (st->asleep) {
        st->asleep = false;
        nghttp2_session_resume_data(st->conn->session, st->id);
    }
    conn_touch(st->conn);
}

void h2_stream_wrote(struct rpc_stream *base)
{
    send_more(stream_of(base));
}

/* What is produced and not written yet goes out as long as the connection lives. */
bool h2_stream_is_sent(const struct rpc_stream *base)
{
    const struct h2_stream *st = stream_of(base);
    const struct h2_conn *c = st->conn;

    if (!c) {
        return st->was_sent;
    }
    return st->mark_wire > 0 && (!c->life.dead || c->written >= st->mark_wire);
}

bool h2_stream_is_answered(const struct rpc_stream *base)
{
    return stream_of(base)->answered;
}

void h2_stream_half_close(struct rpc_stream *base)
{
    struct h2_stream *st = stream_of(base);

    st->end_wanted = true;
    send_more(st);
}

void h2_stream_finish(struct rpc_stream *base, int status, const char *text)
{
    struct h2_stream *st = stream_of(base);

    stream_enter(st);
    st->cb = NULL;
    env_undefer(st->h->env, &st->task);
    if (!st->end_wanted) {
        st->end_wanted = true;
        st->end_status = status;
        st->end_text = text && text[0] ? strdup(text) : NULL;
        send_more(st);
    }
    stream_leave(st);
}

void h2_stream_abort(struct rpc_stream *base, int status, const char *text)
{
    struct h2_stream *st = stream_of(base);

    base->out.bytes.len = base->out.taken + st->promised; /* that frame's header may be out */
    h2_stream_finish(base, status, text);
}

void stream_refuse(struct h2_stream *st, const char *http_status)
{
    nghttp2_nv nv[1] = { text_nv(":status", 7, http_status, strlen(http_status),
                                 NGHTTP2_NV_FLAG_NO_COPY_NAME) };

    /* Broken by h2_recv.c, if it refused a request after it had been handed over. */
    assert(st->server && !st->headers_out);
    st->end_wanted = st->headers_out = true;
    if (is_live(st)) {
        conn_submitted(st->conn,
                       nghttp2_submit_response(st->conn->session, st->id, nv, 1, NULL));
    }
    h2_stream_finish(&st->base, GRPC_OK, NULL);
}

/* ---- the beginning --------------------------------------------------------------------------- */

struct h2_stream *stream_create(struct h2_conn *c, int32_t id)
{
    struct h2_stream *st = alloc_zeroed(sizeof(*st));

    if (st) {
        st->base.transport = &rpc_transport_nghttp2;
        st->h = c->h;
        st->conn = c;
        st->id = id;
        st->server = c->life.server;
        st->task.cb = stream_on_task;
        st->deadline.cb = stream_on_deadline;
        LIST_INSERT_HEAD(&c->streams, st, entry);
        c->life.streams_n++;
    }
    return st;
}

void h2_stream_adopt(struct rpc_stream *base, const struct rpc_stream_cb *cb, void *ud,
                     size_t low_mark)
{
    struct h2_stream *st = stream_of(base);

    st->cb = cb;
    st->ud = ud;
    base->out.low_mark = low_mark;
}

static int32_t stream_submit(struct h2_stream *st, const struct rpc_call *call)
{
    struct h2_conn *c = st->conn;
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
        text_timeout(call->deadline_ns - env_now_ns(st->h->env), timeout);
        nv[n++] = text_nv("grpc-timeout", 12, timeout, strlen(timeout), VARYING_NV);
    }
    if (call->request_id && rpc_is_printable(call->request_id)) {
        nv[n++] = text_nv("fn_request_id", 13, call->request_id, strlen(call->request_id),
                          VARYING_NV);
    }
    return nghttp2_submit_request(c->session, NULL, nv, n, &provider, st);
}

struct rpc_stream *h2_stream_open(struct rpc_conn *base, const struct rpc_call *call,
                                  const struct rpc_stream_cb *cb, void *ud)
{
    struct h2_conn *c = conn_of(base);
    struct h2_stream *st = stream_create(c, 0);

    /* Broken by core/rpc: it asks in the same turn, in which no GOAWAY can come. */
    assert(rpc_conn_takes_calls(base));
    if (!st) {
        return NULL;
    }
    st->id = stream_submit(st, call);
    if (st->id < 0) {
        stream_drop(st);
        return NULL;
    }
    h2_stream_adopt(&st->base, cb, ud, call->low_mark);
    if (call->deadline_ns) {
        stream_set_deadline(st, call->deadline_ns);
    }
    conn_ids_used(c, st->id);
    conn_touch(c);
    return &st->base;
}

int64_t h2_stream_deadline_ns(const struct rpc_stream *base)
{
    const struct h2_stream *st = stream_of(base);

    return st->deadline_ns;
}

const struct net_io *h2_stream_io(const struct rpc_stream *base)
{
    const struct h2_stream *st = stream_of(base);

    return st->conn ? st->conn->io : NULL;
}
