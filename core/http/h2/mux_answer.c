/* Answers: heads as nghttp2 takes them, and bodies as it asks for them. */
#include <http/h2/mux_int.h>

#include <stdio.h>
#include <string.h>

#define FIELDS_OF_OURS 3 /* status, length, date */

/* ---- heads ---------------------------------------------------------------------------------- */

/* nghttp2 copies both texts and writes the name in small letters. */
static nghttp2_nv field(const char *name, size_t name_len, const char *value, size_t len)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len, len,
                         NGHTTP2_NV_FLAG_NONE };
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Blanks around a value, which HTTP/1.1 does not count to it, are not legal here. */
static nghttp2_nv trimmed(const struct header *f, size_t name_len, size_t value_len)
{
    const char *value = f->value;

    while (value_len > 0 && is_blank(*value)) {
        value++;
        value_len--;
    }
    while (value_len > 0 && is_blank(value[value_len - 1])) {
        value_len--;
    }
    return field(f->name, name_len, value, value_len);
}

static size_t add_nvs(nghttp2_nv *nv, const struct headers *h, bool *ret_dated)
{
    size_t n = 0;

    for (uint32_t i = 0; h && i < h->n; i++) {
        const struct header *f = &h->items[i];
        size_t name_len = strlen(f->name);
        size_t value_len = strlen(f->value);
        enum field_kind kind = answer_field_kind(f, name_len, value_len);

        if (kind == FIELD_PASS || (kind == FIELD_DATE && !*ret_dated)) {
            *ret_dated |= kind == FIELD_DATE;
            nv[n++] = trimmed(f, name_len, value_len);
        }
    }
    return n;
}

/* As much as nghttp2 asks for of what a handler has sent. */
static ssize_t give(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                    uint32_t *flags, nghttp2_data_source *source, void *ud)
{
    struct mux_stream *st = source->ptr;
    struct mux *m = ud;
    size_t left = mux_stream_pending(st);
    size_t n = left < room ? left : room;

    (void)session;
    if (n == 0 && !st->ended) {
        st->asleep = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(to, st->out.data + st->out_off, n);
        st->out_off += n;
        m->sent_ns = mux_now_ns(m);
    }
    if (n < left) {
        mux_stream_await_client(st);
        return (ssize_t)n;
    }
    st->deadline_ns = 0;
    st->out_off = 0;
    buf_clear(&st->out);
    if (st->cut) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        mux_submitted(m, nghttp2_submit_rst_stream(m->session, NGHTTP2_FLAG_NONE, id,
                                                   NGHTTP2_INTERNAL_ERROR));
    } else if (st->ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (st->q->wants_writable && !st->in_roomy) {
        st->in_roomy = true;
        TAILQ_INSERT_TAIL(&m->roomy, st, other);
    }
    return (ssize_t)n;
}

/* content_length < 0 = not known. false: the stream is reset. */
static bool submit_head(struct request *q, int status, const struct headers *h,
                        int64_t content_length)
{
    struct mux_stream *st = q->stream;
    struct mux *m = st->m;
    const char *date = answer_date_line(m->s) + 6; /* "Date: " */
    nghttp2_data_provider provider = { .source.ptr = st, .read_callback = give };
    nghttp2_nv *nv = arena_alloc(&q->arena, ((h ? h->n : 0) + FIELDS_OF_OURS) * sizeof(*nv));
    char code[16], length[24];
    bool dated = false;
    size_t n = 0;

    status = answer_begin(q, status, content_length);
    if (nv) {
        nv[n++] = field(":status", 7, code, (size_t)snprintf(code, sizeof(code), "%d", status));
        n += add_nvs(nv + n, h, &dated);
        if (!dated) {
            nv[n++] = field("date", 4, date, strlen(date) - 2);
        }
        if (content_length >= 0 && !answer_has_no_body(status)) {
            nv[n++] = field("content-length", 14, length,
                            (size_t)snprintf(length, sizeof(length), "%lld",
                                             (long long)content_length));
        }
    }
    mux_touch(m);
    if (!nv || nghttp2_submit_response(m->session, st->id, nv, n,
                                       q->no_body || content_length == 0 ? NULL : &provider)) {
        mux_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
        return false;
    }
    return true;
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* q's answer is complete. */
static void answer_over(struct request *q)
{
    struct mux_stream *st = q->stream;

    st->ended = true;
    st->q = NULL;
    mux_stream_enter(st, STREAM_FLUSH);
    if (st->in_roomy) {
        st->in_roomy = false;
        TAILQ_REMOVE(&st->m->roomy, st, other);
    }
    if (st->asleep) {
        st->asleep = false;
        nghttp2_session_resume_data(st->m->session, st->id);
    }
    mux_touch(st->m);
    request_free(q);
}

static void mux_answer_abort(struct request *q)
{
    struct mux_stream *st = q->stream;

    /* The client may have what was written so far, if a reset behind it says that it is not all. */
    st->cut = true;
    if (!q->head_sent || q->no_body || q->left == 0) {
        mux_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
    }
    answer_over(q);
}

/* What nghttp2 took is dropped when it is more than what is left. */
static void answer_make_room(struct mux_stream *st)
{
    if (st->out_off > SMALL_BUF_KEPT && st->out_off > st->out.len / 2) {
        buf_consume(&st->out, st->out_off);
        st->out_off = 0;
    }
}

/* false: without memory. */
static bool put(struct mux_stream *st, const void *data, size_t len)
{
    answer_make_room(st);
    if (buf_add(&st->out, data, len) < 0) {
        mux_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
        return false;
    }
    if (len > 0 && st->deadline_ns == 0) {
        mux_stream_await_client(st);
    }
    if (st->asleep) {
        st->asleep = false;
        nghttp2_session_resume_data(st->m->session, st->id);
    }
    mux_touch(st->m);
    return true;
}

static void mux_answer_whole(struct request *q, int status, const struct headers *h,
                             const void *body, size_t len)
{
    if (submit_head(q, status, h, (int64_t)len) && !q->no_body) {
        put(q->stream, body, len);
    }
    answer_over(q);
}

static void mux_answer_head(struct request *q, int status, const struct headers *h,
                            int64_t content_length)
{
    submit_head(q, status, h, content_length);
}

static int mux_answer_data(struct request *q, const void *data, size_t len)
{
    struct mux_stream *st = q->stream;

    if (put(st, data, len) &&
        (int64_t)mux_stream_pending(st) > st->m->s->config.limits.out_bytes_high) {
        q->wants_writable = true;
        return 1;
    }
    return 0;
}

const struct answer_ops mux_answer_ops = {
    .whole = mux_answer_whole,
    .head = mux_answer_head,
    .data = mux_answer_data,
    .end = answer_over,
    .abort = mux_answer_abort,
};

void mux_answer_refusal(struct mux_stream *st)
{
    struct refusal r = st->refusal; /* st may go with its answer */
    struct headers h;

    headers_init(&h, &st->q->arena);
    if (answer_asks_to_retry(r.status)) {
        headers_add_borrowed(&h, "Retry-After", ANSWER_RETRY_AFTER);
    }
    http_answer_error(&st->q->pub, r.status, &h, r.text);
}
