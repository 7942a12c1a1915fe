/* What a running node takes over from another configuration, and the sentence for each setting that
 * it does not. */
#include <check.h>
#include <config/config.h>
#include <loop/log_dest.h>
#include <runner/runner.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS(table) ((int)(sizeof(table) / sizeof((table)[0])))

static char dir[] = "/tmp/fnd-live-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char path[128];

    for (const char *name = "ab"; *name; name++) {
        snprintf(path, sizeof(path), "%s/%c.yaml", dir, *name);
        unlink(path);
    }
    rmdir(dir);
}

static struct config *load(char name, const char *yaml)
{
    static char *const none[] = { NULL };
    struct conf_problems p;
    struct config *c = NULL;
    char path[128];
    FILE *f;

    conf_problems_init(&p);
    snprintf(path, sizeof(path), "%s/%c.yaml", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(yaml, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    config_load(path, none, &c, &p);
    ck_assert_msg(p.n == 0, "%s", buf_text(&p.text));
    conf_problems_finish(&p);
    return c;
}

#define LB "node: lb\nplugins: { pool: { use: static, runners: [\"r:1\"] } }\n"
#define RUNNER "node: pure-runner\n"
#define NPM "node: npm\nplugins: { control_plane: { use: fixed, addresses: [\"r:1\"] } }\n"

static const struct {
    const char *running, *next;
    const char *text; /* NULL = is taken over */
} cases[] = {
    { LB, LB, NULL },
    { LB, LB "lb: { retry_min: 20ms, calls_max: 7, api_url: \"http://x:1\" }\n", NULL },
    { LB, LB "http: { body_max: 1KiB, idle_timeout: 5s }\nlog: { level: debug }\n", NULL },
    { LB, LB "drain_timeout: 5s\nplugin_dir: /tmp\n", NULL },
    { LB, LB "runner: { memory_total: 1GiB }\n", NULL }, /* no matter for this node */
    { RUNNER, RUNNER "runner: { freeze_idle: never, images_allowed: [\"a*\"] }\n", NULL },
    { RUNNER, RUNNER "lb: { retry_min: 20ms }\n", NULL },
    { LB, LB "http: { listen: \":81\" }\n",
      ":3:17: http.listen cannot change while the node runs, got \":81\", running \":8080\"; "
      "restart the node\n" },
    { LB "http: { listen: \":81\" }\n", LB,
      "default: http.listen cannot change while the node runs, got \":8080\", running \":81\"; "
      "restart the node\n" },
    { NPM, NPM "npm: { cooldown: 5s, runners_min: 2, runners_max: 7, poll: 2s }\n", NULL },
    { NPM, NPM "npm: { group_runners_max: 7 }\n",
      "npm.group_runners_max cannot change while the node runs, got 7, running 100; restart the "
      "node" },
    { NPM, NPM "npm: { groups: [a] }\n", "npm.groups cannot change while the node runs" },
    { NPM, NPM "npm: { wishes_file: /x }\n",
      "npm.wishes_file cannot change while the node runs" },
    { NPM, NPM "npm: { lbs_max: 7 }\n", "npm.lbs_max cannot change while the node runs" },
    { LB, "node: full\n",
      ":1:7: node cannot change while the node runs, got full, running lb; restart the node\n" },
    { LB, LB "metrics: { latency_buckets: [1, 2] }\n",
      "metrics.latency_buckets cannot change while the node runs, got [\"1\", \"2\"], "
      "running [\"1\", \"10\"," },
    { LB "metrics: { buckets: [fn_api_latency=1] }\n",
      LB "metrics: { buckets: [fn_api_latency=2] }\n",
      "metrics.buckets cannot change while the node runs, got [\"fn_api_latency=2\"]" },
    { LB, LB "log: { format: json }\n",
      "log.format cannot change while the node runs, got json, running text; restart the node\n" },
    { LB, LB "grpc: { message_max: 1MiB }\n",
      "grpc.message_max cannot change while the node runs, got 1MiB, running 4MiB; restart" },
    { RUNNER, RUNNER "runner: { memory_total: 1GiB }\n",
      "runner.memory_total cannot change while the node runs, got 1GiB, running 0; restart" },
    { RUNNER "runner: { owner: a }\n", RUNNER "runner: { owner: b }\n",
      "runner.owner cannot change while the node runs, got b, running a; restart the node" },
    { LB "tls: { t: { ca: /a } }\ngrpc: { tls: t }\n",
      LB "tls: { t: { ca: /b } }\ngrpc: { tls: t }\n",
      "tls.t cannot change while the node runs: gRPC uses it; restart the node" },
    { LB "tls: { t: { ca: /a } }\ngrpc: { client_tls: t }\n",
      LB "tls: { t: { ca: /a, peers: [x] } }\ngrpc: { client_tls: t }\n",
      "tls.t cannot change while the node runs: gRPC uses it; restart the node" },
    { LB "tls: { t: { cert: /c, key: /k, ca: /a, crl: /l } }\nhttp: { tls: t }\n",
      LB "tls: { t: { cert: /c, key: /k, ca: /a } }\nhttp: { tls: t }\n",
      "tls.t cannot change while the node runs: http uses it; restart the node" },
    { LB, LB "tls: { TLSWebServer: { cert: /c, key: /k } }\n",
      "http.tls cannot change while the node runs, got TLSWebServer, running \"\"; restart the "
      "node" },
    { LB "tls: { t: { ca: /a }, u: { ca: /a } }\ngrpc: { tls: t }\n",
      LB "tls: { t: { ca: /a }, u: { ca: /b } }\ngrpc: { tls: t }\n", NULL },
};

START_TEST(taken_or_told)
{
    struct config *a = load('a', cases[_i].running);
    struct config *b = load('b', cases[_i].next);
    struct conf_problems p;
    const char *got;

    conf_problems_init(&p);
    config_check_live(a, b, &p);
    got = buf_text(&p.text);
    if (!cases[_i].text) {
        ck_assert_str_eq(got, "");
        ck_assert_uint_eq(p.n, 0);
    } else {
        ck_assert_msg(strstr(got, cases[_i].text), "got: %sexpected: %s", got, cases[_i].text);
        ck_assert_ptr_eq(strstr(got, "CFG720 "), got);
        ck_assert_uint_ge(p.n, 1);
    }
    conf_problems_finish(&p);
    config_destroy(a);
    config_destroy(b);
}
END_TEST

START_TEST(all_at_once)
{
    struct config *a = load('a', LB);
    struct config *b =
        load('b', LB "http: { listen: \":81\" }\nlog: { format: json, dest: stdout }\n");
    struct conf_problems p;

    conf_problems_init(&p);
    config_check_live(a, b, &p);
    ck_assert_uint_eq(p.n, 3);
    conf_problems_finish(&p);
    config_destroy(a);
    config_destroy(b);
}
END_TEST

/* ---- single values --------------------------------------------------------------------------- */

static int set(struct config *c, struct config_undo **ret, char text[FN_ERROR_TEXT_MAX],
               const char *a, const char *a_value, const char *b, const char *b_value)
{
    const struct fn_kv keys[] = { { a, a_value }, { b, b_value } };
    struct fn_error err = { .size = sizeof(err) };
    int r = config_set(c, keys, b ? 2 : 1, ret, &err);

    snprintf(text, FN_ERROR_TEXT_MAX, "%s", r < 0 ? err.msg : "");
    ck_assert(r < 0 ? !*ret : *ret != NULL);
    return r;
}

START_TEST(single_values)
{
    struct config *c = load('a', RUNNER "runner: { freeze_idle: 2s }\n");
    char text[FN_ERROR_TEXT_MAX];
    struct config_undo *undo;

    ck_assert(config_is_setting("runner.any"));
    ck_assert(!config_is_setting("runner") && !config_is_setting("runners.x"));
    ck_assert(!config_is_setting(".x") && !config_is_setting("drain_timeout"));
    ck_assert_int_eq(set(c, &undo, text, "runner.freeze_idle", "100ms", "log.level", "debug"), 0);
    ck_assert_int_eq(c->runner->freeze_idle_ns, 100000000);
    ck_assert_str_eq(c->log->level, "debug");
    config_undo(c, undo);
    ck_assert_int_eq(c->runner->freeze_idle_ns, 2000000000);
    ck_assert_str_eq(c->log->level, "info");
    ck_assert_int_eq(set(c, &undo, text, "runner.images_allowed", "a*, b", NULL, NULL), 0);
    config_undo_free(undo);
    ck_assert_uint_eq(c->runner->images_allowed.n, 2);
    ck_assert_str_eq(c->runner->images_allowed.items[1], "b");
    config_destroy(c);
}
END_TEST

static const struct {
    const char *key, *value, *text;
} bad_values[] = {
    { "runner.freeze_idle", "soon",
      "CFG706 runner.freeze_idle, got \"soon\"; expected a duration such as 10ms, 2s or 5m, from 0s "
      "to 24h, or never" },
    { "runner.freeze", "1s", "CFG706 ConfigureRunner: no setting \"runner.freeze\" of this node" },
    { "lb.retry_min", "1s", "CFG706 ConfigureRunner: no setting \"lb.retry_min\" of this node" },
    { "runner.owner", "me", "CFG720 ConfigureRunner: runner.owner cannot change while the node runs" },
    { "http.cors_origins", "nonsense", "CFG704 http.cors_origins: cors_origins, got \"nonsense\"; expected http://" },
    { "other.key", "1", "CFG706 ConfigureRunner: no setting \"other.key\"" },
};

/* One bad value, and none of the others is set. */
START_TEST(bad_single_values)
{
    struct config *c = load('a', RUNNER);
    char text[FN_ERROR_TEXT_MAX];
    struct config_undo *undo;

    ck_assert_int_lt(set(c, &undo, text, "runner.pids_max", "7", bad_values[_i].key,
                         bad_values[_i].value), 0);
    ck_assert_msg(strncmp(text, bad_values[_i].text, strlen(bad_values[_i].text)) == 0, "%s", text);
    ck_assert_uint_eq(c->runner->pids_max, 50);
    config_destroy(c);
}
END_TEST

/* What peers set is kept in memory until the next reload. */
START_TEST(values_are_counted)
{
    struct config *c = load('a', RUNNER);
    char text[FN_ERROR_TEXT_MAX];
    struct config_undo *undo;

    for (int i = 0; i < 10000; i++) {
        ck_assert_int_eq(set(c, &undo, text, "runner.pids_max", "7", NULL, NULL), 0);
        config_undo_free(undo);
    }
    ck_assert_int_lt(set(c, &undo, text, "runner.pids_max", "8", NULL, NULL), 0);
    ck_assert_ptr_nonnull(strstr(text, "10000 settings since the last reload"));
    config_destroy(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("live");
    TCase *t = tcase_create("live");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, taken_or_told, 0, ROWS(cases));
    tcase_add_test(t, all_at_once);
    tcase_add_test(t, single_values);
    tcase_add_loop_test(t, bad_single_values, 0, ROWS(bad_values));
    tcase_add_test(t, values_are_counted);
    suite_add_tcase(s, t);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
