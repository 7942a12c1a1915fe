/* Heads: fields are put together to the text that HTTP/1.1 has for the same request, and read by
 * the reader of HTTP/1.1, under its limits. So both protocols take the same requests, refuse the
 * others with the same sentences, and no handler can tell them apart.
 *
 * What could be read as something else than it was (blanks in the path, line ends in a value) is
 * not put in but refused. nghttp2 has reset requests before that break rules of HTTP/2 itself:
 * names in capitals, fields of the connection, pseudo-header fields in the wrong place. */
#include <http/h2/mux_int.h>

#include <stdio.h>
#include <string.h>

#define QUOTED_MAX 64

void mux_head_begin(struct mux_head *h, struct mux_stream *st, int32_t id)
{
    h->stream = st;
    h->id = id;
    h->list_bytes = 0;
    h->method[0] = '\0';
    h->has_authority = h->has_host = h->refused = false;
    for (int i = 0; i < HEAD_TEXTS_N; i++) {
        buf_clear(&h->texts[i]);
    }
}

static void small_again(struct buf *b)
{
    if (b->cap > SMALL_BUF_KEPT) {
        buf_finish(b);
    }
}

static void forget(struct mux_head *h)
{
    h->stream = NULL;
    for (int i = 0; i < HEAD_TEXTS_N; i++) {
        small_again(&h->texts[i]);
    }
}

void mux_head_finish(struct mux_head *h)
{
    for (int i = 0; i < HEAD_TEXTS_N; i++) {
        buf_finish(&h->texts[i]);
    }
}

/* ---- fields --------------------------------------------------------------------------------- */

static void head_refuse(struct mux_head *h, const char *text)
{
    if (!h->refused) {
        h->refused = true;
        refuse(&h->refusal, 400, "%s", text);
    }
}

static void head_put(struct mux_head *h, enum mux_text to, const char *data, size_t len)
{
    if (buf_add(&h->texts[to], data, len) < 0 && !h->refused) {
        h->refused = true;
        refuse_for_memory(&h->refusal);
    }
}

/* No byte that ends the request line or one of its words. */
static bool is_one_word(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)s[i] <= 0x20 || s[i] == 0x7f) {
            return false;
        }
    }
    return len > 0;
}

/* Several pieces are one field (RFC 9113, 8.2.3). */
static void add_cookie(struct mux_head *h, const char *value, size_t len)
{
    if (h->texts[HEAD_COOKIE].len > 0) {
        head_put(h, HEAD_COOKIE, "; ", 2);
    }
    head_put(h, HEAD_COOKIE, value, len);
}

static void add_field(struct mux_head *h, const char *name, size_t name_len, const char *value,
                      size_t len)
{
    char text[QUOTED_MAX + 64];

    if (!parse_is_token(name, name_len)) {
        head_refuse(h, "HTTP105 invalid header name");
    } else if (!parse_is_value(value, len)) {
        snprintf(text, sizeof(text), "HTTP106 control byte in header \"%.*s\"",
                 (int)(name_len < QUOTED_MAX ? name_len : QUOTED_MAX), name);
        head_refuse(h, text);
    } else if (name_len == 6 && memcmp(name, "cookie", 6) == 0) {
        add_cookie(h, value, len);
    } else if (name_len == 4 && memcmp(name, "host", 4) == 0 && !h->has_host) {
        h->has_host = true;
        head_put(h, HEAD_HOST, value, len);
    } else {
        head_put(h, HEAD_FIELDS, name, name_len);
        head_put(h, HEAD_FIELDS, ": ", 2);
        head_put(h, HEAD_FIELDS, value, len);
        head_put(h, HEAD_FIELDS, "\r\n", 2);
    }
}

static void add_pseudo(struct mux_head *h, const char *name, size_t name_len, const char *value,
                       size_t len)
{
    if (name_len == 7 && memcmp(name, ":method", 7) == 0) {
        snprintf(h->method, sizeof(h->method), "%.*s", (int)(len < 64 ? len : 64), value);
        if (!parse_is_token(value, len)) {
            head_refuse(h, "HTTP108 request line: invalid method");
        }
    } else if (name_len == 5 && memcmp(name, ":path", 5) == 0) {
        head_put(h, HEAD_PATH, value, len);
        if (!is_one_word(value, len)) {
            head_refuse(h, "HTTP108 request line: invalid target");
        }
    } else if (name_len == 10 && memcmp(name, ":authority", 10) == 0) {
        h->has_authority = true;
        head_put(h, HEAD_AUTHORITY, value, len);
        if (!parse_is_value(value, len)) {
            head_refuse(h, "HTTP107 Host: invalid character; expected host or host:port");
        }
    }
}

void mux_head_add(struct mux *m, const char *name, size_t name_len, const char *value, size_t len,
                  bool legal)
{
    struct mux_head *h = &m->head;

    h->list_bytes += name_len + len + MUX_FIELD_BYTES;
    if (!h->stream || h->texts[HEAD_FIELDS].len > m->s->parse_limits.head_bytes_max ||
        h->texts[HEAD_COOKIE].len > m->s->parse_limits.head_bytes_max) {
        return; /* trailers are dropped; a head that is too big is so already */
    }
    if (legal && name_len > 0 && name[0] == ':') {
        add_pseudo(h, name, name_len, value, len);
    } else {
        add_field(h, name, name_len, value, len);
        if (!legal) {
            head_refuse(h, "HTTP106 blank around the value of a header");
        }
    }
}

/* ---- the whole head ------------------------------------------------------------------------- */

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Of CONNECT it is the authority. */
static const struct buf *target_of(const struct mux_head *h)
{
    return h->texts[HEAD_PATH].len > 0 ? &h->texts[HEAD_PATH] : &h->texts[HEAD_AUTHORITY];
}

static int compose_head(struct buf *b, const struct mux_head *h)
{
    const struct buf *target = target_of(h);
    const struct buf *host = h->has_authority ? &h->texts[HEAD_AUTHORITY] : &h->texts[HEAD_HOST];
    const struct buf *cookie = &h->texts[HEAD_COOKIE];
    int r;

    buf_clear(b);
    r = buf_add_str(b, h->method) | buf_add(b, " ", 1) | buf_add(b, target->data, target->len);
    r |= buf_add_str(b, " HTTP/1.1\r\n");
    if (h->has_authority || h->has_host) {
        r |= buf_add_str(b, "Host: ") | buf_add(b, host->data, host->len) | buf_add(b, "\r\n", 2);
    }
    r |= buf_add(b, h->texts[HEAD_FIELDS].data, h->texts[HEAD_FIELDS].len);
    if (cookie->len > 0) {
        r |= buf_add_str(b, "Cookie: ") | buf_add(b, cookie->data, cookie->len);
        r |= buf_add(b, "\r\n", 2);
    }
    return r | buf_add(b, "\r\n", 2);
}

static int read_composed(struct mux *m, struct mux_stream *st, struct parsed_request *ret,
                         struct refusal *r)
{
    const struct parse_limits *limits = &m->s->parse_limits;
    struct parse_seek seek = { 0 };
    struct buf *b = &m->part->text;
    int64_t end;
    int e;

    if (compose_head(b, &m->head) != 0) {
        refuse_for_memory(r);
        return FN_E_EXHAUSTED;
    }
    end = parse_seek_end(&seek, b->data, b->len, limits, r);
    if (end < 0) {
        return (int)end;
    }
    e = parse_request(&st->q->arena, b->data, (size_t)end, limits, ret, r);
    if (e == FN_E_EXHAUSTED) {
        refuse_for_memory(r);
    }
    return e;
}

int mux_head_read(struct mux *m, struct mux_stream *st, struct parsed_request *ret,
                  struct refusal *r)
{
    struct mux_head *h = &m->head;
    int e = FN_E_INVALID;

    st->q->head_only = strcmp(h->method, "HEAD") == 0; /* of a refusal, too */
    if (h->refused) {
        *r = h->refusal;
    } else if (h->has_authority && h->has_host &&
               !same(&h->texts[HEAD_AUTHORITY], &h->texts[HEAD_HOST])) {
        refuse(r, 400, "HTTP107 Host: differs from :authority");
    } else {
        e = read_composed(m, st, ret, r);
    }
    small_again(&m->part->text);
    forget(h);
    return e;
}
