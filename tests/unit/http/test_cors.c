/* CORS: which requests are judged how, and the headers of each verdict. */
#include "suites.h"

#include <http/cors.h>
#include <stdio.h>
#include <string.h>

static const char *const listed[] = { "http://one.example", "https://two.example:8443" };
static const char *const star[] = { "*" };
static const struct cors list = { .origins = { listed, 2 } };
static const struct cors all = { .origins = { star, 1 } };
static const struct cors off;

static const struct {
    const struct cors *cors;
    const char *method;
    const char *origin; /* NULL = none sent */
    enum cors_verdict verdict;
} rows[] = {
    { &off, "POST", "http://one.example", CORS_NONE },
    { &off, "OPTIONS", "http://one.example", CORS_NONE },
    { &list, "POST", NULL, CORS_NONE },
    { &list, "OPTIONS", NULL, CORS_NONE },
    { &list, "POST", "", CORS_NONE },
    { &list, "POST", "http://one.example", CORS_ALLOWED },
    { &list, "OPTIONS", "https://two.example:8443", CORS_PREFLIGHT },
    { &list, "POST", "https://one.example", CORS_REFUSED },
    { &list, "POST", "http://one.example.evil", CORS_REFUSED },
    { &list, "OPTIONS", "null", CORS_REFUSED },
    { &list, "POST", "http://Node.example:8080", CORS_NONE },
    { &list, "POST", "http://node.example", CORS_REFUSED },
    { &list, "POST", "*", CORS_REFUSED },
    { &all, "POST", "null", CORS_ALLOWED },
    { &all, "OPTIONS", "http://x", CORS_PREFLIGHT },
};

START_TEST(verdicts)
{
    struct arena a;
    struct headers h;
    const char *origin;

    arena_init(&a, 0);
    headers_init(&h, &a);
    if (rows[_i].origin) {
        headers_add(&h, "Origin", rows[_i].origin);
    }
    ck_assert_int_eq(
        cors_judge(rows[_i].cors, rows[_i].method, "node.example:8080", &h, &origin),
        rows[_i].verdict);
    arena_finish(&a);
}
END_TEST

static void expect(const struct cors *c, enum cors_verdict verdict, const char *expected)
{
    char text[1024] = "";
    struct arena a;
    struct headers h;

    arena_init(&a, 0);
    headers_init(&h, &a);
    headers_add(&h, "Access-Control-Allow-Origin", "http://of.the.function");
    ck_assert_int_eq(cors_add(c, verdict, "http://one.example", &h), 0);
    for (uint32_t i = 0; i < h.n; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s: %s\n", h.items[i].name,
                 h.items[i].value);
    }
    ck_assert_str_eq(text, expected);
    arena_finish(&a);
}

START_TEST(headers_of_verdicts)
{
    static const char *const names[] = { "X-A", "X-B" };
    const struct cors named = { .origins = { star, 1 }, .headers = { names, 2 } };

    expect(&list, CORS_ALLOWED,
           "Access-Control-Allow-Origin: http://one.example\n"
           "Vary: Origin\n");
    expect(&all, CORS_ALLOWED, "Access-Control-Allow-Origin: *\n");
    expect(&list, CORS_PREFLIGHT,
           "Access-Control-Allow-Origin: http://one.example\n"
           "Vary: Origin\n"
           "Vary: Access-Control-Request-Method\n"
           "Vary: Access-Control-Request-Headers\n"
           "Access-Control-Allow-Methods: GET,POST,PUT,HEAD,DELETE\n"
           "Access-Control-Max-Age: 43200\n"
           "Access-Control-Allow-Headers: Origin,Content-Length,Content-Type\n");
    expect(&named, CORS_PREFLIGHT,
           "Access-Control-Allow-Origin: *\n"
           "Access-Control-Allow-Methods: GET,POST,PUT,HEAD,DELETE\n"
           "Access-Control-Max-Age: 43200\n"
           "Access-Control-Allow-Headers: X-A,X-B\n");
}
END_TEST

START_TEST(origins_that_may_be_configured)
{
    ck_assert_int_eq(cors_origin_check("*", 0), 0);
    ck_assert_int_lt(cors_origin_check("*", 1), 0);
    ck_assert_int_eq(cors_origin_check("https://a", 3), 0);
    ck_assert_int_lt(cors_origin_check("a.example", 0), 0);
    ck_assert_int_lt(cors_origin_check("file:///a", 0), 0);
}
END_TEST

void add_cors(Suite *s)
{
    TCase *t = tcase_create("cors");

    tcase_add_loop_test(t, verdicts, 0, sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(t, headers_of_verdicts);
    tcase_add_test(t, origins_that_may_be_configured);
    suite_add_tcase(s, t);
}
