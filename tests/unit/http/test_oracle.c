/* Another reader of heads as the oracle: whatever core/http takes, http-parser takes, too, and both
 * see the same framing. Heads are put together from pieces that parsers disagree about, and bytes of
 * them are changed; the seed is fixed.
 *
 * http-parser 2.9.4 is wrong where it takes "Transfer-EncodingX" for Transfer-Encoding, and refuses
 * what Go takes: bytes above 0x7f in a target, tabs around the value of a framing field. */
#include <base/arena.h>
#include <http/parse.h>

#include <check.h>
#include <http_parser.h>
#include <stdlib.h>
#include <string.h>

#define HEADS_N    300000
#define HEAD_BYTES 4096

static const char *const pieces[] = {
    "GET", "POST", "PUT", "OPTIONS", "FOO", "PROPFIND", " ", "  ", "\t", "/", "/t/app/x",
    "/invoke/01FN", "?a=b", "*", "http://h/", "HTTP://u@h/", "https://h:80/x", "HTTP/1.1",
    "HTTP/1.0", "HTTP/1.9", "HTTP/2.0", "\r\n", "\n", "\r", "\r\n\r\n", "Host: a\r\n",
    "Host: a:80\r\n", "host:b\r\n", "Content-Length: 5\r\n", "Content-Length: 0\r\n",
    "Content-Length: 5, 5\r\n", "Content-Length:\r\n", "Content-Length: +5\r\n",
    "Content-Length: 18446744073709551616\r\n", "Content-Length: 9223372036854775808\r\n",
    "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding : chunked\r\n", "transfer-encoding:\tchunked \r\n", "Connection: close\r\n",
    "Connection: keep-alive, Upgrade\r\n", "Upgrade: h2c\r\n", "X: y\r\n", " folded\r\n", "X y\r\n",
    ": v\r\n", "Expect: 100-continue\r\n", "\x80", "\xff", "\x01", "\x7f",
    "Proxy-Connection: keep-alive\r\n", "A: \t b \t\r\n", "Content-Length: 05\r\n",
    "Content-Length: 5 \r\n", "Connection: upgrade\r\nUpgrade: x\r\n",
};
#define PIECES_N (sizeof(pieces) / sizeof(pieces[0]))
enum { METHODS_N = 6, TARGETS_AT = 9, TARGETS_N = 8, VERSIONS_AT = 17, FIELDS_AT = 25 };

static const char *const status_lines[] = { "HTTP/1.1 200 OK\r\n", "HTTP/1.0 204 \r\n",
                                            "HTTP/1.1 502\r\n", "HTTP/1.1 304 x\r\n" };

static const struct parse_limits limits = { 32768, 8192, 100 };
static uint64_t seed = 88172645463325252ull;

static uint64_t below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

static size_t put(char *head, size_t at, const char *text)
{
    memcpy(head + at, text, strlen(text));
    return at + strlen(text);
}

static size_t put_first_line(char *head, bool answer)
{
    size_t n = 0;

    if (answer) {
        return put(head, 0, status_lines[below(4)]);
    }
    n = put(head, n, pieces[below(METHODS_N)]);
    n = put(head, n, " ");
    n = put(head, n, pieces[TARGETS_AT + below(TARGETS_N)]);
    n = put(head, n, below(3) == 0 ? "?q " : " ");
    n = put(head, n, pieces[VERSIONS_AT + below(below(8) > 0 ? 2 : 4)]);
    return put(head, n, "\r\n");
}

static size_t change(char *head, size_t n)
{
    static const char odd[] = " \t\r\n:,;\0aA05";
    size_t at = below(n);

    switch (below(3)) {
    case 0:
        head[at] = (char)below(256);
        return n;
    case 1:
        memmove(head + at, head + at + 1, n - at - 1);
        return n - 1;
    default:
        memmove(head + at + 1, head + at, n - at);
        head[at] = odd[below(sizeof(odd) - 1)];
        return n + 1;
    }
}

static size_t make(char *head, bool answer)
{
    size_t n = below(8) > 0 ? put_first_line(head, answer) : 0;

    if (below(8) > 0) {
        n = put(head, n, "Host: a\r\n");
    }
    for (uint64_t k = below(6); k > 0; k--) {
        n = put(head, n, pieces[below(4) ? FIELDS_AT + below(PIECES_N - FIELDS_AT) : below(PIECES_N)]);
    }
    n = put(head, n, "\r\n");
    for (uint64_t k = below(4); k > 1; k--) {
        n = change(head, n);
    }
    return n;
}

/* What http-parser is known to be wrong about, or stricter than Go. */
static bool is_known(const struct headers *h, const char *head, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)head[i] >= 0x80 || head[i] == '\t') {
            return true;
        }
    }
    for (uint32_t i = 0; i < h->n; i++) {
        if (strlen(h->items[i].name) == strlen("Transfer-EncodingX") &&
            strncasecmp(h->items[i].name, "Transfer-Encoding", strlen("Transfer-Encoding")) == 0) {
            return true;
        }
    }
    return false;
}

static void expect_oracle(const char *head, size_t len, bool answer, const struct parse_framing *f,
                          unsigned status)
{
    static const http_parser_settings no_callbacks;
    http_parser p;
    size_t used;

    http_parser_init(&p, answer ? HTTP_RESPONSE : HTTP_REQUEST);
    used = http_parser_execute(&p, &no_callbacks, head, len);
    ck_assert_msg(HTTP_PARSER_ERRNO(&p) == HPE_OK && used == len, "%.*s\n%s", (int)len, head,
                  http_errno_description(HTTP_PARSER_ERRNO(&p)));
    ck_assert_int_eq(f->chunked, (p.flags & F_CHUNKED) != 0);
    ck_assert_int_eq(f->has_length, (p.flags & F_CONTENTLENGTH) != 0);
    if (f->has_length) {
        ck_assert_uint_eq(f->length, p.content_length);
    }
    ck_assert_uint_eq(p.status_code, status);
}

/* Whether the head was taken. */
static bool read_one(const char *head, size_t len, bool answer)
{
    struct parse_seek seek = { 0 };
    struct parsed_request q = { 0 };
    struct parsed_answer a = { 0 };
    struct refusal r = { 0 };
    struct arena arena;
    int64_t end;
    int e;

    end = parse_seek_end(&seek, head, len, &limits, &r);
    if (end <= 0) {
        return false;
    }
    arena_init(&arena, 0);
    e = answer ? parse_answer(&arena, head, (size_t)end, &limits, &a, &r)
               : parse_request(&arena, head, (size_t)end, &limits, &q, &r);
    if (e == 0 && !is_known(answer ? &a.headers : &q.headers, head, (size_t)end)) {
        expect_oracle(head, (size_t)end, answer, answer ? &a.framing : &q.framing,
                      (unsigned)a.status);
    }
    arena_finish(&arena);
    return e == 0;
}

START_TEST(what_is_taken_the_oracle_takes)
{
    char head[HEAD_BYTES];
    uint32_t taken = 0;

    http_parser_set_max_header_size(UINT32_MAX);
    for (uint32_t i = 0; i < HEADS_N; i++) {
        bool answer = below(4) == 0;

        taken += read_one(head, make(head, answer), answer);
    }
    ck_assert_uint_gt(taken, HEADS_N / 20); /* the others are refused, for whatever reason */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http_oracle");
    TCase *t = tcase_create("oracle");
    SRunner *r;
    int failed;

    tcase_add_test(t, what_is_taken_the_oracle_takes);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
