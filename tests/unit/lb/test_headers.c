/* Routes and headers, both ways: reserved names and what could break the framing do not pass. */
#include "../lib/poor.h"
#include "fixture.h"
#include "suites.h"

#include <lb/lb_int.h>

#include <stdio.h>
#include <string.h>

static void setup(void)
{
    lb_opts = (struct lb_options){ .placement_timeout_ns = ENV_S, .response_buffer_bytes = 65536 };
    fixture_api = false;
    lb_setup();
    PUBLISH("r1:1");
}

/* ---- routes ---------------------------------------------------------------------------------- */

static const struct {
    const char *method;
    const char *path;
    int status; /* 0 = placed */
    const char *text;
} routes[] = {
    { "POST", "/invoke/" FN_HELLO, 0, "" },
    { "POST", "/invoke/%301FNHELLO00000000000000000", 0, "" },
    { "GET", "/invoke/" FN_HELLO, 405, "Method not allowed: GET /invoke/" FN_HELLO },
    { "HEAD", "/invoke/" FN_HELLO, 405, "Method not allowed" },
    { "POST", "/invoke/", 404, "Path not found: POST /invoke/" },
    { "POST", "/invoke/a/b", 404, "Path not found" },
    { "POST", "/invoke/nope", 404, "Fn not found" },
    { "POST", "/invoke/..%2f..%2fetc", 404, "Fn not found" },
    { "POST", "/invoke/%2e%2e%2f", 404, "Fn not found" },
    { "POST", "/invoke/%c0%ae", 404, "Fn not found" },
    { "POST", "/invoke/%", 404, "Fn not found" },
    { "POST", "/invoke/%zz", 404, "Fn not found" },
    { "POST", "/invoke/a%00b", 404, "Fn not found" },
    { "POST", "/invoke/a%0d%0ab", 404, "Fn not found" },
    { "POST", "/invoke/" FN_HELLO "/", 307, "" },
    { "GET", "/invoke/" FN_HELLO "/", 404, "Path not found" },
    { "POST", "/invoke//", 404, "Path not found" },
    { "POST", "/invoke/" FN_HELLO "//", 404, "Path not found" },
    { "GET", "/t/demo/hello", 0, "" },
    { "DELETE", "/t/demo/hello?q=/x", 0, "" },
    { "GET", "/t/demo/%68ello", 0, "" },
    { "GET", "/t/demo", 0, "" },
    { "GET", "/t/demo/", 0, "" },
    { "GET", "/t/demo/a%20b%25", 0, "" },
    { "GET", "/t/demo/hello/", 404, "Trigger not found" },
    { "GET", "/t/demo//hello", 404, "Trigger not found" },
    { "GET", "/t/demo/hello/x", 404, "Trigger not found" },
    { "GET", "/t/demo/HELLO", 404, "Trigger not found" },
    { "GET", "/t/demo/a%00", 404, "Trigger not found" },
    { "GET", "/t/", 404, "Path not found: GET /t/" },
    { "GET", "/t//hello", 404, "Path not found" },
    { "GET", "/t/%ff/hello", 404, "App not found" },
    { "POST", "/invoke/..", 404, "Fn not found" },
    { "POST", "/invoke/%2e", 404, "Fn not found" },
    { "GET", "/t/../hello", 404, "App not found" },
    { "GET", "/t/demo/../hello", 404, "Trigger not found" },
    { "GET", "/t/demo/x/%2e%2E/hello", 404, "Trigger not found" },
    { "GET", "/t/demo/%2e%2e%2fhello", 404, "Trigger not found" },
    { "GET", "/t/demo/hello/.", 404, "Trigger not found" },
};

START_TEST(route_table)
{
    struct client *c = send_request(routes[_i].method, routes[_i].path, "", NULL);

    if (!routes[_i].status) {
        ck_assert_msg(fe.attempts_open == 1, "%s", routes[_i].path);
        client_gone(c);
    } else {
        ck_assert_msg(c->status == routes[_i].status, "%s: %d", routes[_i].path, c->status);
        ck_assert_msg(strncmp(buf_text(&c->message), routes[_i].text, strlen(routes[_i].text)) == 0,
                      "%s: %s", routes[_i].path, buf_text(&c->message));
        ck_assert_str_eq(answer_header(c, "Fn-Outcome"), "not-executed");
    }
    client_free(c);
}
END_TEST

START_TEST(a_slash_too_many_is_taken_off)
{
    struct client *c = send_request("POST", "/invoke/" FN_HELLO "/?a=b/", "", NULL);

    ck_assert_int_eq(c->status, 307);
    ck_assert_str_eq(answer_header(c, "Location"), "/invoke/" FN_HELLO "?a=b/");
    ck_assert_uint_eq(fe.attempts_made, 0);
    client_free(c);
}
END_TEST

/* Who has no memory for a name does not say that nothing has it. */
START_TEST(routes_without_memory)
{
    static const char *const paths[] = { "/invoke/" FN_HELLO, "/invoke/" FN_HELLO "/",
                                         "/t/demo/hello" };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct arena arena = { .limit_bytes = 1 };
        struct headers none = { .arena = &arena };
        const struct lb_request rq = { .arena = &arena, .method = "POST", .path = paths[i],
                                       .target = paths[i], .headers = &none };
        struct fn_error e = ERR_INIT;
        struct route route;

        ck_assert_int_eq(route_match(&rq, &route, &e), FN_E_EXHAUSTED);
        ck_assert_int_eq(err_http_status(&e), 503);
        ck_assert_str_eq(e.msg, "out of memory");
    }
}
END_TEST

static struct {
    int status;
    char outcome[32];
} redirected;

static void keep_answer(int status, const struct headers *h)
{
    const char *outcome = h ? headers_get(h, "Fn-Outcome") : NULL;

    redirected.status = status;
    snprintf(redirected.outcome, sizeof(redirected.outcome), "%s", outcome ? outcome : "");
}

static void keep_whole(void *ud, int status, const struct headers *h, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
    keep_answer(status, h);
}

static void keep_error(void *ud, int status, const struct headers *h, const char *text)
{
    (void)ud;
    (void)text;
    keep_answer(status, h);
}

/* What became of the call is in the answer, with memory for one of its parts or without. */
START_TEST(sent_elsewhere_without_memory)
{
    static const struct lb_reply keep = { .whole = keep_whole, .error = keep_error };
    char path[900] = "/invoke/"; /* leaves no room for headers in a piece of the arena */
    bool hit = true;

    memset(path + 8, 'a', sizeof(path) - 10);
    path[sizeof(path) - 2] = '/';
    for (unsigned n = 1; hit; n++) {
        struct arena arena = { 0 };
        struct headers none = { .arena = &arena };
        const struct lb_request rq = { .arena = &arena, .method = "POST", .path = path,
                                       .target = path, .headers = &none };

        poor_begin(n);
        ck_assert_ptr_null(lb_submit(lb, &rq, &keep, NULL));
        hit = poor_end();
        ck_assert_int_eq(redirected.status, hit ? 503 : 307);
        ck_assert_str_eq(redirected.outcome, "not-executed");
        arena_finish(&arena);
    }
}
END_TEST

/* So is whose it is. */
START_TEST(a_detached_call_has_its_id_without_memory)
{
    struct engage_attempt *a;
    struct client *c;

    lb_opts.detached = true;
    lb_set_options(lb, &lb_opts);
    c = send_request("POST", "/invoke/" FN_HELLO, "", "Fn-Invoke-Type", "detached", NULL);
    a = fake_engage_last(&fe);
    c->call->arena.limit_bytes = 1;
    while (arena_alloc(&c->call->arena, 1)) {
    }
    fake_attempt_start(a, 202, NULL);
    ck_assert_int_eq(c->status, 202);
    ck_assert_uint_eq(strlen(answer_header(c, "Fn-Call-Id")), CALL_ID_LEN);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    client_free(c);
}
END_TEST

START_TEST(long_id)
{
    char path[400] = "/invoke/";
    struct client *c;

    memset(path + 8, 'a', 300);
    c = send_request("POST", path, "", NULL);
    ck_assert_int_eq(c->status, 404);
    client_free(c);
}
END_TEST

START_TEST(invoke_types)
{
    static const struct {
        const char *type;
        int status;
        const char *text;
    } rows[] = {
        { "sync", 0, "" },
        { "detached", 501, "Detach call functions are not supported on this server" },
        { "sometimes", 400, "FN202 invoke type, got \"sometimes\"; expected sync or detached" },
        { "Detached", 400, "FN202" },
        { "", 0, "" }, /* as templates write what is not set */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c = send_request("POST", "/invoke/" FN_HELLO, "", "Fn-Invoke-Type",
                                        rows[i].type, NULL);

        if (rows[i].status) {
            ck_assert_int_eq(c->status, rows[i].status);
            ck_assert_ptr_nonnull(strstr(buf_text(&c->message), rows[i].text));
        } else {
            client_gone(c);
        }
        client_free(c);
    }
}
END_TEST

/* ---- to the function ------------------------------------------------------------------------- */

/* want NULL = the function must not see it. */
static const struct {
    const char *name;
    const char *value;
    const char *invoke; /* name seen on /invoke */
    const char *trigger; /* name seen on /t */
} up[] = {
    { "X-Any", "1", "X-Any", "Fn-Http-H-X-Any" },
    { "Content-Type", "a/b", "Content-Type", "Content-Type" },
    { "Content-Length", "0", "Content-Length", "Fn-Http-H-Content-Length" },
    { "User-Agent", "c", "User-Agent", "Fn-Http-H-User-Agent" },
    { "Host", "h", NULL, NULL },
    { "Connection", "close", "Connection", NULL },
    { "Keep-Alive", "1", "Keep-Alive", NULL },
    { "Transfer-Encoding", "chunked", "Transfer-Encoding", NULL },
    { "Te", "gzip", "Te", NULL },
    { "Te", "trailers", "Te", "Fn-Http-H-Te" },
    { "Upgrade", "h2c", "Upgrade", NULL },
    { "Proxy-Authorization", "x", "Proxy-Authorization", NULL },
    { "Trailer", "x", "Trailer", NULL },
    { "Fn-Call-Id", "mine", NULL, "Fn-Http-H-Fn-Call-Id" },
    { "Fn-Deadline", "never", NULL, "Fn-Http-H-Fn-Deadline" },
    { "Fn-Intent", "evil", NULL, "Fn-Http-H-Fn-Intent" },
    { "Fn-Http-Method", "EVIL", NULL, "Fn-Http-H-Fn-Http-Method" },
    { "Fn-Http-Request-Url", "x", NULL, "Fn-Http-H-Fn-Http-Request-Url" },
    { "Fn-Http-H-X", "x", NULL, "Fn-Http-H-Fn-Http-H-X" },
    { "Fn-Other", "x", "Fn-Other", "Fn-Http-H-Fn-Other" },
};

static void check_seen(const char *name, const char *value, const char *want, bool trigger)
{
    struct client *c = trigger ? TRIGGER(name, value)
                               : send_request("POST", "/invoke/" FN_HELLO, "", name, value, NULL);
    struct engage_attempt *a = fake_engage_last(&fe);
    struct arena arena;
    struct call m;
    const char *got;

    arena_init(&arena, 0);
    call_init(&m, &arena);
    ck_assert_int_eq(call_from_json(&m, a->json, strlen(a->json), NULL), 0);
    if (want) {
        got = headers_get(&m.headers, want);
        ck_assert_msg(got && strcmp(got, value) == 0, "%s as %s: %s", name, want, got);
    }
    if (!want || strcmp(want, name) != 0) {
        got = headers_get(&m.headers, name);
        ck_assert_msg(!got || strcmp(got, value) != 0, "%s passed", name);
    }
    if (trigger) {
        got = headers_get(&m.headers, arena_printf(&arena, "Fn-Http-H-%s", name));
        ck_assert_msg(want || !got, "%s passed", name);
        ck_assert_str_eq(headers_get(&m.headers, "Fn-Http-Method"), "GET");
        ck_assert_str_eq(headers_get(&m.headers, "Fn-Intent"), "httprequest");
        ck_assert_str_eq(headers_get(&m.headers, "Fn-Http-Request-Url"),
                         "http://lb:8080/t/demo/hello");
        ck_assert(!m.detached);
    }
    arena_finish(&arena);
    client_gone(c);
    client_free(c);
}

START_TEST(the_url_of_a_request_to_a_proxy)
{
    struct client *c = send_request("GET", "http://other:1/t/demo/hello?q=/x", "", NULL);

    ck_assert_ptr_nonnull(strstr(fake_engage_last(&fe)->json,
                                 "\"Fn-Http-Request-Url\":[\"http://other:1/t/demo/hello?q=/x\"]"));
    client_gone(c);
    client_free(c);
}
END_TEST

START_TEST(request_headers)
{
    check_seen(up[_i].name, up[_i].value, up[_i].invoke, false);
    check_seen(up[_i].name, up[_i].value, up[_i].trigger, true);
}
END_TEST

START_TEST(reserved_are_counted)
{
    struct metric *m = metric_simple("fn_reserved_header_dropped", METRIC_COUNTER, "");
    int64_t before = metric_value(m);
    struct client *c = send_request("POST", "/invoke/" FN_HELLO, "", "Fn-Call-Id", "a",
                                    "Fn-Deadline", "b", "Fn-Intent", "c", "X", "d", NULL);

    ck_assert_int_eq(metric_value(m) - before, 3);
    client_gone(c);
    client_free(c);
}
END_TEST

/* ---- to the client --------------------------------------------------------------------------- */

/* What the function sends; what the client must get: NULL = nothing of it, "" = no such header. */
static const struct {
    bool trigger;
    const char *name;
    const char *value;
    int status;
    const char *header; /* that the client gets, or NULL */
    const char *want;
} down[] = {
    { 0, "X-Any", "1", 200, "X-Any", "1" },
    { 0, "Content-Type", "a/b", 200, "Content-Type", "a/b" },
    { 0, "Date", "today", 200, "Date", "today" },
    { 0, "Fn-Fdk-Version", "x/1", 200, "Fn-Fdk-Version", "x/1" },
    { 0, "Fn-Http-Status", "404", 200, "Fn-Http-Status", "404" },
    { 0, "Fn-Http-H-X", "1", 200, "Fn-Http-H-X", "1" },
    { 0, "Content-Length", "3", 502, "Content-Length", "" },
    { 0, "Content-Length", "0", 200, "Content-Length", "" },
    { 0, "Content-Length", "abc", 200, "Content-Length", "" },
    { 0, "Content-Length", "-1", 200, "Content-Length", "" },
    { 0, "Transfer-Encoding", "chunked", 200, "Transfer-Encoding", "" },
    { 0, "Connection", "close", 200, "Connection", "" },
    { 0, "Keep-Alive", "1", 200, "Keep-Alive", "" },
    { 0, "Trailer", "x", 200, "Trailer", "" },
    { 0, "Upgrade", "h2c", 200, "Upgrade", "" },
    { 0, "Proxy-Connection", "x", 200, "Proxy-Connection", "" },
    { 0, "Te", "trailers", 200, "Te", "" },
    { 0, "Bad Name", "x", 200, "Bad Name", "" },
    { 0, "Bad:Name", "x", 200, "Bad", "" },
    { 0, "", "x", 200, "", "" },
    { 0, "X\r\nY", "x", 200, "X\r\nY", "" },
    { 0, "X-Crlf", "a\r\nSet-Cookie: b", 200, "X-Crlf", "" },
    { 0, "X-Lf", "a\nb", 200, "X-Lf", "" },
    { 0, "X-Ctl", "a\x01", 200, "X-Ctl", "" },
    { 0, "X-Del", "a\x7f", 200, "X-Del", "" },
    { 0, "X-Utf8", "\xff", 200, "X-Utf8", "" },
    { 0, "X-Tab", "a\tb", 200, "X-Tab", "a\tb" },
    { 0, "Fn-Outcome", "failed", 200, "Fn-Outcome", "ok" },
    { 1, "X-Any", "1", 200, "X-Any", "" },
    { 1, "Content-Type", "a/b", 200, "Content-Type", "a/b" },
    { 1, "content-type", "a/b", 200, "Content-Type", "a/b" },
    { 1, "Date", "today", 200, "Date", "" },
    { 1, "Fn-Fdk-Version", "x/1", 200, "Fn-Fdk-Version", "" },
    { 1, "Fn-Http-H-X", "1", 200, "X", "1" },
    { 1, "fn-http-h-x", "1", 200, "x", "1" },
    { 1, "Fn-Http-H-X", "1", 200, "Fn-Http-H-X", "" },
    { 1, "Fn-Http-H-", "1", 200, "", "" },
    { 1, "Fn-Http-H-Content-Type", "c/d", 200, "Content-Type", "c/d" },
    { 1, "Fn-Http-H-Content-Length", "999", 200, "Content-Length", "" },
    { 1, "Fn-Http-H-Transfer-Encoding", "chunked", 200, "Transfer-Encoding", "" },
    { 1, "Fn-Http-H-Connection", "close", 200, "Connection", "" },
    { 1, "Fn-Http-H-Upgrade", "x", 200, "Upgrade", "" },
    { 1, "Fn-Http-H-Trailer", "x", 200, "Trailer", "" },
    { 1, "Fn-Http-H-Bad Name", "x", 200, "Bad Name", "" },
    { 1, "Fn-Http-H-X", "a\r\nSet-Cookie: b", 200, "X", "" },
    { 1, "Fn-Http-H-X", "a\nb", 200, "X", "" },
    { 1, "Fn-Http-H-Fn-Call-Id", "spoof", 200, "Fn-Call-Idx", "" },
    { 1, "Fn-Http-H-Fn-Outcome", "failed", 200, "Fn-Outcome", "ok" },
    { 1, "Fn-Http-H-Location", "/x", 200, "Location", "/x" },
    { 1, "Fn-Http-Status", "201", 201, "Fn-Http-Status", "" },
    { 1, "Fn-Http-Status", "200", 200, NULL, NULL },
    { 1, "Fn-Http-Status", "404", 404, NULL, NULL },
    { 1, "Fn-Http-Status", "599", 599, NULL, NULL },
    { 1, "Fn-Http-Status", "600", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "1000", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "99", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "100", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "199", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "0", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "99999999999999999999", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "abc", 200, NULL, NULL },
    { 1, "Fn-Http-Status", "-1", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "-0", 502, NULL, NULL },
    { 1, "Fn-Http-Status", "+404", 404, NULL, NULL },
    { 1, "Fn-Http-Status", "0x194", 200, NULL, NULL },
    { 1, "Fn-Http-Status", "200x", 200, NULL, NULL },
    { 1, "Fn-Http-Status", "", 200, NULL, NULL },
    { 1, "Fn-Http-Status", " 404", 200, NULL, NULL },
};

START_TEST(answer_headers)
{
    struct client *c = down[_i].trigger ? TRIGGER("X", "y") : INVOKE("");
    struct engage_attempt *a = fake_engage_last(&fe);

    fake_attempt_start(a, 200, down[_i].name, down[_i].value, NULL);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_msg(c->status == down[_i].status, "%s: %s: status %d", down[_i].name, down[_i].value,
                  c->status);
    ck_assert_uint_eq(strlen(answer_header(c, "Fn-Call-Id")), CALL_ID_LEN);
    ck_assert_ptr_null(strchr(c->heads, '\r'));
    ck_assert_ptr_null(strstr(c->heads, "Set-Cookie"));
    if (down[_i].header && c->status == 200) {
        ck_assert_msg(strcmp(answer_header(c, down[_i].header), down[_i].want) == 0,
                      "%s: %s: got \"%s\"", down[_i].name, down[_i].value,
                      answer_header(c, down[_i].header));
    }
    if (c->status == 502 && down[_i].trigger) {
        ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "FN605"));
        expect_outcome(c, "failed");
    }
    client_free(c);
}
END_TEST

/* What the function says for the client stands in place of its own type. */
START_TEST(one_type_of_a_trigger)
{
    struct client *c = TRIGGER("X", "y");
    struct engage_attempt *a = fake_engage_last(&fe);

    if (_i) {
        fake_attempt_start(a, 200, "Content-Type", "text/outer", "Fn-Http-H-Content-Type",
                           "text/inner", NULL);
    } else {
        fake_attempt_start(a, 200, "Fn-Http-H-Content-Type", "text/inner", "Content-Type",
                           "text/outer", NULL);
    }
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_str_eq(answer_header(c, "Content-Type"), "text/inner");
    client_free(c);
}
END_TEST

/* A repeated header comes through as often as it was sent. */
START_TEST(repeated_headers)
{
    struct client *c = INVOKE("");
    struct engage_attempt *a = fake_engage_last(&fe);

    fake_attempt_start(a, 200, "Set-Thing", "a", "Set-Thing", "b", NULL);
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_str_eq(answer_header(c, "Set-Thing"), "a|b");
    client_free(c);
}
END_TEST

/* Headers of the function never reach an error answer. */
START_TEST(errors_bypass_nothing)
{
    struct client *c = TRIGGER("X", "y");
    struct engage_attempt *a = fake_engage_last(&fe);

    fake_attempt_start(a, 200, "Fn-Http-H-Leak", "1", "Leak", "2", NULL);
    fake_attempt_finished(a, false, 502, true, "function failed");
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(c->status, 502);
    ck_assert_ptr_null(strstr(c->heads, "Leak"));
    client_free(c);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table[0])))

Suite *header_suite(void)
{
    Suite *s = suite_create("lb headers");
    TCase *tc = tcase_create("headers");

    tcase_add_checked_fixture(tc, setup, lb_teardown);
    tcase_add_loop_test(tc, route_table, 0, COUNT(routes));
    tcase_add_test(tc, a_slash_too_many_is_taken_off);
    tcase_add_test(tc, routes_without_memory);
    tcase_add_test(tc, sent_elsewhere_without_memory);
    tcase_add_test(tc, a_detached_call_has_its_id_without_memory);
    tcase_add_test(tc, long_id);
    tcase_add_test(tc, invoke_types);
    tcase_add_test(tc, the_url_of_a_request_to_a_proxy);
    tcase_add_loop_test(tc, request_headers, 0, COUNT(up));
    tcase_add_test(tc, reserved_are_counted);
    tcase_add_loop_test(tc, answer_headers, 0, COUNT(down));
    tcase_add_loop_test(tc, one_type_of_a_trigger, 0, 2);
    tcase_add_test(tc, repeated_headers);
    tcase_add_test(tc, errors_bypass_nothing);
    suite_add_tcase(s, tc);
    return s;
}
