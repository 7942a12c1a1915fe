/* Exchanges over the function's socket. */
#include "fnsock_rig.h"
#include "suites.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BIG 3000000

/* ---- requests ------------------------------------------------------------------------------- */

START_TEST(the_request_is_what_the_contract_says)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1 };
    struct fnsock_exchange *x;
    struct headers h;
    struct arena arena;
    const char *text;
    size_t text_len;

    rig_open();
    function_start(&f);
    arena_init(&arena, 0);
    headers_init(&h, &arena);
    headers_add(&h, "Fn-Call-Id", "1");
    headers_add(&h, "X-Two", "a");
    headers_add(&h, "X-Two", "b");
    headers_add(&h, "host", "evil");
    headers_add(&h, "Content-Length", "7");
    headers_add(&h, "transfer-encoding", "gzip");
    headers_add(&h, "X-Cut", "a\r\nX-Evil: 1");
    headers_add(&h, "X Y", "1");
    x = rig_begin(&h);
    arena_finish(&arena);
    rig_give(x, "hello", 5, false);
    rig_give(x, "!", 1, false);
    rig_give(x, NULL, 0, true);
    rig_wait(&got.ended);
    rig_finish(x);
    text_len = last_request(&f, &text);
    ck_assert_str_eq(text, "POST /call HTTP/1.1\r\nHost: localhost\r\n"
                                        "Fn-Call-Id: 1\r\nX-Two: a\r\nX-Two: b\r\n"
                                        "Transfer-Encoding: chunked\r\n\r\n"
                                        "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n");
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    ck_assert(got.result.reusable);
    ck_assert_uint_eq(got.result.request_bytes, text_len);
    ck_assert_str_eq(buf_text(&got.head), "Content-Length=2\nX-A=b\n");
    rig_call("");
    text_len = last_request(&f, &text);
    ck_assert_str_eq(text, "POST /call HTTP/1.1\r\nHost: localhost\r\n"
                                        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    for (int i = 0; i < 100; i++) {
        rig_call("x");
        ck_assert_int_eq(got.result.end, FNSOCK_OK);
        ck_assert_str_eq(buf_text(&got.body), "ok");
    }
    ck_assert_int_eq(atomic_load(&f.connections), 1); /* the probe's */
    function_stop(&f);
}
END_TEST

#define TEXT(t)  t, sizeof(t) - 1
#define INTERIM  "HTTP/1.1 100 Continue\r\n\r\n"
#define INTERIM3 INTERIM INTERIM INTERIM
#define LONG     "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
#define LONG16   LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG
#define FIELDS7  "A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1\r\n"

static const struct {
    const char *answer;
    size_t len;
    bool close_after;
    enum fnsock_end end;
    bool reusable;
    int status; /* told to the runner; 0 = none */
    const char *body, *text;
} answers[] = {
    { TEXT(OK_ANSWER), false, FNSOCK_OK, true, 200, "ok", "" },
    { TEXT(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"), false,
      FNSOCK_OK, true, 200, "ok", "" },
    { TEXT(OK_HEAD "Content-Length: 0\r\n\r\n"), false, FNSOCK_OK, true, 200, "", "" },
    { TEXT("HTTP/1.1 502 X\r\nContent-Length: 2\r\n\r\nno"), false, FNSOCK_OK, true, 502, "no",
      "" },
    { TEXT("HTTP/1.1 504 X\r\nContent-Length: 0\r\n\r\n"), false, FNSOCK_OK, true, 504, "", "" },
    { TEXT(OK_HEAD "Connection: close\r\nContent-Length: 2\r\n\r\nok"), true, FNSOCK_OK, true, 200,
      "ok", "" },
    { TEXT(OK_HEAD "\r\nto the end"), true, FNSOCK_OK, true, 200, "to the end", "" },
    { TEXT(INTERIM3 OK_ANSWER), false, FNSOCK_OK, true, 200, "ok", "" },
    { TEXT(INTERIM3 INTERIM3 INTERIM3 OK_ANSWER), false, FNSOCK_INVALID, false, 0, "",
      "status 100, 9 times" },
    { TEXT("HTTP/1.1 101 X\r\nUpgrade: y\r\n\r\n"), false, FNSOCK_INVALID, false, 0, "",
      "status 101" },
    { TEXT("HTTP/1.1 201 X\r\nContent-Length: 0\r\n\r\n"), false, FNSOCK_INVALID, false, 0, "",
      "FN602 function answered 201; the contract allows 200, 502, 504" },
    { TEXT("HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\nok"), false, FNSOCK_INVALID, false, 0, "",
      "FN602 function answered 204" },
    { TEXT(OK_HEAD "A: b\r\n"), true, FNSOCK_CLOSED_EARLY, false, 0, "",
      "FN601 function closed before the end of its headers" },
    { TEXT(""), true, FNSOCK_CLOSED_EARLY, false, 0, "", "FN601" },
    { TEXT(OK_HEAD "Content-Length: 10\r\n\r\nhello"), true, FNSOCK_CUT, false, 200, "hello",
      "FN603 answer ended after 5 of 10 bytes" },
    { TEXT(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), true, FNSOCK_CUT, false,
      200, "hello", "FN603 answer ended after 5 bytes, without its last chunk" },
    { TEXT("hello\n"), false, FNSOCK_INVALID, false, 0, "", "invalid answer: status line" },
    { TEXT("\x16\x03\x01"), false, FNSOCK_INVALID, false, 0, "", "invalid answer: status line" },
    { TEXT("HTTP/1.1 99 X\r\n\r\n"), false, FNSOCK_INVALID, false, 0, "", "status line" },
    { TEXT("HTTP/1.1 1000 X\r\n\r\n"), false, FNSOCK_INVALID, false, 0, "", "status line" },
    { TEXT(OK_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), false,
      FNSOCK_INVALID, false, 0, "", "HTTP101" },
    { TEXT(OK_HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), false, FNSOCK_INVALID, false,
      0, "", "HTTP102" },
    { TEXT(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n"), false, FNSOCK_INVALID, false, 200,
      "", "HTTP104 invalid chunk at byte 0" },
    { TEXT(OK_HEAD "A: b\nC: d\r\n\r\n"), false, FNSOCK_INVALID, false, 0, "", "HTTP106" },
    { TEXT(OK_HEAD "A: " LONG16 LONG16 LONG16 LONG16 "\r\n\r\n"), false, FNSOCK_HEADERS_TOO_LARGE,
      false, 0, "", "HTTP109 header block > 4 KiB" },
    { TEXT(OK_HEAD FIELDS7 FIELDS7 FIELDS7 "\r\n"), false, FNSOCK_HEADERS_TOO_LARGE, false, 0, "",
      "HTTP109 more than 20 header fields" },
    { TEXT(OK_HEAD "Content-Length: 101\r\n\r\n"), false, FNSOCK_BODY_TOO_LARGE, false, 0, "",
      "answer body of 101 bytes > 100" },
    { TEXT(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\n.\r\n80\r\n" LONG LONG "\r\n"), false,
      FNSOCK_BODY_TOO_LARGE, false, 200,
      "." LONG "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv", "answer body > 100 bytes" },
};

/* A reload in the middle of an answer: it goes on under the limit that it began with. */
START_TEST(a_smaller_limit_is_for_the_next_answer)
{
    enum { BODY_BYTES = 300000 };
    struct fnsock_limits larger = { BODY_BYTES, 4096, 20, 60 * ENV_S };
    struct fnsock_limits smaller = { 100, 4096, 20, 60 * ENV_S };
    char *answer = malloc(BODY_BYTES + 100);
    int head = snprintf(answer, 100, OK_HEAD "Content-Length: %d\r\n\r\n", BODY_BYTES);
    struct function f = { .answer = answer, .answer_len = (size_t)head + BODY_BYTES };
    struct fnsock_exchange *x;

    memset(answer + head, 'a', BODY_BYTES);
    rig_open();
    fnsock_set_limits(&io, &larger);
    function_start(&f);
    x = rig_begin(NULL);
    rig_give(x, NULL, 0, true);
    got.stop_at_data = true;
    loop_run(loop);
    got.stop_at_data = false;
    ck_assert_uint_gt(got.body.len, 0);
    ck_assert_uint_lt(got.body.len, BODY_BYTES);
    fnsock_set_limits(&io, &smaller);
    rig_wait(&got.ended);
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    ck_assert_uint_eq(got.body.len, BODY_BYTES);
    rig_finish(x);
    function_stop(&f);
    free(answer);
}
END_TEST

START_TEST(answers_end_as_they_must)
{
    struct function f = { .answer = answers[_i].answer,
                          .answer_len = answers[_i].len,
                          .close_after = answers[_i].close_after };

    config.limits.answer_bytes_max = 100;
    rig_open();
    function_start(&f);
    for (int round = 0; round < 2; round++) {
        f.bytewise = round == 1; /* no request is running */
        rig_call("abc");
        ck_assert_int_eq(got.result.end, answers[_i].end);
        ck_assert_int_eq(got.result.reusable, answers[_i].reusable);
        ck_assert_int_eq(got.status, answers[_i].status);
        ck_assert_msg(strstr(got.result.text, answers[_i].text), "%s", got.result.text);
        ck_assert_str_eq(buf_text(&got.body), answers[_i].body);
        ck_assert_uint_eq(got.result.answer_bytes, strlen(answers[_i].body));
        ck_assert_uint_gt(got.result.request_bytes, 0);
    }
    function_stop(&f);
}
END_TEST

START_TEST(a_second_answer_is_never_taken_for_the_next_calls)
{
    struct function f = { .answer = OK_ANSWER OK_ANSWER, .answer_len = 2 * sizeof(OK_ANSWER) - 2 };

    rig_open();
    function_start(&f);
    rig_call("a");
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    ck_assert_str_eq(buf_text(&got.body), "ok");
    ck_assert(!got.result.reusable);
    ck_assert_ptr_nonnull(strstr(got.result.text, "extra bytes after the answer"));
    while (atomic_load(&f.closed) == 0) {
        sched_yield(); /* the connection was closed at once */
    }
    function_stop(&f);
}
END_TEST

START_TEST(bytes_that_nobody_asked_for_taint_the_container)
{
    bool after_a_call = _i >= 2;
    struct fnsock_exchange *x;
    struct buf text = BUF_INIT(0);
    int listen_fd, fd;

    rig_open();
    listen_fd = publish();
    rig_wait(&got.ready);
    fd = accept(listen_fd, NULL, NULL);
    if (after_a_call) {
        x = rig_begin(NULL);
        rig_give(x, NULL, 0, true);
        ck_assert_int_eq(read_request(fd, &text), 5);
        put(fd, OK_ANSWER, sizeof(OK_ANSWER) - 1, false);
        rig_wait(&got.ended);
        rig_finish(x);
        ck_assert(got.result.reusable);
    }
    put(fd, OK_ANSWER, sizeof(OK_ANSWER) - 1, false);
    if (_i % 2 == 1) {
        rig_run_for(20 * ENV_MS); /* seen while idle, else when the request begins */
    }
    rig_call("a");
    ck_assert_int_eq(got.result.end, after_a_call ? FNSOCK_CONNECT : FNSOCK_EARLY_ANSWER);
    ck_assert_uint_eq(got.result.request_bytes, 0);
    ck_assert(!got.result.reusable);
    ck_assert_int_eq(got.status, 0);
    ck_assert_int_eq(read_request(fd, &text), -1);
    buf_finish(&text);
    close(fd);
    close(listen_fd);
}
END_TEST

START_TEST(an_early_answer_is_an_error)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1, .early = true };
    struct fnsock_exchange *x;

    rig_open();
    function_start(&f);
    x = rig_begin(NULL);
    rig_give(x, "part", 4, false);
    rig_wait(&got.ended);
    rig_finish(x);
    ck_assert_int_eq(got.result.end, FNSOCK_EARLY_ANSWER);
    ck_assert_str_eq(got.result.text, "function invoked write before receiving entire request");
    ck_assert(!got.result.reusable);
    ck_assert_int_eq(got.status, 0);
    function_stop(&f);
}
END_TEST

START_TEST(a_function_that_stops_reading_is_told_apart)
{
    static char big[BIG];
    struct fnsock_exchange *x;
    int listen_fd, fd;
    char buf[1000];

    rig_open();
    listen_fd = publish();
    rig_wait(&got.ready);
    fd = accept(listen_fd, NULL, NULL);
    x = rig_begin(NULL);
    ck_assert_int_eq(rig_give(x, big, sizeof(big), true), 1);
    ck_assert_int_eq(recv(fd, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
    if (_i == 0) { /* closes after half of the request */
        close(fd);
        rig_wait(&got.ended);
        ck_assert_int_eq(got.result.end, FNSOCK_WRITE_CLOSED);
        ck_assert_uint_gt(got.result.request_bytes, 0);
        ck_assert_uint_lt(got.result.request_bytes, BIG);
    } else { /* never reads again: only the runner's deadline ends it */
        rig_run_for(50 * ENV_MS);
        ck_assert(!got.ended);
    }
    rig_finish(x);
    ck_assert_int_eq(got.ended, _i == 0);
    if (_i == 1) {
        close(fd);
    }
    close(listen_fd);
}
END_TEST

START_TEST(a_connection_closed_before_a_byte_proves_that_nothing_ran)
{
    int listen_fd;

    rig_open();
    listen_fd = publish();
    rig_wait(&got.ready);
    close(accept(listen_fd, NULL, NULL));
    close(listen_fd);
    rig_call("a");
    ck_assert_int_eq(got.result.end, FNSOCK_CONNECT);
    ck_assert_uint_eq(got.result.request_bytes, 0);
}
END_TEST

START_TEST(a_stale_connection_is_replaced_unseen)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1,
                          .close_after = true };

    rig_open();
    function_start(&f);
    for (int i = 1; i <= 20; i++) {
        rig_call("a");
        ck_assert_int_eq(got.result.end, FNSOCK_OK);
        while (atomic_load(&f.closed) < i) {
            sched_yield();
        }
    }
    ck_assert_int_eq(atomic_load(&f.requests), 20);
    function_stop(&f);
}
END_TEST

static void answer_one(struct fnsock_exchange *x, int fd)
{
    put(fd, OK_ANSWER, sizeof(OK_ANSWER) - 1, false);
    rig_wait(&got.ended);
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    rig_finish(x);
}

static int unread(int fd)
{
    int n = 0;

    ck_assert_int_eq(ioctl(fd, FIONREAD, &n), 0);
    return n;
}

/* Pieces of one byte that a connection takes while nobody reads; the first call is cut for it. */
static int count_pieces(int listen_fd)
{
    struct fnsock_exchange *x = rig_begin(NULL);
    int fd = accept(listen_fd, NULL, NULL);
    int pieces = 0, before;

    do {
        before = unread(fd);
        rig_give(x, "x", 1, false);
    } while (unread(fd) > before && ++pieces);
    rig_finish(x);
    close(fd);
    return pieces;
}

/* A kept connection whose buffer is full to the brim, so that nothing of the next call goes out. */
static int keep_full_connection(int listen_fd)
{
    int n = count_pieces(listen_fd);
    struct fnsock_exchange *x;
    int fd;

    ck_assert_int_gt(n, 10);
    x = rig_begin(NULL);
    for (int i = 0; i < n - 1; i++) {
        ck_assert_int_eq(rig_give(x, "x", 1, false), 0);
    }
    rig_give(x, NULL, 0, true);
    fd = accept(listen_fd, NULL, NULL);
    answer_one(x, fd);
    return fd;
}

/* The function closes it: the new connection takes all, and whoever sends must hear of it. */
START_TEST(a_call_goes_on_when_a_full_connection_was_stale)
{
    static char piece[100000];
    struct fnsock_exchange *x;
    int listen_fd, fd;

    rig_open();
    listen_fd = publish();
    rig_wait(&got.ready);
    fd = keep_full_connection(listen_fd);
    x = rig_begin(NULL);
    ck_assert_int_eq(rig_give(x, piece, sizeof(piece), false), 1);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    while (got.writables == 0) {
        loop_run(loop);
    }
    close(fd);
    fd = accept(listen_fd, NULL, NULL);
    ck_assert_int_gt(unread(fd), (int)sizeof(piece));
    rig_give(x, NULL, 0, true);
    answer_one(x, fd);
    close(fd);
    close(listen_fd);
}
END_TEST

/* The function answers over it what it has no byte of, and closes: an answer that was begun is
 * never begun again over another connection. */
START_TEST(an_answer_over_a_full_connection_is_the_only_one)
{
    static const char head[] = "HTTP/1.1 502 X\r\nContent-Length: 10\r\n\r\nhello";
    struct fnsock_exchange *x;
    int listen_fd, fd;

    rig_open();
    listen_fd = publish();
    rig_wait(&got.ready);
    fd = keep_full_connection(listen_fd);
    x = rig_begin(NULL);
    rig_give(x, "a", 1, true);
    put(fd, head, sizeof(head) - 1, false);
    while (got.status == 0) {
        rig_run_for(ENV_MS);
    }
    close(fd);
    rig_wait(&got.ended);
    ck_assert_int_eq(got.result.end, FNSOCK_CUT);
    ck_assert_uint_eq(got.result.request_bytes, 0);
    ck_assert_int_eq(got.status, 502);
    rig_finish(x);
    close(listen_fd);
}
END_TEST

static void descriptors(bool any)
{
    struct rlimit l;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    l.rlim_cur = any ? l.rlim_max : 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
}

START_TEST(calls_wait_while_the_node_is_out_of_descriptors)
{
    struct fnsock_exchange *x;
    int listen_fd, fd;

    rig_open();
    listen_fd = bind_at(io.dir(sock), "phonylsnr.sock", true);
    descriptors(false);
    link_to("phonylsnr.sock");
    rig_run_for(30 * ENV_MS);
    ck_assert_msg(!got.ready, "%s", got.ready_text);
    descriptors(true);
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
    close(accept(listen_fd, NULL, NULL));
    rig_run_for(10 * ENV_MS); /* the runner sees that it is closed */
    descriptors(false);
    x = rig_begin(NULL);
    rig_give(x, "a", 1, true);
    rig_run_for(30 * ENV_MS);
    ck_assert_msg(!got.ended, "%s", got.result.text);
    descriptors(true);
    rig_run_for(30 * ENV_MS);
    fd = accept(listen_fd, NULL, NULL);
    answer_one(x, fd);
    close(fd);
    close(listen_fd);
}
END_TEST

START_TEST(a_want_of_descriptors_that_lasts_is_told_as_such)
{
    struct fnsock_exchange *x;
    int listen_fd;

    rig_open();
    listen_fd = bind_at(io.dir(sock), "phonylsnr.sock", true);
    link_to("phonylsnr.sock");
    rig_wait(&got.ready);
    close(accept(listen_fd, NULL, NULL));
    rig_run_for(10 * ENV_MS);
    descriptors(false);
    x = rig_begin(NULL);
    rig_give(x, "a", 1, true);
    rig_wait(&got.ended);
    descriptors(true);
    ck_assert_int_eq(got.result.end, FNSOCK_NO_ROOM);
    ck_assert_uint_eq(got.result.request_bytes, 0);
    ck_assert_int_eq(got.sents, 0);
    rig_finish(x);
    close(listen_fd);
}
END_TEST

START_TEST(a_full_queue_of_a_function_ends_the_wait)
{
    struct fnsock_exchange *x;
    int fds[64], n = 0, listen_fd;
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    rig_open();
    listen_fd = bind_at(io.dir(sock), "phonylsnr.sock", true);
    link_to("phonylsnr.sock");
    rig_wait(&got.ready);
    close(accept(listen_fd, NULL, NULL));
    rig_run_for(10 * ENV_MS);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/phonylsnr.sock", io.dir(sock));
    do {
        ck_assert_int_lt(n, 64);
        fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    } while (connect(fds[n++], (struct sockaddr *)&addr, sizeof(addr)) == 0);
    x = rig_begin(NULL);
    rig_give(x, "a", 1, true);
    rig_wait(&got.ended);
    ck_assert_int_eq(got.result.end, FNSOCK_CONNECT); /* another container may have it */
    ck_assert_uint_eq(got.result.request_bytes, 0);
    rig_finish(x);
    while (n > 0) {
        close(fds[--n]);
    }
    close(listen_fd);
}
END_TEST

START_TEST(the_first_byte_is_told_once)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1 };
    struct fnsock_exchange *x;

    rig_open();
    function_start(&f);
    rig_wait(&got.ready);
    x = rig_begin(NULL);
    rig_give(x, "a", 1, false);
    rig_run_for(30 * ENV_MS);
    ck_assert_int_eq(got.sents, 1);
    ck_assert_uint_gt(io.sent(x), 0);
    rig_give(x, "b", 1, true);
    rig_wait(&got.ended);
    ck_assert_int_eq(got.sents, 1);
    rig_finish(x);
    function_stop(&f);
}
END_TEST

START_TEST(an_idle_connection_is_closed_in_time)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1 };

    config.limits.idle_close_ns = 60 * ENV_MS;
    rig_open();
    function_start(&f);
    rig_call("a");
    rig_run_for(200 * ENV_MS);
    while (atomic_load(&f.closed) < 1) {
        sched_yield();
    }
    rig_call("b");
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    ck_assert_int_eq(atomic_load(&f.connections), 2);
    function_stop(&f);
}
END_TEST

/* Reads a big request and answers with as much. */
static void *serve_big(void *arg)
{
    static char data[BIG];
    struct function *f = arg;
    int fd = accept(f->listen_fd, NULL, NULL);
    char head[] = OK_HEAD "Content-Length: 3000000\r\n\r\n";

    if (read_request(fd, &f->reading) < BIG) {
        return arg;
    }
    memset(data, 'x', sizeof(data));
    put(fd, head, sizeof(head) - 1, false);
    put(fd, data, sizeof(data), false);
    close(fd);
    return NULL;
}

START_TEST(big_bodies_both_ways_with_back_pressure)
{
    struct function f = { 0 };
    static char piece[10240];
    struct fnsock_exchange *x;
    size_t before;
    void *failed;
    int waits = 0;

    rig_open();
    f.listen_fd = publish();
    rig_wait(&got.ready);
    x = rig_begin(NULL);
    for (int i = 0; i < 300; i++) {
        got.writables = 0;
        if (rig_give(x, piece, sizeof(piece), i == 299) == 1) {
            if (waits++ == 0) {
                ck_assert_int_eq(pthread_create(&f.thread, NULL, serve_big, &f), 0);
            }
            while (got.writables == 0) {
                loop_run(loop);
            }
        }
    }
    ck_assert_int_gt(waits, 0);
    while (got.body.len < 500000) {
        rig_run_for(ENV_MS);
    }
    loop_enter(loop);
    io.pause(x, true);
    loop_leave(loop);
    before = got.body.len;
    rig_run_for(30 * ENV_MS);
    ck_assert_uint_eq(got.body.len, before);
    loop_enter(loop);
    io.pause(x, false);
    loop_leave(loop);
    rig_wait(&got.ended);
    rig_finish(x);
    pthread_join(f.thread, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    ck_assert_uint_eq(got.body.len, BIG);
    ck_assert_uint_eq(got.result.request_bytes, f.reading.len);
    buf_finish(&f.reading);
    close(f.listen_fd);
}
END_TEST

void add_fnsock(Suite *s)
{
    TCase *t = tcase_create("fnsock");

    tcase_add_checked_fixture(t, rig_start, rig_stop);
    tcase_add_test(t, the_request_is_what_the_contract_says);
    tcase_add_test(t, a_smaller_limit_is_for_the_next_answer);
    tcase_add_loop_test(t, answers_end_as_they_must, 0,
                        (int)(sizeof(answers) / sizeof(answers[0])));
    tcase_add_test(t, a_second_answer_is_never_taken_for_the_next_calls);
    tcase_add_loop_test(t, bytes_that_nobody_asked_for_taint_the_container, 0, 4);
    tcase_add_test(t, an_early_answer_is_an_error);
    tcase_add_loop_test(t, a_function_that_stops_reading_is_told_apart, 0, 2);
    tcase_add_test(t, a_connection_closed_before_a_byte_proves_that_nothing_ran);
    tcase_add_test(t, a_stale_connection_is_replaced_unseen);
    tcase_add_test(t, a_call_goes_on_when_a_full_connection_was_stale);
    tcase_add_test(t, an_answer_over_a_full_connection_is_the_only_one);
    tcase_add_test(t, calls_wait_while_the_node_is_out_of_descriptors);
    tcase_add_test(t, a_want_of_descriptors_that_lasts_is_told_as_such);
    tcase_add_test(t, a_full_queue_of_a_function_ends_the_wait);
    tcase_add_test(t, the_first_byte_is_told_once);
    tcase_add_test(t, an_idle_connection_is_closed_in_time);
    tcase_add_test(t, big_bodies_both_ways_with_back_pressure);
    suite_add_tcase(s, t);
}
