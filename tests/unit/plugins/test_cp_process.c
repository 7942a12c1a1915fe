/* The script with a state of its own, what becomes of its lines, and whose folder it works in. */
#include <home.h>
#include <lines.h>
#include <script.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
static int list_status(const char *verb)
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
    return pclose(out);
}

static void list(const char *verb)
{
    ck_assert_int_eq(list_status(verb), 0);
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

START_TEST(a_link_in_place_of_a_runner_is_not_followed)
{
    char to[128], path[192];

    put("r1-0", "log", "");
    snprintf(to, sizeof(to), "%s/victim", state);
    snprintf(path, sizeof(path), "%s/default/r1-0", state);
    ck_assert_int_eq(rename(path, to), 0);
    ck_assert_int_eq(symlink(to, path), 0);
    snprintf(path, sizeof(path), "touch -d '1 hour ago' %s", to);
    ck_assert_int_eq(system(path), 0);
    ck_assert_int_ne(list_status("list"), 0);
    snprintf(path, sizeof(path), "%s/log", to);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_str_eq(listed, "");
}
END_TEST

static atomic_bool made;

static int enter(const char *path)
{
    struct fn_error e = { .size = sizeof(e) };
    int r = home_enter(path, "default", &made, &e);

    ck_assert(r == 0 || e.msg[0]);
    return r;
}

START_TEST(a_folder_is_made_where_there_is_none)
{
    char path[128];
    struct stat st;

    snprintf(path, sizeof(path), "%s/a/b", state);
    atomic_store(&made, false);
    ck_assert_int_eq(enter(path), 0);
    ck_assert(atomic_load(&made));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    atomic_store(&made, false);
    ck_assert_int_eq(enter(path), 0);
    ck_assert(!atomic_load(&made));
}
END_TEST

struct stranger {
    const char *folder; /* of state/... */
    mode_t mode;
    uid_t uid; /* where the test is root */
    int expected;
};

static const struct stranger strangers[] = {
    { "a/b", 0755, 0, 0 },
    { "a/b", 0770, 0, FN_E_PERMISSION },
    { "a/b", 01777, 0, FN_E_PERMISSION }, /* whoever came first made the group's */
    { "a/b", 0755, 1, FN_E_PERMISSION },
    { "a/b/default", 0702, 0, FN_E_PERMISSION },
    { "a/b/default", 0755, 1, FN_E_PERMISSION },
    { "a", 01777, 0, 0 }, /* as /tmp */
    { "a", 0777, 0, FN_E_PERMISSION },
    { "a", 0755, 1, FN_E_PERMISSION },
};

START_TEST(what_others_can_change_is_not_entered)
{
    const struct stranger *s = &strangers[_i];
    char path[128], command[256];

    snprintf(command, sizeof(command), "mkdir -p %s/a/b/default", state);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof(path), "%s/%s", state, s->folder);
    ck_assert_int_eq(chmod(path, s->mode), 0);
    if (s->uid > 0 && (geteuid() != 0 || chown(path, s->uid, s->uid) < 0)) {
        return;
    }
    snprintf(path, sizeof(path), "%s/a/b", state);
    ck_assert_int_eq(enter(path), s->expected);
}
END_TEST

/* Each part in turn is a link to a folder of ours. Of a link above, only its owner counts. */
START_TEST(a_link_of_a_stranger_is_not_entered)
{
    static const char *const folders[] = { "a", "a/b", "a/b/default" };
    char path[128], command[512];

    snprintf(path, sizeof(path), "%s/%s", state, folders[_i]);
    snprintf(command, sizeof(command), "mkdir -p %s/a/b/default && mv %s %s/to && ln -s %s/to %s",
             state, path, state, state, path);
    ck_assert_int_eq(system(command), 0);
    if (_i == 0 && (geteuid() != 0 || lchown(path, 1, 1) < 0)) {
        return;
    }
    snprintf(path, sizeof(path), "%s/a/b/", state);
    ck_assert_int_eq(enter(path), FN_E_PERMISSION);
    if (_i == 0) {
        snprintf(path, sizeof(path), "%s/a", state);
        ck_assert_int_eq(lchown(path, 0, 0), 0);
        snprintf(path, sizeof(path), "%s/a/b", state);
        ck_assert_int_eq(enter(path), 0);
    }
}
END_TEST

/* No name in /tmp that anybody could have taken before. */
START_TEST(the_default_is_no_common_folder)
{
    char path[49];

    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", "/run/user/7", 1), 0);
    home_default(path, sizeof(path));
    ck_assert_str_eq(path, geteuid() == 0 ? "/run/fnd/runners" : "/run/user/7/fnd/runners");
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
    tcase_add_test(t, a_link_in_place_of_a_runner_is_not_followed);
    tcase_add_test(t, a_folder_is_made_where_there_is_none);
    tcase_add_loop_test(t, what_others_can_change_is_not_entered, 0,
                        sizeof(strangers) / sizeof(strangers[0]));
    tcase_add_loop_test(t, a_link_of_a_stranger_is_not_entered, 0, 3);
    tcase_add_test(t, the_default_is_no_common_folder);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
