/* The log to syslog servers: real sockets on this machine, standard error caught in a pipe. */
#include <loop/remote_log.h>

#include <base/log.h>
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <loop/log_writer.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_MS 10000
#define WALL_NS INT64_C(1700000000000000000) /* 2023-11-14T22:13:20Z */

static char text[32768];

/* What can be read from fd, after at least one byte came. */
static const char *take(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ssize_t n;

    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    n = read(fd, text, sizeof(text) - 1);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

static int catch_stderr(void)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    return ends[0];
}

static int server(int type, uint16_t *port)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(*port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(addr);
    int on = 1;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *port = ntohs(addr.sin_port);
    if (type == SOCK_STREAM) {
        ck_assert_int_eq(listen(fd, 4), 0);
    }
    return fd;
}

/* As in a node: what the server does not take goes to standard error. */
static void start_writer(void)
{
    static const struct log_writer_config writer = { .fd = -1, .send = remote_log_send };
    static bool started;
    struct fn_error e = ERR_INIT;

    ck_assert(started || log_writer_start(&writer, &e) == 0);
    started = true;
}

static void say(uint32_t level, const char *line)
{
    start_writer();
    log_writer_write(level, WALL_NS, line, strlen(line));
    ck_assert(log_writer_flush(WAIT_MS));
}

static void open_at(const char *scheme, uint16_t port)
{
    struct fn_error e = ERR_INIT;
    char dest[64];

    snprintf(dest, sizeof(dest), "%s127.0.0.1:%d", scheme, port);
    ck_assert_msg(remote_log_open(dest, "mine", &e) == 0, "%s", e.msg);
}

START_TEST(over_udp)
{
    uint16_t port = 0;
    int fd = server(SOCK_DGRAM, &port);
    char host[128] = "";
    char expected[512];

    gethostname(host, sizeof(host) - 1);
    open_at(_i ? "udp://" : "", port);
    say(FN_LOG_WARN, "msg=\"one\"\n");
    snprintf(expected, sizeof(expected), "<4>2023-11-14T22:13:20Z %s mine[%d]: msg=\"one\"\n", host,
             (int)getpid());
    ck_assert_str_eq(take(fd), expected);
    say(FN_LOG_ERROR, "two\n");
    ck_assert_int_eq(strncmp(take(fd), "<3>", 3), 0);
    close(fd);
}
END_TEST

START_TEST(over_a_local_socket)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    struct fn_error e = ERR_INIT;
    char dir[] = "/tmp/fnd-log-XXXXXX";
    char dest[128];
    int fd = socket(AF_UNIX, (_i ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/log", dir);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert(!_i || listen(fd, 1) == 0);
    snprintf(dest, sizeof(dest), "unix://%s", addr.sun_path);
    ck_assert_int_eq(remote_log_open(dest, "mine", &e), 0);
    say(FN_LOG_DEBUG, "line\n");
    fd = _i ? accept(fd, NULL, NULL) : fd;
    ck_assert_int_eq(strncmp(take(fd), "<7>Nov 1", 8), 0); /* local time: the 14th or 15th */
    ck_assert_ptr_nonnull(strstr(text, " mine["));
    ck_assert_ptr_nonnull(strstr(text, "]: line\n"));
    unlink(addr.sun_path);
    rmdir(dir);
}
END_TEST

/* Lines are never lost without a word: while the server is away they are on standard error. */
START_TEST(a_stream_that_goes_and_comes_back)
{
    uint16_t port = 0;
    int caught = catch_stderr();
    int fd = server(SOCK_STREAM, &port);
    int conn;

    open_at("tcp://", port);
    conn = accept(fd, NULL, NULL);
    say(FN_LOG_INFO, "one\n");
    ck_assert_ptr_nonnull(strstr(take(conn), "]: one\n"));
    close(conn);
    close(fd);
    usleep(1000); /* the end is in our socket at once on one machine; nothing depends on it */
    say(FN_LOG_INFO, "two\n");
    say(FN_LOG_INFO, "three\n");
    ck_assert_ptr_nonnull(strstr(take(caught), "three\n"));
    fd = server(SOCK_STREAM, &port);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    conn = -1;
    for (int i = 0; i < WAIT_MS && conn < 0; i++) {
        say(FN_LOG_INFO, "again\n");
        usleep(1000);
        conn = accept(fd, NULL, NULL);
    }
    ck_assert_int_ge(conn, 0);
    say(FN_LOG_INFO, "back\n");
    ck_assert_ptr_nonnull(strstr(take(conn), "]: back\n"));
    close(conn);
    close(fd);
    say(FN_LOG_INFO, "closed\n");
    while (!strstr(take(caught), "closed\n")) {
    }
}
END_TEST

/* A server that does not read: nothing waits, lines that it gets are whole. */
START_TEST(a_stream_that_is_not_read)
{
    char line[4001];
    uint16_t port = 0;
    int caught = catch_stderr();
    int fd = server(SOCK_STREAM, &port);
    int conn;
    size_t at_server = 0;
    size_t here = 0;

    memset(line, 'x', sizeof(line) - 2);
    line[sizeof(line) - 2] = '\n';
    line[sizeof(line) - 1] = '\0';
    open_at("tcp://", port);
    start_writer();
    conn = accept(fd, NULL, NULL);
    for (int i = 0; i < 4000; i += 8) { /* as many at a time as a pipe takes */
        for (int k = 1; k < 8; k++) {
            log_writer_write(FN_LOG_INFO, WALL_NS, line, strlen(line));
        }
        say(FN_LOG_INFO, line);
        for (ssize_t n; (n = read(caught, text, sizeof(text))) > 0;) {
            here += (size_t)n / (sizeof(line) - 1);
        }
    }
    ck_assert_uint_gt(here, 0);
    ck_assert_int_eq(fcntl(conn, F_SETFL, O_NONBLOCK), 0);
    for (size_t col = 0; at_server + here < 4000;) {
        ck_assert_ptr_nonnull(take(conn));
        for (const char *p = text; *p; p++) {
            if (col == 0 && *p != '<') { /* an assertion for each byte takes 10 s */
                ck_abort_msg("a line begins with %c", *p);
            }
            col = *p == '\n' ? 0 : col + 1;
            at_server += *p == '\n';
        }
        if (at_server + here == 3999 && col > 0) { /* the last line waits for its end */
            say(FN_LOG_INFO, "end\n");
        }
    }
    close(conn);
    close(fd);
}
END_TEST

START_TEST(addresses)
{
    static const char *const good[] = { "udp://h:514", "tcp://10.0.0.1:6514", "h:514",
                                        "udp://[::1]:514", "unix:///dev/log" };
    static const char *const bad[] = { "", "h", "udp://", "udp://h", "udp://:514", "tcp://h:x",
                                       "tcp://h:123456", "::1:514", "unix://", "unix:///",
                                       "ftp://h:1", "udp://h/x:1", "udp://[]:1" };
    struct fn_error e = ERR_INIT;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(remote_log_check(good[i]) == 0, "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(remote_log_check(bad[i]) < 0, "%s", bad[i]);
    }
    ck_assert_int_eq(remote_log_open("udp://nowhere.invalid:514", "x", &e), FN_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.msg, "log.dest udp://nowhere.invalid:514: "));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("remote log");
    TCase *t = tcase_create("remote log");
    SRunner *r;
    int failed;

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, over_udp, 0, 2);
    tcase_add_loop_test(t, over_a_local_socket, 0, 2);
    tcase_add_test(t, a_stream_that_goes_and_comes_back);
    tcase_add_test(t, a_stream_that_is_not_read);
    tcase_add_test(t, addresses);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
