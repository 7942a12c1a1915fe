/* HTTP/2, by nghttp2's client: one stream at a time on a connection that is kept. */
#include "front_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *ud)
{
    struct front_call *c = ud;
    char text[OUTCOME_BYTES];

    (void)s;
    (void)flags;
    if (frame->hd.stream_id != c->stream) {
        return 0;
    }
    snprintf(text, sizeof(text), "%.*s", (int)len, (const char *)value);
    if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
        c->status = atoi(text);
    } else if (name_len == 10 && memcmp(name, "fn-outcome", 10) == 0) {
        memcpy(c->outcome, text, sizeof(text));
    }
    return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *ud)
{
    struct front_call *c = ud;

    (void)s;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->keep = false;
    }
    if (frame->hd.stream_id != c->stream || c->stream == 0) {
        return 0;
    }
    if (frame->hd.type == NGHTTP2_HEADERS && c->status / 100 != 1 && !c->headed) {
        front_head(c, c->status);
    }
    c->whole |= (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t len, void *ud)
{
    struct front_call *c = ud;

    (void)s;
    (void)flags;
    if (stream == c->stream) {
        front_body(c, c->status, (const char *)data, len);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *s, int32_t stream, uint32_t code, void *ud)
{
    struct front_call *c = ud;

    (void)s;
    if (stream == c->stream) {
        c->stream = 0;
        c->ended = true;
        c->how = code == NGHTTP2_NO_ERROR && c->whole ? FRONT_WHOLE
                 : c->headed                          ? FRONT_CUT
                                                      : FRONT_LOST;
    }
    return 0;
}

static nghttp2_session_callbacks *callbacks(void)
{
    static nghttp2_session_callbacks *cb;

    if (!cb && nghttp2_session_callbacks_new(&cb) == 0) {
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    }
    return cb;
}

static ssize_t read_body(nghttp2_session *s, int32_t stream, uint8_t *to, size_t cap,
                         uint32_t *flags, nghttp2_data_source *source, void *ud)
{
    struct front_call *c = ud;
    size_t left = c->body.len - c->body_sent, n = left < cap ? left : cap;

    (void)s;
    (void)source;
    if (stream != c->stream) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* of a request that was left */
    }
    memcpy(to, c->body.data + c->body_sent, n);
    c->body_sent += n;
    *flags |= c->body_sent == c->body.len ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)n;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
                         .value = (uint8_t *)(uintptr_t)value,
                         .namelen = strlen(name),
                         .valuelen = strlen(value) };
}

/* What it has to say goes into `plain`. */
static void h2_put(struct front_call *c)
{
    const uint8_t *data;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(c->h2, &data)) > 0) {
        buf_add(&c->plain, data, (size_t)n);
    }
}

void h2_begin(struct front_call *c)
{
    if (nghttp2_session_client_new(&c->h2, callbacks(), c) != 0) {
        abort();
    }
    c->keep = true;
    nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, NULL, 0);
}

void h2_ask(struct front_call *c, const struct front_request *rq)
{
    nghttp2_data_provider body = { .read_callback = read_body };
    nghttp2_nv nv[6];
    char path[32];

    snprintf(path, sizeof(path), "/invoke/fn-%u", rq->function);
    nv[0] = field(":method", "POST");
    nv[1] = field(":scheme", "https");
    nv[2] = field(":authority", "sim:8080");
    nv[3] = field(":path", path);
    nv[4] = field("x-do", rq->what);
    nv[5] = field("fn-invoke-type", "detached"); /* or not */
    buf_clear(&c->body);
    c->body_sent = 0;
    c->status = 0;
    c->whole = false;
    books_write(rq->seq, true, 0, buf_reserve(&c->body, rq->body_bytes), rq->body_bytes);
    c->body.len = rq->body_bytes;
    c->stream = nghttp2_submit_request(c->h2, NULL, nv, rq->detached ? 6 : 5, &body, NULL);
    h2_put(c);
}

void h2_take(struct front_call *c, const char *data, size_t len)
{
    ssize_t n = nghttp2_session_mem_recv(c->h2, (const uint8_t *)data, len);

    if (n < 0) {
        front_garbage(c, nghttp2_strerror((int)n), data, len);
    }
    h2_put(c);
}

void h2_cancel(struct front_call *c)
{
    nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
    c->stream = 0;
    h2_put(c);
}

void h2_end(struct front_call *c)
{
    nghttp2_session_del(c->h2);
    c->h2 = NULL;
    buf_finish(&c->body);
}
