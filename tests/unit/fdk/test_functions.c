/* The sample functions, as built. */
#include "server.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct server server;
static struct answer answer;
static int fd;

static void start(const char *name)
{
    const char *dir = getenv("FND_FUNCTIONS");
    char executable[512];

    ck_assert_msg(dir != NULL, "FND_FUNCTIONS must name the directory of the functions");
    (void)snprintf(executable, sizeof(executable), "%s/%s", dir, name);
    server = (struct server){ 0 };
    server_start(&server, executable, NULL);
    fd = client_connect(&server);
}

static void teardown(void)
{
    (void)close(fd);
    answer_finish(&answer);
    server_finish(&server);
}

static void call_is(const char *headers, const char *body, int status, const char *expected)
{
    answer_finish(&answer);
    client_call(fd, headers, body, strlen(body), &answer);
    ck_assert_int_eq(answer.status, status);
    ck_assert_str_eq(answer.body, expected);
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

START_TEST(hello_greets)
{
    start("hello");
    call_is("", "{\"name\":\"Ada\"}", 200, "{\"message\":\"Hello Ada\"}\n");
    call_is("", "{\"name\":\"a\\\"b\"}", 200, "{\"message\":\"Hello a\\\"b\"}\n");
    call_is("", "", 200, "{\"message\":\"Hello World\"}\n");
    call_is("", "not JSON", 200, "{\"message\":\"Hello World\"}\n");
    call_is("", "{\"name\":5}", 200, "{\"message\":\"Hello World\"}\n");
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nContent-Type: application/json\r\n"));
}
END_TEST

START_TEST(echo_answers_as_asked)
{
    start("echo");
    call_is("Content-Type: a/b\r\n", "body", 200, "body");
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nContent-Type: a/b\r\n"));
    call_is("Echo-Headers: 1\r\nX: y\r\nX: z\r\n", "", 200,
            "{\"Host\":[\"localhost\"],\"Echo-Headers\":[\"1\"],\"X\":[\"y\",\"z\"],"
            "\"Content-Length\":[\"0\"]}\n");
    call_is("Fn-Intent: httprequest\r\nFn-Http-H-Echo-Status: 418\r\n", "tea", 200, "tea");
    ck_assert_ptr_nonnull(strstr(answer.head, "\r\nFn-Http-Status: 418\r\n"));
    call_is("Echo-Fail: why\r\n", "", 502, "why\n");
}
END_TEST

START_TEST(sleeper_takes_its_time)
{
    int64_t before_ms;

    start("sleeper");
    before_ms = now_ms();
    call_is("", "120", 200, "slept 120\n");
    ck_assert_int_ge(now_ms() - before_ms, 119);
    call_is("", "soon", 502, "body, got \"soon\"; expected milliseconds, 0..3600000\n");
}
END_TEST

START_TEST(big_answers_any_size)
{
    static const char *const sizes[] = { "0", "1", "65521", "3000000", "20000000" };

    start("big");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        answer_finish(&answer);
        client_call(fd, "", sizes[i], strlen(sizes[i]), &answer);
        ck_assert_uint_eq(answer.body_len, strtoul(sizes[i], NULL, 10));
        for (size_t at = 0; at < answer.body_len; at++) {
            if (answer.body[at] != (char)('a' + at % 26))
                ck_abort_msg("byte %zu is 0x%x", at, (unsigned char)answer.body[at]);
        }
    }
}
END_TEST

START_TEST(ledger_is_written_before_the_answer)
{
    char path[128], text[256] = "", id[20] = "";
    int file;

    start("ledger");
    call_is("Fn-Call-Id: call-1\r\n", "5 token", 200, "call-1 5 token");
    (void)snprintf(path, sizeof(path), "%s/ledger", server.dir);
    file = open(path, O_RDONLY);
    ck_assert_int_gt(read(file, text, sizeof(text) - 1), 0);
    (void)close(file);
    ck_assert_int_eq(sscanf(text, "call-1 %16s start\n", id), 1);
    ck_assert_uint_eq(strlen(id), 16);
    (void)snprintf(path, sizeof(path), "call-1 %s start\ncall-1 %s end\n", id, id);
    ck_assert_str_eq(text, path);
}
END_TEST

START_TEST(misbehave_follows_its_mode)
{
    struct answer none;

    start("misbehave");
    call_is("", "", 200, "ok\n");
    call_is("", "fail why", 502, "why\n");
    call_is("", "nonsense", 502, "mode, got \"nonsense\"; see misbehave --modes\n");
    call_is("", "two-answers", 200, "first");
    ck_assert_int_eq(client_receive(fd, &none), 1);
    ck_assert_str_eq(none.body, "stale");
    answer_finish(&none);
    (void)close(fd);
    fd = client_connect(&server);
    client_send_text(fd, "POST /call HTTP/1.1\r\nContent-Length: 5\r\n\r\nclose");
    ck_assert_int_eq(client_receive(fd, &none), 0);
    (void)close(fd);
    fd = client_connect(&server);
    call_is("", "status 201", 201, "hello");
    (void)close(fd);
    fd = client_connect(&server);
    call_is("", "symlink-swap elsewhere", 200, "first");
    ck_assert_int_lt(access(server.socket_path, F_OK), 0);
}
END_TEST

START_TEST(misbehave_takes_its_mode_from_the_environment)
{
    (void)setenv("FN_MODE", "early-answer 0", 1);
    start("misbehave");
    ck_assert_int_eq(client_receive(fd, &answer), 1);
    ck_assert_str_eq(answer.body, "first");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("functions");
    TCase *tests = tcase_create("functions");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, hello_greets);
    tcase_add_test(tests, echo_answers_as_asked);
    tcase_add_test(tests, sleeper_takes_its_time);
    tcase_add_test(tests, big_answers_any_size);
    tcase_add_test(tests, ledger_is_written_before_the_answer);
    tcase_add_test(tests, misbehave_follows_its_mode);
    tcase_add_test(tests, misbehave_takes_its_mode_from_the_environment);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
