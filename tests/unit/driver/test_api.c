/* Pure parts of the drivers: image names, credentials and the create body here, what an engine
 * answers in api_answers.c, processes in api_process.c. */
#include "api_suites.h"
#include "auth.h"
#include "docker.h"
#include "docker_api.h"
#include "draw.h"
#include "task.h"

#include <stdlib.h>
#include <string.h>

struct fn_error err;

void clear(void)
{
    err = (struct fn_error){ .size = sizeof(err) };
}

/* ---- image names ----------------------------------------------------------------------------- */

START_TEST(image_names_split)
{
    static const struct {
        const char *name, *registry, *repository, *tag;
    } rows[] = {
        { "hello", "", "hello", "latest" },
        { "fnd/hello:0.1", "", "fnd/hello", "0.1" },
        { "reg.example:5000/a/b", "reg.example:5000", "reg.example:5000/a/b", "latest" },
        { "localhost/a:T_1.x", "localhost", "localhost/a", "T_1.x" },
        { "a__b/c-d.e", "", "a__b/c-d.e", "latest" },
        { "127.0.0.1:5000/x", "127.0.0.1:5000", "127.0.0.1:5000/x", "latest" },
    };
    struct image_name im;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(image_parse(rows[i].name, &im, NULL), 0);
        ck_assert_str_eq(im.registry, rows[i].registry);
        ck_assert_str_eq(im.repository, rows[i].repository);
        ck_assert_str_eq(im.tag, rows[i].tag);
    }
}
END_TEST

START_TEST(a_digest_wins_over_a_tag)
{
    char name[200] = "a/b:1@sha256:";
    struct image_name im;

    memset(name + strlen(name), 'a', 64);
    ck_assert_int_eq(image_parse(name, &im, NULL), 0);
    ck_assert(im.by_digest);
    ck_assert_str_eq(im.repository, "a/b");
    ck_assert_int_eq(strncmp(im.tag, "sha256:aa", 9), 0);
    name[strlen(name) - 1] = '\0';
    ck_assert_int_lt(image_parse(name, &im, NULL), 0);
}
END_TEST

START_TEST(bad_image_names_are_refused)
{
    static const char *const names[] = {
        "",   "-v /:/h", "a:b:c", "../../x", "a/../b",     "/a",   "a/",   "A",   "a b",
        "a:", "a:-x",    "a@b",   ":80/a",   "h:99999x/a", "a//b", "a/.b", "a\n", "a%2fb" };
    struct image_name im;
    char big[5001];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        clear();
        ck_assert_msg(image_parse(names[i], &im, &err) == FN_E_INVALID, "%s", names[i]);
        ck_assert_int_eq(err.http_status, 400);
        ck_assert_uint_eq(err.blame, FN_BLAME_USER);
        ck_assert_ptr_nonnull(strstr(err.msg, "RUN406"));
        ck_assert_ptr_null(strchr(err.msg, '\n'));
    }
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    ck_assert_int_eq(image_parse(big, &im, &err), FN_E_INVALID);
}
END_TEST

/* ---- credentials ----------------------------------------------------------------------------- */

static char *header(const char *config, const char *registry, const char *token)
{
    struct auth *a = NULL;
    char *ret = NULL;

    if (config) {
        ck_assert_int_eq(auth_parse(config, &a, NULL), 0);
    }
    ck_assert_int_eq(auth_header(a, registry, token, &ret), 0);
    auth_destroy(a);
    return ret;
}

static void expect_header(const char *config, const char *registry, const char *token,
                          const char *expected)
{
    char *got = header(config, registry, token);

    if (!expected) {
        ck_assert_msg(!got, "%s got credentials", registry);
    } else {
        ck_assert_ptr_nonnull(got);
        ck_assert_str_eq(got, expected);
    }
    free(got);
}

START_TEST(credentials_go_to_their_own_registry_only)
{
    /* dTpw = u:p */
    static const char config[] = "{\"auths\":{\"https://reg.example:5000/v1/\":{\"auth\":\"dTpw\"},"
                                 "\"127.0.0.1:5000\":{\"auth\":\"dTpw\"},"
                                 "\"https://index.docker.io/v1/\":{\"identitytoken\":\"tok\"},"
                                 "\"no.auth\":{}}}";
    static const char user[] =
        "eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InAiLCJzZXJ2ZXJhZGRyZXNzIjoicmVn"
        "LmV4YW1wbGU6NTAwMCJ9";
    static const char token[] = "eyJpZGVudGl0eXRva2VuIjoidG9rIn0=";

    expect_header(config, "reg.example:5000", NULL, user);
    expect_header(config, "reg.example", NULL, NULL);
    expect_header(config, "sub.reg.example:5000", NULL, NULL);
    expect_header(config, "example:5000", NULL, NULL);
    expect_header(config, "", NULL, token);
    expect_header(config, "docker.io", NULL, token);
    expect_header(config, "no.auth", NULL, NULL);
    expect_header(NULL, "reg.example", NULL, NULL);
    free(header(config, "127.0.0.1:5000", NULL)); /* host:port without a scheme works */
}
END_TEST

START_TEST(credentials_go_to_parent_domains_where_the_operator_says_so)
{
    static const struct {
        const char *registry;
        bool sent;
    } rows[] = { { "b.example:5000", true },      { "a.b.example:5000", true },
                 { "B.EXAMPLE:5000", true },      { "example:5000", false }, /* no dot */
                 { "b.example", false },          { ".example:5000", false },
                 { "x.a.b.example:5000", false }, { "bb.example:5000", false },
                 { "xb.example:5000", false } };
    struct auth *a;

    ck_assert_int_eq(
        auth_parse("{\"https://a.b.example:5000/v1/\":{\"auth\":\"dTpw\"}}", &a, &err), 0);
    auth_allow_parents(a);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *got = NULL;

        ck_assert_int_eq(auth_header(a, rows[i].registry, NULL, &got), 0);
        ck_assert_msg(!!got == rows[i].sent, "%s", rows[i].registry);
        free(got);
    }
    auth_destroy(a);
}
END_TEST

START_TEST(programs_are_asked_for_registries)
{
    static const char config[] = "{\"auths\":{},\"credsStore\":\"all\",\"credHelpers\":{"
                                 "\"reg.example:5000\":\"one\",\"evil.example\":\"../../bin/sh\","
                                 "\"odd.example\":7,\"https://index.docker.io/v1/\":\"hub\"}}";
    static const char *const rows[][2] = {
        { "reg.example:5000", "one" }, { "reg.example", "all" }, { "evil.example", "" },
        { "odd.example", "" },         { "", "hub" },            { "docker.io", "hub" },
    };
    char name[AUTH_HELPER_MAX + 1];
    struct auth *a;

    ck_assert_int_eq(auth_parse(config, &a, &err), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auth_helper(a, rows[i][0], name);
        ck_assert_str_eq(name, rows[i][1]);
    }
    auth_destroy(a);
    auth_helper(NULL, "x", name);
    ck_assert_str_eq(name, "");
    ck_assert_str_eq(auth_helper_question("docker.io"), "https://index.docker.io/v1/");
    ck_assert_str_eq(auth_helper_question("reg.example:5000"), "reg.example:5000");
}
END_TEST

START_TEST(a_token_of_the_call_wins)
{
    expect_header("{\"r.x\":{\"auth\":\"dTpw\"}}", "r.x", "t", "eyJyZWdpc3RyeXRva2VuIjoidCJ9");
    expect_header("{\"r.x\":{\"auth\":\"%%%\"}}", "r.x", NULL, NULL);
}
END_TEST

START_TEST(broken_credentials_are_refused_without_being_shown)
{
    static const char *const texts[] = { "", "secret", "[1]", "{\"auths\":\"secret\"}", "{" };
    struct auth *a;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        clear();
        ck_assert_int_eq(auth_parse(texts[i], &a, &err), FN_E_INVALID);
        ck_assert_ptr_null(strstr(err.msg, "secret"));
    }
}
END_TEST

/* ---- the create body ------------------------------------------------------------------------- */

struct fn_task base_task(void)
{
    static const struct fn_kv env[] = { { "A", "1" }, { "B", "x=\"y\"\n" } };

    return (struct fn_task){ .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK), .id = "01ID",
                             .owner = "node-1", .instance = "ab", .fn_id = "f", .app_id = "a",
                             .image = "fnd/hello", .env = env, .n_env = 2, .iofs_dir = "/run/i/1",
                             .iofs_engine_dir = "/run/i/1", .iofs_inside = "/tmp/iofs",
                             .hostname = "h", .mem_bytes = 64 << 20, .cpu_milli = 500,
                             .pids_max = 50, .nofile_max = 350, .memlock_max = UINT64_MAX };
}

static json_t *body_of(const struct fn_task *t, const struct api_settings *s)
{
    char *text = NULL;
    json_t *body;

    clear();
    ck_assert_msg(api_create_body(t, s, &text, &err) == 0, "%s", err.msg);
    body = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(body);
    free(text);
    return body;
}

/* What holds for every container, whatever the task says. */
static void check_predicate(json_t *body, const struct fn_task *t)
{
    static const char *const allowed[] = { "Mounts", "CapDrop", "SecurityOpt", "Init",
                                           "ReadonlyRootfs", "LogConfig", "NetworkMode", "Tmpfs",
                                           "Memory", "MemorySwap", "MemorySwappiness", "CpuPeriod",
                                           "CpuQuota", "CpuShares", "PidsLimit", "StorageOpt", "Ulimits", NULL };
    json_t *host = json_object_get(body, "HostConfig");
    json_t *mounts = json_object_get(host, "Mounts");
    json_t *socket = json_pack("{s:s, s:s, s:s}", "Type", "bind", "Source", t->iofs_engine_dir,
                               "Target", t->iofs_inside);
    const char *mode = json_string_value(json_object_get(host, "NetworkMode"));
    const char *key;
    json_t *value;

    json_object_foreach (host, key, value) {
        bool known = false;

        for (const char *const *a = allowed; *a; a++) {
            known = known || strcmp(*a, key) == 0;
        }
        ck_assert_msg(known, "HostConfig.%s", key);
    }
    ck_assert_uint_eq(json_array_size(mounts), 1);
    ck_assert(json_equal(json_array_get(mounts, 0), socket));
    json_decref(socket);
    ck_assert(!mode || (strcmp(mode, "host") != 0 && strncmp(mode, "container:", 10) != 0));
    if (!(t->flags & FN_TASK_PRIVILEGED_USER)) {
        ck_assert_str_eq(json_string_value(json_object_get(body, "User")), "1000:1000");
        ck_assert_str_eq(json_string_value(json_array_get(json_object_get(host, "CapDrop"), 0)),
                         "ALL");
        ck_assert_str_eq(json_string_value(json_array_get(json_object_get(host, "SecurityOpt"), 0)),
                         "no-new-privileges");
    }
    ck_assert(json_integer_value(json_object_get(host, "Memory")) ==
              json_integer_value(json_object_get(host, "MemorySwap")));
    ck_assert_ptr_null(json_object_get(body, "Entrypoint"));
    ck_assert_ptr_null(json_object_get(body, "Volumes"));
}

/* What wrappers of ABI 1.1 set; one of 1.0 hands on a shorter task, behind which lies anything. */
START_TEST(wrappers_add_shares_and_labels)
{
    static const struct fn_kv labels[] = { { "team", "blue" }, { "io.fnd.owner", "me" } };
    struct fn_task t = base_task();
    struct api_settings s = { .hostname = true };
    char *text = NULL;
    json_t *body;

    t.cpu_shares = 512;
    t.labels = labels;
    t.n_labels = 1;
    body = body_of(&t, &s);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(body, "HostConfig"),
                                                        "CpuShares")), 512);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(body, "Labels"), "team")),
                     "blue");
    json_decref(body);
    t.n_labels = 2;
    ck_assert_int_eq(api_create_body(&t, &s, &text, &err), FN_E_INVALID);
    ck_assert_str_eq(err.msg, "label of the task, got \"io.fnd.owner\"; expected a name that does "
                              "not begin with io.fnd.");
    t.n_labels = 0;
    t.cpu_shares = 1;
    ck_assert_int_eq(api_create_body(&t, &s, &text, &err), FN_E_INVALID);
    t.cpu_shares = 262145;
    ck_assert_int_eq(api_create_body(&t, &s, &text, &err), FN_E_INVALID);
    t.n_labels = UINT32_MAX;
    t.hdr.size = offsetof(struct fn_task, cpu_shares);
    body = body_of(&t, &s);
    ck_assert_ptr_null(json_object_get(json_object_get(body, "HostConfig"), "CpuShares"));
    json_decref(body);
}
END_TEST

START_TEST(the_create_body_has_the_limits)
{
    struct fn_task t = base_task();
    struct api_settings s = { .label_tag = "blue", .swappiness = true };
    json_t *body = body_of(&t, &s);
    json_t *host = json_object_get(body, "HostConfig");
    json_t *labels = json_object_get(body, "Labels");

    check_predicate(body, &t);
    ck_assert_int_eq(json_integer_value(json_object_get(host, "Memory")), 64 << 20);
    ck_assert_int_eq(json_integer_value(json_object_get(host, "CpuQuota")), 50000);
    ck_assert_int_eq(json_integer_value(json_object_get(host, "PidsLimit")), 50);
    ck_assert_ptr_nonnull(json_object_get(host, "MemorySwappiness"));
    ck_assert_uint_eq(json_array_size(json_object_get(host, "Ulimits")), 1);
    ck_assert(json_is_true(json_object_get(host, "ReadonlyRootfs")));
    ck_assert_str_eq(json_string_value(json_object_get(labels, "fn-agent-classifier")), "blue");
    ck_assert_str_eq(json_string_value(json_object_get(labels, API_OWNER_LABEL)), "node-1");
    ck_assert_ptr_null(json_object_get(host, "KernelMemory"));
    json_decref(body);
}
END_TEST

/* A number of any magnitude. */
static uint64_t any_number(uint64_t *x)
{
    uint64_t bits = draw(x);

    return bits >> (draw(x) % 64);
}

/* A small generator of odd tasks; the seed is the loop's number. */
START_TEST(any_task_keeps_the_predicate)
{
    static const char *const odd[] = {
        "x", "",  "--privileged", "a:b", "/:/h", "host", "\"}],\"Privileged\":true", "CapAdd",
        "é", "\t" };
    uint64_t x = (uint64_t)_i * 0x9e3779b97f4a7c15u + 1;
    struct fn_kv env[8];
    struct fn_task t = base_task();
    struct api_settings s = { .attach_output = _i & 1 };
    json_t *body;
    char *text = NULL;

    for (int i = 0; i < 8; i++) {
        env[i].key = i & 1 ? "PATH" : odd[draw(&x) % 10];
        env[i].value = odd[draw(&x) % 10];
    }
    t.env = env;
    t.n_env = (uint32_t)(draw(&x) % 9);
    t.fn_id = odd[draw(&x) % 10];
    t.app_id = odd[draw(&x) % 10];
    t.hostname = odd[draw(&x) % 10];
    t.flags = (uint32_t)draw(&x);
    t.mem_bytes = any_number(&x);
    t.cpu_milli = any_number(&x);
    t.pids_max = any_number(&x);
    t.fs_bytes = any_number(&x);
    t.tmpfs_bytes = any_number(&x);
    t.nofile_max = any_number(&x);
    t.syslog_url = draw(&x) % 2 ? "tcp://x:1" : odd[draw(&x) % 10];
    t.image = draw(&x) % 4 ? "fnd/hello" : odd[draw(&x) % 10];
    clear();
    if (api_create_body(&t, &s, &text, &err) == 0) {
        body = json_loads(text, 0, NULL);
        ck_assert_ptr_nonnull(body);
        check_predicate(body, &t);
        json_decref(body);
    } else {
        ck_assert_str_ne(err.msg, "");
    }
    free(text);
}
END_TEST

START_TEST(tasks_that_reach_for_the_host_are_refused)
{
    static const char *const dirs[] = { "", "relative", "/", "/a:/b", "/a/../..", NULL };
    static const char *const syslogs[] = { "/run/docker.sock", "file:///x", "x", NULL };
    struct api_settings s = { .network = NULL };
    struct fn_task t;
    char *text;

    for (int i = 0; dirs[i]; i++) {
        t = base_task();
        t.iofs_engine_dir = dirs[i];
        ck_assert_int_eq(api_create_body(&t, &s, &text, NULL), FN_E_INVALID);
    }
    for (int i = 0; syslogs[i]; i++) {
        t = base_task();
        t.syslog_url = syslogs[i];
        ck_assert_int_eq(api_create_body(&t, &s, &text, NULL), FN_E_INVALID);
    }
    t = base_task();
    t.n_env = 1000000;
    ck_assert_int_eq(api_create_body(&t, &s, &text, NULL), FN_E_INVALID);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("driver pure parts");
    TCase *t = tcase_create("pure");
    SRunner *runner;
    int failed;

    tcase_add_test(t, image_names_split);
    tcase_add_test(t, a_digest_wins_over_a_tag);
    tcase_add_test(t, bad_image_names_are_refused);
    tcase_add_test(t, credentials_go_to_their_own_registry_only);
    tcase_add_test(t, credentials_go_to_parent_domains_where_the_operator_says_so);
    tcase_add_test(t, programs_are_asked_for_registries);
    tcase_add_test(t, a_token_of_the_call_wins);
    tcase_add_test(t, broken_credentials_are_refused_without_being_shown);
    tcase_add_test(t, wrappers_add_shares_and_labels);
    tcase_add_test(t, the_create_body_has_the_limits);
    tcase_add_loop_test(t, any_task_keeps_the_predicate, 0, 500);
    tcase_add_test(t, tasks_that_reach_for_the_host_are_refused);
    suite_add_tcase(s, t);
    suite_add_tcase(s, answers_case());
    suite_add_tcase(s, process_case());
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
