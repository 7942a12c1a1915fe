/* config.json of driver-oci, and what it reads of images. */
#include "config.h"
#include "task.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct fn_kv env[] = { { "FN_FORMAT", "http-stream" }, { "KEY", "function" } };
static const struct config_settings settings = { .name = "node--0123-id", .dir = "/run/x",
                                                 .swap_limits = true,
                                                 .limits = { 1024, UINT64_MAX, 100, UINT64_MAX } };
static struct fn_error err;

static struct fn_task base_task(void)
{
    return (struct fn_task){ .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK), .id = "01ID",
                             .owner = "node", .instance = "0123456789abcdef", .image = "a/b:1",
                             .env = env, .n_env = 2, .iofs_dir = "/run/iofs/1",
                             .iofs_engine_dir = "/run/iofs/1", .iofs_inside = "/tmp/iofs",
                             .hostname = "runner", .mem_bytes = 128u << 20, .cpu_milli = 500,
                             .pids_max = 50, .nofile_max = 4096, .memlock_max = 65536 };
}

static const char image_text[] =
    "{\"config\":{\"Entrypoint\":[\"/function\"],\"Cmd\":[\"x\"],\"User\":\"7:8\",\"WorkingDir\":\"/w\","
    "\"Env\":[\"KEY=image\",\"PATH=/bin\",\"OTHER=1\"]},\"rootfs\":{\"diff_ids\":[\"sha256:"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"]}}";

/* The configuration as JSON, or NULL with err. */
static json_t *made(const struct fn_task *t, const struct config_settings *s, uint32_t *ret_uid)
{
    struct oci_image image;
    char *text = NULL;
    json_t *ret = NULL;

    err = (struct fn_error){ .size = sizeof(err) };
    ck_assert_int_eq(image_parse_config(image_text, strlen(image_text), &image), 0);
    if (config_make(t, &image, s, &text, ret_uid, &err) == 0) {
        ret = json_loads(text, 0, NULL);
        ck_assert_ptr_nonnull(ret);
    }
    free(text);
    image_drop(&image);
    return ret;
}

/* The member at "a.b.2.c". */
static json_t *at(json_t *root, const char *path)
{
    char copy[128];
    char *save = NULL;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *p = strtok_r(copy, ".", &save); p; p = strtok_r(NULL, ".", &save)) {
        root = json_is_array(root) ? json_array_get(root, strtoul(p, NULL, 10))
                                   : json_object_get(root, p);
    }
    return root;
}

static bool has_text(json_t *list, const char *text)
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry) {
        if (json_is_string(entry) && strcmp(json_string_value(entry), text) == 0) {
            return true;
        }
    }
    return false;
}

static json_t *find(json_t *list, const char *key, const char *value)
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry) {
        const char *text = json_string_value(json_object_get(entry, key));

        if (text && strcmp(text, value) == 0) {
            return entry;
        }
    }
    return NULL;
}

START_TEST(a_function_gets_what_its_task_says_and_no_more)
{
    struct fn_task t = base_task();
    uint32_t uid = 0;
    json_t *c = made(&t, &settings, &uid);
    json_t *mounts = at(c, "mounts");

    ck_assert_uint_eq(uid, 1000);
    ck_assert_int_eq(json_integer_value(at(c, "process.user.uid")), 1000);
    ck_assert_int_eq(json_integer_value(at(c, "process.user.gid")), 1000);
    ck_assert(json_is_true(at(c, "process.noNewPrivileges")));
    ck_assert_uint_eq(json_array_size(at(c, "process.capabilities.bounding")), 0);
    ck_assert_str_eq(json_string_value(at(c, "process.args.0")), "/function");
    ck_assert_str_eq(json_string_value(at(c, "process.args.1")), "x");
    ck_assert_str_eq(json_string_value(at(c, "process.cwd")), "/w");
    ck_assert(has_text(at(c, "process.env"), "KEY=function"));
    ck_assert(!has_text(at(c, "process.env"), "KEY=image"));
    ck_assert(has_text(at(c, "process.env"), "OTHER=1"));
    ck_assert(has_text(at(c, "process.env"), "PATH=/bin"));
    ck_assert(json_is_true(at(c, "root.readonly")));
    ck_assert_ptr_nonnull(find(mounts, "destination", "/tmp"));
    ck_assert_str_eq(json_string_value(json_object_get(find(mounts, "destination", "/tmp/iofs"),
                                                       "source")), "/run/iofs/1");
    ck_assert(has_text(json_object_get(find(mounts, "destination", "/tmp/iofs"), "options"),
                       "nosuid"));
    ck_assert_ptr_nonnull(find(at(c, "linux.namespaces"), "type", "network"));
    ck_assert_str_eq(json_string_value(at(c, "linux.seccomp.defaultAction")), "SCMP_ACT_ERRNO");
    ck_assert_ptr_nonnull(at(c, "linux.seccomp.syscalls.8"));
    json_decref(c);
}
END_TEST

START_TEST(limits_are_those_of_the_task_and_never_above_the_node_s)
{
    struct config_settings v2 = settings;
    struct fn_task t = base_task();
    uint32_t uid;
    json_t *c;

    t.tmpfs_bytes = 1 << 20;
    t.tmpfs_inodes = 9;
    c = made(&t, &settings, &uid);
    ck_assert_int_eq(json_integer_value(at(c, "linux.resources.memory.limit")), 128 << 20);
    ck_assert_int_eq(json_integer_value(at(c, "linux.resources.memory.swap")), 128 << 20);
    ck_assert_ptr_nonnull(at(c, "linux.resources.memory.swappiness"));
    ck_assert_int_eq(json_integer_value(at(c, "linux.resources.cpu.quota")), 50000);
    ck_assert_int_eq(json_integer_value(at(c, "linux.resources.pids.limit")), 50);
    ck_assert(json_is_false(at(c, "linux.resources.devices.0.allow")));
    ck_assert_int_eq(json_integer_value(json_object_get(
                         find(at(c, "process.rlimits"), "type", "RLIMIT_NOFILE"), "hard")), 1024);
    ck_assert_int_eq(json_integer_value(json_object_get(
                         find(at(c, "process.rlimits"), "type", "RLIMIT_MEMLOCK"), "hard")), 65536);
    ck_assert(has_text(json_object_get(find(at(c, "mounts"), "destination", "/tmp"), "options"),
                       "size=1024k"));
    json_decref(c);
    v2.cgroup_v2 = true;
    c = made(&t, &v2, &uid);
    ck_assert_ptr_null(at(c, "linux.resources.memory.swappiness"));
    json_decref(c);
}
END_TEST

START_TEST(rights_are_given_only_where_the_task_says_so)
{
    struct config_settings host = settings;
    struct fn_task t = base_task();
    uint32_t uid;
    json_t *c;

    host.host_network = true;
    t.flags = FN_TASK_PRIVILEGED_USER | FN_TASK_WRITABLE_ROOT;
    c = made(&t, &host, &uid);
    ck_assert_uint_eq(uid, 7);
    ck_assert_int_eq(json_integer_value(at(c, "process.user.gid")), 8);
    ck_assert(has_text(at(c, "process.capabilities.bounding"), "CAP_CHOWN"));
    ck_assert(!has_text(at(c, "process.capabilities.bounding"), "CAP_SYS_ADMIN"));
    ck_assert(json_is_false(at(c, "root.readonly")));
    ck_assert_ptr_null(find(at(c, "linux.namespaces"), "type", "network"));
    ck_assert_ptr_nonnull(find(at(c, "linux.namespaces"), "type", "pid"));
    json_decref(c);
    t.flags |= FN_TASK_NO_NETWORK;
    c = made(&t, &host, &uid);
    ck_assert_ptr_nonnull(find(at(c, "linux.namespaces"), "type", "network"));
    json_decref(c);
}
END_TEST

START_TEST(what_only_an_engine_has_is_refused_by_its_name)
{
    struct fn_task t = base_task();
    uint32_t uid;

    t.network = "blue";
    ck_assert_ptr_null(made(&t, &settings, &uid));
    ck_assert_str_eq(err.msg, "fn_task.network is set, and driver oci cannot give it; expected "
                              "driver docker");
    t = base_task();
    t.extra_json = "{}";
    ck_assert_ptr_null(made(&t, &settings, &uid));
    ck_assert_int_eq(err.code, FN_E_UNIMPLEMENTED);
}
END_TEST

START_TEST(an_environment_that_cannot_be_is_refused)
{
    static const struct fn_kv bad_key[] = { { "A=B", "x" } };
    static const struct fn_kv no_text[] = { { "KEY", "\xff\xfe" } };
    struct fn_task t = base_task();
    uint32_t uid;

    t.env = bad_key;
    t.n_env = 1;
    ck_assert_ptr_null(made(&t, &settings, &uid));
    ck_assert_int_eq(err.http_status, 400);
    t.env = no_text;
    ck_assert_ptr_null(made(&t, &settings, &uid));
    ck_assert_ptr_nonnull(strstr(err.msg, "not UTF-8"));
    t = base_task();
    t.n_env = TASK_ENV_MAX + 1;
    ck_assert_ptr_null(made(&t, &settings, &uid));
}
END_TEST

/* Whatever an image's configuration says, no layer leads out of the store. */
START_TEST(configurations_of_strangers_are_judged)
{
    static const char *const texts[] = {
        "", "[]", "{\"rootfs\":{\"diff_ids\":[]}}", "{\"rootfs\":{\"diff_ids\":[\"sha256:../x\"]}}",
        "{\"rootfs\":{\"diff_ids\":[\"md5:00\"]}}", "{\"rootfs\":{\"diff_ids\":[7]}}",
        "{\"rootfs\":{\"diff_ids\":[\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef/..\"]}}",
    };
    struct oci_image image;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_int_eq(image_parse_config(texts[i], strlen(texts[i]), &image), FN_E_INVALID);
        ck_assert_ptr_null(image.config);
    }
}
END_TEST

/* As of two steps that change nothing. An overlay refuses to have a folder twice. */
START_TEST(a_layer_that_comes_again_is_there_once_where_it_is_uppermost)
{
    static const char *const ids[] = { "aa", "bb", "aa", "cc", "aa", "bb" };
    static const char *const expected[] = { "cc", "aa", "bb" };
    struct oci_image image;
    char text[1024] = "{\"rootfs\":{\"diff_ids\":[";
    size_t n = strlen(text);

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\"sha256:%s%062d\"", i ? "," : "",
                              ids[i], 0);
    }
    snprintf(text + n, sizeof(text) - n, "]}}");
    ck_assert_int_eq(image_parse_config(text, strlen(text), &image), 0);
    ck_assert_uint_eq(image.n_layers, 3);
    for (uint32_t i = 0; i < image.n_layers; i++) {
        ck_assert_int_eq(strncmp(image.layers[i], expected[i], 2), 0);
    }
}
END_TEST

START_TEST(one_image_has_one_name)
{
    static const char *const same[] = { "x", "x:latest", "library/x", "docker.io/library/x:latest" };
    struct image_name name;
    char text[STORE_NAME_MAX], file[STORE_HEX + 1];

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        ck_assert_int_eq(image_parse(same[i], &name, &err), 0);
        store_canonical(&name, text);
        ck_assert_str_eq(text, "x:latest");
    }
    ck_assert_int_eq(image_parse("localhost:5000/a/b:1", &name, &err), 0);
    store_canonical(&name, text);
    ck_assert_str_eq(text, "localhost:5000/a/b:1");
    store_name_file(&name, file);
    ck_assert(store_is_hex(file));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("driver config");
    TCase *t = tcase_create("config.json");
    SRunner *runner;
    int failed;

    tcase_add_test(t, a_function_gets_what_its_task_says_and_no_more);
    tcase_add_test(t, limits_are_those_of_the_task_and_never_above_the_node_s);
    tcase_add_test(t, rights_are_given_only_where_the_task_says_so);
    tcase_add_test(t, what_only_an_engine_has_is_refused_by_its_name);
    tcase_add_test(t, an_environment_that_cannot_be_is_refused);
    tcase_add_test(t, configurations_of_strangers_are_judged);
    tcase_add_test(t, a_layer_that_comes_again_is_there_once_where_it_is_uppermost);
    tcase_add_test(t, one_image_has_one_name);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
