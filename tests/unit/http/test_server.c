/* Bodies, time limits, connection limits, clients that go away. */
#include "../lib/poor.h"
#include "client.h"
#include "suites.h"

#include <net/port_counts.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/times.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BIG      3000000
#define FULL_MAX 1000

static struct http_limits limits;

static void setup(void)
{
    memset(&fx, 0, sizeof(fx));
    limits = default_limits();
}

static char *big_echo_request(bool chunked, size_t *ret_len)
{
    struct buf b = BUF_INIT(0);

    if (chunked) {
        buf_add_str(&b, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    } else {
        buf_printf(&b, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", BIG);
    }
    for (int i = 0; i < BIG / 10; i++) {
        buf_printf(&b, chunked ? "A\r\n%010d\r\n" : "%010d", i);
    }
    if (chunked) {
        buf_add_str(&b, "0\r\n\r\n");
    }
    *ret_len = b.len;
    return b.data;
}

START_TEST(big_bodies_both_ways)
{
    size_t len, got_len;
    char *text = big_echo_request(_i == 1, &len);
    char *head, *got, *body;
    int fd;

    server_start("127.0.0.1:0", &limits);
    fd = dial();
    for (int round = 0; round < 2; round++) {
        send_all(fd, text, len);
        ck_assert(read_answer(fd, &head, &got, &got_len));
        body = strstr(got, "\n\n") + 2;
        ck_assert_uint_eq(got_len - (size_t)(body - got), BIG);
        ck_assert_int_eq(memcmp(body + BIG - 10, "0000299999", 10), 0);
        free(head);
        free(got);
    }
    close(fd);
    free(text);
    server_stop();
}
END_TEST

START_TEST(streams_hold_back_for_slow_readers)
{
    int fd;

    server_start("127.0.0.1:0", &limits);
    fd = dial();
    expect_slow_reader_is_waited_for(fd, _i);
    close(fd);
    server_stop();
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
    static char many[1000 * 64];
    size_t n = 0;
    int fd;

    server_start(NULL, &limits);
    fd = dial();
    for (int i = 0; i < 1000; i++) {
        n += (size_t)snprintf(many + n, sizeof(many) - n,
                              i % 10 == 0 ? GET("/later") : GET("/plain"));
    }
    send_all(fd, many, n);
    for (int i = 0; i < 1000; i++) {
        expect_answer(fd, "200", "ok");
    }
    ck_assert_int_eq(atomic_load(&fx.requests), 1000);
    close(fd);
    server_stop();
}
END_TEST

START_TEST(expect_continue_is_answered_before_the_body)
{
    char line[64] = "";
    int fd;

    server_start(NULL, &limits);
    fd = dial();
    send_text(fd, "POST /plain HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n"
                  "Content-Length: 2\r\n\r\n");
    ck_assert_int_eq(recv(fd, line, 25, MSG_WAITALL), 25);
    ck_assert_str_eq(line, "HTTP/1.1 100 Continue\r\n\r\n");
    send_text(fd, "hi");
    expect_answer(fd, "200", "ok");
    close(fd);
    server_stop();
}
END_TEST

START_TEST(answers_are_framed_by_the_server_alone)
{
    char *head, *body;
    int fd;

    server_start(NULL, &limits);
    fd = dial();
    send_text(fd, GET("/nasty"));
    ck_assert(read_answer(fd, &head, &body, NULL));
    ck_assert_str_eq(head, "HTTP/1.1 299 Status\r\nX-Good: 1\r\nDate: then\r\n"
                           "Content-Length: 2\r\n\r\n");
    free(head);
    free(body);
    send_text(fd, GET("/error"));
    expect_answer(fd, "502",
                  "{\"message\":\"a \\\"b\\\"\\n\\u0001 \xc3\xa4 \xef\xbf\xbd\"}\n");
    close(fd);
    server_stop();
}
END_TEST

START_TEST(an_aborted_answer_never_looks_whole)
{
    char *text;
    size_t len;
    int fd;

    server_start("127.0.0.1:0", &limits);
    fd = dial();
    send_text(fd, GET("/abort"));
    text = read_to_end(fd, &len);
    ck_assert_ptr_nonnull(strstr(text, "4\r\npart\r\n"));
    ck_assert_ptr_null(strstr(text, "0\r\n\r\n"));
    free(text);
    close(fd);
    fd = dial();
    send_text(fd, GET("/abort?none"));
    ck_assert_int_eq(recv(fd, &len, 1, 0), -1); /* reset */
    close(fd);
    server_stop();
}
END_TEST

START_TEST(a_client_that_goes_away_is_noticed_during_the_call)
{
    struct linger hard = { 1, 0 };
    int fd;

    server_start(_i < 3 ? "127.0.0.1:0" : NULL, &limits);
    fd = dial();
    send_text(fd, GET("/park"));
    await(&fx.requests, 1);
    if (_i == 1) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    if (_i == 2) {
        shutdown(fd, SHUT_WR);
        await(&fx.gone, 1);
    }
    close(fd);
    await(&fx.gone, 1);
    server_stop();
}
END_TEST

START_TEST(a_reset_is_noticed_behind_a_full_pipeline)
{
    static char filler[256 << 10];
    struct linger hard = { 1, 0 };
    int fd;

    memset(filler, 'x', sizeof(filler));
    server_start("127.0.0.1:0", &limits);
    fd = dial();
    send_text(fd, GET("/park"));
    await(&fx.requests, 1);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    send_all(fd, filler, sizeof(filler));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
    await(&fx.gone, 1);
    server_stop();
}
END_TEST

START_TEST(a_client_that_does_not_read_is_reset)
{
    int fd;

    limits.write_stall_ns = 200 * ENV_MS;
    server_start("127.0.0.1:0", &limits);
    fd = dial();
    send_text(fd, GET("/stream?n=100000000"));
    await(&fx.gone, 1);
    close(fd);
    server_stop();
}
END_TEST

static void expect_refusal(int fd, const char *status, const char *sentence)
{
    char *text = read_to_end(fd, NULL);

    ck_assert_msg(strncmp(text + 9, status, 3) == 0 && strstr(text, sentence), "%s", text);
    free(text);
    close(fd);
}

START_TEST(slow_clients_meet_absolute_deadlines)
{
    size_t len;
    char *text;
    int fd;

    limits.header_timeout_ns = 200 * ENV_MS;
    limits.body_timeout_ns = 600 * ENV_MS;
    limits.body_rate_min = 0;
    limits.idle_timeout_ns = 300 * ENV_MS;
    server_start(NULL, &limits);
    fd = dial();
    send_text(fd, "GET / HT");
    expect_refusal(fd, "408", "HTTP111 header not complete in 200 ms");
    fd = dial();
    send_text(fd, GET("/plain"));
    expect_answer(fd, "200", "ok");
    send_text(fd, "G");
    expect_refusal(fd, "408", "HTTP111 header not complete in 200 ms");
    fd = dial();
    send_text(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
    expect_refusal(fd, "408", "HTTP114 body not complete in 600 ms");
    fd = dial(); /* says nothing: closed without a word */
    text = read_to_end(fd, &len);
    ck_assert_uint_eq(len, 0);
    free(text);
    close(fd);
    fd = dial();
    send_text(fd, GET("/plain"));
    expect_answer(fd, "200", "ok");
    text = read_to_end(fd, &len);
    ck_assert_uint_eq(len, 0);
    free(text);
    close(fd);
    ck_assert_int_eq(atomic_load(&fx.requests), 2);
    server_stop();
}
END_TEST

START_TEST(a_body_below_the_minimum_rate_is_refused)
{
    int fd;

    limits.body_timeout_ns = 1200 * ENV_MS; /* a sixth passes before the rate counts */
    server_start(NULL, &limits);
    fd = dial();
    send_text(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nabc");
    expect_refusal(fd, "408", "HTTP115 body slower than 1024 bytes/s");
    server_stop();
}
END_TEST

START_TEST(bodies_have_a_limit_and_a_budget)
{
    static const char part[] = "8\r\n12345678\r\n";
    int fd;

    limits.body_bytes_max = 1000;
    fx.bodies.limit_bytes = 500;
    server_start(NULL, &limits);
    fd = dial();
    send_text(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                  "Content-Length: 1001\r\n\r\n");
    expect_refusal(fd, "413", "HTTP110 body > 1000 bytes");
    fd = dial();
    send_text(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 501\r\n\r\n");
    expect_refusal(fd, "503", "Retry-After: 1\r\n");
    loop_enter(fx.loop);
    fx.bodies.limit_bytes = 0;
    loop_leave(fx.loop);
    fd = dial();
    send_text(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 126; i++) {
        send_text(fd, part);
    }
    expect_refusal(fd, "413", "HTTP110 body > 1000 bytes");
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    server_stop();
}
END_TEST

START_TEST(connections_and_requests_are_counted)
{
    struct port_counts counts;
    int fds[4];
    char *text;

    limits.connections_max = 3;
    limits.connections_per_ip_max = 2;
    limits.requests_per_connection_max = 2;
    port_counts_init(&counts, "test");
    server_start("127.0.0.1:0", &limits);
    for (int i = 0; i < 2; i++) {
        fds[i] = dial();
        send_text(fds[i], GET("/plain"));
        expect_answer(fds[i], "200", "ok");
    }
    ck_assert_int_eq(metric_value(counts.received), 2 * strlen(GET("/plain")));
    ck_assert_int_gt(metric_value(counts.sent), 2 * strlen("HTTP/1.1 200 OK"));
    fds[2] = dial();
    expect_refusal(fds[2], "429", "HTTP116 too many connections from this address");
    send_text(fds[0], GET("/plain") GET("/plain"));
    text = read_to_end(fds[0], NULL);
    ck_assert_ptr_nonnull(strstr(text, "Connection: close\r\n"));
    ck_assert_int_eq(atomic_load(&fx.requests), 3);
    free(text);
    close(fds[0]);
    fds[2] = dial(); /* there is room again */
    send_text(fds[2], GET("/plain"));
    expect_answer(fds[2], "200", "ok");
    ck_assert_int_eq(metric_value(counts.open), 2);
    close(fds[1]);
    close(fds[2]);
    server_stop();
    ck_assert_int_eq(metric_value(counts.accepted), 4);
    ck_assert_int_eq(metric_value(counts.turned_away), 1);
    ck_assert_int_eq(metric_value(counts.open), 0);
}
END_TEST

START_TEST(all_connections_together_are_limited)
{
    int a, b;

    limits.connections_max = 1;
    server_start(NULL, &limits);
    a = dial();
    send_text(a, GET("/plain"));
    expect_answer(a, "200", "ok");
    b = dial();
    expect_refusal(b, "503", "HTTP116 too many connections to this node");
    close(a);
    server_stop();
}
END_TEST

START_TEST(without_descriptors_accepting_rests_and_recovers)
{
    struct rlimit old, few;
    struct timespec nap = { 0, 700 * ENV_MS };
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct tms before, after;
    int fds[4], spare[64];
    int probe, n = 0;

    server_start(NULL, &limits);
    for (int i = 0; i < 4; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    probe = dial();
    send_text(probe, GET("/plain"));
    expect_answer(probe, "200", "ok");
    getrlimit(RLIMIT_NOFILE, &old);
    few = old;
    few.rlim_cur = 48;
    setrlimit(RLIMIT_NOFILE, &few);
    while (n < 64 && (spare[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        n++;
    }
    ck_assert_int_lt(n, 64);
    times(&before);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", fx.unix_path);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&un, sizeof(un)), 0);
    }
    expect_refusal(fds[0], "503", "HTTP116 this node is out of descriptors");
    send_text(probe, GET("/plain")); /* those that are in are served */
    expect_answer(probe, "200", "ok");
    nanosleep(&nap, NULL);
    times(&after);
    ck_assert_int_le((after.tms_utime + after.tms_stime - before.tms_utime - before.tms_stime) *
                         100 / sysconf(_SC_CLK_TCK),
                     14); /* of 70: 20 % */
    while (n > 0) {
        close(spare[--n]);
    }
    setrlimit(RLIMIT_NOFILE, &old);
    for (int i = 1; i < 4; i++) {
        close(fds[i]);
    }
    fds[0] = dial();
    send_text(fds[0], GET("/plain"));
    expect_answer(fds[0], "200", "ok");
    close(fds[0]);
    close(probe);
    server_stop();
}
END_TEST

START_TEST(a_port_in_use_is_named)
{
    struct http_server_config config = { .name = "test", .limits = default_limits() };
    struct fn_error err = ERR_INIT;
    struct http_server *second;
    char address[64], expected[160];

    server_start("127.0.0.1:0", &limits);
    snprintf(address, sizeof(address), "127.0.0.1:%u", http_server_port(fx.server));
    config.listen = address;
    loop_enter(fx.loop);
    ck_assert_int_eq(http_server_create(fx.loop, &config, &second, &err), FN_E_UNAVAILABLE);
    loop_leave(fx.loop);
    snprintf(expected, sizeof(expected), "CFG707 %s is in use", address);
    ck_assert_msg(strncmp(err.msg, expected, strlen(expected)) == 0, "%s", err.msg);
    server_stop();
}
END_TEST

START_TEST(stale_unix_sockets_are_replaced_and_living_ones_are_not)
{
    struct http_server_config config = { .name = "test", .limits = default_limits() };
    struct fn_error err = ERR_INIT;
    struct http_server *second;
    char address[80];
    struct stat st;

    server_start(NULL, &limits);
    snprintf(address, sizeof(address), "unix:%s", fx.unix_path);
    config.listen = address;
    loop_enter(fx.loop);
    ck_assert_int_eq(http_server_create(fx.loop, &config, &second, &err), FN_E_UNAVAILABLE);
    loop_leave(fx.loop);
    ck_assert_int_eq(stat(fx.unix_path, &st), 0);
    server_stop();
    ck_assert_int_eq(stat(fx.unix_path, &st), -1);
    config.listen = "nonsense";
    ck_assert_int_eq(loop_create(NULL, &fx.loop, &err), 0);
    ck_assert_int_eq(http_server_create(fx.loop, &config, &second, &err), FN_E_INVALID);
    loop_destroy(fx.loop);
}
END_TEST

/* The next descriptor needs memory of the loop. */
static void fill_loop(struct loop *loop)
{
    static struct loop_fd full[FULL_MAX];
    struct fn_error err = ERR_INIT;

    for (unsigned i = 0; i < FULL_MAX; i++) {
        full[i].fd = eventfd(0, EFD_CLOEXEC);
        poor_begin(1);
        loop_fd_add(loop, &full[i], 0, &err);
        if (poor_end()) {
            close(full[i].fd);
            return;
        }
    }
    ck_abort_msg("it has room for %d descriptors", FULL_MAX);
}

static int create_and_destroy(const struct http_server_config *config, struct fn_error *reterr)
{
    struct http_server *server;
    int r = http_server_create(fx.loop, config, &server, reterr);

    if (r == 0) {
        http_server_destroy(server);
    }
    return r;
}

START_TEST(without_memory_no_server_is_there_and_nothing_of_it_stays)
{
    const char *const refused[] = { "fn0" };
    struct http_server_config config = { .name = "test", .limits = default_limits(),
                                         .refuse_interfaces = { .items = refused, .n = 1 } };
    struct fn_error err = ERR_INIT;
    char address[80], path[64];
    bool failed = true;
    struct stat st;
    int r;

    snprintf(path, sizeof(path), "/tmp/fnd-test-poor-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", path);
    config.listen = address;
    ck_assert_int_eq(loop_create(NULL, &fx.loop, &err), 0);
    ck_assert_int_eq(create_and_destroy(&config, &err), 0); /* its metrics stay */
    fill_loop(fx.loop);
    for (unsigned n = 1; failed; n++) {
        err = (struct fn_error)ERR_INIT;
        poor_begin(n);
        r = create_and_destroy(&config, &err);
        failed = poor_end();
        ck_assert_int_eq(r, failed ? FN_E_EXHAUSTED : 0);
        ck_assert_int_eq(err.msg[0] != '\0', failed);
        ck_assert_int_eq(stat(path, &st), -1);
    }
    loop_destroy(fx.loop);
}
END_TEST

START_TEST(draining_ends_idle_connections_and_finishes_running_calls)
{
    char *head, *body, byte;
    int idle, running;

    server_start(NULL, &limits);
    idle = dial();
    send_text(idle, GET("/plain"));
    expect_answer(idle, "200", "ok");
    running = dial();
    send_text(running, GET("/length?n=30000000"));
    await(&fx.waits, 1);
    loop_enter(fx.loop);
    http_server_drain(fx.server, 0);
    ck_assert_uint_eq(http_server_connections(fx.server), 1);
    loop_leave(fx.loop);
    ck_assert_int_eq(recv(idle, &byte, 1, 0), 0);
    ck_assert(read_answer(running, &head, &body, NULL));
    ck_assert_int_eq(recv(running, &byte, 1, 0), 0);
    free(head);
    free(body);
    close(idle);
    close(running);
    server_stop();
}
END_TEST

/* A request that was sent before its client could know is served, and told that it was the last. */
START_TEST(draining_waits_for_requests_that_are_on_their_way)
{
    char *head, *body, byte;
    int idle, late;

    server_start(NULL, &limits);
    idle = dial();
    send_text(idle, GET("/plain"));
    expect_answer(idle, "200", "ok");
    late = dial();
    send_text(late, GET("/plain"));
    expect_answer(late, "200", "ok");
    loop_enter(fx.loop);
    http_server_drain(fx.server, 2 * ENV_S);
    ck_assert_uint_eq(http_server_connections(fx.server), 2);
    ck_assert(!http_server_is_calm(fx.server));
    loop_leave(fx.loop);
    send_text(late, GET("/plain"));
    ck_assert(read_answer(late, &head, &body, NULL));
    ck_assert_ptr_nonnull(strcasestr(head, "\r\nconnection: close\r\n"));
    ck_assert_int_eq(recv(late, &byte, 1, 0), 0);
    ck_assert_int_eq(recv(idle, &byte, 1, 0), 0);
    loop_enter(fx.loop);
    ck_assert(http_server_is_calm(fx.server));
    loop_leave(fx.loop);
    free(head);
    free(body);
    close(idle);
    close(late);
    server_stop();
}
END_TEST

void add_server(Suite *s)
{
    TCase *t = tcase_create("server");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_loop_test(t, big_bodies_both_ways, 0, 2);
    tcase_add_loop_test(t, streams_hold_back_for_slow_readers, 0, 2);
    tcase_add_test(t, pipelined_requests_are_answered_in_order);
    tcase_add_test(t, expect_continue_is_answered_before_the_body);
    tcase_add_test(t, answers_are_framed_by_the_server_alone);
    tcase_add_test(t, an_aborted_answer_never_looks_whole);
    tcase_add_loop_test(t, a_client_that_goes_away_is_noticed_during_the_call, 0, 4);
    tcase_add_test(t, a_reset_is_noticed_behind_a_full_pipeline);
    tcase_add_test(t, a_client_that_does_not_read_is_reset);
    tcase_add_test(t, slow_clients_meet_absolute_deadlines);
    tcase_add_test(t, a_body_below_the_minimum_rate_is_refused);
    tcase_add_test(t, bodies_have_a_limit_and_a_budget);
    tcase_add_test(t, connections_and_requests_are_counted);
    tcase_add_test(t, all_connections_together_are_limited);
    tcase_add_test(t, without_descriptors_accepting_rests_and_recovers);
    tcase_add_test(t, a_port_in_use_is_named);
    tcase_add_test(t, stale_unix_sockets_are_replaced_and_living_ones_are_not);
    tcase_add_test(t, without_memory_no_server_is_there_and_nothing_of_it_stays);
    tcase_add_test(t, draining_ends_idle_connections_and_finishes_running_calls);
    tcase_add_test(t, draining_waits_for_requests_that_are_on_their_way);
    suite_add_tcase(s, t);
}
