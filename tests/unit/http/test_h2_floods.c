/* HTTP/2: what attackers send. Each attack ends its connection, told so by GOAWAY where that is
 * possible, and a neighbour on another connection is served as before. */
#include "h2_suites.h"

#include <http/h2/mux_int.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct h2_client c, neighbour;

static void begin(void)
{
    h2_begin();
    h2_open(&c, "10.0.0.1", 0);
    h2_open(&neighbour, "10.0.0.2", 0);
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
}

static void end(void)
{
    h2_expect(&neighbour, h2_get(&neighbour, "/plain"), 200, "ok");
    h2_close(&neighbour);
    h2_close(&c);
    h2_stop();
}

static void frames(int n, int type, int flags, int32_t id, const void *payload, size_t len)
{
    for (int i = 0; i < n; i++) {
        h2_frame(&c, type, flags, id, payload, len);
    }
}

/* ---- frames that cost something and bring nothing --------------------------------------------- */

static const struct {
    int type, flags;
    int32_t id;
    size_t len;
} controls[] = {
    { NGHTTP2_PING, 0, 0, 8 },        { NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, 8 },
    { NGHTTP2_PRIORITY, 0, 3, 5 },    { NGHTTP2_DATA, 0, 3, 0 },
    { NGHTTP2_SETTINGS, 0, 0, 0 },    { NGHTTP2_SETTINGS, 0, 0, 6 },
    { NGHTTP2_GOAWAY, 0, 0, 8 },
};

START_TEST(control_frames_are_limited)
{
    static const unsigned char zeros[16];

    begin();
    if (controls[_i].type == NGHTTP2_DATA) {
        h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), NULL, -1);
    }
    frames(900, controls[_i].type, controls[_i].flags, controls[_i].id, zeros, controls[_i].len);
    if (controls[_i].type == NGHTTP2_PING || controls[_i].type == NGHTTP2_PRIORITY) {
        h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    }
    frames(1100, controls[_i].type, controls[_i].flags, controls[_i].id, zeros, controls[_i].len);
    h2_end_raw(&c);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    end();
}
END_TEST

/* A window that is opened by one byte at a time makes a frame for each byte. */
START_TEST(windows_cannot_be_opened_by_drops)
{
    static const unsigned char one[4] = { 0, 0, 0, 1 };
    int32_t id;

    h2_begin();
    h2_open(&c, "10.0.0.1", 1);
    h2_open(&neighbour, "10.0.0.2", 0);
    c.slow = true;
    id = h2_get(&c, "/stream?n=100000");
    frames(1100, NGHTTP2_WINDOW_UPDATE, 0, id, one, sizeof(one));
    h2_await_end(&c);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    await(&fx.gone, 1);
    end();
}
END_TEST

/* A client that reads nothing of what it makes us say. */
START_TEST(answers_to_pings_do_not_pile_up)
{
    static const char eight[8];

    begin();
    for (int i = 0; i < 100 && !c.hung_up; i++) {
        frames(10000, NGHTTP2_PING, 0, 0, eight, sizeof(eight));
        send_all(c.fd, c.out.data, c.out.len);
        buf_clear(&c.out);
    }
    end();
}
END_TEST

/* ---- streams that are reset ------------------------------------------------------------------- */

static const unsigned char get_block[] = { 0x82, 0x84, 0x87, 0x41, 0x01, 'a' }; /* GET / of a */
static const unsigned char cancel[] = { 0, 0, 0, NGHTTP2_CANCEL };

/* n requests from stream `id` on, each given up at once. */
static void give_up(int n, int32_t id)
{
    for (; n > 0; n--, id += 2) {
        h2_frame(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id,
                 get_block, sizeof(get_block));
        h2_frame(&c, NGHTTP2_RST_STREAM, 0, id, cancel, sizeof(cancel));
    }
    h2_send(&c);
    wait_consumed(c.fd);
}

/* Rapid reset, CVE-2023-44487: in one read no request reaches the handler; many of them end the
 * connection. */
START_TEST(requests_that_are_reset_at_once_cost_no_call)
{
    begin();
    give_up(300, 3);
    h2_expect(&neighbour, h2_get(&neighbour, "/plain"), 200, "ok");
    ck_assert_int_eq(atomic_load(&fx.requests), 2);
    give_up(300, 603);
    h2_await_end(&c);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    end();
}
END_TEST

static int32_t begin_upload(void)
{
    int32_t id = h2_submit(&c, FIELDS(REQUEST("POST", "/echo")), "half", -1);

    h2_send(&c);
    wait_consumed(c.fd);
    return id;
}

static void end_upload(int32_t id)
{
    h2_answer_of(&c, id)->send_open = false;
    nghttp2_session_resume_data(c.session, id);
    h2_expect(&c, id, 200, "half");
}

/* Once the tenth request that was given up within a second cut the one beside. */
START_TEST(few_at_a_time_may_be_given_up_one_after_another)
{
    int32_t id;

    h2_limits.h2_streams_max = 4;
    begin();
    id = begin_upload();
    give_up(400, id + 2);
    end_upload(id);
    ck_assert(!c.goaway);
    end();
}
END_TEST

/* What a client sent before it read that the connection ends, it resets. More than that is a
 * flood. */
START_TEST(resets_behind_the_last_stream_cut_none_that_runs)
{
    int32_t id;

    h2_limits.requests_per_connection_max = 2;
    begin();
    id = begin_upload();
    h2_expect(&c, h2_get(&c, "/plain"), 200, "ok");
    while (c.goaway_last != id + 2) {
        h2_round(&c);
    }
    give_up(_i ? 1500 : 600, id + 4);
    if (_i) {
        h2_await_end(&c);
        ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
        end_upload(id);
        ck_assert_uint_eq(c.goaway_code, NGHTTP2_NO_ERROR);
    }
    end();
}
END_TEST

/* Streams that the server has to reset count the same: what is malformed, a window that is opened
 * too far. */
START_TEST(streams_that_have_to_be_reset_are_limited)
{
    static const unsigned char upper[] = { 0x82, 0x84, 0x87, 0x00, 0x01, 'A', 0x01, 'b' };
    static const unsigned char much[4] = { 0x7f, 0xff, 0xff, 0xff };

    h2_limits.h2_streams_max = 100;
    begin();
    for (int32_t id = 3; id < 3 + 2 * 600; id += 2) {
        const unsigned char *block = _i == 1 ? get_block : upper;
        size_t len = _i == 1 ? sizeof(get_block) : sizeof(upper);

        h2_frame(&c, NGHTTP2_HEADERS,
                 NGHTTP2_FLAG_END_HEADERS | (_i == 1 ? 0 : NGHTTP2_FLAG_END_STREAM), id, block,
                 len);
        if (_i == 1) {
            h2_frame(&c, NGHTTP2_WINDOW_UPDATE, 0, id, much, sizeof(much));
        }
        if (id % 100 == 1) { /* no more at a time than are allowed */
            h2_send(&c);
            wait_consumed(c.fd);
        }
    }
    h2_end_raw(&c);
    ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    end();
}
END_TEST

/* ---- header blocks ---------------------------------------------------------------------------- */

/* CVE-2024-27316: a block that goes on and on. */
START_TEST(continuations_are_limited)
{
    begin();
    h2_frame(&c, NGHTTP2_HEADERS, 0, 3, get_block, sizeof(get_block));
    frames(100, NGHTTP2_CONTINUATION, 0, 3, "\x82", 1);
    h2_send(&c);
    h2_await_end(&c);
    end();
}
END_TEST

/* A large value in the table, named by one byte a thousand times. */
START_TEST(a_small_block_cannot_be_a_large_head)
{
    static unsigned char block[5000] = { 0x82, 0x84, 0x87, 0x01, 0x01, 'a', 0x40, 0x01, 'x' };
    size_t at = 9;

    begin();
    block[at++] = 0x7f; /* 2900 in HPACK's integers */
    block[at++] = (2900 - 127) % 128 + 128;
    block[at++] = (2900 - 127) / 128;
    memset(block + at, 'v', 2900);
    at += 2900;
    memset(block + at, 0xbe, _i ? 1000 : 20); /* the newest entry */
    at += _i ? 1000 : 20;
    if (!_i) {
        h2_get(&c, "/plain"); /* stream 3 of the client's own books, which is never sent */
        buf_clear(&c.out);
    }
    h2_frame(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 3, block, at);
    if (_i) {
        h2_await_end(&c);
        ck_assert_uint_eq(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
        ck_assert_int_eq(h2_await(&c, 3)->status, 431);
    }
    ck_assert_int_eq(atomic_load(&fx.requests), 1);
    end();
}
END_TEST

/* ---- anything --------------------------------------------------------------------------------- */

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A conversation with some bytes changed, left out or said twice: the server lives, and keeps its
 * books. */
START_TEST(damaged_conversations_harm_nobody)
{
    uint32_t seed = (uint32_t)_i * 7919 + 1;
    char *text;

    begin();
    h2_close(&c);
    for (int round = 0; round < 60; round++) {
        struct buf b = BUF_INIT(0);

        h2_open(&c, "10.0.0.1", 0);
        h2_submit(&c, FIELDS(REQUEST("POST", "/echo"), "x-a", "1"), "hello", 5);
        h2_get(&c, "/stream?n=100000");
        h2_get(&c, "/park");
        h2_submit(&c, FIELDS(REQUEST("PUT", "/later"), "content-length", "9"), "more", -1);
        buf_add(&b, c.out.data, c.out.len);
        for (uint32_t k = next(&seed) % 4 + 1; k > 0; k--) {
            b.data[24 + next(&seed) % (b.len - 24)] = (char)next(&seed);
        }
        send_all(c.fd, b.data, b.len - next(&seed) % 8);
        send_all(c.fd, b.data + 24, b.len - 24);
        shutdown(c.fd, SHUT_WR);
        text = read_to_end(c.fd, NULL);
        free(text);
        buf_finish(&b);
        if (round < 59) {
            h2_close(&c);
        }
    }
    end();
}
END_TEST

void add_h2_floods(Suite *s)
{
    TCase *t = tcase_create("h2_floods");

    tcase_add_checked_fixture(t, h2_setup, NULL);
    tcase_add_loop_test(t, control_frames_are_limited, 0,
                        (int)(sizeof(controls) / sizeof(controls[0])));
    tcase_add_test(t, windows_cannot_be_opened_by_drops);
    tcase_add_test(t, answers_to_pings_do_not_pile_up);
    tcase_add_test(t, requests_that_are_reset_at_once_cost_no_call);
    tcase_add_test(t, few_at_a_time_may_be_given_up_one_after_another);
    tcase_add_loop_test(t, resets_behind_the_last_stream_cut_none_that_runs, 0, 2);
    tcase_add_loop_test(t, streams_that_have_to_be_reset_are_limited, 0, 2);
    tcase_add_test(t, continuations_are_limited);
    tcase_add_loop_test(t, a_small_block_cannot_be_a_large_head, 0, 2);
    tcase_add_loop_test(t, damaged_conversations_harm_nobody, 0, 10);
    suite_add_tcase(s, t);
}
