/* Pure parts of the drivers: image names, credentials, the create body, answers of an engine good
 * and bad, output frames, process environments. */
#include "auth.h"
#include "ctr_name.h"
#include "docker.h"
#include "docker_api.h"
#include "process_spec.h"
#include "task.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fn_error err;

static void clear(void)
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

static struct fn_task base_task(void)
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

/* xorshift (Marsaglia), so that a failing number can be run again. */
static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* A number of any magnitude. */
static uint64_t any_number(uint64_t *x)
{
    uint64_t bits = next(x);

    return bits >> (next(x) % 64);
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
        env[i].key = i & 1 ? "PATH" : odd[next(&x) % 10];
        env[i].value = odd[next(&x) % 10];
    }
    t.env = env;
    t.n_env = (uint32_t)(next(&x) % 9);
    t.fn_id = odd[next(&x) % 10];
    t.app_id = odd[next(&x) % 10];
    t.hostname = odd[next(&x) % 10];
    t.flags = (uint32_t)next(&x);
    t.mem_bytes = any_number(&x);
    t.cpu_milli = any_number(&x);
    t.pids_max = any_number(&x);
    t.fs_bytes = any_number(&x);
    t.tmpfs_bytes = any_number(&x);
    t.nofile_max = any_number(&x);
    t.syslog_url = next(&x) % 2 ? "tcp://x:1" : odd[next(&x) % 10];
    t.image = next(&x) % 4 ? "fnd/hello" : odd[next(&x) % 10];
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

/* ---- answers --------------------------------------------------------------------------------- */

static int count_listed(void *ud, const struct api_listed *c)
{
    (void)c;
    ++*(int *)ud;
    return 0;
}

static int list(const char *text, int *n)
{
    struct api_list l = { .each = count_listed, .ud = n };

    api_list_feed(&l, text, strlen(text));
    return api_list_end(&l, &err);
}

struct told {
    struct api_event last;
    int n, malformed;
};

static void see_event(void *ud, const struct api_event *ev)
{
    struct told *t = ud;

    if (ev) {
        t->last = *ev;
        t->n++;
    } else {
        t->malformed++;
    }
}

START_TEST(garbage_is_an_error_everywhere)
{
    static const char *const bodies[] = { "", "{", "null", "[]", "{\"Id\":5}", "{\"Id\":\"../x\"}",
                                          "<html>", "\xff\xfe", "{\"Id\":\"abcdef", "12", "\"x\"" };
    char id[API_ID_MAX + 1];
    struct api_version v;
    struct api_state st;
    struct api_image image;
    struct api_usage usage;
    struct told told = { .n = 0 };
    struct api_events events = { .each = see_event, .ud = &told };
    int n = 0;

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const char *b = bodies[i];
        size_t len = strlen(b);

        clear();
        ck_assert_int_eq(api_parse_created(b, len, id, &err), FN_E_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(err.msg, "malformed"));
        ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
        ck_assert_int_lt(api_parse_version(b, len, &v, &err), 0);
        ck_assert_int_lt(api_parse_state(b, len, &st, &err), 0);
        ck_assert_int_lt(api_parse_image(b, len, &image, &err), 0);
        ck_assert_int_lt(api_parse_usage(b, len, &usage, &err), 0);
        api_events_feed(&events, b, len);
        api_events_feed(&events, "\n", 1);
        if (strcmp(b, "[]") != 0) {
            ck_assert_int_lt(list(b, &n), 0);
        }
    }
    ck_assert_int_eq(told.n, 0);
    ck_assert_int_eq(told.malformed, (int)(sizeof(bodies) / sizeof(bodies[0])) - 1); /* one is "" */
    ck_assert_int_eq(list("[]", &n), 0);
    ck_assert_int_lt(list("[{}]", &n), 0);
    ck_assert_int_lt(list("[[1]]", &n), 0);
    ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(images_take_no_less_than_nothing)
{
    static const char body[] =
        "{\"LayersSize\":9,\"Images\":[{\"Id\":\"a\"},{\"Id\":\"b\",\"Size\":-9223372036854775808},"
        "{\"Id\":\"c\",\"Size\":7,\"SharedSize\":-1},{\"Id\":\"d\",\"Size\":7,\"SharedSize\":3}]}";
    static const int64_t own[] = { 0, 0, 7, 4 };
    struct api_usage usage;

    ck_assert_int_eq(api_parse_usage(body, strlen(body), &usage, &err), 0);
    ck_assert_int_eq(usage.layers_bytes, 9);
    ck_assert_uint_eq(usage.n, 4);
    for (size_t i = 0; i < usage.n; i++) {
        ck_assert_int_eq(usage.images[i].own_bytes, own[i]);
    }
    api_usage_finish(&usage);
}
END_TEST

START_TEST(engine_failures_have_codes_and_sentences)
{
    static const struct {
        uint32_t status;
        const char *body;
        int code, http;
        const char *text;
    } rows[] = {
        { 500, "{\"message\":\"boom\"}", FN_E_UNAVAILABLE, 0, "engine error 500: boom" },
        { 500, "junk", FN_E_UNAVAILABLE, 0, "no reason given" },
        { 404, "{\"message\":\"No such image\"}", FN_E_NOT_FOUND, 0, "No such image" },
        { 409, "{\"message\":\"in use\"}", FN_E_EXISTS, 0, "in use" },
        { 400, "{\"message\":\"Minimum memory\"}", FN_E_INVALID, 400, "Minimum memory" },
        { 400,
          "{\"message\":\"invalid mount config for type \\\"bind\\\": bind source path does not exist: /x\"}",
          FN_E_UNAVAILABLE, 0, "does not exist: /x" },
        { 500, "{\"message\":\"write: no space left on device\"}", FN_E_EXHAUSTED, 0,
          "disk is full" },
        { 500, "{\"message\":\"failed to initialize logging driver: x\"}", FN_E_INVALID, 500,
          "Syslog Unavailable" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        clear();
        ck_assert_int_eq(api_failure("create", rows[i].status, rows[i].body, strlen(rows[i].body),
                                     &err),
                         rows[i].code);
        ck_assert_int_eq(err.http_status, rows[i].http);
        ck_assert_ptr_nonnull(strstr(err.msg, rows[i].text));
    }
}
END_TEST

START_TEST(the_api_version_is_checked)
{
    struct api_version v;
    static const char good[] = "{\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\"}";
    static const char old[] = "{\"Version\":\"17.03\",\"ApiVersion\":\"1.30\"}";

    ck_assert_int_eq(api_parse_version(good, strlen(good), &v, &err), 0);
    ck_assert_int_eq(v.api_number, 141);
    ck_assert_str_eq(v.version, "20.10.24+dfsg1");
    ck_assert_int_eq(api_parse_version(old, strlen(old), &v, &err), FN_E_PRECONDITION);
    ck_assert_str_eq(err.msg, "DOC1002 engine API 1.30; need >= 1.40");
}
END_TEST

START_TEST(pulls_end_in_success_or_one_sentence)
{
    static const char good[] = "{\"status\":\"Pulling\"}\r\n{\"status\":\"Done\"}\r\n";
    static const char bad[] = "{\"status\":\"x\"}\n{\"errorDetail\":{},\"error\":\"denied\"}\n";

    ck_assert_int_eq(api_parse_pull("i", good, strlen(good), &err), 0);
    ck_assert_int_lt(api_parse_pull("i", bad, strlen(bad), &err), 0);
    ck_assert_str_eq(err.msg, "Failed to pull image 'i': denied");
    ck_assert_int_eq(err.http_status, 502);
    ck_assert_int_lt(api_parse_pull("i", good, strlen(good) - 5, &err), 0); /* cut short */
    ck_assert_int_lt(api_pull_failure("i", 401, "{\"message\":\"no\"}", 16, &err), 0);
    ck_assert_int_eq(err.http_status, 401);
    ck_assert_int_lt(api_pull_failure("i", 500, "", 0, &err), 0);
    ck_assert_int_eq(err.http_status, 502);
    ck_assert_uint_eq(err.blame, FN_BLAME_USER);
}
END_TEST

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

START_TEST(a_failed_pull_names_its_cause_behind_long_digests)
{
    static const char image[] = "registry.example:5000/team/a@sha256:" ZEROS;
    static const char body[] = "{\"message\":\"manifest for registry.example:5000/team/a@sha256:" ZEROS
                               " not found: manifest unknown: sha256:0123 sha256:" ZEROS "\"}";

    ck_assert_int_eq(api_pull_failure(image, 404, body, sizeof(body) - 1, &err), FN_E_NOT_FOUND);
    ck_assert_str_eq(err.msg, "Failed to pull image 'registry.example:5000/team/a@sha256:"
                              "000000000000...': manifest for registry.example:5000/team/a@sha256:"
                              "000000000000... not found: manifest unknown: sha256:0123 sha256:"
                              "000000000000...");
}
END_TEST

START_TEST(a_pull_onto_a_full_disk_may_be_tried_elsewhere)
{
    static const char line[] = "{\"error\":\"failed to register layer: no space left on device\"}";
    static const char body[] = "{\"message\":\"mkdir /var/lib/docker/x: no space left on device\"}";

    ck_assert_int_eq(api_parse_pull("i", line, sizeof(line) - 1, &err), FN_E_EXHAUSTED);
    ck_assert_str_eq(err.msg, "i: the engine's disk is full: failed to register layer: no space left "
                              "on device");
    ck_assert_uint_eq(err.blame, FN_BLAME_PLATFORM);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    ck_assert_int_eq(api_pull_failure("i", 500, body, sizeof(body) - 1, &err), FN_E_EXHAUSTED);
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
}
END_TEST

START_TEST(events_are_recognised)
{
    static const char die[] =
        "{\"status\":\"die\",\"id\":\"a\",\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{"
        "\"ID\":"
        "\"a\",\"Attributes\":{\"exitCode\":\"137\",\"name\":\"01X\"}},\"time\":1}\n";
    static const char other[] = "{\"Type\":\"network\",\"Action\":\"destroy\"}\r\n\r\n";
    size_t len = strlen(die);

    for (size_t cut = 0; cut < len; cut++) {
        struct told told = { .n = 0 };
        struct api_events e = { .each = see_event, .ud = &told };

        api_events_feed(&e, die, cut);
        api_events_feed(&e, die + cut, len - cut);
        ck_assert_int_eq(told.n, 1);
        ck_assert_int_eq(told.last.type, API_EVENT_DIE);
        ck_assert_int_eq(told.last.exit_code, 137);
        ck_assert_str_eq(told.last.name, "01X");
        api_events_feed(&e, other, strlen(other));
        ck_assert_int_eq(told.n, 2);
        ck_assert_int_eq(told.last.type, API_EVENT_OTHER);
        api_events_feed(&e, die, cut); /* truncated anywhere: only the next line is lost */
        api_events_feed(&e, "\n", 1);
        ck_assert_int_eq(told.malformed, cut > 0 && cut < len - 1);
        ck_assert_int_eq(told.n, cut == len - 1 ? 3 : 2);
    }
}
END_TEST

START_TEST(what_an_engine_has_is_understood)
{
    static const struct {
        const char *info;
        bool userns, seccomp, no_syslog;
    } rows[] = {
        { "{\"SecurityOptions\":[\"name=seccomp,profile=default\"]}", false, true, false },
        { "{\"SecurityOptions\":[\"name=userns\"]}", true, false, false },
        { "{\"SecurityOptions\":[\"name=seccomp\",\"name=rootless\"]}", true, true, false },
        { "{\"SecurityOptions\":null,\"Plugins\":{\"Log\":[\"none\"]}}", false, false, true },
        { "{\"Plugins\":{\"Log\":[\"local\",\"syslog\"]}}", false, false, false },
        { "{\"Plugins\":{\"Log\":[]}}", false, false, false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct api_info info = { .cgroup_v1 = true };

        ck_assert_int_eq(api_parse_info(rows[i].info, strlen(rows[i].info), &info, NULL), 0);
        ck_assert_int_eq(info.userns, rows[i].userns);
        ck_assert_int_eq(info.seccomp, rows[i].seccomp);
        ck_assert_int_eq(info.no_syslog, rows[i].no_syslog);
        ck_assert(!info.cgroup_v1);
    }
}
END_TEST

/* One engine says "destroy", another "remove"; a network that is removed is no container. */
START_TEST(a_removal_has_two_names)
{
    static const struct {
        const char *line;
        enum api_event_type type;
    } rows[] = {
        { "{\"Type\":\"container\",\"Action\":\"destroy\"}\n", API_EVENT_DESTROY },
        { "{\"Type\":\"container\",\"Action\":\"remove\"}\n", API_EVENT_DESTROY },
        { "{\"Type\":\"network\",\"Action\":\"remove\"}\n", API_EVENT_OTHER },
    };
    struct told told = { .n = 0 };
    struct api_events e = { .each = see_event, .ud = &told };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        api_events_feed(&e, rows[i].line, strlen(rows[i].line));
        ck_assert_int_eq(told.n, (int)i + 1);
        ck_assert_int_eq(told.last.type, rows[i].type);
    }
}
END_TEST

START_TEST(events_are_asked_for_by_owner)
{
    static const char want[] =
        "/events?since=-15&filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22die%22"
        "%2C%22died%22%2C%22oom%22%2C%22destroy%22%2C%22remove%22%5D%2C%22label%22%3A%5B%22"
        "io.fnd.owner%3Da%5C%22%26b%22%5D%7D";
    char path[512];

    ck_assert_int_eq(api_events_path("a\"&b", -15, path, sizeof(path)), 0);
    ck_assert_str_eq(path, want);
    ck_assert_int_eq(api_events_path("a\"&b", -15, path, strlen(want)), FN_E_RANGE);
}
END_TEST

/* However they are cut. */
START_TEST(lines_of_line_ends_are_no_events)
{
    static const char ends[] = "\r\r\r\n\n\r\n";

    for (size_t cut = 0; cut < sizeof(ends); cut++) {
        struct told told = { .n = 0 };
        struct api_events e = { .each = see_event, .ud = &told };

        api_events_feed(&e, ends, cut);
        api_events_feed(&e, ends + cut, sizeof(ends) - 1 - cut);
        ck_assert_int_eq(told.n + told.malformed, 0);
    }
}
END_TEST

/* Labels of 20 MB around what we read, in pieces as a connection brings them. */
static void feed_big(void (*feed)(void *reader, const char *data, size_t len), void *reader)
{
    static char piece[65536];

    memset(piece, 'x', sizeof(piece));
    for (int i = 0; i < 320; i++) {
        feed(reader, piece, sizeof(piece));
    }
}

static void feed_events(void *reader, const char *data, size_t len)
{
    api_events_feed(reader, data, len);
}

static void feed_list(void *reader, const char *data, size_t len)
{
    api_list_feed(reader, data, len);
}

START_TEST(events_of_any_size_are_learnt)
{
    struct told told = { .n = 0 };
    struct api_events e = { .each = see_event, .ud = &told };
    const char head[] = "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"Attributes\":{\"a\":\"";
    const char tail[] = "\",\"exitCode\":\"3\",\"name\":\"01Y\"}}}\n";

    api_events_feed(&e, head, strlen(head));
    feed_big(feed_events, &e);
    api_events_feed(&e, tail, strlen(tail));
    ck_assert_int_eq(told.n, 1);
    ck_assert_int_eq(told.last.exit_code, 3);
    ck_assert_str_eq(told.last.name, "01Y");
}
END_TEST

static int see_listed(void *ud, const struct api_listed *c)
{
    int *n = ud;

    ck_assert_str_eq(c->id, *n == 0 ? "aaaaaaaaaaaa" : "bbbbbbbbbbbb");
    ck_assert_str_eq(c->name, *n == 0 ? "one" : "");
    ck_assert_str_eq(c->owner, *n == 0 ? "me/\"x\"" : "");
    ck_assert_str_eq(c->instance, *n == 0 ? "i1" : "");
    ck_assert_int_eq(c->running, *n == 0);
    ++*n;
    return 0;
}

START_TEST(lists_are_read_at_any_cut_and_of_any_size)
{
    static const char text[] =
        "[ {\"Id\":\"aaaaaaaaaaaa\",\"Names\":[\"/one\",\"/x/alias\"],\"Ports\":[{\"Id\":7}],"
        "\"Labels\":{\"io.fnd.owner\":\"me\\/\\u0022x\\\"\",\"io.fnd.instance\":\"i1\",\"big\":\"\"},"
        "\"State\":\"paused\",\"HostConfig\":{\"State\":\"running\"}},\n"
        "{\"State\":\"exited\",\"Id\":\"bbbbbbbbbbbb\",\"Labels\":{},\"n\":-1.5e3,\"t\":true}]\n";
    size_t big = (size_t)(strstr(text, "big") - text) + strlen("big\":\"");
    size_t len = strlen(text);

    for (size_t cut = 0; cut < len; cut++) {
        int n = 0;
        struct api_list l = { .each = see_listed, .ud = &n };

        api_list_feed(&l, text, cut);
        if (cut < len - 1) {
            ck_assert_int_lt(api_list_end(&l, NULL), 0);
        }
        if (cut == big) {
            feed_big(feed_list, &l);
        }
        api_list_feed(&l, text + cut, len - cut);
        ck_assert_int_eq(api_list_end(&l, NULL), 0);
        ck_assert_int_eq(n, 2);
    }
}
END_TEST

/* ---- who lives ------------------------------------------------------------------------------- */

START_TEST(a_runner_lives_as_long_as_its_lock_is_held)
{
    char base[] = "/tmp/fnd-test-XXXXXX";
    char instance[64], file[80], iofs[80], label[LOCK_LABEL_MAX], other[LOCK_LABEL_MAX];
    int fd;

    ck_assert_ptr_nonnull(mkdtemp(base));
    snprintf(instance, sizeof(instance), "%s/fnd-iofs-1", base);
    snprintf(file, sizeof(file), "%s/.lock", instance);
    snprintf(iofs, sizeof(iofs), "%s/iofs1", instance);
    ck_assert_int_eq(mkdir(instance, 0700), 0);
    fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    lock_label(iofs, label, sizeof(label));
    ck_assert_ptr_nonnull(strstr(label, instance));
    ck_assert(!lock_is_dead(label));
    close(fd);
    ck_assert(lock_is_dead(label));
    unlink(file); /* as cleaners of old files do */
    ck_assert(!lock_is_dead(label));
    rmdir(instance);
    ck_assert(lock_is_dead(label)); /* swept */
    snprintf(other, sizeof(other), "%s", label);
    other[0] = other[0] == '0' ? '1' : '0'; /* another machine */
    ck_assert(!lock_is_dead(other));
    snprintf(other, sizeof(other), "%s", label);
    *(strstr(other, " /") - 1) ^= 1; /* another directory of that name */
    ck_assert(!lock_is_dead(other));
    ck_assert(!lock_is_dead(""));
    ck_assert(!lock_is_dead("x 1:2 relative/path"));
    rmdir(base);
    ck_assert(!lock_is_dead(label)); /* nobody can tell */
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

struct seen {
    char text[3][64];
};

static void see_output(void *ud, uint32_t fd, const void *data, size_t len)
{
    struct seen *s = ud;
    size_t at = strlen(s->text[fd]);

    ck_assert_uint_lt(at + len, sizeof(s->text[0]));
    memcpy(s->text[fd] + at, data, len);
}

START_TEST(frames_are_taken_apart_at_any_cut)
{
    static const char bytes[] = "\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\4errs\1\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\1!";
    const size_t n = sizeof(bytes) - 1;

    for (size_t step = 1; step <= n; step++) {
        struct api_frames f = { .left = 0 };
        struct seen s = { .text = { "" } };

        for (size_t at = 0; at < n; at += step) {
            api_frames_feed(&f, bytes + at, n - at < step ? n - at : step, see_output, &s);
        }
        ck_assert_str_eq(s.text[1], "out!");
        ck_assert_str_eq(s.text[2], "errs");
        ck_assert(!f.broken);
    }
}
END_TEST

START_TEST(a_senseless_frame_ends_the_output)
{
    struct api_frames f = { .left = 0 };
    struct seen s = { .text = { "" } };

    api_frames_feed(&f, "hello world, no frames", 22, see_output, &s);
    ck_assert(f.broken);
    ck_assert_str_eq(s.text[1], "");
}
END_TEST

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
    tcase_add_test(t, garbage_is_an_error_everywhere);
    tcase_add_test(t, images_take_no_less_than_nothing);
    tcase_add_test(t, engine_failures_have_codes_and_sentences);
    tcase_add_test(t, the_api_version_is_checked);
    tcase_add_test(t, pulls_end_in_success_or_one_sentence);
    tcase_add_test(t, a_failed_pull_names_its_cause_behind_long_digests);
    tcase_add_test(t, a_pull_onto_a_full_disk_may_be_tried_elsewhere);
    tcase_add_test(t, events_are_recognised);
    tcase_add_test(t, what_an_engine_has_is_understood);
    tcase_add_test(t, a_removal_has_two_names);
    tcase_add_test(t, events_are_asked_for_by_owner);
    tcase_add_test(t, lines_of_line_ends_are_no_events);
    tcase_add_test(t, events_of_any_size_are_learnt);
    tcase_add_test(t, lists_are_read_at_any_cut_and_of_any_size);
    tcase_add_test(t, a_runner_lives_as_long_as_its_lock_is_held);
    tcase_add_test(t, frames_are_taken_apart_at_any_cut);
    tcase_add_test(t, a_senseless_frame_ends_the_output);
    tcase_add_test(t, images_become_programs);
    tcase_add_test(t, the_listener_is_always_ours);
    tcase_add_test(t, a_process_is_no_container);
    tcase_add_test(t, cgroup_names_are_of_the_safe_alphabet);
    tcase_add_test(t, what_a_machine_cannot_give_is_named);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
