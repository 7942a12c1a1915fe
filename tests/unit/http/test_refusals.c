/* Bad and good requests in a table, each sent whole, cut in two at every byte, and byte by byte:
 * the outcome must never depend on the cuts. */
#include "client.h"
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(t) t, sizeof(t) - 1
#define HEAD    "POST /echo HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED HEAD "Transfer-Encoding: chunked\r\n\r\n"

static const struct {
    const char *text;
    size_t len;
    int status;
    const char *sentence;
} bad[] = {
    { TEXT(HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), 400,
      "HTTP101 both Content-Length and Transfer-Encoding" },
    { TEXT(HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), 400,
      "HTTP102 invalid Content-Length" },
    { TEXT(HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: 5, 5\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: +5\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: -5\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: 0x5\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length:\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: 1_0\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: 18446744073709551616\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length: 9223372036854775808\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501,
      "HTTP103 unsupported transfer coding" },
    { TEXT(HEAD "Transfer-Encoding: ,chunked\r\n\r\n"), 501, "HTTP103" },
    { TEXT(HEAD "Transfer-Encoding: chunked, cow\r\n\r\n"), 501, "HTTP103" },
    { TEXT(HEAD "Transfer-Encoding: identity\r\n\r\n"), 501, "HTTP103" },
    { TEXT(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 501,
      "HTTP103" },
    { TEXT(CHUNKED "-1\r\n"), 400, "HTTP104 invalid chunk at byte 0" },
    { TEXT(CHUNKED "0x10\r\n"), 400, "HTTP104 invalid chunk at byte 1" },
    { TEXT(CHUNKED "\r\n"), 400, "HTTP104 invalid chunk at byte 0" },
    { TEXT(CHUNKED "00000000000000001\r\n"), 400, "HTTP104 invalid chunk at byte 16" },
    { TEXT(CHUNKED "5\nhello"), 400, "HTTP104 invalid chunk at byte 1" },
    { TEXT(CHUNKED "5\r\nhello0\r\n\r\n"), 400, "HTTP104 invalid chunk at byte 8" },
    { TEXT(HEAD "A : b\r\n\r\n"), 400, "HTTP105 invalid header name at line 3" },
    { TEXT(HEAD "A: b\r\n c\r\n\r\n"), 400, "HTTP105 invalid header name at line 4" },
    { TEXT("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400, "HTTP105 invalid header name at line 2" },
    { TEXT(HEAD "A\0: b\r\n\r\n"), 400, "HTTP105" },
    { TEXT(HEAD "A\x80: b\r\n\r\n"), 400, "HTTP105" },
    { TEXT(HEAD "A(: b\r\n\r\n"), 400, "HTTP105" },
    { TEXT(HEAD ": b\r\n\r\n"), 400, "HTTP105" },
    { TEXT(HEAD "Ab\r\n\r\n"), 400, "HTTP105" },
    { TEXT(HEAD "A: b\rc\r\n\r\n"), 400, "HTTP106 control byte in header \\\"A\\\"" },
    { TEXT(HEAD "A: b\nc: d\r\n\r\n"), 400, "HTTP106 control byte in header \\\"A\\\"" },
    { TEXT(HEAD "A: b\0c\r\n\r\n"), 400, "HTTP106 control byte in header \\\"A\\\"" },
    { TEXT(HEAD "A: b\r\r\n\r\n"), 400, "HTTP106" },
    { TEXT(HEAD "A: b\x7f\r\n\r\n"), 400, "HTTP106" },
    { TEXT("GET /echo HTTP/1.1\r\n\r\n"), 400, "HTTP107 Host" },
    { TEXT("GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400, "HTTP107 Host" },
    { TEXT("GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n"), 400, "HTTP107 Host" },
    { TEXT("GET /echo HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400, "HTTP107 Host" },
    { TEXT("GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET  /a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET http://u@h/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET http://h#x/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a HTTP/1.1\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a HTTP/1.1 \r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a http/1.1\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a HTTP/x\r\nHost: a\r\n\r\n"), 400, "HTTP108 request line" },
    { TEXT("GET /a HTTP/1.10\r\nHost: a\r\n\r\n"), 505, "HTTP108 request line: version" },
    { TEXT("GET /a HTTP/9.9\r\nHost: a\r\n\r\n"), 505, "HTTP108 request line: version" },
    { TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, "HTTP108 request line: version" },
    { TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400, "HTTP108 request line" },
    { TEXT("\0"), 400, "HTTP108 request line" },
    { TEXT("\n"), 400, "HTTP108 request line" },
    { TEXT(HEAD "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n"), 417, "HTTP112 Expect" },
    { TEXT("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"), 405, "HTTP113 method not allowed" },
    { TEXT("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "HTTP113 method not allowed" },
    { TEXT("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "HTTP113 unknown method" },
    { TEXT("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 405, "HTTP113 unknown method" },
    { TEXT(HEAD "Content-Length: 6291457\r\n\r\n"), 413, "HTTP110 body > 6291456 bytes" },
    { TEXT(HEAD "Content-Length: 1\t0\r\n\r\n"), 400, "HTTP102" },
    { TEXT(HEAD "Content-Length\t: 1\r\n\r\n"), 400, "HTTP105 invalid header name at line 3" },
    { TEXT(HEAD "Content-Length: 1\r\n\tTransfer-Encoding: chunked\r\n\r\n"), 400,
      "HTTP105 invalid header name at line 4" },
    { TEXT(HEAD "Transfer-Encoding: x\tchunked\r\n\r\n"), 501, "HTTP103" },
    { TEXT(HEAD "Transfer-Encoding: chunked\t, x\r\n\r\n"), 501, "HTTP103" },
    { TEXT(HEAD "Content-Length: 5\t\r\nTransfer-Encoding:\tchunked\r\n\r\n"), 400,
      "HTTP101 both Content-Length and Transfer-Encoding" },
};

/* Good ones: answered with 200 and what the handler understood; the last asks for the end. */
static const struct {
    const char *text;
    size_t len;
    const char *part; /* of the first answer */
} good[] = {
    { TEXT("GET /echo?a=1&b HTTP/1.1\r\nHost: h:80\r\nConnection: close\r\n\r\n"),
      "GET /echo?a=1&b /echo a=1&b h:80 2\n" },
    { TEXT("\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
           "GET /echo HTTP/1.1\r\nhost: b\r\nconnection: close\r\n\r\n"),
      "\n\nhelloHTTP/1.1 200 OK" },
    { TEXT(CHUNKED "5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n"
                   "GET /plain HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"),
      "\n\nhello!HTTP/1.1 200 OK" },
    { TEXT("GET http://x.y:1/echo?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
      " /echo q x.y:1 2\n" },
    { TEXT("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), "OPTIONS * * - a 2\n" },
    { TEXT("GET /\xc0\xaf HTTP/1.1\r\nHost:\r\nConnection: x, Close\r\n\r\n"),
      " /\xc0\xaf -  2\n" },
    { TEXT("GET /plain HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
           "Connection: Upgrade, HTTP2-Settings, close\r\n\r\n"),
      "\r\n\r\nok" },
    { TEXT("GET /plain HTTP/1.0\r\n\r\n"), "Connection: close\r\n\r\nok" },
    { TEXT(HEAD "Content-Length:\t5 \t\r\n\r\nhello"
                "GET /plain HTTP/1.2\r\nHost: b\r\nConnection: close\r\n\r\n"),
      "\n\nhelloHTTP/1.1 200 OK" },
    { TEXT(HEAD "Transfer-Encoding: \tchunked\t\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                "GET /plain HTTP/1.9\r\nHost: b\r\nConnection: close\r\n\r\n"),
      "\n\nhelloHTTP/1.1 200 OK" },
    { TEXT("GET /plain HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /plain HTTP/1.0\r\n\r\n"),
      "Connection: keep-alive\r\n\r\nokHTTP/1.1 200" },
    { TEXT("HEAD /plain HTTP/1.1\r\nHost: a\r\n\r\n"
           "GET /204 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
      "Content-Length: 2\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n" },
};

/* Sends pieces of `step` bytes, the first of `first` bytes; each is consumed before the next. */
static char *exchange(const char *text, size_t len, size_t first, size_t step)
{
    int fd = dial();
    char *answer;

    for (size_t at = 0; at < len;) {
        size_t n = at == 0 ? first : step;

        n = n < len - at ? n : len - at;
        send_all(fd, text + at, n);
        at += n;
        if (at < len) {
            wait_consumed(fd);
        }
    }
    answer = read_to_end(fd, NULL);
    close(fd);
    drop_date(answer);
    return answer;
}

static void start(void)
{
    struct http_limits limits = default_limits();

    server_start(NULL, &limits);
}

START_TEST(bad_requests_get_their_code_and_sentence_and_the_end)
{
    char expected[64];
    char *answer = exchange(bad[_i].text, bad[_i].len, bad[_i].len, 1);
    char *again;

    snprintf(expected, sizeof(expected), "HTTP/1.1 %d ", bad[_i].status);
    ck_assert_msg(strncmp(answer, expected, strlen(expected)) == 0, "%s", answer);
    ck_assert_ptr_nonnull(strstr(answer, "\r\nConnection: close\r\n"));
    ck_assert_msg(strstr(answer, "{\"message\":\"") && strstr(answer, bad[_i].sentence), "%s",
                  answer);
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    for (size_t cut = 1; cut < bad[_i].len; cut++) {
        again = exchange(bad[_i].text, bad[_i].len, cut, bad[_i].len);
        ck_assert_str_eq(answer, again);
        free(again);
    }
    again = exchange(bad[_i].text, bad[_i].len, 1, 1);
    ck_assert_str_eq(answer, again);
    free(again);
    free(answer);
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
}
END_TEST

START_TEST(good_requests_are_understood_at_every_cut)
{
    char *answer = exchange(good[_i].text, good[_i].len, good[_i].len, 1);
    char *again;

    ck_assert_msg(strncmp(answer, "HTTP/1.1 200 ", 13) == 0 && strstr(answer, good[_i].part), "%s",
                  answer);
    for (size_t cut = 1; cut < good[_i].len; cut++) {
        again = exchange(good[_i].text, good[_i].len, cut, good[_i].len);
        ck_assert_str_eq(answer, again);
        free(again);
    }
    again = exchange(good[_i].text, good[_i].len, 1, 1);
    ck_assert_str_eq(answer, again);
    free(again);
    free(answer);
}
END_TEST

static char *with_filler(size_t line_len, size_t field_n, size_t field_len, size_t *ret_len)
{
    struct buf b = BUF_INIT(0);

    buf_add_str(&b, "GET /");
    for (size_t i = 0; i < line_len; i++) {
        buf_add_str(&b, "a");
    }
    buf_add_str(&b, " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
    for (size_t i = 0; i < field_n; i++) {
        buf_printf(&b, "X-%zu: ", i);
        for (size_t k = 0; k < field_len; k++) {
            buf_add_str(&b, "v");
        }
        buf_add_str(&b, "\r\n");
    }
    buf_add_str(&b, "\r\n");
    *ret_len = b.len;
    return b.data;
}

static const struct {
    size_t line_len, field_n, field_len;
    const char *answer, *sentence;
} sizes[] = {
    { 9216, 0, 0, "HTTP/1.1 414 ", "HTTP109 request line > 8192 bytes" },
    { 8177, 0, 0, "HTTP/1.1 200 ", "" }, /* "GET /", " HTTP/1.1": 8191 bytes */
    { 8179, 0, 0, "HTTP/1.1 414 ", "HTTP109 request line > 8192 bytes" },
    { 1, 33, 1024, "HTTP/1.1 431 ", "HTTP109 header block > 32 KiB" },
    { 1, 98, 1, "HTTP/1.1 200 ", "" },
    { 1, 99, 1, "HTTP/1.1 431 ", "HTTP109 more than 100 header fields" },
};

START_TEST(heads_have_limits)
{
    size_t cuts[] = { 0, 1, 5000, 8200, 20000, 32767, 32768 };
    size_t len;
    char *text = with_filler(sizes[_i].line_len, sizes[_i].field_n, sizes[_i].field_len, &len);

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        char *answer = exchange(text, len, cuts[i] ? cuts[i] : len, len);

        ck_assert_msg(strncmp(answer, sizes[_i].answer, 13) == 0 &&
                          strstr(answer, sizes[_i].sentence),
                      "cut %zu: %.200s", cuts[i], answer);
        free(answer);
    }
    free(text);
}
END_TEST

void add_refusals(Suite *s)
{
    TCase *t = tcase_create("refusals");

    tcase_add_checked_fixture(t, start, server_stop);
    tcase_add_loop_test(t, bad_requests_get_their_code_and_sentence_and_the_end, 0,
                        (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(t, good_requests_are_understood_at_every_cut, 0,
                        (int)(sizeof(good) / sizeof(good[0])));
    tcase_add_loop_test(t, heads_have_limits, 0, (int)(sizeof(sizes) / sizeof(sizes[0])));
    suite_add_tcase(s, t);
}
