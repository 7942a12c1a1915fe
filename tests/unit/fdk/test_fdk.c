/* The FDK, built into this test and served by a child process. */
#include "server.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LARGE_BYTES (3u * 1000 * 1000)

static struct server server;
static struct answer answer;
static int fd;

static int headers_list(struct fdk_call *call)
{
    const char *name, *value;

    for (size_t i = 0; fdk_header_at(call, i, &name, &value); i++) {
        if (fdk_answer_printf(call, "%s=%s;", name, value) < 0)
            return -1;
    }
    return 0;
}

static int headers_refuse(struct fdk_call *call)
{
    static const char *const bad[][2] = {
        { "", "x" },         { "A B", "x" },      { "A:", "x" },
        { "A", "x\r\nB: y" }, { "A", "x\ny" },    { "content-length", "5" },
        { "Connection", "close" }, { "Transfer-Encoding", "chunked" },
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (fdk_answer_header(call, bad[i][0], bad[i][1]) != -EINVAL)
            return fdk_answer_printf(call, "row %zu taken", i);
    }
    if (fdk_answer_status(call, 199) != -EINVAL || fdk_answer_status(call, 600) != -EINVAL)
        return fdk_answer_printf(call, "status taken");
    return fdk_answer_printf(call, "all refused");
}

/* What it does is in the header "Test"; without one it echoes. */
static int serve(struct fdk_call *call, void *ud)
{
    const char *test = fdk_header(call, "test"), *body;
    size_t len;

    ck_assert_ptr_null(ud);
    if (!test) {
        body = fdk_body(call, &len);
        return body[len] == '\0' ? fdk_answer_write(call, body, len) : -1;
    }
    if (strcmp(test, "list") == 0)
        return headers_list(call);
    if (strcmp(test, "deadline") == 0)
        return fdk_answer_printf(call, "%lld", (long long)fdk_deadline_ms(call));
    if (strcmp(test, "refuse") == 0)
        return headers_refuse(call);
    if (strcmp(test, "answer") == 0)
        return fdk_answer_header(call, "X-One", "1") | fdk_answer_status(call, 404) |
               fdk_answer_header(call, "content-type", "a/b");
    if (strcmp(test, "fail") == 0) {
        (void)fdk_answer_header(call, "X-One", "1");
        (void)fdk_answer_printf(call, "bad luck");
        return -1;
    }
    if (strcmp(test, "hand") == 0)
        return dprintf(fdk_connection(call), "HTTP/1.1 299 Odd\r\nContent-Length: 2\r\n\r\nhi");
    return -1;
}

static void setup(void)
{
    server = (struct server){ 0 };
    server_start(&server, NULL, serve);
    fd = client_connect(&server);
}

static void teardown(void)
{
    (void)close(fd);
    answer_finish(&answer);
    server_finish(&server);
}

static void call(const char *headers, const char *body)
{
    answer_finish(&answer);
    client_call(fd, headers, body, strlen(body), &answer);
}

static void call_is(const char *headers, const char *body, int status, const char *expected)
{
    call(headers, body);
    ck_assert_int_eq(answer.status, status);
    ck_assert_str_eq(answer.body, expected);
}

/* The connection is closed after an answer with that status. */
static void refused_with(int status)
{
    struct answer none;

    answer_finish(&answer);
    ck_assert_int_eq(client_receive(fd, &answer), 1);
    ck_assert_int_eq(answer.status, status);
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nConnection: close\r\n"));
    ck_assert_int_eq(client_receive(fd, &none), 0);
}

START_TEST(socket_is_published_by_relative_link)
{
    char target[64] = "";
    struct stat st;

    ck_assert_int_gt(readlink(server.socket_path, target, sizeof(target) - 1), 0);
    ck_assert_ptr_null(strchr(target, '/'));
    ck_assert_int_eq(stat(server.socket_path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_uint_eq(st.st_mode & 0777, 0666);
}
END_TEST

START_TEST(socket_replaces_leftovers)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    struct server second;
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);

    server_prepare(&second);
    ck_assert_int_eq(symlink("nothing", second.socket_path), 0);
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.fdk", second.socket_path);
    ck_assert_int_eq(bind(stale, (struct sockaddr *)&addr, sizeof(addr)), 0);
    server_start(&second, NULL, serve);
    (void)close(client_connect(&second));
    (void)close(stale);
    server_finish(&second);
}
END_TEST

START_TEST(environment_is_checked)
{
    char long_name[200];

    (void)memset(long_name, 'x', sizeof(long_name));
    (void)memcpy(long_name, "unix:/", 6);
    long_name[sizeof(long_name) - 1] = '\0';
    ck_assert_int_eq(fdk_listen(NULL), -EINVAL);
    ck_assert_int_eq(fdk_listen("/tmp/x"), -EINVAL);
    ck_assert_int_eq(fdk_listen("unix:x"), -EINVAL);
    ck_assert_int_eq(fdk_listen(long_name), -EINVAL);
    ck_assert_int_eq(fdk_listen("unix:/no/such/dir/lsnr.sock"), -ENOENT);
    (void)setenv("FN_FORMAT", "json", 1);
    ck_assert_int_eq(fdk_handle(serve, NULL), -EINVAL);
}
END_TEST

START_TEST(bodies_arrive_in_every_framing)
{
    static const char chunked[] = "POST /call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                                  "\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: t\r\n\r\n";
    static const char empty[] = "POST /call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                                "\r\n0\r\n\r\n";

    call_is("", "hello", 200, "hello");
    call_is("", "", 200, "");
    for (size_t i = 0; i < sizeof(chunked) - 1; i++) {
        client_send(fd, chunked + i, 1);
    }
    answer_finish(&answer);
    ck_assert_int_eq(client_receive(fd, &answer), 1);
    ck_assert_str_eq(answer.body, "abcde");
    answer_finish(&answer);
    client_send_text(fd, empty);
    ck_assert_int_eq(client_receive(fd, &answer), 1);
    ck_assert_int_eq(answer.status, 200);
    ck_assert_uint_eq(answer.body_len, 0);
}
END_TEST

START_TEST(large_body_passes_both_ways)
{
    char *body = malloc(LARGE_BYTES);

    for (uint32_t i = 0; i < LARGE_BYTES; i++) {
        body[i] = (char)(i * 2654435761u >> 24);
    }
    for (int round = 0; round < 3; round++) {
        answer_finish(&answer);
        client_call(fd, "", body, LARGE_BYTES, &answer);
        ck_assert_uint_eq(answer.body_len, LARGE_BYTES);
        ck_assert_mem_eq(answer.body, body, LARGE_BYTES);
    }
    free(body);
    call_is("", "small again", 200, "small again");
}
END_TEST

START_TEST(pipelined_calls_are_answered_in_order)
{
    static const char two[] = "POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
                              "POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb";

    client_send(fd, two, sizeof(two) - 1);
    ck_assert_int_eq(client_receive(fd, &answer), 1);
    ck_assert_str_eq(answer.body, "a");
    answer_finish(&answer);
    ck_assert_int_eq(client_receive(fd, &answer), 1);
    ck_assert_str_eq(answer.body, "b");
}
END_TEST

START_TEST(connection_closes_when_asked)
{
    struct answer none;

    call_is("Connection: close\r\n", "x", 200, "x");
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nConnection: close\r\n"));
    ck_assert_int_eq(client_receive(fd, &none), 0);
}
END_TEST

START_TEST(connections_do_not_disturb_each_other)
{
    int half = client_connect(&server), other = client_connect(&server), first = fd;

    client_send_text(half, "POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf");
    call_is("", "one", 200, "one");
    fd = other;
    call_is("", "two", 200, "two");
    (void)close(half);
    fd = first;
    call_is("", "three", 200, "three");
    (void)close(other);
}
END_TEST

START_TEST(more_connections_than_places_wait)
{
    int fds[32];

    for (int i = 0; i < 12; i++) {
        fds[i] = client_connect(&server);
    }
    client_send_text(fds[11], "POST /call HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nw");
    for (int i = 0; i < 11; i++) {
        (void)close(fds[i]);
    }
    ck_assert_int_eq(client_receive(fds[11], &answer), 1);
    ck_assert_str_eq(answer.body, "w");
    (void)close(fds[11]);
}
END_TEST

START_TEST(headers_are_found)
{
    call_is("Test: list\r\nA: 1\r\nEmpty:\r\nA: 2\r\n", "", 200,
            "Host=localhost;Test=list;A=1;Empty=;A=2;Content-Length=0;");
    call_is("TEST: list\r\n", "", 200, "Host=localhost;TEST=list;Content-Length=0;");
}
END_TEST

START_TEST(deadline_is_read_in_any_zone)
{
    static const char *const rows[][2] = {
        { "Fn-Deadline: 2026-01-02T03:04:05Z\r\n", "1767323045000" },
        { "Fn-Deadline: 2026-01-02T05:04:05+02:00\r\n", "1767323045000" },
        { "Fn-Deadline: 2026-01-01T21:34:05-05:30\r\n", "1767323045000" },
        { "Fn-Deadline: soon\r\n", "9223372036854775807" },
        { "", "9223372036854775807" },
    };
    char headers[128];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(headers, sizeof(headers), "Test: deadline\r\n%s", rows[i][0]);
        call_is(headers, "", 200, rows[i][1]);
    }
}
END_TEST

START_TEST(answer_headers_follow_the_intent)
{
    call_is("Test: answer\r\n", "", 200, "");
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nX-One: 1\r\n"));
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\ncontent-type: a/b\r\n"));
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nFn-Http-Status: 404\r\n"));
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nFn-Fdk-Version: " FDK_VERSION "\r\n"));
    call_is("Fn-Intent: httprequest\r\nTest: answer\r\n", "", 200, "");
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nFn-Http-H-X-One: 1\r\n"));
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\ncontent-type: a/b\r\n"));
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nFn-Http-Status: 404\r\n"));
    call_is("Test: refuse\r\n", "", 200, "all refused");
    call_is("", "", 200, "");
    ck_assert_ptr_null(strstr(answer.head, "X-One"));
}
END_TEST

START_TEST(function_error_is_502_and_keeps_the_connection)
{
    call_is("Test: fail\r\n", "", 502, "bad luck");
    ck_assert_ptr_null(strstr(answer.head, "X-One"));
    call_is("", "next", 200, "next");
}
END_TEST

START_TEST(answer_by_hand_ends_the_connection)
{
    struct answer none;

    call_is("Test: hand\r\n", "", 299, "hi");
    ck_assert_int_eq(client_receive(fd, &none), 0);
}
END_TEST

START_TEST(wrong_requests_are_refused)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        { "GET /call HTTP/1.1\r\nHost: x\r\n\r\n", 405 },
        { "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404 },
        { "\x16\x03\x01 nonsense\r\n\r\n", 400 },
        { "POST /call HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
        { "POST /call HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)close(fd);
        fd = client_connect(&server);
        call_is("", "an earlier answer must not leak", 200, "an earlier answer must not leak");
        client_send_text(fd, rows[i].request);
        refused_with(rows[i].status);
        ck_assert_uint_eq(answer.body_len, 0);
    }
}
END_TEST

START_TEST(too_much_is_refused)
{
    static const char zeros[64 * 1024];
    char line[64];

    client_send_text(fd, "POST /call HTTP/1.1\r\n");
    for (int i = 0; i <= FDK_HEADERS_MAX; i++) {
        client_send_text(fd, "A: b\r\n");
    }
    refused_with(431);

    (void)close(fd);
    fd = client_connect(&server);
    client_send_text(fd, "POST /call HTTP/1.1\r\nLong: ");
    for (int i = 0; i < 80; i++) {
        char text[1024];

        (void)memset(text, 'x', sizeof(text));
        client_send(fd, text, sizeof(text));
    }
    refused_with(431);

    (void)close(fd);
    fd = client_connect(&server);
    (void)snprintf(line, sizeof(line), "Content-Length: %u\r\n\r\n", FDK_BODY_MAX_BYTES + 1);
    client_send_text(fd, "POST /call HTTP/1.1\r\nHost: x\r\n");
    client_send_text(fd, line);
    for (size_t left = FDK_BODY_MAX_BYTES + 1; left;) {
        size_t len = left < sizeof(zeros) ? left : sizeof(zeros);

        client_send(fd, zeros, len);
        left -= len;
    }
    refused_with(413);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fdk");
    TCase *tests = tcase_create("fdk");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, socket_is_published_by_relative_link);
    tcase_add_test(tests, socket_replaces_leftovers);
    tcase_add_test(tests, environment_is_checked);
    tcase_add_test(tests, bodies_arrive_in_every_framing);
    tcase_add_test(tests, large_body_passes_both_ways);
    tcase_add_test(tests, pipelined_calls_are_answered_in_order);
    tcase_add_test(tests, connection_closes_when_asked);
    tcase_add_test(tests, connections_do_not_disturb_each_other);
    tcase_add_test(tests, more_connections_than_places_wait);
    tcase_add_test(tests, headers_are_found);
    tcase_add_test(tests, deadline_is_read_in_any_zone);
    tcase_add_test(tests, answer_headers_follow_the_intent);
    tcase_add_test(tests, function_error_is_502_and_keeps_the_connection);
    tcase_add_test(tests, answer_by_hand_ends_the_connection);
    tcase_add_test(tests, wrong_requests_are_refused);
    tcase_add_test(tests, too_much_is_refused);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
