/* The status of a runner: what it knows, and what a run of its status image says. */
#include "suites.h"
#include "world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE "health:1"

static void with_image(struct world *w)
{
    w->opt.status_image = IMAGE;
}

static void with_network_file(struct world *w)
{
    with_image(w);
    w->opt.status_network_file = "/run/network-is-up";
}

static int64_t counted(const char *cached, const char *success, const char *network)
{
    static const char *const labels[] = { "cached", "success", "network", NULL };
    const struct metric_def def = { .name = "fn_status_call",
                                    .kind = METRIC_COUNTER,
                                    .labels = labels };
    const char *const values[] = { cached, success, network };

    return metric_value(metric_series(metric_declare(&def), values));
}

/* The whole path, and what it leaves: nothing, least of all in the books of calls. */
START_TEST(runs_the_image)
{
    struct world *w = world_create(with_image);
    struct asked a;

    world_ask(w, &a, "{\"a\":1}");
    ck_assert_int_eq(a.answers, 0);
    world_run_ms(w, 50);
    ck_assert_uint_eq(world_counts(w).received, 0);
    ck_assert_uint_eq(world_counts(w).active, 0);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 0);
    world_run_ms(w, 200);
    ck_assert_int_eq(a.answers, 1);
    ck_assert(!a.st.failed && !a.st.cached && !a.st.network_disabled);
    ck_assert_int_eq(a.st.error_code, 0);
    ck_assert_uint_eq(strlen(a.id), CALL_ID_LEN);
    ck_assert_str_eq(a.details, "hello");
    ck_assert_str_eq(w->last_body, "{\"a\":1}");
    ck_assert_uint_eq(strlen(a.created), 24);
    ck_assert_uint_eq(strlen(a.started), 24);
    ck_assert_uint_eq(strlen(a.completed), 24);
    ck_assert_int_eq(a.st.image_pull_wait_ns, 20 * ENV_MS);
    ck_assert_int_eq(a.st.ctr_create_ns, 40 * ENV_MS);
    ck_assert_int_eq(a.st.init_start_ns, 5 * ENV_MS);
    ck_assert_int_eq(a.st.scheduler_ns, 65 * ENV_MS);
    ck_assert_int_eq(a.st.execution_ns, ENV_MS);
    ck_assert_uint_eq(w->last_task.mem_bytes + w->last_task.cpu_milli + w->last_task.tmpfs_bytes,
                      0);
    ck_assert_uint_eq(w->last_task.flags & FN_TASK_NO_NETWORK, 0);
    ck_assert_ptr_nonnull(strstr(w->last_env, "FN_LISTENER=unix:/tmp/iofs/lsnr.sock;"));
    ck_assert_uint_eq(w->live, 0); /* its container is not kept */
    ck_assert_uint_eq(world_counts(w).received, 0);
    ck_assert_uint_eq(world_counts(w).handled, 0);
    world_destroy(w);
}
END_TEST

/* One run for all who come while it runs, and its answer for 1.5 s. The counts are always new. */
START_TEST(is_shared_and_cached)
{
    struct world *w = world_create(with_image);
    struct asked a[4];
    char id[40];

    for (int i = 0; i < 3; i++) {
        world_ask(w, &a[i], "{}");
        world_run_ms(w, 10);
    }
    world_run_ms(w, 200);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(a[i].answers, 1);
        ck_assert(a[i].st.cached == (i > 0));
        ck_assert_str_eq(a[i].id, a[0].id);
    }
    snprintf(id, sizeof(id), "%s", a[0].id);
    world_call(w, (struct call_spec){ .what = "ms-10000" });
    world_run_ms(w, 1200);
    world_ask(w, &a[3], "{}");
    ck_assert_int_eq(a[3].answers, 1);
    ck_assert(a[3].st.cached);
    ck_assert_str_eq(a[3].id, id);
    ck_assert_int_eq(a[3].st.active, 1);
    ck_assert_uint_eq(a[3].st.received, 1);
    world_run_ms(w, 300);
    world_ask(w, &a[3], "{}");
    ck_assert_int_eq(a[3].answers, 0);
    world_run_ms(w, 200);
    ck_assert(!a[3].st.cached);
    ck_assert_str_ne(a[3].id, id);
    ck_assert_uint_eq(w->creates, 3);
    ck_assert_int_eq(counted("false", "true", "true"), 2);
    ck_assert_int_eq(counted("true", "true", "true"), 3);
    world_destroy(w);
}
END_TEST

/* What one peer sends the image is nobody else's question, and its answer nobody else's: Fn's system
 * tests met the answer to a load balancer there. */
START_TEST(is_kept_apart_by_what_is_asked)
{
    struct world *w = world_create(with_image);
    static char long_text[(1u << 20) + 2];
    struct asked plain, too_long, own, same;

    memset(long_text, 'x', sizeof(long_text) - 1);
    world_ask(w, &plain, "{}");
    world_run_ms(w, 10);
    world_ask(w, &too_long, long_text); /* has no run, and does not hold up the next one */
    world_ask(w, &own, "{\"a\":1}");
    world_ask(w, &same, "{}");
    world_run_ms(w, 70);
    ck_assert_int_eq(plain.answers + same.answers, 2);
    ck_assert_int_eq(own.answers, 0);
    ck_assert_str_eq(w->last_body, "{}");
    world_run_ms(w, 70);
    ck_assert_str_eq(too_long.text, "out of memory");
    ck_assert_int_eq(own.answers, 1);
    ck_assert(!own.st.cached);
    ck_assert_str_ne(own.id, plain.id);
    ck_assert_str_eq(w->last_body, "{\"a\":1}");
    world_ask(w, &own, "{\"a\":1}");
    ck_assert(own.st.cached);
    world_ask(w, &plain, "{}");
    ck_assert_int_eq(plain.answers, 0);
    world_ask(w, &own, "{\"b\":1}");
    world_destroy(w);
    ck_assert_int_eq(plain.answers + own.answers, 2);
    ck_assert_ptr_nonnull(strstr(own.text, "shutting down"));
}
END_TEST

START_TEST(other_questions_have_a_limit)
{
    struct world *w = world_create(with_image);
    struct asked same[2], other[65];

    world_ask(w, &same[0], "{}");
    for (int i = 0; i < 65; i++) {
        world_ask(w, &other[i], "{\"a\":1}");
        ck_assert_int_eq(other[i].answers, i == 64);
    }
    ck_assert_ptr_nonnull(strstr(other[64].text, "RUN418"));
    world_ask(w, &same[1], "{}");
    world_run_ms(w, 500);
    ck_assert_int_eq(same[1].answers + other[0].answers + other[63].answers, 3);
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

/* Who asked may leave: the run goes on, for others and for the cache. */
START_TEST(outlives_who_asked)
{
    struct world *w = world_create(with_image);
    struct asked a, b;

    world_ask(w, &a, "{}");
    world_run_ms(w, 30);
    world_ask(w, &b, "{}");
    world_leave(w, &a);
    world_run_ms(w, 200);
    ck_assert_int_eq(a.answers, 0);
    ck_assert_int_eq(b.answers, 1);
    ck_assert(!b.st.cached);
    world_run_ms(w, 2000);
    world_ask(w, &a, "{}");
    world_leave(w, &a);
    world_run_ms(w, 200);
    ck_assert(world_status(w).id[0] != '\0');
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_int_eq(counted("error", "error", "error"), 2);
    world_destroy(w);
}
END_TEST

static const struct {
    const char *what, *method; /* of the function; of the engine, which fails */
    int code;
    const char *text;
} failures[] = {
    { "status-502", NULL, 502, "function failed" },
    { "status-504", NULL, 504, "Timed out" },
    { "crash", NULL, 502, "error receiving function response: container exit code 2" },
    { "never", NULL, 504, "Timed out" },
    { "ok", "prepare_image", 500, "disk full" },
    { "ok", "create", 500, "disk full" },
    { "ok", "start", 500, "disk full" },
};

START_TEST(tells_why_it_fails)
{
    struct world *w = world_create(with_image);
    struct asked a;

    w->own_what = failures[_i].what;
    w->fail_method = failures[_i].method;
    w->fails = 10;
    err_set(&w->next_error, FN_E_INTERNAL, "disk full");
    world_ask(w, &a, "{}");
    world_run_ms(w, 10000);
    ck_assert_int_eq(a.answers, 1);
    ck_assert(a.st.failed);
    ck_assert_msg(a.st.error_code == failures[_i].code, "%d %s", a.st.error_code, a.text);
    ck_assert_msg(strstr(a.text, failures[_i].text) != NULL, "%s", a.text);
    ck_assert_uint_eq(strlen(a.created), 24);
    ck_assert_str_eq(a.details, "");
    ck_assert_int_eq(counted("false", "false", "true"), 1);
    w->own_what = "ok";
    w->fail_method = NULL;
    world_ask(w, &a, "{}"); /* of itself */
    world_run_ms(w, 1000);
    ck_assert(!a.st.failed);
    ck_assert_str_eq(a.text, "");
    world_destroy(w);
}
END_TEST

/* A function that never listens ends with its container; one whose image is pulled for ever, after
 * a minute, whatever runner.start_wait says. */
START_TEST(ends_in_time)
{
    struct world *w = world_create(with_image);
    struct asked a;

    w->hang_app = "";
    w->hang_method = "prepare_image";
    world_ask(w, &a, "{}");
    world_run_ms(w, 59000);
    ck_assert_int_eq(a.answers, 0);
    world_run_ms(w, 2000);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(a.st.error_code, 503);
    ck_assert_str_eq(a.text, "Timed out - server too busy: no container in time");
    world_destroy(w);
}
END_TEST

START_TEST(answer_has_a_limit)
{
    struct world *w = world_create(with_image);
    struct asked a;

    w->hellos = (64 << 10) / 5 + 1;
    world_ask(w, &a, "{}");
    world_run_ms(w, 200);
    ck_assert_int_eq(a.st.error_code, 502);
    ck_assert_str_eq(a.text, "the status image answered more than 64 KiB");
    world_destroy(w);
}
END_TEST

/* Calls hold all memory: it needs none. */
START_TEST(needs_no_room)
{
    struct world *w = world_create(with_image);
    struct asked a;

    for (int i = 0; i < 8; i++) {
        world_call(w, (struct call_spec){ .what = "ms-5000", .mem_mb = 128 });
    }
    world_run_ms(w, 300);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, w->totals.mem_bytes);
    world_ask(w, &a, "{}");
    world_run_ms(w, 300);
    ck_assert_int_eq(a.answers, 1);
    ck_assert(!a.st.failed);
    ck_assert_int_eq(a.st.active, 8);
    world_destroy(w);
}
END_TEST

START_TEST(network_follows_the_file)
{
    struct world *w = world_create(with_network_file);
    struct asked a;

    w->no_file = true;
    world_ask(w, &a, "{}");
    world_run_ms(w, 200);
    ck_assert(!a.st.failed);
    ck_assert(a.st.network_disabled);
    ck_assert_uint_ne(w->last_task.flags & FN_TASK_NO_NETWORK, 0);
    ck_assert_int_eq(counted("false", "true", "false"), 1);
    w->no_file = false;
    world_run_ms(w, 2000);
    world_ask(w, &a, "{}");
    world_run_ms(w, 200);
    ck_assert(!a.st.network_disabled);
    ck_assert_uint_eq(w->last_task.flags & FN_TASK_NO_NETWORK, 0);
    world_destroy(w);
}
END_TEST

START_TEST(is_no_function)
{
    struct world *w = world_create(with_image);
    struct engage_session *s = world_call(w, (struct call_spec){ .image = IMAGE });

    ck_assert_int_eq(s->code, 400);
    ck_assert(!s->user);
    ck_assert_ptr_nonnull(strstr(s->text, "RUN411"));
    ck_assert_ptr_nonnull(strstr(s->text, "Invalid Fn image"));
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->prepares, 0);
    world_destroy(w);
}
END_TEST

/* Nothing is tried where nothing can be started. */
START_TEST(says_what_it_knows)
{
    struct world *w = world_create(with_image);
    struct asked a;

    w->engine_dead = true;
    world_call(w, (struct call_spec){ 0 });
    world_run_ms(w, 3000);
    ck_assert(world_status(w).failed);
    ck_assert_ptr_nonnull(strstr(world_status(w).error_text, "container engine does not answer"));
    w->engine_dead = false;
    world_run_ms(w, 5000);
    world_ask(w, &a, "{}");
    w->engine_dead = true; /* while it runs */
    world_run_ms(w, 10000);
    ck_assert_int_eq(a.answers, 1);
    ck_assert(a.st.failed);
    ck_assert_int_eq(a.st.error_code, 503);
    world_destroy(w);
}
END_TEST

/* A drain tells those who wait, and starts nothing. */
START_TEST(ends_with_a_drain)
{
    struct world *w = world_create(with_image);
    struct asked a;

    world_ask(w, &a, "{}");
    world_run_ms(w, 30);
    world_destroy(w);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(a.st.error_code, 503);
    ck_assert_ptr_nonnull(strstr(a.text, "shutting down"));
}
END_TEST

START_TEST(follows_a_reload)
{
    struct world *w = world_create(NULL);
    struct asked a;

    ck_assert_str_eq(world_status(w).id, "");
    w->opt.status_image = IMAGE;
    runner_set_options(w->r, &w->opt);
    world_ask(w, &a, "{}");
    world_run_ms(w, 200);
    ck_assert_str_ne(a.id, "");
    runner_set_options(w->r, &w->opt); /* perhaps with another image */
    world_ask(w, &a, "{}");
    ck_assert_int_eq(a.answers, 0);
    w->opt.status_image = NULL;
    runner_set_options(w->r, &w->opt);
    world_run_ms(w, 200);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_str_eq(world_status(w).id, "");
    world_destroy(w);
}
END_TEST

/* ---- the operator's plugin ------------------------------------------------------------------- */

/* How the plugin answers; `asked` counts. */
static struct {
    int asked;
    int result;
    int http_status;
    uint32_t n;
    struct fn_kv pairs[2];
} says;

static int operator_status(void *inst, struct fn_op *op, const struct fn_kv **ret_pairs,
                           uint32_t *ret_n, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    says.asked++;
    if (says.result < 0) {
        return err_set_http(reterr, says.result, says.http_status, FN_BLAME_PLATFORM,
                            "Custom healthcheck failed");
    }
    *ret_pairs = says.pairs;
    *ret_n = says.n;
    return 0;
}

static const struct fn_operator_ops operator_ops = {
    .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR), .status = operator_status
};

static void with_operator(struct world *w)
{
    memset(&says, 0, sizeof(says));
    says.n = 1;
    says.pairs[0] = (struct fn_kv){ "custom", "works" };
    w->operator_ = (struct plugin){ "operator", &operator_ops, w };
}

static void with_both(struct world *w)
{
    with_operator(w);
    with_image(w);
}

START_TEST(operator_adds_to_the_status)
{
    struct world *w = world_create(_i ? with_both : with_operator);
    struct asked a, b;

    world_ask(w, &a, "{\"a\":1}");
    ck_assert_int_eq(a.answers, 0);
    ck_assert_int_eq(says.asked, 0); /* on a lane */
    world_run_ms(w, 1);
    world_ask(w, &b, "{\"a\":1}");
    world_run_ms(w, 250);
    ck_assert_int_eq(a.answers + b.answers, 2);
    ck_assert_int_eq(says.asked, 1);
    ck_assert(!a.st.failed);
    ck_assert_uint_eq(a.st.n_custom, 1);
    ck_assert_str_eq(a.st.custom[0].key, "custom");
    ck_assert_str_eq(a.st.custom[0].value, "works");
    ck_assert_ptr_ne(a.st.custom[0].value, says.pairs[0].value); /* a copy */
    ck_assert_str_eq(a.details, _i ? "hello" : "");
    ck_assert_str_eq(w->last_body, _i ? "{\"a\":1}" : "");
    world_run_ms(w, 1600);
    says.n = 0;
    world_ask(w, &a, "{}");
    world_run_ms(w, 250);
    ck_assert_uint_eq(a.st.n_custom, 0);
    ck_assert_int_eq(says.asked, 2);
    world_destroy(w);
}
END_TEST

/* Its failure is the status, and no image runs. */
START_TEST(operator_fails_the_status)
{
    struct world *w = world_create(with_both);
    struct asked a;

    says.result = FN_E_INTERNAL;
    says.http_status = 450;
    world_ask(w, &a, "{}");
    world_run_ms(w, 250);
    ck_assert(a.st.failed);
    ck_assert_int_eq(a.st.error_code, 450);
    ck_assert_str_eq(a.text, "Custom healthcheck failed");
    ck_assert_uint_eq(a.st.n_custom, 0);
    ck_assert_str_eq(w->last_body, "");
    says.result = 0;
    world_run_ms(w, 1600);
    world_ask(w, &a, "{}");
    world_run_ms(w, 250);
    ck_assert(!a.st.failed);
    world_destroy(w);
}
END_TEST

/* ---- configuration --------------------------------------------------------------------------- */

struct configured {
    struct engage_config config; /* first */
    int answers, status;
    char text[FN_ERROR_TEXT_MAX];
};

static void config_answered(struct engage_config *config, int grpc_status, const char *text)
{
    struct configured *c = container_of(config, struct configured, config);

    c->answers++;
    c->status = grpc_status;
    snprintf(c->text, sizeof(c->text), "%s", text ? text : "");
}

static void configure(struct world *w, struct configured *c, const struct fn_kv *keys, uint32_t n)
{
    *c = (struct configured){ .config = { keys, n, config_answered } };
    w->cb.on_configure(w->cb_ud, &c->config);
}

static char last_keys[64];

static int operator_configure(void *inst, struct fn_op *op, const struct fn_kv *keys, uint32_t n,
                              struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    last_keys[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        snprintf(last_keys + strlen(last_keys), sizeof(last_keys) - strlen(last_keys), "%s=%s;",
                 keys[i].key, keys[i].value);
    }
    return says.result < 0 ? err_set(reterr, says.result, "no such key") : 0;
}

static const struct fn_operator_ops taking_ops = {
    .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR), .configure = operator_configure
};

static void with_taker(struct world *w)
{
    with_operator(w);
    w->operator_.ops = &taking_ops;
}

START_TEST(operator_takes_keys)
{
    static const struct fn_kv keys[] = { { "domain", "unix" }, { "company", "fn" } };
    struct world *w = world_create(with_taker);
    struct configured a, b;

    last_keys[0] = '\0';
    configure(w, &a, keys, 0);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(a.status, 0);
    configure(w, &a, keys, 2);
    configure(w, &b, keys, 1);
    ck_assert_int_eq(a.answers, 0);
    ck_assert_int_eq(b.status, GRPC_UNAVAILABLE);
    world_run_ms(w, 50);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(a.status, 0);
    ck_assert_str_eq(last_keys, "company=fn;domain=unix;");
    says.result = FN_E_INVALID;
    configure(w, &a, keys, 1);
    world_run_ms(w, 50);
    ck_assert_int_eq(a.status, GRPC_INVALID);
    ck_assert_str_eq(a.text, "no such key");
    configure(w, &a, keys, 1);
    w->cb.on_configure_gone(w->cb_ud, &a.config);
    world_run_ms(w, 50);
    ck_assert_int_eq(a.answers, 0);
    w->lanes_full = 1;
    configure(w, &a, keys, 1);
    world_run_ms(w, 1);
    ck_assert_int_eq(a.status, GRPC_UNAVAILABLE);
    configure(w, &a, keys, 1);
    world_destroy(w); /* waits for the lane */
    ck_assert_int_eq(a.answers, 1);
}
END_TEST

START_TEST(keys_without_a_taker_are_refused)
{
    static const struct fn_kv key = { "domain", "unix" };
    struct world *w = world_create(_i ? with_operator : NULL);
    struct configured a;

    configure(w, &a, &key, 1);
    ck_assert_int_eq(a.status, GRPC_INVALID);
    ck_assert_str_eq(a.text, "RUN413 key \"domain\": this runner has no operator plugin that takes "
                             "keys");
    configure(w, &a, &key, 0);
    ck_assert_int_eq(a.status, 0);
    world_destroy(w);
}
END_TEST

/* The node, as a table: what is set, and whether it stays. */
static struct {
    char text[64];
    int sets, kept, undone;
    int result, reloaded; /* before keep() */
} node;

static bool node_has(const char *name)
{
    return strncmp(name, "runner.", 7) == 0;
}

static int node_set(void *ud, const struct fn_kv *keys, uint32_t n, struct fn_error *reterr)
{
    (void)ud;
    node.sets++;
    node.text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        snprintf(node.text + strlen(node.text), sizeof(node.text) - strlen(node.text), "%s=%s;",
                 keys[i].key, keys[i].value);
    }
    return node.result < 0 ? err_set(reterr, node.result, "not such a value") : 0;
}

static bool node_keep(void *ud, bool keep)
{
    (void)ud;
    node.kept += keep;
    node.undone += !keep;
    return keep && !node.reloaded;
}

static const struct runner_settings node_settings = { node_has, node_set, node_keep };

static struct world *world_with_settings(void (*tune)(struct world *w))
{
    static const char *const patterns[] = { "runner.f*", "runner.configurable" };
    struct world *w = world_create(tune);

    memset(&node, 0, sizeof(node));
    w->r->deps.settings = &node_settings;
    w->r->opt.configurable = (struct fn_strlist){ patterns, 2 };
    return w;
}

START_TEST(settings_need_no_plugin)
{
    static const struct fn_kv keys[] = { { "runner.freeze_idle", "1s" }, { "runner.fs", "2" } };
    static const struct fn_kv bad[] = { { "runner.pids_max", "1" }, { "runner.configurable", "*" } };
    struct world *w = world_with_settings(NULL);
    struct configured a;

    configure(w, &a, keys, 2);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(a.status, 0);
    ck_assert_str_eq(node.text, "runner.freeze_idle=1s;runner.fs=2;");
    ck_assert_int_eq(node.kept, 1);
    for (int i = 0; i < 2; i++) {
        configure(w, &a, &bad[i], 1);
        ck_assert_int_eq(a.status, GRPC_PERMISSION);
        ck_assert_ptr_nonnull(strstr(a.text, "RUN417 key \"runner."));
    }
    node.result = FN_E_INVALID;
    configure(w, &a, keys, 1);
    ck_assert_int_eq(a.status, GRPC_INVALID);
    ck_assert_str_eq(a.text, "not such a value");
    ck_assert_int_eq(node.sets, 2);
    ck_assert_int_eq(node.kept + node.undone, 1);
    world_destroy(w);
}
END_TEST

/* All keys of a request, or none. */
START_TEST(settings_and_the_keys_of_a_plugin)
{
    static const struct fn_kv keys[] = { { "domain", "unix" }, { "runner.freeze_idle", "1s" } };
    struct world *w = world_with_settings(with_taker);
    struct configured a;

    configure(w, &a, keys, 2);
    ck_assert_int_eq(a.answers, 0);
    ck_assert_int_eq(node.sets, 1);
    world_run_ms(w, 50);
    ck_assert_int_eq(a.status, 0);
    ck_assert_str_eq(last_keys, "domain=unix;");
    ck_assert_int_eq(node.kept, 1);
    node.reloaded = 1;
    configure(w, &a, keys, 2);
    world_run_ms(w, 50);
    ck_assert(a.status == GRPC_UNAVAILABLE && strstr(a.text, "a reload was made meanwhile"));
    says.result = FN_E_INVALID;
    configure(w, &a, keys, 2);
    world_run_ms(w, 50);
    ck_assert_int_eq(a.status, GRPC_INVALID);
    ck_assert_int_eq(node.undone, 1);
    node.result = FN_E_UNAVAILABLE;
    last_keys[0] = '\0';
    configure(w, &a, keys, 2);
    world_run_ms(w, 50);
    ck_assert_int_eq(a.status, GRPC_UNAVAILABLE);
    ck_assert_str_eq(last_keys, "");
    world_destroy(w);
    w = world_with_settings(NULL);
    configure(w, &a, keys, 2);
    ck_assert_ptr_nonnull(strstr(a.text, "RUN413"));
    ck_assert_int_eq(node.sets, 0);
    world_destroy(w);
}
END_TEST

/* ---- what functions print -------------------------------------------------------------------- */

static struct {
    char text[4096];
    uint32_t calls, lines;
    uint64_t lost;
    int result;
} logged;

static int operator_log(void *inst, struct fn_op *op, const struct fn_log_line *const *lines,
                        uint32_t n, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_le(n, FN_OPERATOR_LINES_MAX);
    logged.calls++;
    for (uint32_t i = 0; i < n && logged.result == 0; i++) {
        size_t at = strlen(logged.text);

        ck_assert_uint_eq(lines[i]->size, sizeof(*lines[i]));
        ck_assert_uint_eq(strlen(lines[i]->data), lines[i]->len);
        logged.lost += lines[i]->lost;
        logged.lines++;
        if (at < sizeof(logged.text) - 200) {
            snprintf(logged.text + at, 200, "%s/%s/%u:%s\n", lines[i]->fn_id, lines[i]->call_id,
                     lines[i]->fd, lines[i]->data);
        }
    }
    return logged.result < 0 ? err_set(reterr, logged.result, "the disk is full") : 0;
}

static const struct fn_operator_ops logging_ops = {
    .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR), .log = operator_log
};

static void with_logger(struct world *w)
{
    with_operator(w);
    w->operator_.ops = &logging_ops;
    memset(&logged, 0, sizeof(logged));
}

static struct world *world_with_logger(struct container **ret)
{
    struct world *w = world_create(with_logger);

    runner_start(w->r);
    world_call(w, (struct call_spec){ .id = "CALLLLLLLLLLLLLLLLLLLLLLLL", .what = "ms-3000" });
    world_run_ms(w, 200);
    *ret = world_container(w, CTR_BUSY);
    return w;
}

/* One call of the plugin at a time; what comes meanwhile waits in the ring. */
START_TEST(operator_gets_lines)
{
    struct container *c;
    struct world *w = world_with_logger(&c);

    container_output(c, 1, "one\ntwo\n", 8);
    container_output(c, 2, "three\n", 6);
    world_run_ms(w, 50);
    ck_assert_str_eq(logged.text, "f1/CALLLLLLLLLLLLLLLLLLLLLLLL/1:one\n"
                                  "f1/CALLLLLLLLLLLLLLLLLLLLLLLL/1:two\n"
                                  "f1/CALLLLLLLLLLLLLLLLLLLLLLLL/2:three\n");
    for (int i = 0; i < 5000; i++) {
        container_output(c, 1, "much of it\n", 11);
    }
    world_run_ms(w, 500);
    ck_assert_uint_gt(logged.lost, 0);
    ck_assert_uint_eq(logged.lines - 1 + logged.lost, 5003);
    container_output(c, 1, "the end", 7);
    world_run_ms(w, 4000);
    world_destroy(w); /* drains: the last line is not left */
    ck_assert_uint_ge(logged.lines - 1 + logged.lost, 5004);
}
END_TEST

/* Lines that it does not take are lost, and the next ones come after a pause. */
START_TEST(operator_refuses_lines)
{
    struct container *c;
    struct world *w = world_with_logger(&c);

    logged.result = FN_E_UNAVAILABLE;
    container_output(c, 1, "one\n", 4);
    world_run_ms(w, 50);
    ck_assert_uint_eq(logged.calls, 1);
    logged.result = 0;
    container_output(c, 1, "two\n", 4);
    world_run_ms(w, 500);
    ck_assert_uint_eq(logged.calls, 1);
    world_run_ms(w, 1000);
    ck_assert_uint_eq(logged.calls, 2);
    ck_assert_str_eq(logged.text, "f1/CALLLLLLLLLLLLLLLLLLLLLLLL/1:two\n");
    w->lanes_full = 1;
    container_output(c, 1, "three\n", 6);
    world_run_ms(w, 1500);
    container_output(c, 1, "four\n", 5);
    world_run_ms(w, 50);
    ck_assert_ptr_nonnull(strstr(logged.text, "two\nf1/CALLLLLLLLLLLLLLLLLLLLLLLL/1:four\n"));
    logged.result = FN_E_UNAVAILABLE;
    container_output(c, 1, "five\n", 5);
    world_destroy(w);
}
END_TEST

/* An instance has one call at a time. */
START_TEST(operator_is_asked_for_one_thing_at_a_time)
{
    static const struct fn_operator_ops both = {
        .hdr = FN_HDR(struct fn_operator_ops, FN_MAGIC_OPERATOR), .status = operator_status,
        .configure = operator_configure
    };
    static const struct fn_kv key = { "domain", "unix" };
    struct world *w = world_create(with_operator);
    struct configured c;
    struct asked a;

    w->operator_.ops = &both;
    last_keys[0] = '\0';
    world_ask(w, &a, "{}");
    configure(w, &c, &key, 1);
    ck_assert_int_eq(w->in_flight, 1);
    world_run_ms(w, 3);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(c.answers, 0);
    ck_assert_int_eq(w->in_flight, 1);
    world_run_ms(w, 3);
    ck_assert_int_eq(c.answers, 1);
    configure(w, &c, &key, 1);
    world_run_ms(w, 1600);
    configure(w, &c, &key, 1);
    world_ask(w, &a, "{}");
    ck_assert_int_eq(w->in_flight, 1);
    world_run_ms(w, 6);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(c.answers, 1);
    world_destroy(w);
}
END_TEST

/* A drain waits for the lane; who asked is told. */
START_TEST(operator_is_asked_while_a_drain_begins)
{
    struct world *w = world_create(with_both);
    struct asked a;

    world_ask(w, &a, "{}");
    world_destroy(w); /* looks whether anything is left */
    ck_assert_int_eq(says.asked, 1);
    ck_assert_int_eq(a.answers, 1);
    ck_assert_str_eq(a.details, "");
}
END_TEST

START_TEST(operator_finds_the_lanes_full)
{
    struct world *w = world_create(with_operator);
    struct asked a;

    w->lanes_full = 1;
    world_ask(w, &a, "{}");
    world_run_ms(w, 1);
    ck_assert_int_eq(a.answers, 1);
    ck_assert(a.st.failed);
    ck_assert_int_eq(a.st.error_code, 503);
    world_run_ms(w, 1600);
    world_ask(w, &a, "{}");
    world_run_ms(w, 250);
    ck_assert(!a.st.failed);
    world_destroy(w);
}
END_TEST

TCase *status_tests(void)
{
    TCase *tc = tcase_create("status");

    tcase_add_test(tc, runs_the_image);
    tcase_add_test(tc, is_shared_and_cached);
    tcase_add_test(tc, is_kept_apart_by_what_is_asked);
    tcase_add_test(tc, other_questions_have_a_limit);
    tcase_add_test(tc, outlives_who_asked);
    tcase_add_loop_test(tc, tells_why_it_fails, 0, sizeof(failures) / sizeof(failures[0]));
    tcase_add_test(tc, ends_in_time);
    tcase_add_test(tc, answer_has_a_limit);
    tcase_add_test(tc, needs_no_room);
    tcase_add_test(tc, network_follows_the_file);
    tcase_add_test(tc, is_no_function);
    tcase_add_test(tc, says_what_it_knows);
    tcase_add_test(tc, ends_with_a_drain);
    tcase_add_test(tc, follows_a_reload);
    tcase_add_loop_test(tc, operator_adds_to_the_status, 0, 2);
    tcase_add_test(tc, operator_fails_the_status);
    tcase_add_test(tc, operator_is_asked_while_a_drain_begins);
    tcase_add_test(tc, operator_finds_the_lanes_full);
    tcase_add_test(tc, operator_takes_keys);
    tcase_add_test(tc, operator_gets_lines);
    tcase_add_test(tc, operator_refuses_lines);
    tcase_add_test(tc, settings_need_no_plugin);
    tcase_add_test(tc, settings_and_the_keys_of_a_plugin);
    tcase_add_test(tc, operator_is_asked_for_one_thing_at_a_time);
    tcase_add_loop_test(tc, keys_without_a_taker_are_refused, 0, 2);
    return tc;
}
