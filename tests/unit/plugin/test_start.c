/* The start of instances: what bounds create(), and what is let go when it fails. */
#include "testing.h"

#include <plugin/plugin_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_env *fake;
static struct plugin_host *h;

static int start(const char *path, const char *name, struct plugin **ret, struct fn_error *e)
{
    struct plugin_file *f = NULL;
    const struct fn_factory *factory;
    struct conf_problems problems;
    struct conf_values *values = NULL;

    ck_assert_msg(plugin_file_open(h, path, &f, e) == 0, "%s", e->msg);
    factory = plugin_file_factory(f, "placer", name);
    ck_assert_ptr_nonnull(factory);
    conf_problems_init(&problems);
    if (factory->conf_size) {
        conf_bind(NULL, NULL, name, factory->opts, factory->conf_size, NULL, NULL, &values,
                  &problems);
    }
    conf_problems_finish(&problems);
    return plugin_create(h, f, factory, "mine", values, ret, e);
}

static const char *evil_path(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/evil/%s.so", getenv("FND_SAMPLES"), name);
    return path;
}

static void setup(void)
{
    fake = fake_env_create();
    h = plugin_host_create(&fake->env);
    plugin_host_offer(h, "fn.wake", 1, 0, "table", &h);
}

static void teardown(void)
{
    plugin_host_destroy(h);
    ck_assert_uint_eq(fake->timers.n, 0);
    fake_env_destroy(fake);
}

/* ---- deadline -------------------------------------------------------------------------------- */

static int64_t told_timeout_ns;
static void *kept[8]; /* what belongs to a thread that never returned */
static int n_kept;

static int in_time(void (*fn)(void *arg), void *arg, int64_t timeout_ns)
{
    told_timeout_ns = timeout_ns;
    fn(arg);
    return 0;
}

static int never(void (*fn)(void *arg), void *arg, int64_t timeout_ns)
{
    (void)fn;
    (void)timeout_ns;
    kept[n_kept++] = arg;
    return FN_E_DEADLINE;
}

static int no_thread(void (*fn)(void *arg), void *arg, int64_t timeout_ns)
{
    (void)fn;
    (void)arg;
    (void)timeout_ns;
    return FN_E_EXHAUSTED;
}

START_TEST(create_runs_aside)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    plugin_host_deadline(h, in_time, 0);
    ck_assert_msg(start(sample_path("good"), "sample", &p, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(told_timeout_ns, 5 * ENV_S);
    plugin_destroy(p);
    plugin_host_deadline(h, no_thread, 5 * ENV_S);
    ck_assert_int_eq(start(sample_path("good"), "sample", &p, &e), FN_E_EXHAUSTED);
    ck_assert_str_eq(e.msg, "PLG901 mine: no thread for create()");
}
END_TEST

START_TEST(create_that_never_returns)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    plugin_host_deadline(h, never, 250 * ENV_MS);
    for (uint32_t i = 0; i < PLUGIN_LOST_MAX; i++) {
        ck_assert_uint_eq(plugin_lost(), i);
        ck_assert_int_eq(start(sample_path("good"), "sample", &p, &e), FN_E_DEADLINE);
        ck_assert_str_eq(e.msg, "PLG914 mine: placer/sample: create() did not return within 250 ms "
                                "(plugins.start_timeout)");
    }
    ck_assert_int_eq(start(sample_path("good"), "sample", &p, &e), FN_E_EXHAUSTED);
    ck_assert_str_eq(e.msg, "PLG914 mine: placer/sample: create() was not called: 2 earlier ones never "
                            "returned; expected a new process");
    ck_assert_int_eq(n_kept, PLUGIN_LOST_MAX);
    ck_assert_uint_eq(plugin_lost(), PLUGIN_LOST_MAX);
    ck_assert_ptr_null(p);
}
END_TEST

/* ---- failure --------------------------------------------------------------------------------- */

START_TEST(a_flood_of_words_is_cut_and_made_harmless)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;
    const char *s;

    ck_assert_int_eq(start(evil_path("e05_create_floods"), "e05", &p, &e), FN_E_INTERNAL);
    ck_assert_msg(strncmp(e.msg, "PLG915 mine: placer/e05: \\x1b[31mHACKED\\x1b[0m\\x0d\\x0a", 52) == 0,
                  "%s", e.msg);
    ck_assert_uint_le(strlen(e.msg), 256);
    for (s = e.msg; *s; s++) {
        ck_assert_int_ge(*s, 0x20);
        ck_assert_int_lt(*s, 0x7f);
    }
}
END_TEST

static struct {
    int n;
    void *impl;
    struct plugin *of;
} let_go;

static void on_release(void *impl, const struct fn_host *host)
{
    let_go.n++;
    let_go.impl = impl;
    let_go.of = plugin_of(host);
}

START_TEST(what_the_host_holds_for_it_is_let_go)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    plugin_host_on_release(h, "fn.wake", false, on_release);
    ck_assert_int_lt(start(sample_path("create-fails"), "sample", &p, &e), 0);
    ck_assert_int_eq(let_go.n, 1);
    ck_assert_ptr_eq(let_go.impl, &h);
    ck_assert_ptr_nonnull(let_go.of);
    ck_assert_uint_eq(fake->timers.n, 0); /* it had armed one */
    teardown();
    setup();
    plugin_host_on_release(h, "fn.wake", false, on_release);
    ck_assert_int_eq(start(sample_path("good"), "sample", &p, &e), 0);
    let_go.n = 0;
    plugin_destroy(p);
    ck_assert_int_ge(let_go.n, 1);
    ck_assert_ptr_eq(let_go.of, p);
}
END_TEST

static int loops; /* entered and not left */

static void enter(struct env *env)
{
    (void)env;
    loops++;
}

static void leave(struct env *env)
{
    (void)env;
    loops--;
}

static int releases_on_loop, releases;

static void on_loop_release(void *impl, const struct fn_host *host)
{
    (void)impl;
    (void)host;
    releases++;
    releases_on_loop += loops;
}

START_TEST(beside_the_loop_it_is_let_go_as_the_loop)
{
    struct env was = fake->env;
    struct fn_error e = ERR_INIT;
    struct plugin *p = NULL;

    fake->env.enter = enter;
    fake->env.leave = leave;
    plugin_host_on_release(h, "fn.wake", true, on_loop_release);
    plugin_beside_begin();
    ck_assert_int_lt(start(sample_path("create-fails"), "sample", &p, &e), 0);
    plugin_beside_end();
    ck_assert_int_eq(releases, 1);
    ck_assert_int_eq(releases_on_loop, 1);
    teardown();
    setup();
    fake->env.enter = enter;
    fake->env.leave = leave;
    plugin_host_on_release(h, "fn.wake", true, on_loop_release);
    ck_assert_int_eq(start(sample_path("good"), "sample", &p, &e), 0);
    plugin_beside_begin();
    plugin_retire(p);
    plugin_destroy(p);
    plugin_beside_end();
    ck_assert_int_ge(releases, 2);
    ck_assert_int_eq(releases_on_loop, releases);
    ck_assert_int_eq(loops, 0);
    plugin_host_on_release(h, "fn.wake", false, on_loop_release);
    ck_assert_int_eq(start(sample_path("good"), "sample", &p, &e), 0);
    releases_on_loop = 0;
    plugin_beside_begin();
    plugin_retire(p);
    plugin_destroy(p);
    plugin_beside_end();
    ck_assert_int_eq(releases_on_loop, 0);
    fake->env = was;
}
END_TEST

TCase *start_tests(void)
{
    TCase *t = tcase_create("start");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, create_runs_aside);
    tcase_add_test(t, create_that_never_returns);
    tcase_add_test(t, a_flood_of_words_is_cut_and_made_harmless);
    tcase_add_test(t, what_the_host_holds_for_it_is_let_go);
    tcase_add_test(t, beside_the_loop_it_is_let_go_as_the_loop);
    return t;
}
