/* HTTP/2: what is refused, what is reset, and what one client may hold. */
#include "h2_suites.h"

#include <http/h2/mux_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct h2_client c, other;

static void end(void)
{
    h2_close(&c);
    h2_stop();
}

/* ---- refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *fields[16];
    const char *body;
    int status;
    const char *sentence;
} bad[] = {
    { { REQUEST("POST", "/echo"), "content-length", "6291457" }, "x", 413,
      "HTTP110 body > 6291456 bytes" },
    { { REQUEST("POST", "/echo"), "expect", "200-ok" }, NULL, 417, "HTTP112 Expect" },
    { { REQUEST("TRACE", "/") }, NULL, 405, "HTTP113 method not allowed: TRACE" },
    { { REQUEST("BREW", "/") }, NULL, 405, "HTTP113 unknown method" },
    { { REQUEST("get", "/") }, NULL, 405, "HTTP113 unknown method" },
    { { REQUEST("AMETHODTHATISLONGERTHANTHATOFANYBODY", "/") }, NULL, 400, "HTTP108 request line" },
    { { ":method", "CONNECT", ":authority", "a:1" }, NULL, 405, "HTTP113 method not allowed" },
    { { REQUEST("GET", "/echo"), "host", "b" }, NULL, 400, "HTTP107 Host: differs" },
    { { REQUEST("GET", "/echo"), "x-a", "b\rc" }, NULL, 400,
      "HTTP106 control byte in header \\\"x-a\\\"" },
    { { REQUEST("GET", "/echo"), "x-a", "b\x7f" }, NULL, 400, "HTTP106" },
    { { REQUEST("GET", "/echo"), "x-a", " b" }, NULL, 400, "HTTP106 blank around the value" },
    { { REQUEST("GET", "/echo"), "x a", "b" }, NULL, 400, "HTTP105 invalid header name" },
    { { REQUEST("GET", "/echo"), "x-a: b\r\nx-b", "b" }, NULL, 400, "HTTP105" },
};

START_TEST(bad_requests_get_their_code_and_sentence)
{
    struct h2_answer *a;
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    id = h2_submit(&c, bad[_i].fields, bad[_i].body, bad[_i].body ? -1 : 0);
    a = h2_await(&c, id);
    ck_assert_msg(a->status == bad[_i].status && strstr(a->body.data, bad[_i].sentence),
                  "got %d %s, code %u", a->status, a->body.data, a->code);
    ck_assert(a->whole && a->code == NGHTTP2_NO_ERROR);
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok"); /* the connection lives */
    end();
}
END_TEST

/* What is no request of HTTP/2 is an error of its stream. */
static const struct {
    const char *fields[16];
    const char *body;
} malformed[] = {
    { { REQUEST("GET", "/"), "X-Upper", "1" }, NULL },
    { { REQUEST("GET", "/"), "connection", "close" }, NULL },
    { { REQUEST("GET", "/"), "keep-alive", "1" }, NULL },
    { { REQUEST("GET", "/"), "proxy-connection", "x" }, NULL },
    { { REQUEST("GET", "/"), "transfer-encoding", "chunked" }, NULL },
    { { REQUEST("GET", "/"), "upgrade", "h2c" }, NULL },
    { { REQUEST("GET", "/"), "te", "gzip" }, NULL },
    { { REQUEST("GET", "/"), ":path", "/again" }, NULL },
    { { ":method", "GET", ":scheme", "https", ":path", "/", "x-a", "1", ":authority", "a" }, NULL },
    { { REQUEST("GET", "/"), ":odd", "1" }, NULL },
    { { REQUEST("GET", "/"), ":status", "200" }, NULL },
    { { ":method", "GET", ":scheme", "https", ":authority", "a" }, NULL },
    { { ":method", "GET", ":authority", "a", ":path", "/" }, NULL },
    { { ":scheme", "https", ":authority", "a", ":path", "/" }, NULL },
    { { ":method", "GET", ":scheme", "https", ":path", "/" }, NULL },
    { { ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a/b" }, NULL },
    { { REQUEST("GET", "/"), "host", "a", "host", "a" }, NULL },
    { { REQUEST("GET", "relative") }, NULL },
    { { REQUEST("GET", "http://a/") }, NULL },
    { { REQUEST("GET", "/a b") }, NULL },
    { { REQUEST("GET", "/a\r\nX-Evil: 1") }, NULL },
    { { REQUEST("GET", "") }, NULL },
    { { REQUEST("POST", "/"), "content-length", "3" }, "four" },
    { { REQUEST("POST", "/"), "content-length", "5" }, "four" },
    { { REQUEST("POST", "/"), "content-length", "4, 4" }, "four" },
    { { REQUEST("POST", "/"), "content-length", "+4" }, "four" },
    { { REQUEST("POST", "/"), "content-length", "4", "content-length", "4" }, "four" },
    { { ":method", "CONNECT", ":scheme", "https", ":path", "/", ":authority", "a:1", ":protocol",
        "websocket" }, NULL },
};

START_TEST(malformed_requests_are_reset)
{
    struct h2_answer *a;

    h2_begin();
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_submit(&c, malformed[_i].fields, malformed[_i].body,
                               malformed[_i].body ? 4 : 0));
    ck_assert_msg(a->status == 0 && a->code == NGHTTP2_PROTOCOL_ERROR, "got %d %s, code %u",
                  a->status, a->body.data, a->code);
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    end();
}
END_TEST

static const struct {
    size_t line_len, field_n, field_len;
    int status;
    const char *sentence;
} sizes[] = { /* the same as in HTTP/1.1: test_refusals.c */
    { 9216, 0, 0, 414, "HTTP109 request line > 8192 bytes" },
    { 8177, 0, 0, 200, "" },
    { 8179, 0, 0, 414, "HTTP109 request line > 8192 bytes" },
    { 1, 33, 1024, 431, "HTTP109 header block > 32 KiB" },
    { 1, 99, 1, 200, "" },
    { 1, 100, 1, 431, "HTTP109 more than 100 header fields" },
};

START_TEST(heads_have_limits)
{
    static char path[10000], value[1100], names[120][24];
    const char *fields[300] = { REQUEST("GET", path) };
    int32_t id;

    h2_begin();
    h2_open(&c, NULL, 0);
    memset(path, 'a', sizes[_i].line_len + 1);
    path[0] = '/';
    memset(value, 'v', sizes[_i].field_len);
    for (size_t i = 0; i < sizes[_i].field_n; i++) {
        snprintf(names[i], sizeof(names[i]), "x-%zu", i);
        fields[8 + 2 * i] = names[i];
        fields[9 + 2 * i] = value;
    }
    id = h2_submit(&c, fields, NULL, 0);
    h2_expect(&c, id, sizes[_i].status, sizes[_i].sentence);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    end();
}
END_TEST

START_TEST(bodies_have_a_limit)
{
    char *body = calloc(1, 7000000);
    struct h2_answer *a;

    h2_begin();
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), body, 7000000));
    ck_assert_int_eq(a->status, 413);
    ck_assert(a->whole);
    ck_assert_ptr_nonnull(strstr(a->body.data, "HTTP110"));
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    free(body);
    end();
}
END_TEST

START_TEST(strangers_are_told_so)
{
    struct h2_answer *a;
    struct mux_part *part;

    h2_begin();
    h2_open(&c, NULL, 0);
    part = fx.server->h2;
    loop_enter(fx.loop);
    LIST_FIRST(&part->all)->stranger = true;
    loop_leave(fx.loop);
    a = h2_await(&c, h2_get(&c, "/plain"));
    ck_assert_int_eq(a->status, 403);
    ck_assert_ptr_nonnull(strstr(a->body.data, "TLS805"));
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    end();
}
END_TEST

/* ---- shares ---------------------------------------------------------------------------------- */

static void park(struct h2_client *who, int n)
{
    int before = atomic_load(&fx.requests);

    for (int i = 0; i < n; i++) {
        h2_get(who, "/park");
    }
    h2_send(who);
    await(&fx.requests, before + n);
}

/* One connection with many requests holds as much as many connections with one each. */
START_TEST(requests_count_as_connections_of_their_address)
{
    struct h2_answer *a;

    h2_limits.connections_per_ip_max = 5;
    h2_begin();
    h2_open(&c, "10.0.0.1", 0);
    h2_open(&other, "10.0.0.2", 0);
    park(&c, 5);
    a = h2_await(&c, h2_get(&c, "/plain"));
    ck_assert_int_eq(a->status, 429);
    ck_assert_ptr_nonnull(strstr(a->body.data, "HTTP116"));
    ck_assert_ptr_nonnull(strstr(a->head.data, "retry-after: 1\n"));
    h2_expect(&other, h2_get(&other, "/plain"), 200, "ok");
    nghttp2_submit_rst_stream(c.session, 0, 1, NGHTTP2_CANCEL);
    h2_send(&c);
    await(&fx.gone, 1);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    h2_close(&other);
    h2_open(&other, "10.0.0.1", 0); /* a connection without a request counts, too */
    a = h2_await(&c, h2_get(&c, "/plain"));
    ck_assert_int_eq(a->status, 429);
    h2_close(&other);
    end();
}
END_TEST

START_TEST(requests_count_as_connections_of_the_node)
{
    struct h2_answer *a;
    char *text;
    int fd;

    h2_limits.connections_max = 4;
    h2_begin();
    h2_open(&c, "10.0.0.1", 0);
    h2_open(&other, "10.0.0.2", 0);
    park(&c, 2);
    park(&other, 2);
    a = h2_await(&c, h2_get(&c, "/plain"));
    ck_assert_int_eq(a->status, 503);
    ck_assert_ptr_nonnull(strstr(a->body.data, "HTTP116"));
    fd = dial(); /* of HTTP/1.1 */
    text = read_to_end(fd, NULL);
    ck_assert_msg(strncmp(text, "HTTP/1.1 503 ", 13) == 0, "%s", text);
    free(text);
    close(fd);
    h2_close(&other);
    await(&fx.gone, 2);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    end();
}
END_TEST

/* Requests of a proxy are its clients', each with an address of its own. */
START_TEST(proxies_speak_for_their_clients)
{
    static const char *networks[] = { "10.9.0.0/16" };

    h2_limits.connections_per_ip_max = 2;
    h2_limits.proxies = (struct fn_strlist){ networks, 1 };
    h2_limits.client_from = "x-forwarded-for";
    h2_begin();
    h2_open(&c, "10.9.0.1", 0);
    park(&c, 5);
    h2_expect(&c, h2_submit(&c, FIELDS(REQUEST("GET", "/client"), "x-forwarded-for",
                                       "192.0.2.1, 203.0.113.7"), NULL, 0),
              200, "203.0.113.7 held with 203.0.113.7");
    h2_open(&other, "10.0.0.2", 0);
    h2_expect(&other, h2_submit(&other, FIELDS(REQUEST("GET", "/client"), "x-forwarded-for",
                                               "203.0.113.7"), NULL, 0),
              200, "10.0.0.2 held with 10.0.0.2");
    h2_close(&other);
    end();
}
END_TEST

START_TEST(streams_of_a_connection_have_a_limit)
{
    h2_limits.h2_streams_max = 3;
    h2_begin();
    h2_open(&c, NULL, 0);
    park(&c, 3);
    while (nghttp2_session_get_remote_settings(
               c.session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) != 3) {
        h2_round(&c);
    }
    h2_get(&c, "/plain"); /* nghttp2's client waits for a place */
    for (int i = 0; i < 3; i++) {
        h2_round(&c);
    }
    ck_assert_int_eq(atomic_load(&fx.requests), 3);
    end();
}
END_TEST

START_TEST(more_streams_than_were_allowed_are_refused)
{
    int32_t ids[4];

    h2_limits.h2_streams_max = 3;
    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < 4; i++) {
        ids[i] = h2_get(&c, "/later"); /* before the settings came */
    }
    ck_assert_uint_eq(h2_await(&c, ids[3])->code, NGHTTP2_REFUSED_STREAM);
    for (int i = 0; i < 3; i++) {
        h2_expect(&c, ids[i], 200, "ok");
    }
    end();
}
END_TEST

/* The place of a stream in nghttp2's queue is there before the stream is: 1.52 answers a lack of it
 * by freeing twice. */
START_TEST(places_in_the_queue_are_there_before_streams)
{
    struct mux m = { .streams_max = 250 };
    nghttp2_mem mem = mux_memory(&m);
    void *q, *other_32;

    ck_assert(mux_has_queue(&m));
    q = mem.realloc(NULL, 4 * sizeof(void *), &m);
    for (size_t places = 8; places <= 256; places *= 2) {
        ck_assert_ptr_eq(mem.realloc(q, places * sizeof(void *), &m), q);
    }
    memset(q, 'x', 256 * sizeof(void *));
    other_32 = mem.realloc(NULL, 4 * sizeof(void *), &m);
    ck_assert_ptr_ne(other_32, q);
    mem.free(other_32, &m);
    q = mem.realloc(q, 512 * sizeof(void *), &m); /* as nobody needs */
    ck_assert_ptr_ne(q, m.queue);
    ck_assert_int_eq(((char *)q)[256 * sizeof(void *) - 1], 'x');
    mem.free(q, &m);
    mem.free(m.queue, &m);
    free(m.queue);
}
END_TEST

START_TEST(the_queue_is_what_nghttp2_takes_for_it)
{
    const struct mux_part *part;
    int32_t ids[40];

    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < 40; i++) {
        ids[i] = h2_get(&c, "/plain");
    }
    for (int i = 0; i < 40; i++) {
        h2_expect(&c, ids[i], 200, "ok");
    }
    loop_enter(fx.loop);
    part = fx.server->h2;
    ck_assert(LIST_FIRST(&part->all)->queue_used);
    loop_leave(fx.loop);
    end();
}
END_TEST

START_TEST(bodies_of_one_address_have_a_share_of_the_memory)
{
    char *body = calloc(1, 1000000);
    struct h2_answer *a = NULL;

    h2_begin();
    fx.bodies.limit_bytes = 2000000;
    h2_open(&c, "10.0.0.1", 0);
    h2_open(&other, "10.0.0.2", 0);
    for (int i = 0; i < 10 && (!a || !a->status); i++) {
        int32_t id = h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), body, -1);

        a = h2_answer_of(&c, id);
        a->send_len = 400000; /* and no end */
        nghttp2_session_resume_data(c.session, id);
        for (int k = 0; k < 3; k++) {
            h2_round(&c);
        }
    }
    ck_assert_int_eq(a->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&a->body), "HTTP118"));
    h2_expect(&other, h2_submit(&other, FIELDS(REQUEST("POST", "/plain")), body, 100000), 200,
              "ok");
    h2_close(&other);
    free(body);
    end();
}
END_TEST

/* With lengths, and all heads before the first byte of a body. */
START_TEST(bodies_have_a_share_also_where_their_heads_were_first)
{
    char *body = calloc(1, 400000);
    struct h2_answer *a = NULL;
    int32_t ids[6];
    int held = 0;

    h2_begin();
    fx.bodies.limit_bytes = 2000000;
    h2_open(&c, "10.0.0.1", 0);
    for (int i = 0; i < 6; i++) {
        ids[i] = h2_submit(&c, FIELDS(REQUEST("POST", "/echo"), "content-length", "400001"),
                           body, -1);
        h2_round(&c);
    }
    for (int i = 0; i < 6; i++) {
        a = h2_answer_of(&c, ids[i]);
        ck_assert_int_eq(a->status, 0);
        a->send_len = 400000;
        nghttp2_session_resume_data(c.session, ids[i]);
        for (int k = 0; k < 3; k++) {
            h2_round(&c);
        }
        held += a->status == 0;
    }
    ck_assert_int_eq(held, 4);
    ck_assert_int_eq(a->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&a->body), "HTTP118 request bodies of this address"));
    free(body);
    end();
}
END_TEST

/* A read brings many requests; one connection gets a few in each turn of the loop. */
START_TEST(requests_have_turns)
{
    int32_t ids[200];

    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < 200; i++) {
        ids[i] = h2_get(&c, "/turn");
    }
    for (int i = 0; i < 200; i++) {
        h2_expect(&c, ids[i], 200, "ok");
    }
    ck_assert_int_le(atomic_load(&fx.in_turn_max), 2 * TURN_REQUESTS_MAX);
    end();
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

START_TEST(bodies_have_a_time)
{
    struct h2_answer *a;

    h2_limits.body_timeout_ns = 200 * ENV_MS;
    h2_limits.body_rate_min = _i ? 1000000 : 0;
    h2_begin();
    h2_open(&c, NULL, 0);
    a = h2_await(&c, h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), "slow", -1));
    ck_assert_int_eq(a->status, 408);
    ck_assert_msg(strstr(a->body.data, _i ? "HTTP115 body slower than 1000000 bytes/s"
                                          : "HTTP114 body not complete in 200 ms"),
                  "%s", a->body.data);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    end();
}
END_TEST

START_TEST(a_connection_without_requests_ends)
{
    if (_i) {
        h2_limits.idle_timeout_ns = 100 * ENV_MS;
    } else {
        h2_limits.header_timeout_ns = 100 * ENV_MS;
    }
    h2_begin();
    h2_open(&c, NULL, 0);
    if (_i) {
        h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    }
    h2_await_end(&c);
    ck_assert(c.goaway && c.goaway_code == NGHTTP2_NO_ERROR);
    end();
}
END_TEST

START_TEST(silence_in_front_of_everything_ends)
{
    char *text;

    h2_limits.header_timeout_ns = 100 * ENV_MS;
    h2_begin();
    h2_open(&c, NULL, 0);
    send_text(c.fd, "PRI * HTTP/2.0");
    text = read_to_end(c.fd, NULL);
    free(text);
    end();
}
END_TEST

START_TEST(header_blocks_have_a_time)
{
    h2_limits.header_timeout_ns = 100 * ENV_MS;
    h2_begin();
    h2_open(&c, NULL, 0);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    h2_get(&c, "/park");
    h2_send(&c);
    h2_frame(&c, NGHTTP2_HEADERS, 0, 5, "\x82", 1); /* END_HEADERS does not come */
    for (int i = 0; i < 3 * _i; i++) {
        h2_frame(&c, NGHTTP2_CONTINUATION, 0, 5, &"\x84\x87\x90"[i], 1);
    }
    h2_await_end(&c);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    await(&fx.gone, 1);
    end();
}
END_TEST

/* It keeps the window of its stream shut. */
START_TEST(a_client_that_does_not_want_its_answer_is_noticed)
{
    struct h2_answer *a;

    h2_limits.write_stall_ns = 200 * ENV_MS;
    h2_begin();
    h2_open(&c, NULL, 1);
    c.slow = true;
    a = h2_await(&c, h2_get(&c, _i ? "/plain" : "/stream?n=100000000"));
    ck_assert(!a->whole && a->code == NGHTTP2_CANCEL);
    ck_assert_uint_eq(a->body.len, 1);
    await(&fx.gone, _i ? 0 : 1);
    ck_assert_int_eq(h2_await(&c, h2_get(&c, "/204"))->status, 204);
    end();
}
END_TEST

START_TEST(a_client_that_reads_nothing_is_cut)
{
    h2_limits.write_stall_ns = 200 * ENV_MS;
    h2_begin();
    h2_open(&c, NULL, INT32_MAX);
    nghttp2_session_set_local_window_size(c.session, 0, 0, INT32_MAX);
    h2_get(&c, "/stream?n=100000000");
    h2_get(&c, "/park");
    h2_send(&c);
    await(&fx.gone, 2);
    end();
}
END_TEST

/* A long answer on a slow line holds nobody's stream for the client's fault. */
START_TEST(a_slow_line_is_no_stall)
{
    int32_t ids[8];
    int64_t now, next, until;

    h2_limits.write_stall_ns = 150 * ENV_MS;
    h2_begin();
    h2_open(&c, NULL, 0);
    for (int i = 0; i < 8; i++) {
        ids[i] = h2_get(&c, "/stream?n=30000000");
    }
    c.slow = true;
    next = env_now_ns(loop_env(fx.loop));
    until = next + 600 * ENV_MS;
    while ((now = env_now_ns(loop_env(fx.loop))) < until) {
        if (now >= next) {
            nghttp2_submit_window_update(c.session, 0, 0, 2000);
            next += 20 * ENV_MS;
        }
        h2_round(&c);
    }
    for (int i = 0; i < 8; i++) {
        ck_assert(!h2_answer_of(&c, ids[i])->closed);
    }
    ck_assert_int_eq(atomic_load(&fx.gone), 0);
    end();
}
END_TEST

void add_h2_limits(Suite *s)
{
    TCase *t = tcase_create("h2_limits");

    tcase_add_checked_fixture(t, h2_setup, NULL);
    tcase_add_loop_test(t, bad_requests_get_their_code_and_sentence, 0,
                        (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(t, malformed_requests_are_reset, 0,
                        (int)(sizeof(malformed) / sizeof(malformed[0])));
    tcase_add_loop_test(t, heads_have_limits, 0, (int)(sizeof(sizes) / sizeof(sizes[0])));
    tcase_add_test(t, bodies_have_a_limit);
    tcase_add_test(t, strangers_are_told_so);
    tcase_add_test(t, requests_count_as_connections_of_their_address);
    tcase_add_test(t, requests_count_as_connections_of_the_node);
    tcase_add_test(t, proxies_speak_for_their_clients);
    tcase_add_test(t, streams_of_a_connection_have_a_limit);
    tcase_add_test(t, more_streams_than_were_allowed_are_refused);
    tcase_add_test(t, places_in_the_queue_are_there_before_streams);
    tcase_add_test(t, the_queue_is_what_nghttp2_takes_for_it);
    tcase_add_test(t, bodies_of_one_address_have_a_share_of_the_memory);
    tcase_add_test(t, bodies_have_a_share_also_where_their_heads_were_first);
    tcase_add_test(t, requests_have_turns);
    tcase_add_loop_test(t, bodies_have_a_time, 0, 2);
    tcase_add_loop_test(t, a_connection_without_requests_ends, 0, 2);
    tcase_add_test(t, silence_in_front_of_everything_ends);
    tcase_add_loop_test(t, header_blocks_have_a_time, 0, 2);
    tcase_add_loop_test(t, a_client_that_does_not_want_its_answer_is_noticed, 0, 2);
    tcase_add_test(t, a_client_that_reads_nothing_is_cut);
    tcase_add_test(t, a_slow_line_is_no_stall);
    suite_add_tcase(s, t);
}
