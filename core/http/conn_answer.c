/* Answers of HTTP/1.1: heads, framing, and their way into a connection's output. */
#include <http/conn.h>

#include <string.h>
#include <strings.h>

#define STATUS_MAX 599

/* ---- heads ---------------------------------------------------------------------------------- */

/* RFC 9110 and those that are registered beside it; nobody acts upon them. */
static const char *reason(int status)
{
    static const char *const texts[STATUS_MAX + 1] = {
        [100] = "Continue",
        [101] = "Switching Protocols",
        [102] = "Processing",
        [200] = "OK",
        [201] = "Created",
        [202] = "Accepted",
        [203] = "Non-Authoritative Information",
        [204] = "No Content",
        [205] = "Reset Content",
        [206] = "Partial Content",
        [207] = "Multi-Status",
        [208] = "Already Reported",
        [226] = "IM Used",
        [300] = "Multiple Choices",
        [301] = "Moved Permanently",
        [302] = "Found",
        [303] = "See Other",
        [304] = "Not Modified",
        [305] = "Use Proxy",
        [307] = "Temporary Redirect",
        [308] = "Permanent Redirect",
        [400] = "Bad Request",
        [401] = "Unauthorized",
        [402] = "Payment Required",
        [403] = "Forbidden",
        [404] = "Not Found",
        [405] = "Method Not Allowed",
        [406] = "Not Acceptable",
        [407] = "Proxy Authentication Required",
        [408] = "Request Timeout",
        [409] = "Conflict",
        [410] = "Gone",
        [411] = "Length Required",
        [412] = "Precondition Failed",
        [413] = "Payload Too Large",
        [414] = "URI Too Long",
        [415] = "Unsupported Media Type",
        [416] = "Range Not Satisfiable",
        [417] = "Expectation Failed",
        [421] = "Misdirected Request",
        [422] = "Unprocessable Entity",
        [423] = "Locked",
        [424] = "Failed Dependency",
        [426] = "Upgrade Required",
        [428] = "Precondition Required",
        [429] = "Too Many Requests",
        [431] = "Request Header Fields Too Large",
        [451] = "Unavailable For Legal Reasons",
        [500] = "Internal Server Error",
        [501] = "Not Implemented",
        [502] = "Bad Gateway",
        [503] = "Service Unavailable",
        [504] = "Gateway Timeout",
        [505] = "HTTP Version Not Supported",
        [506] = "Variant Also Negotiates",
        [507] = "Insufficient Storage",
        [508] = "Loop Detected",
        [510] = "Not Extended",
        [511] = "Network Authentication Required",
    };
    const char *text = status >= 0 && status <= STATUS_MAX ? texts[status] : NULL;

    return text ? text : "Status";
}

static int add_fields(struct buf *b, const struct headers *h, bool *ret_dated, bool *ret_close)
{
    int r = 0;

    for (uint32_t i = 0; h && i < h->n; i++) {
        const struct header *f = &h->items[i];
        size_t name_len = strlen(f->name);
        size_t value_len = strlen(f->value);
        enum field_kind kind = answer_field_kind(f, name_len, value_len);

        if (kind == FIELD_CONNECTION) {
            *ret_close |= strcasecmp(f->value, "close") == 0;
        }
        if (kind != FIELD_PASS && (kind != FIELD_DATE || *ret_dated)) {
            continue;
        }
        *ret_dated |= kind == FIELD_DATE;
        r |= buf_add(b, f->name, name_len);
        r |= buf_add(b, ": ", 2);
        r |= buf_add(b, f->value, value_len);
        r |= buf_add(b, "\r\n", 2);
    }
    return r;
}

static int add_number(struct buf *b, const char *before, uint64_t n)
{
    char text[24];
    char *p = text + sizeof(text);

    do {
        *--p = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return buf_add_str(b, before) | buf_add(b, p, (size_t)(text + sizeof(text) - p));
}

static int add_status_line(struct buf *b, int status)
{
    int r = add_number(b, "HTTP/1.1 ", (uint64_t)status);

    return r | buf_add(b, " ", 1) | buf_add_str(b, reason(status)) | buf_add(b, "\r\n", 2);
}

/* The head of q's answer in the server's scratch. content_length < 0 = not known. */
static struct buf *compose(struct request *q, int status, const struct headers *h,
                           int64_t content_length)
{
    struct http_server *s = q->c->s;
    struct buf *b = &s->head;
    bool dated = false;
    bool close = false;
    int r;

    status = answer_begin(q, status, content_length);
    q->chunked = content_length < 0 && !q->http10 && !q->no_body;
    buf_clear(b);
    r = add_status_line(b, status);
    r |= add_fields(b, h, &dated, &close);
    if (!dated) {
        r |= buf_add_str(b, answer_date_line(s));
    }
    if (q->chunked) {
        r |= buf_add_str(b, "Transfer-Encoding: chunked\r\n");
    } else if (content_length >= 0 && !answer_has_no_body(status)) {
        r |= add_number(b, "Content-Length: ", (uint64_t)content_length) | buf_add(b, "\r\n", 2);
    } else if (!q->no_body) {
        q->keep_alive = false; /* HTTP/1.0: the end of the connection is the end of the body */
    }
    q->keep_alive = q->keep_alive && !close && !s->draining;
    if (!q->keep_alive) {
        r |= buf_add_str(b, "Connection: close\r\n");
    } else if (q->http10) {
        r |= buf_add_str(b, "Connection: keep-alive\r\n");
    }
    r |= buf_add(b, "\r\n", 2);
    return r == 0 ? b : NULL;
}

/* ---- refusals ------------------------------------------------------------------------------- */

void answer_refusal(struct http_server *s, struct buf *b, const struct refusal *r)
{
    struct buf body = BUF_INIT(0);
    int failed = answer_error_body(&body, r->text);

    failed |= add_status_line(b, r->status);
    failed |= buf_add_str(b, "Content-Type: " ANSWER_JSON_TYPE "\r\n");
    if (answer_asks_to_retry(r->status)) {
        failed |= buf_add_str(b, "Retry-After: " ANSWER_RETRY_AFTER "\r\n");
    }
    failed |= buf_add_str(b, answer_date_line(s));
    failed |= add_number(b, "Content-Length: ", body.len);
    failed |= buf_add_str(b, "\r\nConnection: close\r\n\r\n");
    failed |= buf_add(b, body.data, body.len);
    if (failed) {
        buf_clear(b);
    }
    buf_finish(&body);
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* The last byte of q's answer is in the connection's hands. */
static void answer_finish(struct request *q)
{
    struct conn *c = q->c;

    c->close = c->close || !q->keep_alive;
    conn_answered(c);
    request_free(q);
}

static void conn_answer_abort(struct request *q)
{
    struct conn *c = q->c;
    bool looks_cut;

    /* Only a missing end chunk or missing bytes show that the answer was cut; the client may then
     * have what was written so far. In all other cases a reset has to say so. */
    looks_cut = q->head_sent && !q->no_body && (q->chunked || q->left > 0);
    q->c = NULL;
    c->req = NULL;
    request_free(q);
    if (!looks_cut) {
        conn_reset(c);
    } else {
        c->close = true;
        c->linger = true;
        conn_answered(c);
    }
}

static void conn_answer_whole(struct request *q, int status, const struct headers *h,
                              const void *body, size_t len)
{
    struct buf *head = compose(q, status, h, (int64_t)len);

    if (!head) {
        conn_answer_abort(q);
        return;
    }
    conn_push(q->c, head->data, head->len, body, q->no_body ? 0 : len);
    answer_finish(q);
}

static void conn_answer_head(struct request *q, int status, const struct headers *h,
                             int64_t content_length)
{
    struct buf *head = compose(q, status, h, content_length);

    if (head) {
        conn_put(q->c, head->data, head->len);
    } else {
        q->c->broken = true;
    }
    env_defer(q->c->s->env, &q->c->later); /* the first data usually come along before that */
}

/* Small pieces wait in `out` for the end of the turn, large ones go out at once. */
static void send_piece(struct conn *c, const void *data, size_t len)
{
    if (conn_pending(c) + len < CORK_BYTES) {
        conn_put(c, data, len);
        env_defer(c->s->env, &c->later);
    } else {
        conn_push(c, data, len, NULL, 0);
    }
}

static int conn_answer_data(struct request *q, const void *data, size_t len)
{
    struct conn *c = q->c;
    char line[CHUNK_LINE_BYTES];

    if (c->broken) {
        return 0;
    }
    if (q->chunked) {
        conn_put(c, line, chunked_line(line, len));
    }
    send_piece(c, data, len);
    if (q->chunked) {
        conn_put(c, "\r\n", 2);
        env_defer(c->s->env, &c->later);
    }
    if (c->full && (int64_t)conn_pending(c) > c->s->config.limits.out_bytes_high) {
        q->wants_writable = true;
        return 1;
    }
    return 0;
}

static void conn_answer_end(struct request *q)
{
    if (q->chunked) {
        conn_put(q->c, "0\r\n\r\n", 5);
    }
    answer_finish(q);
}

const struct answer_ops conn_answer_ops = {
    .whole = conn_answer_whole,
    .head = conn_answer_head,
    .data = conn_answer_data,
    .end = conn_answer_end,
    .abort = conn_answer_abort,
};
