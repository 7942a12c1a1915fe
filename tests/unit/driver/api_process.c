/* What becomes of an image and a task where functions are processes. */
#include "api_suites.h"
#include "ctr_name.h"
#include "process_spec.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

/* ---- processes ------------------------------------------------------------------------------- */

START_TEST(images_become_programs)
{
    char path[SPEC_PATH_MAX];

    ck_assert_int_eq(spec_program("/f", "reg.x:5/fnd/hello:1", path, sizeof(path), NULL), 0);
    ck_assert_str_eq(path, "/f/hello");
    ck_assert_int_lt(spec_program("/f", "../hello", path, sizeof(path), NULL), 0);
    ck_assert_int_lt(spec_program("/f", "..", path, sizeof(path), NULL), 0);
}
END_TEST

static const char *value_of(char **env, const char *key)
{
    size_t n = strlen(key);
    const char *found = NULL;

    for (; *env; env++) {
        if (strncmp(*env, key, n) == 0 && (*env)[n] == '=') {
            ck_assert_ptr_null(found); /* never twice */
            found = *env + n + 1;
        }
    }
    return found;
}

START_TEST(the_listener_is_always_ours)
{
    static const struct fn_kv kv[] = { { "FN_LISTENER", "unix:/etc/x" }, { "PATH", "/x" } };
    struct fn_task t = base_task();
    char **env;

    t.env = kv;
    t.n_env = 2;
    ck_assert_int_eq(spec_env(&t, "/bin", true, &env, NULL), 0);
    ck_assert_str_eq(value_of(env, "FN_LISTENER"), "unix:/tmp/iofs/lsnr.sock");
    ck_assert_str_eq(value_of(env, "PATH"), "/x");
    ck_assert_str_eq(value_of(env, "FN_FORMAT"), "http-stream");
    spec_env_free(env);
    ck_assert_int_eq(spec_env(&t, "/bin", false, &env, NULL), 0);
    ck_assert_str_eq(value_of(env, "FN_LISTENER"), "unix:/run/i/1/lsnr.sock");
    spec_env_free(env);
}
END_TEST

/* What would change what a function does is refused by name; the rest is left out. */
START_TEST(a_process_is_no_container)
{
    static const struct fn_mount mount = { .source = "/x", .target = "/x", .type = FN_MOUNT_BIND };
    static const char *const one[] = { "x", NULL };
    struct fn_task tasks[] = { base_task(), base_task(), base_task(), base_task(), base_task() };
    static const char *const fields[] = { "mounts", "dns", "runtime", "network", "extra_json" };
    struct fn_task t = base_task();

    tasks[0].mounts = &mount;
    tasks[0].n_mounts = 1;
    tasks[1].dns = one;
    tasks[2].runtime = "runsc";
    tasks[3].network = "blue";
    tasks[4].extra_json = "{}";
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        char expected[120];

        clear();
        snprintf(expected, sizeof(expected), "fn_task.%s is set, and processes cannot have it; "
                 "expected a driver of containers", fields[i]);
        ck_assert_int_eq(spec_check(&tasks[i], &err), FN_E_UNIMPLEMENTED);
        ck_assert_str_eq(err.msg, expected);
        tasks[i].hdr.size = offsetof(struct fn_task, cpu_shares);
        ck_assert_int_eq(spec_check(&tasks[i], &err), 0);
    }
    ck_assert(!task_no_network(&t));
    t.cpu_shares = 512;
    t.n_labels = 1;
    t.cap_drop = one;
    t.network = "none";
    ck_assert_int_eq(spec_check(&t, &err), 0);
    ck_assert(task_no_network(&t));
}
END_TEST

START_TEST(cgroup_names_are_of_the_safe_alphabet)
{
    char name[CTR_NAME_MAX];

    ck_assert_int_eq(ctr_name("node-1", "0123456789abcdef", "01ABC/..", name, sizeof(name)), 0);
    ck_assert_str_eq(name, "node-1--0123456789ab-01abc---");
}
END_TEST

START_TEST(no_owner_is_the_start_of_anothers_names)
{
    static const char *const others[] = { "web--eu", "web-", "web-eu", "we", "webs" };
    char prefix[CTR_NAME_MAX], keep[CTR_NAME_MAX], name[CTR_NAME_MAX];

    ck_assert_int_eq(ctr_prefixes("web", "0123456789abcdef", prefix, keep), 0);
    ck_assert_str_eq(prefix, "web--");
    ck_assert_str_eq(keep, "web--0123456789ab-");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        int r = ctr_name(others[i], "fedcba9876543210", "01A", name, sizeof(name));

        ck_assert_int_eq(r, i < 2 ? FN_E_RANGE : 0);
        ck_assert(r < 0 || strncmp(name, prefix, strlen(prefix)) != 0);
    }
}
END_TEST

START_TEST(what_a_machine_cannot_give_is_named)
{
    static const uint32_t all = FN_PROC_HAS_NAMESPACES | FN_PROC_HAS_CGROUP;
    char line[SPEC_LACKS_MAX];

    ck_assert(!spec_lacks(all, true, line));
    ck_assert(spec_lacks(0, false, line));
    ck_assert_str_eq(line, "functions lack on this machine: namespaces (no_network has no effect), "
                           "a cgroup (CPU and processes have no limit), a user of their own; see "
                           "docs/security.md, The process driver");
    ck_assert(spec_lacks(FN_PROC_HAS_NAMESPACES, true, line));
    ck_assert_ptr_null(strstr(line, "namespaces"));
    ck_assert_ptr_nonnull(strstr(line, "machine: a cgroup (CPU and processes have no limit); see"));
    ck_assert(spec_lacks(all, false, line));
    ck_assert_ptr_nonnull(strstr(line, "machine: a user of their own; see"));
}
END_TEST
TCase *process_case(void)
{
    TCase *t = tcase_create("process");

    tcase_add_test(t, images_become_programs);
    tcase_add_test(t, the_listener_is_always_ours);
    tcase_add_test(t, a_process_is_no_container);
    tcase_add_test(t, cgroup_names_are_of_the_safe_alphabet);
    tcase_add_test(t, no_owner_is_the_start_of_anothers_names);
    tcase_add_test(t, what_a_machine_cannot_give_is_named);
    return t;
}
