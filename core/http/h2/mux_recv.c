/* What nghttp2 tells about a connection, and the limits on what a client may do. */
#include <http/h2/mux_int.h>

#include <string.h>

/* ---- limits --------------------------------------------------------------------------------- */

/* Whether it is one too many in a second. */
static bool counts_too_many(const struct mux *m, struct mux_rate *rate, int64_t max)
{
    int64_t now = mux_now_ns(m);

    if (now - rate->since_ns >= ENV_S) {
        *rate = (struct mux_rate){ .since_ns = now };
    }
    return ++rate->n > max;
}

static void count_control(struct mux *m)
{
    if (counts_too_many(m, &m->controls, MUX_CONTROLS_MAX)) {
        mux_calm(m, "control frames");
    }
}

/* Streams behind the last one are none that run: whoever sent them before he read our GOAWAY is
 * right to reset them. */
static void count_reset(struct mux *m, int32_t id)
{
    int64_t max = MUX_RESETS_PER_STREAM * m->streams_max;

    if (m->state == MUX_PARTED && id > m->last_id) {
        count_control(m);
    } else if (counts_too_many(m, &m->resets, max < MUX_RESETS_MIN ? MUX_RESETS_MIN : max)) {
        mux_calm(m, "resets");
    }
}

/* A client that opens its window by a few bytes whenever it is closed makes us send as few in each
 * frame. */
static void on_window(struct mux *m, const nghttp2_window_update *w)
{
    int32_t id = w->hd.stream_id;
    int64_t window = id == 0 ? nghttp2_session_get_remote_window_size(m->session)
                             : nghttp2_session_get_stream_remote_window_size(m->session, id);

    if (w->window_size_increment < MUX_SMALL_WINDOW && window < MUX_SMALL_WINDOW) {
        count_control(m);
    }
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *ud)
{
    struct mux *m = ud;

    (void)session;
    if (hd->type != NGHTTP2_CONTINUATION) {
        mux_wait(m, WAIT_BLOCK, 0); /* the one before is complete, or was refused */
    }
    switch (hd->type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_WINDOW_UPDATE:
        break;
    case NGHTTP2_RST_STREAM:
        count_reset(m, hd->stream_id);
        break;
    case NGHTTP2_DATA:
        if (hd->length > 0 || hd->flags & NGHTTP2_FLAG_END_STREAM) {
            break;
        }
        /* fall through */
    default:
        count_control(m);
        break;
    }
    return 0;
}

/* ---- headers -------------------------------------------------------------------------------- */

static struct mux_stream *mux_stream_at(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* Each stream has its turn, whatever the client thinks of priorities. */
static void rank_as_all(nghttp2_session *session, int32_t id)
{
    const nghttp2_extpri same = { .urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1 };

    nghttp2_session_change_extpri_stream_priority(session, id, &same, 1);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct mux *m = ud;
    int32_t id = frame->hd.stream_id;
    struct mux_stream *st = NULL;

    if (m->calmed) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        st = m->state < MUX_PARTED ? mux_stream_create(m, id) : NULL;
        if (!st) {
            mux_submitted(m, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                                       NGHTTP2_REFUSED_STREAM));
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
        nghttp2_session_set_stream_user_data(session, id, st);
        rank_as_all(session, id);
    }
    mux_head_begin(&m->head, st, id);
    mux_wait(m, WAIT_BLOCK, mux_after(m, m->s->config.limits.header_timeout_ns));
    return 0;
}

static int take_field(struct mux *m, const uint8_t *name, size_t name_len, const uint8_t *value,
                      size_t len, bool legal)
{
    mux_head_add(m, (const char *)name, name_len, (const char *)value, len, legal);
    if (m->head.list_bytes > MUX_LIST_BREAK_BYTES) {
        mux_calm(m, "bytes of headers");
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return 0;
}

static int recv_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *ud)
{
    (void)session;
    (void)frame;
    (void)flags;
    return take_field(ud, name, name_len, value, len, true);
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_len, const uint8_t *value,
                             size_t len, uint8_t flags, void *ud)
{
    (void)session;
    (void)frame;
    (void)flags;
    return take_field(ud, name, name_len, value, len, false);
}

/* ---- frames --------------------------------------------------------------------------------- */

static void recv_on_headers(struct mux *m, nghttp2_session *session, const nghttp2_frame *frame)
{
    struct mux_stream *st = mux_stream_at(session, frame->hd.stream_id);
    bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    mux_wait(m, WAIT_BLOCK, 0);
    if (st && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        mux_stream_on_head(st, last);
    } else if (st && last) {
        mux_stream_on_end(st); /* trailers */
    }
}

static int recv_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct mux *m = ud;
    bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct mux_stream *st;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        recv_on_headers(m, session, frame);
        break;
    case NGHTTP2_DATA:
        st = mux_stream_at(session, frame->hd.stream_id);
        if (st && last) {
            mux_stream_on_end(st);
        }
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK && m->state == MUX_PARTING) {
            mux_part_now(m); /* it has read the GOAWAY in front of the ping */
        }
        break;
    case NGHTTP2_GOAWAY:
        m->left = true;
        mux_touch(m);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        on_window(m, &frame->window_update);
        break;
    default:
        break;
    }
    return 0;
}

static int recv_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                        size_t len, void *ud)
{
    struct mux_stream *st = mux_stream_at(session, id);

    (void)flags;
    (void)ud;
    if (st) {
        mux_stream_on_data(st, (const char *)data, len);
    }
    return 0;
}

static int recv_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *ud)
{
    struct mux *m = ud;
    struct mux_stream *st = mux_stream_at(session, id);

    (void)code;
    if (m->head.id == id) {
        mux_wait(m, WAIT_BLOCK, 0);
    }
    if (st) {
        nghttp2_session_set_stream_user_data(session, id, NULL);
        mux_stream_gone(st);
    }
    return 0;
}

/* A stream that is reset because of what the client sent costs as much as one that it resets. */
static bool is_its_fault(uint32_t code)
{
    return code != NGHTTP2_NO_ERROR && code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_CANCEL;
}

static int recv_on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct mux *m = ud;
    int32_t id = frame->hd.stream_id;
    struct mux_stream *st;

    if (frame->hd.type == NGHTTP2_GOAWAY) {
        m->terminated = m->terminated || frame->goaway.error_code != NGHTTP2_NO_ERROR;
    } else if (frame->hd.type == NGHTTP2_RST_STREAM) {
        if (is_its_fault(frame->rst_stream.error_code)) {
            count_reset(m, id);
        }
    } else if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
               frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
               nghttp2_session_get_stream_remote_close(session, id) == 0) {
        st = mux_stream_at(session, id);
        if (st) {
            mux_stream_linger(st); /* answered before all of the request came */
        }
    }
    return 0;
}

nghttp2_session_callbacks *mux_callbacks(void)
{
    nghttp2_session_callbacks *cb;

    if (nghttp2_session_callbacks_new(&cb) != 0) {
        return NULL;
    }
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, recv_on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(cb, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, recv_on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, recv_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, recv_on_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, recv_on_sent);
    return cb;
}
