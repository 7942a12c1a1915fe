/* HTTP/1.1. Answers are read by http-parser. */
#include "front_int.h"

#include <string.h>
#include <strings.h>

#define CHUNKED_ONE_IN 4u

/* ---- answers --------------------------------------------------------------------------------- */

static void append(char *to, const char *at, size_t len)
{
    size_t n = strlen(to);

    len = len < OUTCOME_BYTES - 1 - n ? len : OUTCOME_BYTES - 1 - n;
    memcpy(to + n, at, len);
    to[n + len] = '\0';
}

static int on_field(http_parser *p, const char *at, size_t len)
{
    struct front_call *c = p->data;

    if (c->in_outcome) {
        c->in_outcome = false;
        c->name[0] = '\0';
    }
    append(c->name, at, len);
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
    struct front_call *c = p->data;

    if (strcasecmp(c->name, "Fn-Outcome") == 0) {
        append(c->outcome, at, len);
    }
    c->in_outcome = true; /* a field that follows is another one */
    return 0;
}

static int on_headers(http_parser *p)
{
    if (p->status_code / 100 != 1) {
        front_head(p->data, p->status_code);
    }
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    front_body(p->data, p->status_code, at, len);
    return 0;
}

static int on_complete(http_parser *p)
{
    struct front_call *c = p->data;

    c->ended = p->status_code / 100 != 1;
    c->how = FRONT_WHOLE;
    c->keep = http_should_keep_alive(p);
    return 0;
}

static const http_parser_settings settings = { .on_header_field = on_field,
                                               .on_header_value = on_value,
                                               .on_headers_complete = on_headers,
                                               .on_body = on_body,
                                               .on_message_complete = on_complete };

void h1_take(struct front_call *c, const char *data, size_t len)
{
    if (http_parser_execute(&c->parser, &settings, data, len) != len) {
        front_garbage(c, http_errno_description(HTTP_PARSER_ERRNO(&c->parser)), data, len);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void put_body(struct buf *out, const struct front_request *rq, bool chunked)
{
    char piece[1024];

    for (uint64_t at = 0; at < rq->body_bytes;) {
        uint64_t left = rq->body_bytes - at;
        size_t n = left < sizeof(piece) ? (size_t)left : sizeof(piece);

        n = chunked ? 1 + (size_t)sim_rng_below(rq->rng, n) : n;
        books_write(rq->seq, true, at, piece, n);
        if (chunked) {
            buf_printf(out, "%zx\r\n", n);
        }
        buf_add(out, piece, n);
        buf_add(out, "\r\n", chunked ? 2 : 0);
        at += n;
    }
    buf_add(out, "0\r\n\r\n", chunked ? 5 : 0);
}

void h1_ask(struct front_call *c, const struct front_request *rq)
{
    bool chunked = sim_rng_below(rq->rng, CHUNKED_ONE_IN) == 0;
    struct buf *out = &c->plain;

    c->in_outcome = false;
    c->name[0] = '\0';
    http_parser_init(&c->parser, HTTP_RESPONSE);
    c->parser.data = c;
    buf_printf(out, "POST /invoke/fn-%u HTTP/1.1\r\nHost: sim:8080\r\nX-Do: %s\r\n", rq->function,
               rq->what);
    if (rq->detached) {
        buf_printf(out, "Fn-Invoke-Type: detached\r\n");
    }
    if (chunked) {
        buf_printf(out, "Transfer-Encoding: chunked\r\n\r\n");
    } else {
        buf_printf(out, "Content-Length: %llu\r\n\r\n", (unsigned long long)rq->body_bytes);
    }
    put_body(out, rq, chunked);
}
