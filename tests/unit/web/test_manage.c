/* Manage: whose requests reach the API. */
#include <web/manage.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const local[] = { "127.0.0.0/8", "::1" };
static const char *const origins[] = { "http://ui.example" };
static const char *const tokens[] = { "a token" };

#define EVIL "evil.example:8080"

enum { TLS = 1, TOKENS = 2, ORIGINS = 4, ELSEWHERE = 8, URL = 16 };

static const struct {
    const char *host, *origin;
    int rules, status;
} rows[] = {
    { "localhost:8080", NULL, 0, 0 },
    { "localhost:8080", "http://localhost:8080", 0, 0 },
    { "LOCALHOST", "http://localhost", 0, 0 },
    { "127.0.0.1:8080", "http://127.0.0.1:8080", 0, 0 },
    { "[::1]:8080", "http://[::1]:8080", 0, 0 },
    { "192.0.2.1", "http://192.0.2.1", 0, 0 },
    { "localhost:8080", "http://" EVIL, 0, 403 },
    { "localhost:8080", "null", 0, 403 },
    { NULL, "http://" EVIL, 0, 403 },
    /* a name that was made to lead here; without an Origin such a page reads */
    { EVIL, "http://" EVIL, 0, 403 },
    { EVIL, "http://" EVIL, ORIGINS, 403 },
    { EVIL, "http://" EVIL, URL, 403 },
    { EVIL, NULL, 0, 403 },
    { "fn.example:8080", NULL, URL, 0 },
    { NULL, NULL, 0, 0 }, /* HTTP/1.0: a program */
    { "127.0.0.1.evil.example", "http://127.0.0.1.evil.example", 0, 403 },
    { "localhost.evil.example", "http://localhost.evil.example", 0, 403 },
    { "fn.example.", "http://fn.example.", URL, 403 },
    { "fn.example:8080", "http://fn.example:8080", URL, 0 },
    { "FN.example", "https://fn.example", URL, 0 },
    { "fn.exam", "http://fn.exam", URL, 403 },
    /* what such a page does not have, or cannot do */
    { EVIL, "https://" EVIL, TLS, 0 },
    { EVIL, "http://" EVIL, TOKENS, 0 },
    { EVIL, "http://" EVIL, ELSEWHERE, 0 },
    { EVIL, NULL, TOKENS, 0 },
    { EVIL, NULL, ELSEWHERE, 0 },
    { "localhost:8080", "http://ui.example", ORIGINS, 0 },
    { EVIL, "http://ui.example", ORIGINS, 0 },
};

static int check(const char *host, const char *origin, int rules)
{
    const bool away = (rules & ELSEWHERE) != 0;
    const struct cors cors = { .origins = { origins, rules & ORIGINS ? 1 : 0 } };
    const struct api_options options = {
        .clients = { local, away ? 0 : 2 },
        .tokens = { tokens, rules & TOKENS ? 1 : 0 },
        .public_url = rules & URL ? "https://fn.example:443/" : NULL,
    };
    const struct manage_rules m = { &options, &cors, (rules & TLS) != 0 };
    struct fn_error e = ERR_INIT;
    struct http_request req = { .host = host };
    struct net_network n;
    struct arena arena;
    int r;

    arena_init(&arena, 0);
    headers_init(&req.headers, &arena);
    ck_assert_int_eq(net_network_parse(away ? "192.0.2.7" : "127.0.0.1", &n), 0);
    req.client = n.address;
    strcpy(req.peer, "127.0.0.1:4711");
    if (origin) {
        ck_assert_int_eq(headers_add(&req.headers, "Origin", origin), 0);
    }
    r = manage_check(&m, &req, &e);
    arena_finish(&arena);
    return r < 0 ? e.http_status : 0;
}

START_TEST(manage_table)
{
    ck_assert_msg(check(rows[_i].host, rows[_i].origin, rows[_i].rules) == rows[_i].status,
                  "%s %s", rows[_i].host, rows[_i].origin);
}
END_TEST

START_TEST(the_machine_has_its_own_name)
{
    char host[256] = "", origin[300];

    ck_assert_int_eq(gethostname(host, sizeof(host) - 1), 0);
    snprintf(origin, sizeof(origin), "http://%s", host);
    ck_assert_int_eq(check(host, origin, 0), 0);
}
END_TEST

START_TEST(a_loopback_of_ipv6_is_one)
{
    const struct cors cors = { 0 };
    const struct api_options options = { .clients = { local, 2 } };
    const struct manage_rules m = { &options, &cors, false };
    struct http_request req = { .host = EVIL, .peer = "[::1]:4711" };
    struct fn_error e = ERR_INIT;
    struct arena arena;

    arena_init(&arena, 0);
    headers_init(&req.headers, &arena);
    ck_assert_int_lt(manage_check(&m, &req, &e), 0);
    req.host = "[::1]:8080";
    ck_assert_int_eq(manage_check(&m, &req, &e), 0);
    arena_finish(&arena);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("web manage");
    TCase *t = tcase_create("manage");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_loop_test(t, manage_table, 0, sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(t, the_machine_has_its_own_name);
    tcase_add_test(t, a_loopback_of_ipv6_is_one);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
