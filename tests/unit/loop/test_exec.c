/* fn.exec: exit codes, outputs and their bounds, deadlines, process groups. */
#include <loop/exec.h>
#include <loop/loop_int.h>

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fn_error err;

static int run(const char *const *argv, struct fn_exec_request rq, struct fn_exec_result *ret)
{
    rq.size = sizeof(rq);
    rq.argv = argv;
    rq.timeout_ms = rq.timeout_ms ? rq.timeout_ms : 20000;
    err = ERR_INIT;
    return exec_run(NULL, &rq, ret, &err);
}

#define SH(script) ((const char *const[]){ "/bin/sh", "-c", (script), NULL })
#define RQ(...) ((struct fn_exec_request){ .size = 0, ##__VA_ARGS__ })

START_TEST(output_and_exit_code_are_collected)
{
    struct fn_exec_result res;

    ck_assert_int_eq(run(SH("echo out; echo err >&2; exit 7"), RQ(), &res), 0);
    ck_assert_int_eq(res.exit_code, 7);
    ck_assert_str_eq(res.out, "out\n");
    ck_assert_str_eq(res.err, "err\n");
    exec_free_result(&res);
}
END_TEST

START_TEST(a_signal_is_a_negative_code)
{
    struct fn_exec_result res;

    ck_assert_int_eq(run(SH("kill -TERM $$"), RQ(), &res), 0);
    ck_assert_int_eq(res.exit_code, -SIGTERM);
    exec_free_result(&res);
}
END_TEST

START_TEST(output_beyond_the_limit_is_dropped_without_blocking)
{
    struct fn_exec_result res;

    ck_assert_int_eq(run(SH("head -c 1000000 /dev/zero | tr '\\0' x"), RQ(.output_max = 100), &res),
                     0);
    ck_assert_int_eq(res.exit_code, 0);
    ck_assert_uint_eq(strlen(res.out), 100);
    exec_free_result(&res);
}
END_TEST

START_TEST(stdin_directory_and_environment_are_given)
{
    static const char *const env[] = { "A=b", "PATH=/usr/bin:/bin", NULL };
    struct fn_exec_result res;

    ck_assert_int_eq(run(SH("cat; pwd; echo $A$HOME"),
                         RQ(.stdin_text = "in\n", .cwd = "/usr", .env = env), &res),
                     0);
    ck_assert_str_eq(res.out, "in\n/usr\nb\n");
    exec_free_result(&res);
}
END_TEST

START_TEST(nothing_is_inherited)
{
    struct fn_exec_result res;
    int fd = dup2(1, 77); /* without close-on-exec */

    ck_assert_int_eq(fd, 77);
    setenv("SECRET", "s", 1);
    ck_assert_int_eq(run(SH("[ -e /proc/self/fd/77 ] && echo leak; echo $SECRET"), RQ(), &res), 0);
    ck_assert_str_eq(res.out, "\n");
    exec_free_result(&res);
    close(fd);
}
END_TEST

START_TEST(the_deadline_kills_the_whole_group)
{
    struct fn_exec_result res;
    int64_t start_ns = loop_clock_ns();

    ck_assert_int_eq(run(SH("sleep 60 & sleep 60"), RQ(.timeout_ms = 200), &res), FN_E_DEADLINE);
    ck_assert_int_lt(loop_clock_ns() - start_ns, 5 * ENV_S);
    ck_assert_ptr_nonnull(strstr(err.msg, "did not end in time"));
}
END_TEST

START_TEST(a_flood_does_not_outrun_the_deadline)
{
    struct fn_exec_result res;

    ck_assert_int_eq(run(SH("exec cat /dev/zero"), RQ(.timeout_ms = 200), &res), FN_E_DEADLINE);
}
END_TEST

START_TEST(a_grandchild_that_keeps_the_pipe_does_not_hold_the_run)
{
    struct fn_exec_result res;
    int64_t start_ns = loop_clock_ns();
    long pid;

    ck_assert_int_eq(run(SH("sleep 60 & echo $!"), RQ(), &res), 0);
    ck_assert_int_lt(loop_clock_ns() - start_ns, 10 * ENV_S);
    pid = strtol(res.out, NULL, 10);
    ck_assert_int_gt(pid, 1);
    /* Killed with its group; whoever adopted it may not have reaped it yet. */
    for (int i = 0; i < 1000 && kill((pid_t)pid, 0) == 0; i++) {
        char state[64] = "", path[64];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
        f = fopen(path, "r");
        if (f) {
            (void)!fgets(state, sizeof(state), f); /* nothing once it is reaped */
            fclose(f);
        }
        if (!state[0] || strstr(state, ") Z")) {
            break;
        }
        ck_assert_int_lt(i, 999);
    }
    exec_free_result(&res);
}
END_TEST

START_TEST(programs_that_cannot_run_are_refused)
{
    struct fn_exec_result res;
    static const char *const missing[] = { "/no/such/program", NULL };
    static const char *const denied[] = { "/etc/passwd", NULL };
    static const char *const empty[] = { NULL };

    ck_assert_int_eq(run(missing, RQ(), &res), FN_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "/no/such/program"));
    ck_assert_int_eq(run(denied, RQ(), &res), FN_E_PERMISSION);
    ck_assert_int_eq(run(empty, RQ(), &res), FN_E_INVALID);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("exec");
    TCase *t = tcase_create("exec");
    SRunner *runner;
    int failed;

    tcase_add_test(t, output_and_exit_code_are_collected);
    tcase_add_test(t, a_signal_is_a_negative_code);
    tcase_add_test(t, output_beyond_the_limit_is_dropped_without_blocking);
    tcase_add_test(t, stdin_directory_and_environment_are_given);
    tcase_add_test(t, nothing_is_inherited);
    tcase_add_test(t, the_deadline_kills_the_whole_group);
    tcase_add_test(t, a_flood_does_not_outrun_the_deadline);
    tcase_add_test(t, a_grandchild_that_keeps_the_pipe_does_not_hold_the_run);
    tcase_add_test(t, programs_that_cannot_run_are_refused);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
