/* What nghttp2 tells about a connection, and the limits on what a peer may do. */
#include <rpc/nghttp2/h2_int.h>

#include <base/log.h>
#include <stdio.h>
#include <string.h>

/* ---- limits ---------------------------------------------------------------------------------- */

static int calm(struct h2_conn *c, const char *why)
{
    char peer[64];

    if (!c->life.dead && !c->life.calmed) {
        c->life.calmed = true;
        snprintf(peer, sizeof(peer), "%s", net_io_peer(c->life.io));
        nghttp2_session_terminate_session(c->session, NGHTTP2_ENHANCE_YOUR_CALM);
        conn_touch(c);
        rpc_log_calm(peer, why);
    }
    return 0;
}

/* An owner closed the connection inside of a callback: its streams are gone, nghttp2 must stop. */
static int go_on(const struct h2_conn *c)
{
    return c->life.doomed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *ud)
{
    struct h2_conn *c = ud;

    (void)session;
    switch (hd->type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_WINDOW_UPDATE:
        return 0;
    case NGHTTP2_RST_STREAM:
        return life_too_many_resets(&c->life) ? calm(c, "resets") : 0;
    case NGHTTP2_PING:
        return life_too_many_pings(&c->life) ? calm(c, "control frames") : 0;
    case NGHTTP2_DATA:
        if (hd->length > 0 || hd->flags & NGHTTP2_FLAG_END_STREAM) {
            return 0;
        }
        /* fall through */
    default:
        return life_too_many_controls(&c->life) ? calm(c, "control frames") : 0;
    }
}

/* ---- headers --------------------------------------------------------------------------------- */

static struct h2_stream *stream_at(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct h2_conn *c = ud;
    struct h2_stream *st;

    memset(&c->head, 0, offsetof(struct h2_head, call));
    c->head.call.path[0] = c->head.call.request_id[0] = c->head.message[0] = '\0';
    c->head.grpc_status = -1;
    if (!c->life.server || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    st = stream_create(c, frame->hd.stream_id);
    if (!st) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, st);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *ud)
{
    struct h2_conn *c = ud;

    (void)session;
    (void)frame;
    (void)flags;
    head_take(&c->head, name, name_len, value, len);
    if (c->head.bytes > RPC_HEADERS_BREAK_BYTES) {
        calm(c, "headers");
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return 0;
}

static void recv_on_request(struct h2_conn *c, struct h2_stream *st)
{
    const struct h2_head *head = &c->head;

    st->headers_in = true;
    if (!life_serves(&c->life, (uint32_t)st->id)) {
        rpc_stream_abort(&st->base, GRPC_UNAVAILABLE, "shutting down");
    } else if (head->too_big) {
        rpc_stream_abort(&st->base, GRPC_EXHAUSTED, "RUN402 headers are larger than 32 KiB");
    } else if (!head->is_post) {
        stream_refuse(st, "405");
    } else if (!head->is_grpc) {
        stream_refuse(st, "415");
    } else if (head->encoded) {
        rpc_stream_abort(&st->base, GRPC_UNIMPLEMENTED, "messages are compressed; expected identity");
    } else {
        if (head->timeout_ns > 0) {
            stream_set_deadline(&st->base, env_now_ns(c->h->base.env) + head->timeout_ns);
        }
        c->life.cb->request(c->life.ud, &st->base, &head->call);
    }
}

/* A peer that goes on would hold its stream, and a place among those it allows, for ever. */
static void answer_is_bad(struct h2_stream *st, bool last, int status, const char *text)
{
    if (last) {
        stream_over(&st->base, status, text, false);
    } else {
        stream_fail(&st->base, status, text);
    }
}

static void on_answer(struct h2_conn *c, struct h2_stream *st, bool last)
{
    const struct h2_head *head = &c->head;
    char text[64];

    if (head->http_status / 100 == 1 || st->base.over) {
        return;
    }
    if (!st->headers_in) {
        st->headers_in = true;
        st->http_status = head->http_status;
        st->base.answered = !last;
    }
    if (head->too_big) {
        answer_is_bad(st, last, GRPC_EXHAUSTED, "headers of the answer are larger than 32 KiB");
    } else if (last && head->grpc_status >= 0) {
        stream_over(&st->base, head->grpc_status, head->message, false);
    } else if (st->http_status != 200) {
        snprintf(text, sizeof(text), "HTTP status %d instead of a gRPC answer", st->http_status);
        answer_is_bad(st, last, text_status_of_http(st->http_status), text);
    } else if (last) {
        stream_over(&st->base, GRPC_INTERNAL, "the stream ended without grpc-status", false);
    } else if (!head->is_grpc) {
        answer_is_bad(st, last, GRPC_UNKNOWN, "the answer is not application/grpc");
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void on_half(struct h2_stream *st)
{
    stream_enter(&st->base);
    st->base.half = true;
    stream_deliver_ends(&st->base);
    stream_leave(&st->base);
}

static void on_headers(struct h2_conn *c, nghttp2_session *session, const nghttp2_frame *frame)
{
    struct h2_stream *st = stream_at(session, frame->hd.stream_id);
    bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    if (!st) {
        return;
    }
    if (!c->life.server) {
        on_answer(c, st, last);
        return;
    }
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        recv_on_request(c, st);
        if (c->life.doomed) {
            return;
        }
    }
    if (st && last) {
        on_half(st);
    }
}

static void on_data_end(struct h2_conn *c, nghttp2_session *session, int32_t id)
{
    struct h2_stream *st = stream_at(session, id);

    if (st && c->life.server) {
        on_half(st);
    } else if (st && !st->base.over) {
        stream_over(&st->base, GRPC_INTERNAL, "the stream ended without grpc-status", false);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct h2_conn *c = ud;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        on_headers(c, session, frame);
        break;
    case NGHTTP2_DATA:
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
            on_data_end(c, session, frame->hd.stream_id);
        }
        break;
    case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            life_settings(&c->life);
        }
        break;
    case NGHTTP2_GOAWAY:
        if (!c->life.server) {
            life_going(&c->life);
        }
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
            life_drain_heard(&c->life);
        }
        break;
    default:
        break;
    }
    return go_on(c);
}

static int recv_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                        size_t len, void *ud)
{
    struct h2_stream *st = stream_at(session, id);

    (void)flags;
    nghttp2_session_consume_connection(session, len);
    if (st) {
        stream_input(st, data, len);
    } else {
        nghttp2_session_consume_stream(session, id, len);
    }
    return go_on(ud);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *ud)
{
    struct h2_stream *st = stream_at(session, id);
    char text[96] = "";

    if (!st) {
        return 0;
    }
    st->id = 0;
    if (!st->base.over) {
        if (st->base.cb) { /* else nobody hears of it: a server's stream that ended well */
            snprintf(text, sizeof(text), "the stream was reset: %s", nghttp2_http2_strerror(code));
        }
        stream_over(&st->base, text_status_of_reset(code), text, code == NGHTTP2_REFUSED_STREAM);
    }
    if (!((struct h2_conn *)ud)->life.doomed) {
        stream_forget(&st->base);
    }
    return go_on(ud);
}

static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int code, void *ud)
{
    struct h2_conn *c = ud;
    struct rpc_stream *base;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    LIST_FOREACH(base, &c->life.streams, entry) {
        struct h2_stream *st = stream_of(base);

        if (st->id == frame->hd.stream_id) {
            nghttp2_session_set_stream_user_data(session, st->id, NULL);
            st->id = 0;
            stream_over(&st->base, GRPC_UNAVAILABLE, nghttp2_strerror(code), true);
            if (!c->life.doomed) {
                stream_forget(&st->base);
            }
            break;
        }
    }
    return go_on(c);
}

/* A server that has answered before the client's side ended says that it needs no more of it. */
static int recv_on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct h2_conn *c = ud;

    if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) {
        c->life.said = true;
    }
    if (c->life.server && frame->hd.type == NGHTTP2_HEADERS &&
        frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0) {
        conn_submitted(c, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE,
                                                    frame->hd.stream_id, NGHTTP2_NO_ERROR));
    }
    return 0;
}

/* The bytes that stream_provide() promised. nghttp2 asks for one frame after the other without
 * coming back to produce(): behind the last there is still room for a piece of its own. */
static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *frame_head,
                        size_t len, nghttp2_data_source *source, void *ud)
{
    struct h2_conn *c = ud;
    struct h2 *h = c->h;

    (void)session;
    (void)frame;
    if (h->out_len + 9 + len > H2_OUT_BYTES - H2_FRAME_MAX) {
        c->out_full = true;
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    memcpy(h->out + h->out_len, frame_head, 9);
    c->produced += 9 + len;
    stream_take(source->ptr, h->out + h->out_len + 9, len, c->produced);
    h->out_len += 9 + len;
    return 0;
}

nghttp2_session_callbacks *recv_callbacks(void)
{
    nghttp2_session_callbacks *cb;

    if (nghttp2_session_callbacks_new(&cb) != 0) {
        return NULL;
    }
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, recv_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_not_sent);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, recv_on_sent);
    nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
    return cb;
}
