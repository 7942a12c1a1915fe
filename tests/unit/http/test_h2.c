/* HTTP/2: requests and answers, at every cut, and how connections end. */
#include "../lib/machine.h"
#include "../net/certs.h"
#include "h2_suites.h"

#include <http/h2/mux_int.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BIG 3000000

struct http_limits h2_limits;

static struct h2_client c, other;

void h2_setup(void)
{
    signal(SIGPIPE, SIG_IGN);
    memset(&fx, 0, sizeof(fx));
    h2_limits = default_limits();
    h2_limits.h2 = true;
    h2_limits.h2_streams_max = 250;
}

void h2_begin(void)
{
    server_start(NULL, &h2_limits);
    h2_serve();
}

static void end(void)
{
    h2_close(&c);
    h2_stop();
}

START_TEST(a_request_is_understood_as_in_http_1_1)
{
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    id = h2_submit(&c, FIELDS(REQUEST("POST", "/echo?a=1&b"), "x-a", "1", "cookie", "a=b",
                              "content-length", "5", "cookie", "c=d"),
                   "hello", 5);
    h2_expect(&c, id, 200,
              "POST /echo?a=1&b /echo a=1&b a 4\nHost=a\nX-A=1\nContent-Length=5\n"
              "Cookie=a=b; c=d\n\nhello");
    ck_assert_ptr_nonnull(strstr(h2_answer_of(&c, id)->head.data, "content-length: "));
    ck_assert_ptr_nonnull(strstr(h2_answer_of(&c, id)->head.data, "date: "));
    ck_assert_ptr_null(strstr(h2_answer_of(&c, id)->head.data, "connection"));
    id = h2_submit(&c, FIELDS(":method", "GET", ":scheme", "https", ":path", "/echo", "host", "b"),
                   NULL, 0);
    h2_expect(&c, id, 200, "GET /echo /echo - b 1\nHost=b\n");
    id = h2_submit(&c, FIELDS(REQUEST("OPTIONS", "*")), NULL, 0);
    h2_expect(&c, id, 200, "OPTIONS * * - a 1\n");
    end();
}
END_TEST

START_TEST(answers_without_a_body_have_none)
{
    struct h2_answer *a;

    h2_begin();
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_submit(&c, FIELDS(REQUEST("HEAD", "/plain")), NULL, 0));
    ck_assert_int_eq(a->status, 200);
    ck_assert_uint_eq(a->body.len, 0);
    ck_assert_ptr_nonnull(strstr(a->head.data, "content-length: 2\n"));
    a = h2_await(&c, h2_submit(&c, FIELDS(REQUEST("HEAD", "/stream?n=5")), NULL, 0));
    ck_assert_int_eq(a->status, 200);
    ck_assert_uint_eq(a->body.len, 0);
    a = h2_await(&c, h2_get(&c, "/204"));
    ck_assert_int_eq(a->status, 204);
    ck_assert_ptr_null(strstr(a->head.data, "content-length"));
    a = h2_await(&c, h2_submit(&c, FIELDS(REQUEST("HEAD", "/plain"), "expect", "x"), NULL, 0));
    ck_assert_int_eq(a->status, 417);
    ck_assert_uint_eq(a->body.len, 0);
    h2_expect(&c, h2_get(&c, "/length?n=0"), 200, "");
    h2_expect(&c, h2_get(&c, "/stream?n=0"), 200, "");
    await(&fx.ended, 3);
    ck_assert_int_eq(atomic_load(&fx.gone), 0);
    end();
}
END_TEST

START_TEST(handlers_cannot_send_what_is_framing)
{
    struct h2_answer *a;

    h2_begin();
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_get(&c, "/nasty"));
    ck_assert_int_eq(a->status, 299);
    ck_assert_str_eq(a->head.data, "x-good: 1\ndate: then\ncontent-length: 2\n");
    a = h2_await(&c, h2_get(&c, "/error"));
    ck_assert_int_eq(a->status, 502);
    ck_assert_str_eq(a->body.data,
                     "{\"message\":\"a \\\"b\\\"\\n\\u0001 \xc3\xa4 \xef\xbf\xbd\"}\n");
    end();
}
END_TEST

/* What an answer is must not depend on how the request was cut. */
START_TEST(requests_are_understood_at_every_cut)
{
    const char *first = NULL;
    size_t len = 1;

    h2_begin();
    for (size_t cut = 0; cut < len; cut++) {
        struct h2_answer *a;
        int32_t id;

        h2_open(&c, NULL, 0);
        id = h2_submit(&c, FIELDS(REQUEST("POST", "/echo?q"), "x-a", "1", "x-empty", ""), "hello",
                       5);
        h2_make(&c);
        len = c.out.len;
        if (_i == 0) { /* in two */
            send_all(c.fd, c.out.data, cut);
            wait_consumed(c.fd);
            send_all(c.fd, c.out.data + cut, len - cut);
        } else { /* byte by byte */
            for (size_t at = 0; at < len; at++) {
                send_all(c.fd, c.out.data + at, 1);
                wait_consumed(c.fd);
            }
            cut = len;
        }
        buf_clear(&c.out);
        a = h2_await(&c, id);
        ck_assert_int_eq(a->status, 200);
        if (!first) {
            first = strdup(a->body.data);
        }
        ck_assert_str_eq(a->body.data, first);
        h2_close(&c);
    }
    ck_assert_str_eq(first, "POST /echo?q /echo q a 3\nHost=a\nX-A=1\nX-Empty=\n\nhello");
    free((char *)(uintptr_t)first);
    server_stop();
}
END_TEST

START_TEST(big_bodies_go_both_ways)
{
    char *body = malloc(BIG);
    struct h2_answer *a;

    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < BIG; i++) {
        body[i] = (char)('a' + i % 23);
    }
    for (int i = 0; i < 2; i++) { /* with and without its length */
        a = h2_await(&c, h2_submit(&c, i ? FIELDS(REQUEST("PUT", "/echo"))
                                         : FIELDS(REQUEST("PUT", "/echo"), "content-length",
                                                  "3000000"),
                                   body, BIG));
        ck_assert_int_eq(a->status, 200);
        ck_assert_uint_gt(a->body.len, BIG);
        ck_assert_int_eq(memcmp(a->body.data + a->body.len - BIG, body, BIG), 0);
    }
    free(body);
    end();
}
END_TEST

START_TEST(many_requests_run_on_one_connection)
{
    int32_t ids[250];

    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < 250; i++) {
        ids[i] = h2_get(&c, i % 3 ? "/later" : "/stream?n=30000");
    }
    for (int i = 0; i < 250; i++) {
        struct h2_answer *a = h2_await(&c, ids[i]);

        ck_assert_int_eq(a->status, 200);
        ck_assert_uint_eq(a->body.len, i % 3 ? 2 : 30000);
    }
    end();
}
END_TEST

START_TEST(a_client_that_waits_is_told_to_go_on)
{
    struct h2_answer *a;
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    id = h2_submit(&c, FIELDS(REQUEST("POST", "/echo"), "expect", "100-continue"), NULL, -1);
    a = h2_answer_of(&c, id);
    while (!a->went_on) {
        h2_round(&c);
    }
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    a->send = "go";
    a->send_len = 2;
    a->send_open = false;
    nghttp2_session_resume_data(c.session, id);
    h2_expect(&c, id, 200, "Expect=100-continue\n\ngo");
    end();
}
END_TEST

START_TEST(trailers_are_dropped)
{
    static const unsigned char trailers[] = "\x00\x03x-t\x01y";
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    id = h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), "part", -1);
    h2_frame(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, trailers,
             sizeof(trailers) - 1);
    h2_expect(&c, id, 200, "POST /echo /echo - a 1\nHost=a\n\npart");
    end();
}
END_TEST

START_TEST(streams_wait_for_slow_readers)
{
    struct h2_answer *a;
    int32_t id, beside;

    h2_begin();
    h2_open(&c, NULL, 0);
    c.slow = true;
    id = h2_get(&c, _i ? "/length?n=30000000" : "/stream?n=30000000");
    a = h2_answer_of(&c, id);
    while (a->body.len < 65535) { /* the window */
        h2_round(&c);
    }
    await(&fx.waits, 1);
    ck_assert_int_eq(atomic_load(&fx.ended), 0);
    beside = h2_get(&c, "/204"); /* needs no window */
    ck_assert_int_eq(h2_await(&c, beside)->status, 204);
    c.slow = false;
    nghttp2_session_consume(c.session, id, a->body.len);
    a = h2_await(&c, id);
    ck_assert_uint_eq(a->body.len, 30000000);
    ck_assert(a->whole);
    await(&fx.ended, 1);
    end();
}
END_TEST

START_TEST(an_aborted_answer_never_looks_whole)
{
    struct h2_answer *a;

    h2_begin();
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_get(&c, "/abort"));
    ck_assert_int_eq(a->status, 200);
    ck_assert_str_eq(a->body.data, "part");
    ck_assert(!a->whole && a->code == NGHTTP2_INTERNAL_ERROR);
    a = h2_await(&c, h2_get(&c, "/abort?none"));
    ck_assert(a->status == 0 && a->code == NGHTTP2_INTERNAL_ERROR);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    end();
}
END_TEST

START_TEST(a_client_that_gives_up_is_noticed)
{
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    h2_open(&other, NULL, 0);
    id = h2_get(&c, "/park");
    h2_get(&c, "/park");
    h2_get(&other, "/park");
    h2_send(&c);
    h2_send(&other);
    await(&fx.requests, 3);
    nghttp2_submit_rst_stream(c.session, 0, id, NGHTTP2_CANCEL);
    h2_send(&c);
    await(&fx.gone, 1);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    h2_close(&other);
    await(&fx.gone, 2);
    ck_assert_int_eq(atomic_load(&fx.gone), 2);
    shutdown(c.fd, SHUT_WR);
    await(&fx.gone, 3);
    end();
}
END_TEST

/* ---- how connections begin ------------------------------------------------------------------- */

/* GET /plain in frames; what comes back is a head, "ok", and the end of a connection that says that
 * it leaves. */
START_TEST(a_handshake_chooses_it)
{
    static const unsigned char asked[] =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
        "\0\0\x0d\1\5\0\0\0\1\x82\x87\x04\x06/plain\x01\x01" "a"
        "\0\0\x08\7\0\0\0\0\0\0\0\0\0\0\0\0\0";
    struct authority ca;
    struct pair node;
    struct net_tls tls;
    char *text;
    size_t len;
    int fd;

    authority_make(&ca, "test-ca");
    node = pair_make(&ca, "node-1", "IP:127.0.0.1", -1, 10);
    tls = (struct net_tls){ .cert_pem = node.cert, .key_pem = node.key };
    ck_assert_int_eq(net_identity_create(&tls, &fx.identity, NULL), 0);
    fx.h2 = &http_h2;
    server_start("127.0.0.1:0", &h2_limits);
    fx.alpn = "h2";
    fd = dial_tls(ca.pem, NULL);
    send_all(fd, asked, sizeof(asked) - 1);
    text = read_to_end(fd, &len);
    ck_assert_uint_gt(len, 50);
    ck_assert_uint_eq(text[3], 4); /* SETTINGS */
    ck_assert_ptr_nonnull(memmem(text, len, "ok", 2));
    free(text);
    hang_up(fd);
    fx.alpn = "http/1.1";
    fd = dial_tls(ca.pem, NULL);
    send_text(fd, GET("/plain"));
    expect_answer(fd, "200", "ok");
    hang_up(fd);
    h2_stop();
    net_identity_unref(fx.identity);
    pair_free(&node);
    authority_free(&ca);
}
END_TEST

/* ---- how connections end --------------------------------------------------------------------- */

START_TEST(draining_loses_no_request)
{
    int32_t running, late;

    h2_begin();
    h2_open(&c, NULL, 0);
    running = h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), "half", -1);
    h2_send(&c);
    wait_consumed(c.fd);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    late = h2_get(&c, "/plain"); /* on its way when the server begins to leave */
    loop_enter(fx.loop);
    http_server_drain(fx.server, 5 * ENV_S);
    ck_assert(!http_server_is_calm(fx.server));
    loop_leave(fx.loop);
    h2_expect(&c, late, 200, "ok");
    h2_await_goaway(&c);
    h2_answer_of(&c, running)->send_open = false;
    nghttp2_session_resume_data(c.session, running);
    h2_expect(&c, running, 200, "half");
    h2_await_end(&c);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_NO_ERROR);
    ck_assert_int_eq(c.goaway_last, late);
    end();
}
END_TEST

START_TEST(draining_at_once_ends_what_is_idle)
{
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    h2_open(&other, NULL, 0);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    id = h2_get(&other, "/stream?n=3000000");
    other.slow = true;
    while (h2_answer_of(&other, id)->body.len < 65535) {
        h2_round(&other);
    }
    loop_enter(fx.loop);
    http_server_drain(fx.server, 0);
    ck_assert(http_server_is_calm(fx.server));
    loop_leave(fx.loop);
    h2_await_end(&c);
    ck_assert(c.goaway && c.goaway_code == NGHTTP2_NO_ERROR);
    h2_await_goaway(&other);
    other.slow = false;
    nghttp2_session_consume(other.session, id, 65535);
    ck_assert_uint_eq(h2_await(&other, id)->body.len, 3000000);
    h2_await_end(&other);
    h2_close(&other);
    end();
}
END_TEST

/* Once such a connection was not told, and was refused each request until it had been idle. */
START_TEST(draining_parts_who_comes_later)
{
    h2_limits.header_timeout_ns = 3600 * ENV_S;
    h2_begin();
    loop_enter(fx.loop);
    http_server_drain(fx.server, 0);
    loop_leave(fx.loop);
    h2_open(&c, NULL, 0);
    h2_end_raw(&c);
    ck_assert(c.goaway && c.goaway_code == NGHTTP2_NO_ERROR);
    ck_assert_int_eq(c.goaway_last, 0);
    end();
}
END_TEST

/* A request that comes in one piece with what ends the first part of a drain, behind the stream
 * that GOAWAY then names: its client may send it again. Once it was served. */
START_TEST(draining_serves_nothing_behind_its_last)
{
    struct buf late = BUF_INIT(0);
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    id = h2_get(&c, "/plain");
    h2_make(&c);
    buf_add(&late, c.out.data, c.out.len);
    buf_clear(&c.out);
    loop_enter(fx.loop);
    http_server_drain(fx.server, 5 * ENV_S);
    loop_leave(fx.loop);
    while (!h2_round(&c)) {
    }
    h2_make(&c); /* the answer to a ping */
    ck_assert_uint_gt(c.out.len, 0);
    buf_add(&c.out, late.data, late.len);
    h2_send(&c);
    h2_await(&c, id);
    h2_await_end(&c);
    ck_assert_int_eq(c.goaway_last, 1);
    ck_assert_int_eq(atomic_load(&fx.requests), 1);
    buf_finish(&late);
    end();
}
END_TEST

START_TEST(enough_requests_end_a_connection)
{
    h2_limits.requests_per_connection_max = 3;
    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < 3; i++) {
        h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    }
    h2_end_raw(&c); /* nghttp2's client hears no second GOAWAY when it has no stream */
    ck_assert(c.goaway);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_NO_ERROR);
    ck_assert_int_eq(c.goaway_last, 5);
    end();
}
END_TEST

START_TEST(a_client_that_leaves_gets_what_runs)
{
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    id = h2_get(&c, "/later");
    nghttp2_submit_goaway(c.session, 0, 0, NGHTTP2_NO_ERROR, NULL, 0);
    h2_expect(&c, id, 200, "ok");
    h2_await_end(&c);
    end();
}
END_TEST

START_TEST(a_server_that_is_destroyed_tells_its_handlers)
{
    h2_begin();
    h2_open(&c, "10.0.0.1", 0);
    for (int i = 0; i < 20; i++) {
        h2_get(&c, "/park");
    }
    h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), "half", -1);
    h2_send(&c);
    await(&fx.requests, 20);
    server_stop();
    ck_assert_int_eq(atomic_load(&fx.gone), 20);
    h2_close(&c);
}
END_TEST

void add_h2_requests(Suite *s)
{
    TCase *t = tcase_create("h2");

    tcase_add_checked_fixture(t, h2_setup, NULL);
    tcase_add_test(t, a_request_is_understood_as_in_http_1_1);
    tcase_add_test(t, answers_without_a_body_have_none);
    tcase_add_test(t, handlers_cannot_send_what_is_framing);
    tcase_add_loop_test(t, requests_are_understood_at_every_cut, 0, 2);
    tcase_add_test(t, big_bodies_go_both_ways);
    tcase_add_test(t, many_requests_run_on_one_connection);
    tcase_add_test(t, a_client_that_waits_is_told_to_go_on);
    tcase_add_test(t, trailers_are_dropped);
    tcase_add_loop_test(t, streams_wait_for_slow_readers, 0, 2);
    tcase_add_test(t, an_aborted_answer_never_looks_whole);
    tcase_add_test(t, a_client_that_gives_up_is_noticed);
    tcase_add_test(t, a_handshake_chooses_it);
    tcase_add_test(t, draining_loses_no_request);
    tcase_add_test(t, draining_at_once_ends_what_is_idle);
    tcase_add_test(t, draining_parts_who_comes_later);
    tcase_add_test(t, draining_serves_nothing_behind_its_last);
    tcase_add_test(t, enough_requests_end_a_connection);
    tcase_add_test(t, a_client_that_leaves_gets_what_runs);
    tcase_add_test(t, a_server_that_is_destroyed_tells_its_handlers);
    suite_add_tcase(s, t);
}

int main(void)
{
    Suite *s = suite_create("http_h2");
    SRunner *r;
    int failed;

    add_h2_requests(s);
    add_h2_limits(s);
    add_h2_floods(s);
    add_h2_same(s);
    suite_add_tcase(s, machine_tests(&mux_states, STATE(MUX_OPEN), STATE(MUX_LINGER)));
    suite_add_tcase(s, machine_tests(&mux_stream_states, STATE(STREAM_HEAD), STATE(STREAM_FLUSH)));
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
