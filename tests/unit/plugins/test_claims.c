/* Another process is a child here, which tells by a pipe what it got. */
#include <claims.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], path[128];
static struct fn_error e;

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/fnd-claims-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a/b/managers", dir);
    e = (struct fn_error)FN_ERROR_INIT;
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

struct rival {
    pid_t pid;
    int told, end; /* what it got; closing it ends the process */
    int got;
};

/* A process that takes the group and has it until rival_stop(). */
static struct rival rival_start(const char *group)
{
    struct rival r;
    int told[2], end[2];

    ck_assert_int_eq(pipe(told), 0);
    ck_assert_int_eq(pipe(end), 0);
    r.pid = fork();
    if (r.pid == 0) {
        struct claims c;
        char byte;

        close(end[1]);
        r.got = claims_init(&c, path);
        r.got = r.got < 0 ? r.got : claims_take(&c, group, &e);
        if (write(told[1], &r.got, sizeof(r.got)) == sizeof(r.got)) {
            (void)!read(end[0], &byte, 1);
        }
        _exit(0);
    }
    close(told[1]);
    close(end[0]);
    r.told = told[0];
    r.end = end[1];
    ck_assert_int_eq(read(r.told, &r.got, sizeof(r.got)), sizeof(r.got));
    return r;
}

static void rival_stop(struct rival *r)
{
    close(r->end);
    close(r->told);
    ck_assert_int_eq(waitpid(r->pid, NULL, 0), r->pid);
}

START_TEST(one_process_has_a_group_until_it_ends)
{
    struct rival first = rival_start("blue");
    struct claims c;
    char expected[256];

    ck_assert_int_eq(first.got, 0);
    ck_assert_int_eq(claims_init(&c, path), 0);
    snprintf(expected, sizeof(expected),
             "another manager (pid %d) has group blue: this one adds and removes no runners of it",
             (int)first.pid);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(claims_take(&c, "blue", &e), FN_E_PRECONDITION);
        ck_assert_str_eq(e.msg, expected);
    }
    ck_assert_int_eq(claims_take(&c, "green", &e), 0);
    ck_assert_int_eq(claims_answer(&c, "blue", &e), 1);
    rival_stop(&first);
    ck_assert_int_eq(claims_take(&c, "blue", &e), 0);
    ck_assert_int_eq(claims_answer(&c, "blue", &e), 0);
    claims_finish(&c);
}
END_TEST

/* As before and after a reload. */
START_TEST(instances_of_one_process_share_their_claims)
{
    struct claims before, after;
    struct rival other;

    ck_assert_int_eq(claims_init(&before, path), 0);
    ck_assert_int_eq(claims_init(&after, path), 0);
    ck_assert_int_eq(claims_take(&before, "blue", &e), 0);
    ck_assert_int_eq(claims_take(&after, "blue", &e), 0);
    claims_finish(&before);
    ck_assert_int_eq(claims_take(&after, "blue", &e), 0);
    other = rival_start("blue");
    ck_assert_int_eq(other.got, FN_E_PRECONDITION);
    rival_stop(&other);
    claims_finish(&after);
}
END_TEST

/* A cleaner of old files takes it away: whoever asks next has the group, and one of them only. */
START_TEST(a_file_that_was_taken_away_binds_nobody)
{
    struct claims c;
    struct rival other;

    ck_assert_int_eq(claims_init(&c, path), 0);
    ck_assert_int_eq(claims_take(&c, "blue", &e), 0);
    ck_assert_int_eq(unlink(path), 0);
    other = rival_start("blue");
    ck_assert_int_eq(other.got, 0);
    ck_assert_int_eq(claims_take(&c, "blue", &e), FN_E_PRECONDITION);
    rival_stop(&other);
    ck_assert_int_eq(claims_take(&c, "blue", &e), 0);
    claims_finish(&c);
}
END_TEST

/* Nothing is left where nobody has a claim any more. */
START_TEST(the_last_one_takes_the_file_away)
{
    struct rival other = rival_start("blue");
    struct claims c;

    ck_assert_int_eq(claims_init(&c, path), 0);
    ck_assert_int_eq(claims_take(&c, "green", &e), 0);
    claims_finish(&c);
    ck_assert_int_eq(access(path, F_OK), 0);
    rival_stop(&other);
    ck_assert_int_eq(claims_init(&c, path), 0);
    ck_assert_int_eq(claims_take(&c, "blue", &e), 0);
    claims_finish(&c);
    ck_assert_int_ne(access(path, F_OK), 0);
    path[strlen(path) - strlen("/managers")] = '\0';
    ck_assert_int_eq(access(path, F_OK), 0); /* the rival's, who was killed */
    ck_assert_int_eq(rmdir(path), 0);
    strcat(path, "/managers");
    ck_assert_int_eq(claims_init(&c, path), 0);
    ck_assert_int_eq(claims_take(&c, "blue", &e), 0);
    claims_finish(&c);
    path[strlen(path) - strlen("/managers")] = '\0';
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_file_that_cannot_be_is_an_error)
{
    struct claims c;

    ck_assert_int_eq(claims_init(&c, "/proc/none/managers"), 0);
    ck_assert_int_eq(claims_take(&c, "blue", &e), FN_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.msg, "/proc/none/managers: "));
    claims_finish(&c);
    claims_finish(&(struct claims){ 0 });
}
END_TEST

int main(void)
{
    Suite *s = suite_create("claims");
    TCase *tc = tcase_create("claims");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, one_process_has_a_group_until_it_ends);
    tcase_add_test(tc, instances_of_one_process_share_their_claims);
    tcase_add_test(tc, a_file_that_was_taken_away_binds_nobody);
    tcase_add_test(tc, the_last_one_takes_the_file_away);
    tcase_add_test(tc, a_file_that_cannot_be_is_an_error);
    suite_add_tcase(s, tc);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
