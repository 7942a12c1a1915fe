/* The http_answer_* calls, and what is in each answer whatever the protocol.
 *
 * Framing belongs to the server: fields of the handler that speak of it are dropped, and so is any
 * field whose name or value could be read as something else than one field. */
#include <http/server_int.h>

#include <base/utf8.h>
#include <model/header_rules.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- heads ---------------------------------------------------------------------------------- */

const char *answer_date_line(struct http_server *s)
{
    int64_t now = env_now_ns(s->env);
    int64_t wall;
    struct tm tm;
    time_t t;

    if (now >= s->date_until_ns) {
        wall = env_wall_ns(s->env);
        t = (time_t)(wall / ENV_S);
        gmtime_r(&t, &tm);
        strftime(s->date, sizeof(s->date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        s->date_until_ns = now + ENV_S - wall % ENV_S;
    }
    return s->date;
}

enum field_kind answer_field_kind(const struct header *f, size_t name_len, size_t value_len)
{
    unsigned is = header_kinds(f->name, name_len);

    if (is & (HEADER_FRAMING | HEADER_DATE)) {
        return is & HEADER_CONNECTION ? FIELD_CONNECTION
               : is & HEADER_DATE     ? FIELD_DATE
                                      : FIELD_DROP;
    }
    return parse_is_token(f->name, name_len) && parse_is_value(f->value, value_len) ? FIELD_PASS
                                                                                    : FIELD_DROP;
}

bool answer_has_no_body(int status)
{
    return status == 204 || status == 304;
}

bool answer_asks_to_retry(int status)
{
    return status == 503 || status == 429;
}

/* ---- error bodies --------------------------------------------------------------------------- */

/* text as the inside of a JSON string; bytes that are not UTF-8 become U+FFFD. */
static int add_json(struct buf *b, const char *text)
{
    const char *end = text + strlen(text);
    int r = 0;

    while (text < end) {
        uint32_t n = utf8_sequence(text, end);

        if (n == 0) {
            r |= buf_add(b, "\xef\xbf\xbd", 3);
        } else if (*text == '"' || *text == '\\') {
            r |= buf_add(b, "\\", 1) | buf_add(b, text, 1);
        } else if (*text == '\n') {
            r |= buf_add(b, "\\n", 2);
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            r |= buf_printf(b, "\\u%04x", (unsigned char)*text);
        } else {
            r |= buf_add(b, text, n);
        }
        text += n ? n : 1;
    }
    return r;
}

int answer_error_body(struct buf *b, const char *text)
{
    int r = buf_add_str(b, "{\"message\":\"");

    r |= add_json(b, text);
    return r | buf_add_str(b, "\"}\n");
}

/* ---- the calls ------------------------------------------------------------------------------ */

static struct request *answer_request_of(struct http_request *req)
{
    return container_of(req, struct request, pub);
}

/* The client went away: nothing is sent, and what would end the answer frees the request. */
static bool is_left(const struct request *q)
{
    return !q->c; /* or q->stream */
}

int answer_begin(struct request *q, int status, int64_t content_length)
{
    status = status >= 200 && status <= 999 ? status : 500;
    q->no_body = q->head_only || answer_has_no_body(status);
    q->left = content_length;
    return status;
}

void http_answer(struct http_request *req, int status, const struct headers *h, const void *body,
                 size_t len)
{
    struct request *q = answer_request_of(req);

    if (is_left(q)) {
        request_free(q);
    } else {
        q->ops->whole(q, status, h, body, len);
    }
}

void http_answer_error(struct http_request *req, int status, const struct headers *h,
                       const char *text)
{
    struct request *q = answer_request_of(req);
    struct buf body = BUF_INIT(0);
    struct headers with_type;
    int r = 0;

    headers_init(&with_type, &q->arena);
    r |= headers_add(&with_type, "Content-Type", ANSWER_JSON_TYPE);
    for (uint32_t i = 0; h && i < h->n; i++) {
        if (strcasecmp(h->items[i].name, "Content-Type") != 0) {
            r |= headers_add(&with_type, h->items[i].name, h->items[i].value);
        }
    }
    r |= answer_error_body(&body, text);
    if (r != 0) {
        buf_clear(&body);
    }
    http_answer(req, status, &with_type, body.data, body.len);
    buf_finish(&body);
}

void http_answer_head(struct http_request *req, int status, const struct headers *h,
                      int64_t content_length)
{
    struct request *q = answer_request_of(req);

    if (!is_left(q) && !q->head_sent) {
        q->head_sent = true;
        q->ops->head(q, status, h, content_length);
    }
}

int http_answer_data(struct http_request *req, const void *data, size_t len)
{
    struct request *q = answer_request_of(req);

    if (is_left(q) || q->no_body || len == 0) {
        return 0;
    }
    if (q->left >= 0) {
        len = (uint64_t)len < (uint64_t)q->left ? len : (size_t)q->left;
        q->left -= (int64_t)len;
    }
    return q->ops->data(q, data, len);
}

void http_answer_end(struct http_request *req)
{
    struct request *q = answer_request_of(req);

    if (is_left(q)) {
        request_free(q);
    } else if (!q->head_sent || (q->left > 0 && !q->no_body)) {
        q->ops->abort(q);
    } else {
        q->ops->end(q);
    }
}

void http_answer_abort(struct http_request *req)
{
    struct request *q = answer_request_of(req);

    if (is_left(q)) {
        request_free(q);
    } else {
        q->ops->abort(q);
    }
}
