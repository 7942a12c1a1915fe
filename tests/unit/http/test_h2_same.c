/* The same requests in HTTP/1.1 and in HTTP/2, made by chance: handlers see the same, and clients
 * get the same answer or the same refusal. */
#include "h2_suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 800

static struct h2_client c;

static uint32_t draw(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static const char *one_of(uint32_t *seed, const char *const *texts, uint32_t n)
{
    return texts[draw(seed, n)];
}
#define ONE_OF(seed, texts) one_of(seed, texts, sizeof(texts) / sizeof(texts[0]))

struct script {
    const char *method, *path, *host;
    const char *fields[64]; /* names and values, small letters, the cookie last */
    uint32_t fields_n;
    char *body;
    size_t body_len;
    char length[24];
};

static const char *const methods[] = { "GET",  "GET",     "POST",   "POST",  "PUT", "HEAD",
                                       "DELETE", "PATCH", "OPTIONS", "BREW", "TRACE", "get" };
static const char *const paths[] = {
    "/echo", "/echo?a=1&b=%20", "/echo/x/../y", "/echo?", "/e%00", "/plain", "/204", "/nasty",
    "/error", "/abort", "/stream?n=30000", "/length?n=10001", "/\xc3\xa4?\xff", "/client", "/later",
    "/echo;p=1", "//echo",
};
static const char *const hosts[] = { "a", "a:80", "[::1]:80", "a.b-c.d", "127.0.0.1" };
static const char *const names[] = { "x-a", "x-b", "accept", "fn-intent", "x-a", "user-agent",
                                     "forwarded", "x-forwarded-for", "te", "expect", "range",
                                     "x-very-long-name-of-a-field", "fn-http-method", "trailer" };
static const char *const values[] = { "1", "", "a, b", "a\tb", "\xc3\xa4\xff", "trailers",
                                      "100-continue", "10.0.0.9", "for=10.0.0.9;proto=https",
                                      "\"q\"", "b\x01" };

static void make_script(struct script *s, uint32_t *seed)
{
    uint32_t n = draw(seed, 6);

    s->method = ONE_OF(seed, methods);
    s->path = ONE_OF(seed, paths);
    s->host = draw(seed, 3) ? "a" : ONE_OF(seed, hosts);
    s->fields_n = 0;
    n = strcmp(s->method, "TRACE") ? n : 0; /* of two mistakes each may name another one */
    for (uint32_t i = 0; i < n; i++) {
        const char *name = ONE_OF(seed, names);
        const char *value = ONE_OF(seed, values);

        if (strcmp(name, "te") == 0) {
            value = "trailers";
        } else if (strcmp(name, "expect") == 0 && draw(seed, 4)) {
            continue;
        }
        s->fields[s->fields_n++] = name;
        s->fields[s->fields_n++] = value;
    }
    s->body_len = draw(seed, 2) ? 0 : draw(seed, 20000) + 1;
    s->body = malloc(s->body_len + 1);
    for (size_t i = 0; i < s->body_len; i++) {
        s->body[i] = (char)draw(seed, 256);
    }
    if (s->body_len > 0) {
        snprintf(s->length, sizeof(s->length), "%zu", s->body_len);
        s->fields[s->fields_n++] = "content-length";
        s->fields[s->fields_n++] = s->length;
    }
    if (draw(seed, 4) == 0) {
        s->fields[s->fields_n++] = "cookie";
        s->fields[s->fields_n++] = "a=b; c=d";
    }
    s->fields[s->fields_n] = NULL;
}

/* What a client has of an answer, whatever the protocol. */
struct outcome {
    int status; /* 0: cut in front of the head */
    bool whole;
    struct buf head, body; /* head: lines in small letters, without framing and date */
};

static void take_head(struct outcome *o, char *head)
{
    char *rest;

    for (char *line = strtok_r(head, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (strncasecmp(line, "date:", 5) == 0 || strncasecmp(line, "connection:", 11) == 0 ||
            strncasecmp(line, "transfer-encoding:", 18) == 0) {
            continue;
        }
        for (char *p = line; *p && *p != ':'; p++) {
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        }
        buf_add_str(&o->head, line);
        buf_add_str(&o->head, "\n");
    }
}

static struct outcome by_http_1(const struct script *s)
{
    struct outcome o = { 0 };
    struct buf b = BUF_INIT(0);
    char *text, *body, *at;
    int fd = dial();
    size_t len;

    buf_printf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", s->method, s->path, s->host);
    for (uint32_t i = 0; i < s->fields_n; i += 2) {
        buf_printf(&b, "%s: %s\r\n", s->fields[i], s->fields[i + 1]);
    }
    buf_add_str(&b, "\r\n");
    buf_add(&b, s->body, s->body_len);
    buf_add_str(&b, "GET /204 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    send_all(fd, b.data, b.len);
    text = read_to_end(fd, &len);
    at = strstr(text, "\r\n\r\n");
    if (at) {
        o.status = atoi(text + 9);
        body = at + 4;
        *at = '\0';
        o.whole = strcasestr(text, "connection: close") ||
                  memmem(body, len - (size_t)(body - text), "HTTP/1.1 204 ", 13);
        if (strcasestr(text, "transfer-encoding: chunked")) {
            size_t n;

            while ((n = strtoul(body, &body, 16)) > 0 && body < text + len) {
                buf_add(&o.body, body + 2, n);
                body += 2 + n + 2;
            }
        } else if (strcasestr(text, "content-length: ") && strcmp(s->method, "HEAD") != 0) {
            buf_add(&o.body, body, strtoul(strcasestr(text, "content-length: ") + 16, NULL, 10));
        }
        take_head(&o, strchr(text, '\n') ? strchr(text, '\n') + 1 : text + strlen(text));
    }
    free(text);
    buf_finish(&b);
    close(fd);
    return o;
}

static struct outcome by_http_2(const struct script *s)
{
    const char *fields[80] = { ":method", s->method, ":scheme", "https", ":path", s->path };
    struct outcome o = { 0 };
    struct h2_answer *a;
    char *head;

    fields[6] = ":authority";
    fields[7] = s->host;
    memcpy(fields + 8, s->fields, (s->fields_n + 1) * sizeof(*fields));
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_submit(&c, fields, s->body_len ? s->body : NULL, (ssize_t)s->body_len));
    o.status = a->status;
    o.whole = a->whole;
    head = strdup(buf_text(&a->head));
    take_head(&o, head);
    free(head);
    buf_add(&o.body, a->body.data, a->body.len);
    h2_close(&c);
    return o;
}

static bool is_answer_of_server(const struct outcome *o)
{
    return o->body.len > 20 && strncmp(o->body.data, "{\"message\":\"HTTP1", 17) == 0;
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

START_TEST(both_protocols_give_the_same)
{
    uint32_t seed = (uint32_t)_i + 17;
    int refused = 0;

    h2_begin();
    for (int round = 0; round < ROUNDS; round++) {
        struct outcome one, two;
        struct script s;

        make_script(&s, &seed);
        one = by_http_1(&s);
        two = by_http_2(&s);
        buf_text(&one.head);
        buf_text(&one.body);
        buf_text(&two.head);
        buf_text(&two.body);
        if (is_answer_of_server(&one)) { /* the code: sentences may name a line, or a case */
            refused++;
            one.body.len = two.body.len = 19;
            buf_clear(&one.head);
            buf_clear(&two.head);
        }
        ck_assert_msg(one.status == two.status && one.whole == two.whole &&
                          is_same(&one.body, &two.body) && is_same(&one.head, &two.head),
                      "round %d, %s %s of \"%s\": %d %d\n%s\n%.300s\n---- %d %d\n%s\n%.300s", round,
                      s.method, s.path, s.host, one.status, one.whole, one.head.data,
                      one.body.data, two.status, two.whole, two.head.data, two.body.data);
        buf_finish(&one.head);
        buf_finish(&one.body);
        buf_finish(&two.head);
        buf_finish(&two.body);
        free(s.body);
    }
    ck_assert_int_gt(refused, ROUNDS / 20);
    ck_assert_int_lt(refused, ROUNDS / 2);
    h2_stop();
}
END_TEST

void add_h2_same(Suite *s)
{
    TCase *t = tcase_create("h2_same");

    tcase_add_checked_fixture(t, h2_setup, NULL);
    tcase_add_loop_test(t, both_protocols_give_the_same, 0, 2);
    suite_add_tcase(s, t);
}
