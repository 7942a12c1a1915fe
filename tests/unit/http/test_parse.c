/* Readers of chunked coding, in pieces of every length, and of the heads of answers, with what
 * each text must become. */
#include <check.h>
#include <fn/abi.h>
#include <http/parse.h>
#include <stdlib.h>
#include <string.h>

#include "suites.h"

static const struct parse_limits limits = { 4096, 1024, 10 };

static enum chunked_outcome decode(const char *text, size_t len, size_t step, char *out,
                                   uint64_t *ret_at)
{
    struct chunked c = { 0 };
    enum chunked_outcome o = CHUNKED_MORE;
    size_t out_n = 0;

    for (size_t at = 0; at < len && o == CHUNKED_MORE; at += step) {
        const char *p = text + at;
        const char *end = text + (at + step < len ? at + step : len);
        const char *data;
        size_t n;

        while ((o = chunked_step(&c, &p, end, &data, &n)) == CHUNKED_DATA) {
            memcpy(out + out_n, data, n);
            out_n += n;
        }
    }
    out[out_n] = '\0';
    *ret_at = c.at;
    return o;
}

static const struct {
    const char *text;
    enum chunked_outcome outcome;
    const char *out;
    uint64_t at; /* bytes consumed, or of the bad byte */
} chunk_cases[] = {
    { "0\r\n\r\n", CHUNKED_END, "", 5 },
    { "5\r\nhello\r\n0\r\n\r\n", CHUNKED_END, "hello", 15 },
    { "5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", CHUNKED_END, "hello!", 25 },
    { "0\r\nX-T: 1\r\nY: \r\n\r\n", CHUNKED_END, "", 18 },
    { "00000000000000A\r\n0123456789\r\n0\r\n\r\n", CHUNKED_END, "0123456789", 34 },
    { "5\r\nhel", CHUNKED_MORE, "hel", 6 },
    { "-1\r\n", CHUNKED_INVALID, "", 0 },
    { "0x10\r\n", CHUNKED_INVALID, "", 1 },
    { "\r\n", CHUNKED_INVALID, "", 0 },
    { "00000000000000005\r\n", CHUNKED_INVALID, "", 16 },
    { "ffffffffffffffff\r\n", CHUNKED_INVALID, "", 17 },
    { "5\nhello\r\n", CHUNKED_INVALID, "", 1 },
    { "5;a\nhello\r\n", CHUNKED_INVALID, "", 3 },
    { "5\r\nhelloX", CHUNKED_INVALID, "hello", 8 },
    { "5\r\nhello\n", CHUNKED_INVALID, "hello", 8 },
    { "5\r\nhello\rX", CHUNKED_INVALID, "hello", 9 },
    { "5\rhello", CHUNKED_INVALID, "", 2 },
    { "0\r\nbad name: 1\r\n\r\n", CHUNKED_INVALID, "", 6 },
    { "0\r\n: 1\r\n\r\n", CHUNKED_INVALID, "", 3 },
    { "0\r\nA: \x01\r\n\r\n", CHUNKED_INVALID, "", 6 },
    { "0\r\nA: 1\n\r\n", CHUNKED_INVALID, "", 7 },
};

START_TEST(chunked_coding_is_strict_at_every_split)
{
    char out[64];
    uint64_t at;

    for (size_t i = 0; i < sizeof(chunk_cases) / sizeof(chunk_cases[0]); i++) {
        size_t len = strlen(chunk_cases[i].text);

        for (size_t step = 1; step <= len; step++) {
            enum chunked_outcome o = decode(chunk_cases[i].text, len, step, out, &at);

            ck_assert_msg(o == chunk_cases[i].outcome && at == chunk_cases[i].at &&
                              strcmp(out, chunk_cases[i].out) == 0,
                          "case %zu step %zu: got %d at %lu \"%s\"", i, step, (int)o,
                          (unsigned long)at, out);
        }
    }
}
END_TEST

START_TEST(small_chunks_with_long_extensions_are_refused)
{
    static char line[256];
    struct chunked c = { 0 };
    enum chunked_outcome o = CHUNKED_MORE;
    const char *data;
    size_t n;
    int rounds = 0;

    memset(line, 'x', sizeof(line));
    memcpy(line, "1;", 2);
    memcpy(line + sizeof(line) - 5, "\r\nA\r\n", 5);
    while (o != CHUNKED_INVALID && rounds < 1000) {
        const char *p = line;

        while ((o = chunked_step(&c, &p, line + sizeof(line), &data, &n)) == CHUNKED_DATA) {
        }
        rounds++;
    }
    ck_assert_int_lt(rounds, 100);
}
END_TEST

static const struct {
    const char *text;
    int status; /* 0 = refused */
    const char *reason;
} answer_cases[] = {
    { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, NULL },
    { "HTTP/1.1 200\r\n\r\n", 200, NULL },
    { "HTTP/1.1 200 \r\n\r\n", 200, NULL },
    { "HTTP/1.0 502 Bad Gateway\r\n\r\n", 502, NULL },
    { "HTTP/1.1 100 Continue\r\n\r\n", 100, NULL },
    { "HTTP/1.1 99 X\r\n\r\n", 0, "status line" },
    { "HTTP/1.1 1000 X\r\n\r\n", 0, "status line" },
    { "HTTP/1.1 099 X\r\n\r\n", 0, "status line" },
    { "HTTP/1.1 600 X\r\n\r\n", 0, "status line" },
    { "HTTP/1.1 2x0 X\r\n\r\n", 0, "status line" },
    { "HTTP/2.0 200 X\r\n\r\n", 0, "status line" },
    { "HTTP/1.1  200 X\r\n\r\n", 0, "status line" },
    { "HTTP/1.1 200 O\x01K\r\n\r\n", 0, "status line" },
    { "ICY 200 OK\r\n\r\n", 0, "status line" },
    { "\x7f\x45LF", 0, "status line" },
    { "HTTP/1.1 200 OK\nA: b\r\n\r\n", 0, "status line" },
    { "HTTP/1.1 200 OK\r\nA: b\n\r\n", 0, "HTTP106" },
    { "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", 0, "HTTP105" },
    { "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", 0, "HTTP105" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 0, "HTTP102" },
    { "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, "HTTP102" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "HTTP101" },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", 0, "HTTP103" },
};

START_TEST(answers_are_parsed_strictly)
{
    for (size_t i = 0; i < sizeof(answer_cases) / sizeof(answer_cases[0]); i++) {
        const char *text = answer_cases[i].text;
        struct parse_seek seek = { 0 };
        struct parsed_answer a = { 0 };
        struct refusal r = { 0 };
        struct arena arena;
        int64_t end = parse_seek_end(&seek, text, strlen(text), &limits, &r);
        int e;

        ck_assert_msg(end > 0, "case %zu", i);
        arena_init(&arena, 0);
        e = parse_answer(&arena, text, (size_t)end, &limits, &a, &r);
        if (answer_cases[i].status) {
            ck_assert_msg(e == 0 && a.status == answer_cases[i].status, "case %zu: %s", i, r.text);
        } else {
            ck_assert_msg(e == FN_E_INVALID && strstr(r.text, answer_cases[i].reason),
                          "case %zu: %d %s", i, e, r.text);
        }
        arena_finish(&arena);
    }
}
END_TEST

START_TEST(names_become_canonical_and_values_are_trimmed)
{
    static const char text[] = "GET / HTTP/1.1\r\nhOsT: a\r\nx-fn-ID:\t v w \t\r\nempty:\r\n\r\n";
    struct parsed_request q;
    struct refusal r;
    struct arena arena;

    arena_init(&arena, 0);
    ck_assert_int_eq(parse_request(&arena, text, sizeof(text) - 1, &limits, &q, &r), 0);
    ck_assert_uint_eq(q.headers.n, 3);
    ck_assert_str_eq(q.headers.items[0].name, "Host");
    ck_assert_str_eq(q.headers.items[1].name, "X-Fn-Id");
    ck_assert_str_eq(q.headers.items[1].value, "v w");
    ck_assert_str_eq(q.headers.items[2].value, "");
    ck_assert_int_eq(headers_add(&q.headers, "More", "1"), 0);
    ck_assert_str_eq(headers_get(&q.headers, "more"), "1");
    arena_finish(&arena);
}
END_TEST

void add_parse(Suite *s)
{
    TCase *t = tcase_create("parse");

    tcase_add_test(t, chunked_coding_is_strict_at_every_split);
    tcase_add_test(t, small_chunks_with_long_extensions_are_refused);
    tcase_add_test(t, answers_are_parsed_strictly);
    tcase_add_test(t, names_become_canonical_and_values_are_trimmed);
    suite_add_tcase(s, t);
}
