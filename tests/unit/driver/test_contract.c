/* The driver contract, run against what really runs functions: FND_DRIVER is "docker", "process" or
 * "oci" (with-store.sh). */
#include "node.h"

#include <check.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static const char *driver;
static const char *plugins;
static const char *functions;
static struct node *node;

#define ENGINE_DEFAULT "unix:///var/run/docker.sock"
#define UNIX_SCHEME    "unix://"

static const char *engine_address(void)
{
    const char *host = getenv("DOCKER_HOST");

    return host && strncmp(host, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0 ? host : ENGINE_DEFAULT;
}

/* Images, containers and programs of driver-oci, as with-store.sh made them. */
static struct node *start_oci(const char *runtime, struct fn_error *err)
{
    const char *dir = getenv("FND_OCI_DIR");
    char file[512], store[256], state[256];
    const char *const options[] = { "store", store, "state", state, "runtime", runtime,
                                    "programs", getenv("FND_BUILD"), NULL };

    ck_assert_ptr_nonnull(dir);
    snprintf(file, sizeof(file), "%s/driver-%s.so", plugins, driver);
    snprintf(store, sizeof(store), "%s/store", dir);
    snprintf(state, sizeof(state), "%s/state", dir);
    return node_start(file, driver, options, err);
}

static void setup(void)
{
    char file[512];
    struct fn_error err = { .size = sizeof(err) };
    const char *const process_options[] = { "root", functions, NULL };
    const char *const docker_options[] = { "docker_host", engine_address(), NULL };

    snprintf(file, sizeof(file), "%s/driver-%s.so", plugins, driver);
    node = strcmp(driver, "oci") == 0
               ? start_oci(getenv("FND_OCI_RUNTIME"), &err)
               : node_start(file, driver,
                            strcmp(driver, "process") == 0 ? process_options : docker_options,
                            &err);
    ck_assert_msg(node != NULL, "%s", err.msg);
}

static void teardown(void)
{
    node_stop(node);
}

#define ok(call)                                                                                   \
    do {                                                                                           \
        struct fn_error e_ = { .size = sizeof(e_) };                                               \
        int r_ = (call);                                                                           \
        ck_assert_msg(r_ == 0, #call ": %d %s", r_, e_.msg);                                       \
    } while (0)

#define ERR (&e_)

static void *started(struct fn_task *t)
{
    void *ctr = NULL;

    ok(node_prepare(node, t, ERR));
    ok(node_create(node, t, &ctr, ERR));
    ok(node_start_ctr(node, ctr, ERR));
    return ctr;
}

START_TEST(probe_names_the_engine)
{
    char version[128] = "";

    ok(node_probe(node, version, sizeof(version), ERR));
    ck_assert_str_ne(version, "");
}
END_TEST

START_TEST(a_function_runs_freezes_thaws_and_is_removed)
{
    struct fn_task t;
    char dir[64], answer[4096];
    void *ctr;
    uint32_t exits;

    node_task(&t, "fnd/hello:latest", 1, dir);
    ctr = started(&t);
    ck_assert_int_eq(node_call(dir, "{\"name\":\"a\"}", answer, sizeof(answer)), 200);
    ck_assert_ptr_nonnull(strstr(answer, "Hello a"));
    for (int i = 0; i < 3; i++) {
        ok(node_freeze(node, ctr, true, ERR));
        ok(node_freeze(node, ctr, false, ERR));
    }
    ck_assert_int_eq(node_call(dir, "{\"name\":\"b\"}", answer, sizeof(answer)), 200);
    exits = node_exits(node);
    ck_assert_uint_eq(exits, 0);
    ok(node_close(node, ctr, ERR));
}
END_TEST

START_TEST(a_frozen_container_can_be_removed)
{
    struct fn_task t;
    char dir[64];
    void *ctr;

    node_task(&t, "fnd/hello:latest", 2, dir);
    ctr = started(&t);
    ck_assert(node_wait_socket(dir));
    ok(node_freeze(node, ctr, true, ERR));
    ok(node_close(node, ctr, ERR));
    ck_assert_int_lt(node_took_ns(node), 5000000000LL);
}
END_TEST

static void with_mode(struct fn_task *t, struct fn_kv env[4], const char *mode)
{
    memcpy(env, t->env, 3 * sizeof(env[0]));
    env[3] = (struct fn_kv){ "FN_MODE", mode };
    t->env = env;
    t->n_env = 4;
}

START_TEST(the_end_and_the_output_of_a_function_are_reported)
{
    struct fn_task t;
    struct fn_kv env[4];
    struct fn_exit what;
    char dir[64];
    void *ctr;

    node_task(&t, "fnd/misbehave", 3, dir);
    with_mode(&t, env, "exits-early 7");
    ctr = started(&t);
    ck_assert(node_wait_exit(node, 3, &what));
    ck_assert_uint_eq(what.reason, FN_EXIT_CODE);
    ck_assert_int_eq(what.status, 7);
    ok(node_close(node, ctr, ERR));
    ck_assert_uint_eq(node_exits(node), 1);
}
END_TEST

START_TEST(what_a_function_prints_is_reported)
{
    struct fn_task t;
    struct fn_kv env[4];
    char dir[64], answer[256];
    void *ctr;

    node_task(&t, "fnd/misbehave", 4, dir);
    with_mode(&t, env, "log-flood 5");
    ctr = started(&t);
    node_call(dir, "", answer, sizeof(answer));
    ck_assert(node_wait_output(node, 1, "\n") || node_wait_output(node, 2, "\n"));
    ok(node_close(node, ctr, ERR));
}
END_TEST

START_TEST(a_function_beyond_its_memory_is_reported_as_such)
{
    struct fn_task t;
    struct fn_kv env[4];
    struct fn_exit what;
    char dir[64], answer[256];
    void *ctr;

    node_task(&t, "fnd/misbehave", 5, dir);
    with_mode(&t, env, "oom");
    ctr = started(&t);
    node_call(dir, "", answer, sizeof(answer));
    ck_assert(node_wait_exit(node, 5, &what));
    ck_assert_uint_eq(what.reason, FN_EXIT_OOM);
    ck_assert_int_eq(what.status, 137);
    ok(node_close(node, ctr, ERR));
}
END_TEST

START_TEST(a_program_or_image_that_is_not_there_is_a_user_error)
{
    struct fn_task t;
    struct fn_error err = { .size = sizeof(err) };
    char dir[64];

    node_task(&t, "localhost:1/fnd/no-such-function", 6, dir);
    ck_assert_int_lt(node_prepare(node, &t, &err), 0);
    ck_assert_ptr_nonnull(
        strstr(err.msg, "Failed to pull image 'localhost:1/fnd/no-such-function'"));
    ck_assert_uint_eq(err.blame, FN_BLAME_USER);
}
END_TEST

static void move_layers(const char *from, const char *to)
{
    char old[256], new[256];

    snprintf(old, sizeof(old), "%s/store/%s", getenv("FND_OCI_DIR"), from);
    snprintf(new, sizeof(new), "%s/store/%s", getenv("FND_OCI_DIR"), to);
    ck_assert_int_eq(rename(old, new), 0);
}

/* word: all that the runtime does. */
static void start_fails(const char *word, bool without_layers, uint32_t blame)
{
    struct fn_error err = { .size = sizeof(err) };
    struct fn_task t;
    char dir[64], runtime[256];
    void *ctr;
    FILE *f;

    snprintf(runtime, sizeof(runtime), "%s/runtime", getenv("FND_OCI_DIR"));
    f = fopen(runtime, "w");
    ck_assert(f && fprintf(f, "#!/bin/sh\n%s\n", word) > 0 && fclose(f) == 0);
    ck_assert_int_eq(chmod(runtime, 0755), 0);
    node = start_oci(runtime, &err);
    ck_assert_msg(node != NULL, "%s", err.msg);
    node_task(&t, "fnd/hello", 11, dir);
    ok(node_create(node, &t, &ctr, ERR));
    if (without_layers) {
        move_layers("layers", "away");
    }
    ck_assert_int_lt(node_start_ctr(node, ctr, &err), 0);
    if (without_layers) {
        move_layers("away", "layers");
    }
    ck_assert_msg(err.blame == blame, "%s: %s", word, err.msg);
    ck_assert_msg(!(err.flags & FN_ERR_RETRY) == (blame == FN_BLAME_USER), "%s", err.msg);
    ck_assert_int_eq(err.http_status, blame == FN_BLAME_USER ? 502 : 503);
    ok(node_close(node, ctr, ERR));
    node_stop(node);
}

/* Only what the runtime says of a container is the image's fault. */
START_TEST(what_the_machine_lacks_is_no_fault_of_the_image)
{
    if (strcmp(driver, "oci") != 0) {
        return;
    }
    start_fails("exit 1", false, FN_BLAME_USER);
    start_fails("exit 0", true, FN_BLAME_PLATFORM);
    start_fails("kill -9 $$", false, FN_BLAME_PLATFORM);
    start_fails("exit 0", false, FN_BLAME_PLATFORM); /* and wrote no pid */
}
END_TEST

START_TEST(image_names_of_row_21_are_refused)
{
    static const char *const names[] = { "", "-v /:/h", "a:b:c", "../../x", "/etc/passwd", "A/B" };
    struct fn_task t;
    struct fn_error err = { .size = sizeof(err) };
    char dir[64];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        node_task(&t, names[i], 7, dir);
        ck_assert_int_eq(node_prepare(node, &t, &err), FN_E_INVALID);
        ck_assert_int_eq(err.http_status, 400);
        ck_assert_ptr_nonnull(strstr(err.msg, "RUN406 image name"));
    }
}
END_TEST

/* A user without rights, but for reading the tree of this build wherever it lies. */
static void leave_root(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct may[2] = { { 0 } };

    may[0].effective = may[0].permitted = may[0].inheritable = 1u << CAP_DAC_READ_SEARCH;
    ck_assert_int_eq(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(setuid(65534), 0);
    ck_assert_int_eq(syscall(SYS_capset, &head, may), 0);
    ck_assert_int_eq(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0), 0);
}

/* The line that a node without rights logs when it loads the driver. */
START_TEST(a_node_without_root_says_what_functions_lack)
{
    char text[4096] = "";
    FILE *log = tmpfile();

    if (strcmp(driver, "process") != 0) {
        fclose(log);
        return;
    }
    if (getuid() == 0) {
        leave_root();
    }
    ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
    setup();
    teardown();
    rewind(log);
    ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, log), 0);
    fclose(log);
    ck_assert_msg(strstr(text, "functions lack on this machine: namespaces") != NULL, "%s", text);
    ck_assert_msg(strstr(text, ", a user of their own; see") != NULL, "%s", text);
}
END_TEST

START_TEST(a_sweep_removes_what_another_process_of_this_owner_left)
{
    struct fn_task t, mine;
    struct fn_exit what;
    char owner[48];
    char dir[64], dir_mine[64], answer[512];
    uint32_t removed = 0;
    void *ctr, *ctr_mine;

    /* An owner of this run: a run that was killed may have left something under a fixed one. */
    snprintf(owner, sizeof(owner), "test-sweep-%d", (int)getpid());
    node_task(&t, "fnd/hello", 8, dir);
    t.instance = "ffffffffffffffffffffffffffffffff";
    t.owner = node_owner(owner);
    node_task(&mine, "fnd/hello", 9, dir_mine);
    mine.owner = t.owner;
    ctr = started(&t);
    ctr_mine = started(&mine);
    ck_assert(node_wait_socket(dir) && node_wait_socket(dir_mine));
    ok(node_sweep(node, t.owner, mine.instance, &removed, ERR));
    ck_assert_uint_eq(removed, 1);
    ck_assert(node_wait_exit(node, 8, &what));
    ck_assert_int_eq(node_call(dir_mine, "", answer, sizeof(answer)), 200);
    ok(node_close(node, ctr, ERR)); /* "not there" is success */
    ok(node_close(node, ctr_mine, ERR));
}
END_TEST

static bool engine_answers(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes;

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", engine_address() + strlen(UNIX_SCHEME));
    yes = fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0;
    if (!yes) {
        printf("skipped: no container engine at %s\n", engine_address());
    }
    close(fd);
    return yes;
}

int main(void)
{
    Suite *s;
    TCase *t;
    SRunner *runner;
    int failed;

    driver = getenv("FND_DRIVER");
    plugins = getenv("FND_PLUGINS");
    functions = getenv("FND_FUNCTIONS");
    if (!driver || !plugins || !functions) {
        printf("FND_DRIVER, FND_PLUGINS and FND_FUNCTIONS must be set\n");
        return 1;
    }
    if (strcmp(driver, "docker") == 0 && !engine_answers()) {
        return 77;
    }
    s = suite_create("driver contract");
    t = tcase_create("contract");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, probe_names_the_engine);
    tcase_add_test(t, a_function_runs_freezes_thaws_and_is_removed);
    tcase_add_test(t, a_frozen_container_can_be_removed);
    tcase_add_test(t, the_end_and_the_output_of_a_function_are_reported);
    tcase_add_test(t, what_a_function_prints_is_reported);
    tcase_add_test(t, a_function_beyond_its_memory_is_reported_as_such);
    tcase_add_test(t, a_program_or_image_that_is_not_there_is_a_user_error);
    tcase_add_test(t, image_names_of_row_21_are_refused);
    tcase_add_test(t, a_sweep_removes_what_another_process_of_this_owner_left);
    suite_add_tcase(s, t);
    t = tcase_create("without a node");
    tcase_add_test(t, what_the_machine_lacks_is_no_fault_of_the_image);
    tcase_add_test(t, a_node_without_root_says_what_functions_lack);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    node_tidy();
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
