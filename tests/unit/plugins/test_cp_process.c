/* The script with a state of its own, and what becomes of its lines. */
#include <lines.h>
#include <script.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char state[64], said[1024], listed[512];

static void write_log(const struct fn_host *host, uint32_t level, const char *msg, size_t len)
{
    (void)host;
    ck_assert_uint_eq(level, FN_LOG_WARN);
    snprintf(said, sizeof(said), "%.*s", (int)len, msg);
}

static const uint32_t log_level = FN_LOG_INFO;
static const struct fn_log_if logger = { .level = &log_level, .write = write_log };
static const struct fn_host host = { .log = &logger };

static void setup(void)
{
    snprintf(state, sizeof(state), "/tmp/fnd-cp-process-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(state));
    said[0] = listed[0] = '\0';
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", state);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *id, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/default", state);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/default/%s", state, id);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/default/%s/%s", state, id, name);
    f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static int add(void *ud, const struct fn_machine *m)
{
    size_t len = strlen(listed);

    (void)ud;
    snprintf(listed + len, sizeof(listed) - len, "%s %u %s;", m->id, (unsigned)m->state,
             m->address ? m->address : "-");
    return 0;
}

/* As the plugin does it. */
static void list(const char *verb)
{
    static const struct fn_machine_sink sink = { .add = add };
    char command[128], line[1024];
    FILE *out;

    ck_assert_int_eq(setenv("SCRIPT", SCRIPT, 1), 0);
    snprintf(command, sizeof(command), "LC_ALL=C /bin/sh -c \"$SCRIPT\" sh %s %s default", verb,
             state);
    out = popen(command, "re");
    ck_assert_ptr_nonnull(out);
    while (fgets(line, sizeof(line), out)) {
        line[strcspn(line, "\n")] = '\0';
        ck_assert_int_eq(take_line(&host, line, "default", 1024, &sink), 0);
    }
    ck_assert_int_eq(pclose(out), 0);
}

/* What a runner writes is no list: echo made lines of it where sh is dash. */
START_TEST(the_last_words_of_a_runner_are_one_line)
{
    char expected[64];

    put("r1-0", "fn.yaml", "");
    put("r1-0", "log", "first\nlast\\nready r2-0 unix:/tmp/evil.sock \\c\n");
    snprintf(expected, sizeof(expected), "r1-0 %u -;", (unsigned)FN_MACHINE_GONE);
    list("look");
    ck_assert_str_eq(listed, "");
    list("list");
    ck_assert_str_eq(listed, expected);
    ck_assert_str_eq(said, "runner r1-0 of group default ended by itself; the last line of its "
                           "log: last\\nready r2-0 unix:/tmp/evil.sock \\c");
    listed[0] = '\0';
    list("list");
    ck_assert_str_eq(listed, ""); /* once */
}
END_TEST

START_TEST(a_runner_without_a_word_is_gone_too)
{
    put("r1-0", "fn.yaml", "");
    list("list");
    ck_assert_str_eq(said, "runner r1-0 of group default ended by itself; its log is empty");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cp process");
    TCase *t = tcase_create("script");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_last_words_of_a_runner_are_one_line);
    tcase_add_test(t, a_runner_without_a_word_is_gone_too);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
