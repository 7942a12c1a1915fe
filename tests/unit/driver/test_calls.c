/* No call, whatever its JSON says, becomes a request to an engine outside of the rules: the text
 * goes through the reader of calls, the runner's task and the driver's create body, as in a node
 * without wrappers and without an option that allows more. */
#include "../lib/sanitized.h"
#include "draw.h"
#include "rules.h"

#include <base/buf.h>
#include <runner/runner_int.h>

#define RANDOM_CALLS RANDOM_ROUNDS(200000) /* FND_CALLS_N: more */
#define TEXT_MAX     (64u << 10)
#define ARENA_MAX    (1u << 20)

static uint64_t seed;

static uint64_t next(uint64_t below)
{
    return draw(&seed) % below;
}

#define PICK(list) ((list)[next(N(list))])

/* ---- a call's JSON --------------------------------------------------------------------------- */

static const char *const names[] = {
    "id",     "image",       "type",       "url",        "method",   "timeout",    "idle_timeout",
    "memory", "tmpfs_size",  "cpus",       "config",     "headers",  "syslog_url", "annotations",
    "app_id", "app_name",    "trigger_id", "fn_id",      "payload",  "Image",      "SYSLOG_URL",
    "mounts", "HostConfig",  "Privileged", "extra_json", "extensions"
};
/* As they stand between quotes. */
static const char *const texts[] = {
    "",
    "fnd/hello",
    "fnd/hello:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "hello\\\",\\\"HostConfig\\\":{\\\"Privileged\\\":true},\\\"x\\\":\\\"",
    "\\\"}],\\\"Binds\\\":[\\\"/:/h\\\"]",
    "a\\u0000b",
    "a\\u000ab",
    "\\ud800",
    "\\ud83d\\ude00",
    "\xff\xfe",
    "\xc3\xa9",
    "../../../etc/passwd",
    "/var/run/docker.sock",
    "tcp://10.0.0.1:514",
    "udp://[::1]:514/?x=y",
    "unix:///var/run/docker.sock",
    "http://10.0.0.1/",
    "file:///etc/shadow",
    "host",
    "container:other",
    "privileged",
    "LD_PRELOAD=/x.so",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "sync",
    "detached",
    "default",
    "100m",
    "1.5",
    "-1",
    "%s%n",
};
static const char *const numbers[] = { "0",   "1",    "30",         "128",
                                       "-1",  "1e3",  "4294967296", "18446744073709551615",
                                       "1.5", "3600", "9223372036854775808", "64" };

static void add(struct buf *b, const char *text)
{
    ck_assert_int_eq(buf_add(b, text, strlen(text)), 0);
}

static void add_text(struct buf *b)
{
    add(b, "\"");
    for (uint64_t n = 1 + (next(4) == 0); n > 0; n--) {
        add(b, PICK(texts));
    }
    add(b, "\"");
}

static void add_any(struct buf *b)
{
    static const char *const others[] = { "null", "true", "false", "[]", "{}", "[1,[2,{}]]" };

    if (next(2)) {
        add_text(b);
    } else {
        add(b, next(2) ? PICK(numbers) : PICK(others));
    }
}

/* {"k": "v", ...}; of headers {"k": ["v"]}. */
static void add_map(struct buf *b, bool lists)
{
    add(b, "{");
    for (uint64_t i = 0, n = next(4); i < n; i++) {
        add(b, i > 0 ? "," : "");
        add_text(b);
        add(b, lists ? ":[" : ":");
        if (next(8)) {
            add_text(b);
        } else {
            add_any(b);
        }
        add(b, lists ? "]" : "");
    }
    add(b, "}");
}

static void add_value(struct buf *b, const char *name)
{
    static const char *const number_names = " timeout idle_timeout tmpfs_size memory ";
    bool map = strcmp(name, "config") == 0 || strcmp(name, "annotations") == 0;
    char word[32];

    snprintf(word, sizeof(word), " %s ", name);
    if (next(16) == 0) {
        add_any(b);
    } else if (map || strcmp(name, "headers") == 0) {
        add_map(b, !map);
    } else if (strstr(number_names, word)) {
        add(b, next(2) ? "30" : PICK(numbers));
    } else if (strcmp(name, "type") == 0) {
        add(b, next(2) ? "\"sync\"" : "\"detached\"");
    } else {
        add_text(b);
    }
}

static void add_field(struct buf *b, const char *name, const char *value)
{
    add(b, b->len > 1 ? ",\"" : "\"");
    add(b, name);
    add(b, "\":");
    if (value) {
        add(b, value);
    } else {
        add_value(b, name);
    }
}

/* Mostly with what each call has; then anything, which may say the same otherwise. */
static void any_call(struct buf *b)
{
    buf_clear(b);
    add(b, "{");
    if (next(16)) {
        add_field(b, "id", "\"01ARZ3NDEKTSV4RRFFQ69G5FAV\"");
        add_field(b, "image", "\"fnd/hello\"");
        add_field(b, "fn_id", "\"f\"");
        add_field(b, "app_id", "\"a\"");
        add_field(b, "memory", "128");
        add_field(b, "timeout", "30");
        add_field(b, "idle_timeout", "30");
    }
    for (uint64_t n = next(5); n > 0; n--) {
        add_field(b, PICK(names), NULL);
    }
    add(b, "}");
    while (next(8) == 0) {
        b->data[next(b->len)] = next(2) ? "\"{}[],:\\x"[next(9)] : (char)next(256);
    }
}

/* ---- from a call to a request ---------------------------------------------------------------- */

static struct runner runner;

static void make_runner(void)
{
    runner.opt.owner = "node-1";
    runner.opt.instance = "ab";
    runner.opt.hostname = "h";
    runner.opt.pids_max = 50;
    runner.opt.nofile_max = 350;
}

/* The container of that call, as the runner makes it. False: the call is refused. */
static bool take_call(struct rcall *rc, struct container *c, const struct buf *json)
{
    struct fn_error e = ERR_INIT;
    struct mould m;

    if (call_from_json(&rc->call, json->data, json->len, &e) < 0 || call_check(&rc->call, &e) < 0 ||
        call_check_image(rc->call.image, &e) < 0) {
        ck_assert_str_ne(e.msg, "");
        return false;
    }
    m = mould_of_call(rc);
    ck_assert_int_eq(task_fill(c, &m), 0);
    c->task.iofs_dir = c->task.iofs_engine_dir = "/run/i/1/a";
    return true;
}

/* What the function is given is what the call says, each value by itself. */
static void check_env(const char *text, const struct call *call)
{
    json_t *body, *env;

    rules_host_of(text, &body);
    env = json_object_get(body, "Env");
    ck_assert_uint_eq(json_array_size(env), call->config.n);
    for (uint32_t i = 0; i < call->config.n; i++) {
        const char *got = json_string_value(json_array_get(env, i));
        const struct fn_kv *kv = &call->config.items[i];
        size_t len = strlen(kv->key);

        ck_assert(got && strncmp(got, kv->key, len) == 0 && got[len] == '=' &&
                  strcmp(got + len + 1, kv->value) == 0);
    }
    json_decref(body);
}

/* Whether it became a request. */
static bool run_call(const struct buf *json)
{
    struct rcall rc = { .r = &runner };
    struct container c = { .r = &runner, .id = "01ID", .handle = 1 };
    char *text = NULL;

    arena_init(&rc.arena, ARENA_MAX);
    arena_init(&c.arena, ARENA_MAX);
    call_init(&rc.call, &rc.arena);
    kvs_init(&rc.extensions, &rc.arena);
    rc.no_network = next(2);
    if (take_call(&rc, &c, json)) {
        text = rules_make(&c.task, &c.task, &rules_closed);
    }
    if (text) {
        ck_assert_uint_eq(c.task.mem_bytes, rc.call.mem_mb << 20);
        rules_check_body(text, &c.task, &c.task, &rules_closed);
        check_env(text, &rc.call);
    }
    free(text);
    arena_finish(&rc.arena);
    arena_finish(&c.arena);
    return text != NULL;
}

START_TEST(no_call_leaves_the_rules)
{
    const char *more = getenv("FND_CALLS_N");
    long n = more ? atol(more) : RANDOM_CALLS, sent = 0;
    struct buf json = BUF_INIT(TEXT_MAX);

    make_runner();
    seed = 0x9e3779b97f4a7c15u;
    for (long i = 0; i < n; i++) {
        any_call(&json);
        sent += run_call(&json);
    }
    buf_finish(&json);
    ck_assert_msg(sent > n / 5 && sent < n - n / 5, "%ld of %ld became requests", sent, n);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("driver calls");
    TCase *t = tcase_create("calls");
    SRunner *r;
    int failed;

    tcase_set_timeout(t, 600);
    tcase_add_test(t, no_call_leaves_the_rules);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
