/* The shipped plugins and the examples, loaded as a node loads them, over fakes of the host. */
#include "testing.h"

#include <base/metric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_env *fake;
static struct plugin_host *h;

/* ---- fakes of what other rooms offer --------------------------------------------------------- */

static char trace[2048];

static void note(const char *text)
{
    size_t n = strlen(trace);

    snprintf(trace + n, sizeof(trace) - n, "%s ", text);
}

static int snap_begin(const struct fn_host *host, const char *group,
                      struct fn_snap_builder **ret_given)
{
    (void)host;
    note("begin");
    note(group);
    *ret_given = (struct fn_snap_builder *)(void *)trace;
    return 0;
}

static int snap_add(struct fn_snap_builder *b, const struct fn_runner *copied, uint32_t size)
{
    (void)b;
    ck_assert_uint_eq(size, sizeof(*copied));
    note(copied->address);
    ck_assert_uint_eq(copied->weight, 1);
    ck_assert_uint_ne(copied->id, 0);
    return strcmp(copied->address, "refused:1") == 0 ? FN_E_EXHAUSTED : 0;
}

static int snap_publish(struct fn_snap_builder *given)
{
    (void)given;
    note("publish");
    return 0;
}

static void snap_discard(struct fn_snap_builder *given)
{
    (void)given;
    note("discard");
}

static const struct fn_snap_if snap_if = { .hdr = FN_HDR(struct fn_snap_if, FN_MAGIC_SNAP),
                                           .begin = snap_begin,
                                           .add = snap_add,
                                           .publish = snap_publish,
                                           .discard = snap_discard };

static const char *edit_header(const struct fn_edit *e, const char *name)
{
    (void)e;
    return strcmp(name, "X-Tag") == 0 ? "from-header" : NULL;
}

static int edit_set_extension(struct fn_edit *e, const char *key, const char *copied)
{
    (void)e;
    note(key);
    note(copied);
    return strcmp(copied, "refused") == 0 ? FN_E_INVALID : 0;
}

static const struct fn_edit_if edit_if = { .hdr = FN_HDR(struct fn_edit_if, FN_MAGIC_EDIT),
                                           .header = edit_header,
                                           .set_extension = edit_set_extension };

/* A driver that notes what it is asked. */
static int inner_slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    (void)inst;
    (void)ext;
    return snprintf(ret_key, cap, "inner%u", n) < (int)cap ? 0 : FN_E_RANGE;
}

static int inner_image(void *inst, struct fn_op *op, const struct fn_task *task,
                       struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    note("image");
    note(task->image);
    return 0;
}

static int inner_create(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                        struct fn_error *reterr)
{
    uint32_t i;

    (void)inst;
    (void)op;
    (void)reterr;
    note("create");
    for (i = 0; i < task->n_env; i++) {
        note(task->env[i].key);
        note(task->env[i].value);
    }
    ck_assert_uint_eq(task->handle, 77);
    *ret_ctr = trace;
    return 0;
}

static int inner_start(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    ck_assert_ptr_eq(ctr, trace);
    note("start");
    return 0;
}

static int inner_close(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    static int calls;

    (void)inst;
    (void)op;
    (void)reterr;
    ck_assert_ptr_eq(ctr, trace);
    note("close");
    return calls++ == 0 ? FN_E_UNAVAILABLE : 0;
}

static int inner_sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                       uint32_t *ret_removed, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    note("sweep");
    note(owner);
    note(instance);
    *ret_removed = 3;
    return 0;
}

static int inner_probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                       struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)reterr;
    snprintf(ret_version, cap, "9.9");
    return 0;
}

static uint32_t inner_uid(void *inst, void *ctr)
{
    (void)inst;
    ck_assert_ptr_eq(ctr, trace);
    return 1000;
}

static const struct fn_driver_ops inner_ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = inner_slot_key,
    .prepare_image = inner_image,
    .create = inner_create,
    .start = inner_start,
    .close = inner_close,
    .sweep = inner_sweep,
    .probe = inner_probe,
    .uid = inner_uid,
};

static int driver_inner(const struct fn_host *host, const char *name,
                        const struct fn_driver_ops **ret_ops, void **ret_inst,
                        struct fn_error *reterr)
{
    (void)host;
    if (strcmp(name, "docker") != 0) {
        return err_set(reterr, FN_E_NOT_FOUND, "no driver \"%s\"", name);
    }
    *ret_ops = &inner_ops;
    *ret_inst = NULL;
    return 0;
}

static const struct fn_driver_if driver_if = { .hdr = FN_HDR(struct fn_driver_if,
                                                             FN_MAGIC_DRIVER_IF),
                                               .inner = driver_inner };

/* ---- making instances ------------------------------------------------------------------------ */

static void setup(void)
{
    fake = fake_env_create();
    trace[0] = '\0';
    h = plugin_host_create(&fake->env);
    plugin_host_offer(h, "fn.snap", 1, 0, &snap_if, NULL);
    plugin_host_offer(h, "fn.edit", 1, 0, &edit_if, NULL);
    plugin_host_offer(h, "fn.driver", 1, 0, &driver_if, NULL);
}

static void teardown(void)
{
    plugin_host_destroy(h);
    ck_assert_uint_eq(fake->timers.n, 0);
    fake_env_destroy(fake);
}

static int try_make(const char *kind, const char *name, const char *yaml, struct plugin **ret,
                    struct fn_error *e)
{
    const struct fn_factory *factory;
    struct conf_problems problems;
    struct conf_values *values = NULL;
    struct conf *conf = NULL;
    struct plugin_file *f = NULL;
    char path[512];
    int r;

    ck_assert_int_eq(plugin_path_for(getenv("FND_PLUGINS"), kind, name, path, sizeof(path)), 0);
    ck_assert_msg(plugin_file_open(h, path, &f, e) == 0, "%s", e->msg);
    factory = plugin_file_factory(f, kind, name);
    ck_assert_ptr_nonnull(factory);
    conf_problems_init(&problems);
    ck_assert_int_eq(conf_parse("t.yaml", yaml, strlen(yaml), &conf, &problems), 0);
    conf_bind(conf, conf_root(conf), name, factory->opts, factory->conf_size, NULL, NULL, &values,
              &problems);
    ck_assert_msg(problems.n == 0, "%s", buf_text(&problems.text));
    conf_problems_finish(&problems);
    r = plugin_create(h, f, factory, name, values, ret, e);
    conf_destroy(conf);
    return r;
}

static struct plugin *make(const char *kind, const char *name, const char *yaml)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    ck_assert_msg(try_make(kind, name, yaml, &p, &e) == 0, "%s", e.msg);
    return p;
}

static void refused(const char *kind, const char *name, const char *yaml, const char *text)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    ck_assert_int_lt(try_make(kind, name, yaml, &p, &e), 0);
    ck_assert_str_eq(e.msg, text);
}

/* ---- pool/static ----------------------------------------------------------------------------- */

static int stopped;

static void on_stopped(void *ud)
{
    stopped += *(int *)ud;
}

START_TEST(pool_static)
{
    struct plugin *p = make("pool", "static", "runners: [\"a:1\", \"b:2\"]\n");
    const struct fn_pool_ops *ops = plugin_ops(p);
    struct fn_error e = ERR_INIT;
    struct fn_call call = { .lb_group = "gold" };
    char group[FN_GROUP_NAME_MAX];
    int one = 1;

    ck_assert_int_eq(ops->start(plugin_inst(p), &e), 0);
    ck_assert_str_eq(trace, "begin default a:1 b:2 publish ");
    ck_assert_int_eq(ops->route(plugin_inst(p), &call, group, sizeof(group)), 0);
    ck_assert_str_eq(group, "default");
    stopped = 0;
    ops->stop(plugin_inst(p), on_stopped, &one);
    ck_assert_int_eq(stopped, 0); /* not from inside */
    fake_env_advance(fake, 0);
    ck_assert_int_eq(stopped, 1);
    plugin_destroy(p);
}
END_TEST

START_TEST(pool_static_refused)
{
    struct plugin *p = make("pool", "static", "runners: [\"a:1\", \"refused:1\"]\n");
    const struct fn_pool_ops *ops = plugin_ops(p);
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(ops->start(plugin_inst(p), &e), FN_E_EXHAUSTED);
    ck_assert_str_eq(trace, "begin default a:1 refused:1 discard ");
    ck_assert_str_eq(e.msg, "the list of 2 runners was not taken");
    plugin_destroy(p);
    refused("pool", "static", "runners: [\"a:1\", \"b\"]\n",
            "PLG915 static: pool/static: runners[1]: got \"b\"; expected host:port");
}
END_TEST

/* ---- placer/ch ------------------------------------------------------------------------------- */

static uint32_t first_choice(struct plugin *p, const char *fn_id, uint32_t n)
{
    static struct fn_runner runners[100];
    const struct fn_placer_ops *ops = plugin_ops(p);
    struct fn_snapshot snap = { .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                .n = n, .stride = sizeof(runners[0]), .runners = runners };
    struct fn_call call = { .fn_id = fn_id };
    uint64_t session[FN_PLACER_SESSION_MAX / 8] = { 0 };
    struct fn_ask ask = { .size = sizeof(ask), .why = FN_WHY_START, .call = &call, .snap = &snap,
                          .session = session };
    struct fn_answer answer = { .size = sizeof(answer) };

    ck_assert_int_eq(ops->decide(plugin_inst(p), &ask, &answer), 0);
    ck_assert_uint_eq(answer.verdict, FN_TRY);
    return answer.index;
}

START_TEST(placer_ch)
{
    struct plugin *go = make("placer", "ch", "go_variant: true\n");
    struct plugin *paper = make("placer", "ch", "retry_delay: 1s\n");
    uint32_t second = 0;
    char id[16];
    int i;

    ck_assert_uint_eq(first_choice(go, "01M7Y437YSR00040GZYG000002", 100), 81);
    ck_assert_uint_eq(first_choice(go, "hello01", 100), 40);
    for (i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "fn-%d", i);
        ck_assert_uint_ne(first_choice(go, id, 3), 1);
        second += first_choice(paper, id, 3) == 1;
    }
    ck_assert_uint_ge(second, 15);
    plugin_destroy(paper);
    plugin_destroy(go);
}
END_TEST

/* ---- examples -------------------------------------------------------------------------------- */

START_TEST(override_tag)
{
    struct plugin *p = make("overrider", "tag", "header: X-Tag\nvalue: fixed\n");
    const struct fn_override_ops *ops = plugin_ops(p);
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(ops->apply(plugin_inst(p), NULL, &e), FN_CHANGED);
    ck_assert_str_eq(trace, "tag from-header ");
    plugin_destroy(p);

    trace[0] = '\0';
    p = make("overrider", "tag", "key: colour\nheader: X-Other\nvalue: refused\n");
    ops = plugin_ops(p);
    ck_assert_int_eq(ops->apply(plugin_inst(p), NULL, &e), FN_E_INVALID);
    ck_assert_str_eq(trace, "colour refused ");
    plugin_destroy(p);

    p = make("overrider", "tag", "header: X-Other\n");
    ops = plugin_ops(p);
    ck_assert_int_eq(ops->apply(plugin_inst(p), NULL, &e), FN_PASS);
    plugin_destroy(p);
    refused("overrider", "tag", "key: x\n",
            "PLG915 tag: overrider/tag: got neither header nor value; expected one");
}
END_TEST

START_TEST(driver_env_keys)
{
    struct plugin *p = make("driver", "env", "inner: docker\n");
    const struct fn_driver_ops *ops = plugin_ops(p);
    struct fn_kv ext[] = { { "other", "x" }, { "tag", "blue" } };
    char key[64];

    ck_assert_int_eq(ops->slot_key(plugin_inst(p), ext, 2, key, sizeof(key)), 0);
    ck_assert_str_eq(key, "FN_TAG=4:blue;inner2");
    ck_assert_int_eq(ops->slot_key(plugin_inst(p), ext, 1, key, sizeof(key)), 0);
    ck_assert_str_eq(key, "inner1");
    ck_assert_int_eq(ops->slot_key(plugin_inst(p), ext, 2, key, 5), FN_E_RANGE);
    ck_assert_int_eq(ops->slot_key(plugin_inst(p), ext, 2, key, 16), FN_E_RANGE);
    plugin_destroy(p);
    refused("driver", "env", "inner: podman\n", "PLG915 env: driver/env: no driver \"podman\"");
}
END_TEST

START_TEST(driver_env_container)
{
    struct plugin *p = make("driver", "env", "inner: docker\nvariable: COLOUR\n");
    const struct fn_driver_ops *ops = plugin_ops(p);
    void *inst = plugin_inst(p);
    struct fn_kv env[] = { { "A", "1" } };
    struct fn_kv ext[] = { { "tag", "blue" } };
    struct fn_task task = { .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK), .image = "img",
                            .env = env, .n_env = 1, .extensions = ext, .n_extensions = 1,
                            .handle = 77 };
    struct fn_error e = ERR_INIT;
    uint32_t removed = 0;
    void *ctr = NULL;
    char version[16];

    ck_assert_int_eq(ops->prepare_image(inst, NULL, &task, &e), 0);
    ck_assert_int_eq(ops->create(inst, NULL, &task, &ctr, &e), 0);
    ck_assert_uint_eq(task.n_env, 1); /* only the copy was changed */
    ck_assert_int_eq(ops->start(inst, NULL, ctr, &e), 0);
    ck_assert_int_eq(ops->freeze(inst, NULL, ctr, &e), 0);
    ck_assert_int_eq(ops->thaw(inst, NULL, ctr, &e), 0);
    ck_assert_uint_eq(ops->uid(inst, ctr), 1000);
    ck_assert_int_eq(ops->close(inst, NULL, ctr, &e), FN_E_UNAVAILABLE);
    ck_assert_int_eq(ops->close(inst, NULL, ctr, &e), 0);
    ck_assert_int_eq(ops->sweep(inst, NULL, "me", "now", &removed, &e), 0);
    ck_assert_uint_eq(removed, 3);
    ck_assert_int_eq(ops->probe(inst, NULL, version, sizeof(version), &e), 0);
    ck_assert_str_eq(version, "9.9");
    ck_assert_str_eq(trace, "image img create A 1 COLOUR blue start close close sweep me now ");
    plugin_destroy(p);
}
END_TEST

START_TEST(listener_count)
{
    struct plugin *p = make("listener", "count", "{}\n");
    const struct fn_listener_ops *ops = plugin_ops(p);
    struct fn_call call = { .id = "1" };
    struct fn_call_end end = { .size = sizeof(end), .code = FN_E_DEADLINE };
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(ops->before(plugin_inst(p), &call, &e), 0);
    ck_assert_int_eq(ops->before(plugin_inst(p), &call, &e), 0);
    ops->after(plugin_inst(p), &call, &end);
    end.code = 0;
    ops->after(plugin_inst(p), &call, &end);
    ck_assert_int_eq(metric_print(&out), 0);
    ck_assert_ptr_nonnull(
        strstr(buf_text(&out), "fn_plugin_listener_count_started{instance=\"count\"} 2\n"));
    ck_assert_ptr_nonnull(
        strstr(buf_text(&out), "fn_plugin_listener_count_failed{instance=\"count\"} 1\n"));
    buf_finish(&out);
    plugin_destroy(p);
}
END_TEST

/* Names of apps that are made; all other changes pass. */
START_TEST(listener_count_names)
{
    struct plugin *p = make("listener", "count", "{names_must_match: team-*}\n");
    const struct fn_listener_ops *ops = plugin_ops(p);
    struct fn_change change = { .size = sizeof(change), .kind = FN_CHANGE_APP,
                                .verb = FN_CHANGE_CREATE, .name = "team-a" };
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(ops->before_change(plugin_inst(p), NULL, &change, &e), 0);
    change.name = "shop";
    ck_assert_int_eq(ops->before_change(plugin_inst(p), NULL, &change, &e), FN_E_PERMISSION);
    ck_assert_int_eq(e.http_status, 422);
    ck_assert_str_eq(e.msg, "name, got \"shop\"; expected one like team-*");
    change.verb = FN_CHANGE_UPDATE;
    ck_assert_int_eq(ops->before_change(plugin_inst(p), NULL, &change, &e), 0);
    change.kind = FN_CHANGE_FUNCTION;
    change.verb = FN_CHANGE_CREATE;
    ck_assert_int_eq(ops->before_change(plugin_inst(p), NULL, &change, &e), 0);
    ops->after_change(plugin_inst(p), NULL, &change);
    ck_assert_int_eq(metric_print(&out), 0);
    ck_assert_ptr_nonnull(
        strstr(buf_text(&out), "fn_plugin_listener_count_changes{instance=\"count\"} 1\n"));
    buf_finish(&out);
    plugin_destroy(p);
}
END_TEST

TCase *shipped_tests(void)
{
    TCase *t = tcase_create("shipped");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, pool_static);
    tcase_add_test(t, pool_static_refused);
    tcase_add_test(t, placer_ch);
    tcase_add_test(t, override_tag);
    tcase_add_test(t, driver_env_keys);
    tcase_add_test(t, driver_env_container);
    tcase_add_test(t, listener_count);
    tcase_add_test(t, listener_count_names);
    return t;
}
