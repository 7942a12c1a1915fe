/* Instances, host tables, breadcrumbs. */
#include "testing.h"

#include <base/log.h>
#include <base/metric.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct fake_env *fake;
static struct plugin_host *h;
static struct plugin *p;

static struct plugin *make(const char *sample, const char *name, struct fn_error *e)
{
    struct plugin_file *f = NULL;
    struct plugin *ret = NULL;
    struct conf_problems problems;
    struct conf_values *values = NULL;
    const struct fn_factory *factory;

    ck_assert_msg(plugin_file_open(h, sample_path(sample), &f, e) == 0, "%s", e->msg);
    factory = plugin_file_factory(f, "placer", "sample");
    conf_problems_init(&problems);
    ck_assert_int_eq(conf_bind(NULL, NULL, name, factory->opts, factory->conf_size, NULL, NULL,
                               &values, &problems), 0);
    conf_problems_finish(&problems);
    if (plugin_create(h, f, factory, name, values, &ret, e) < 0) {
        return NULL;
    }
    return ret;
}

static char releases[8]; /* of "one" and of what failed: whether there was an instance */

static void on_release(void *impl, const struct fn_host *host)
{
    size_t n = strlen(releases);

    ck_assert_str_eq(impl, "the impl");
    ck_assert_uint_lt(n, sizeof(releases) - 1);
    releases[n] = plugin_inst(plugin_of(host)) ? 'y' : 'n';
}

static void setup(void)
{
    struct fn_error e = ERR_INIT;

    fake = fake_env_create();
    h = plugin_host_create(&fake->env);
    plugin_host_offer(h, "fn.wake", 1, 3, "the table", "the impl");
    plugin_host_offer(h, "fn.snap", 1, 0, "snap", NULL);
    p = make("good", "one", &e);
    ck_assert_msg(p != NULL, "%s", e.msg);
}

static void teardown(void)
{
    plugin_destroy(p);
    plugin_host_destroy(h);
    ck_assert_uint_eq(fake->timers.n, 0);
    fake_env_destroy(fake);
}

/* The first member of an instance is what the plugin sees. */
static const struct fn_host *host_of(const struct plugin *of)
{
    return (const struct fn_host *)(const void *)of;
}

static const struct fn_host *host(void)
{
    return host_of(p);
}

static void expect_create(const char *sample, int code, const char *text)
{
    struct fn_error e = ERR_INIT;

    ck_assert_ptr_null(make(sample, "two", &e));
    ck_assert_str_eq(e.msg, text);
    ck_assert_int_eq(e.code, code);
}

START_TEST(create_refused)
{
    static const struct {
        const char *sample;
        int code;
        const char *text;
    } cases[] = {
        { "create-fails", FN_E_UNAVAILABLE, "PLG915 two: placer/sample: no licence key" },
        { "create-empty", FN_E_INTERNAL,
          "PLG917 two: placer/sample: create() returned 0 and no instance; expected 0 and an "
          "instance" },
        { "create-positive", FN_E_INTERNAL,
          "PLG917 two: placer/sample: create() returned 3 and no instance; expected 0 and an "
          "instance" },
        { "create-code", FN_E_INTERNAL,
          "PLG917 two: placer/sample: create() returned -99; expected 0 or FN_E_*" },
        { "need-absent", FN_E_PRECONDITION,
          "PLG904 two: placer/sample: needs host interface fn.proc 1.0; this node offers none" },
    };

    plugin_destroy(p);
    p = NULL;
    plugin_host_destroy(h);
    h = plugin_host_create(&fake->env);
    expect_create(cases[_i].sample, cases[_i].code, cases[_i].text);
    ck_assert_uint_eq(fake->timers.n, 0); /* what it took was released */
}
END_TEST

START_TEST(releases_know_whether_there_is_an_instance)
{
    struct fn_error e = ERR_INIT;

    plugin_host_on_release(h, "fn.wake", false, on_release);
    plugin_host_again(h); /* the sample has the factory of the one that there is */
    ck_assert_ptr_null(make("create-fails", "two", &e));
    ck_assert_str_eq(releases, "n");
    plugin_destroy(p);
    ck_assert_str_eq(releases, "nyn");
    p = NULL;
}
END_TEST

START_TEST(create_floods)
{
    struct fn_error e = ERR_INIT;

    plugin_destroy(p);
    p = NULL;
    plugin_host_destroy(h);
    h = plugin_host_create(&fake->env);
    ck_assert_ptr_null(make("create-floods", "two", &e));
    ck_assert_msg(strncmp(e.msg, "PLG915 two: placer/sample: \\x1b\\x1b", 34) == 0, "%s", e.msg);
    ck_assert_uint_lt(strlen(e.msg), FN_ERROR_TEXT_MAX);
    ck_assert_ptr_null(strchr(e.msg, '\x1b'));
}
END_TEST

START_TEST(tables_are_whole)
{
    const struct fn_host *t = host();

    ck_assert_uint_eq(t->hdr.size, sizeof(struct fn_host));
    ck_assert_uint_eq(t->hdr.magic, FN_MAGIC_HOST);
    ck_assert_uint_eq(t->clock->hdr.magic, FN_MAGIC_CLOCK);
    ck_assert_uint_eq(t->timer->hdr.magic, FN_MAGIC_TIMER);
    ck_assert_uint_eq(t->log->hdr.magic, FN_MAGIC_LOG);
    ck_assert_uint_eq(t->metric->hdr.magic, FN_MAGIC_METRIC);
    ck_assert_uint_eq(t->rng->hdr.magic, FN_MAGIC_RNG);
    ck_assert_int_eq(t->clock->now_ns(t), fake->now);
    ck_assert_int_gt(t->clock->wall_ns(t), 0);
    ck_assert_ptr_eq(plugin_of(t), p);
    ck_assert_str_eq(plugin_name(p), "one");
    ck_assert_ptr_nonnull(plugin_inst(p));
    ck_assert_ptr_eq(plugin_ops(p), plugin_factory(p)->ops);
}
END_TEST

START_TEST(only_listed_interfaces)
{
    ck_assert_str_eq(host()->get(host(), "fn.wake", 1), "the table");
    ck_assert_ptr_null(host()->get(host(), "fn.wake", 2));
    ck_assert_ptr_null(host()->get(host(), "fn.snap", 1));
    ck_assert_ptr_null(host()->get(host(), NULL, 1));
    ck_assert_str_eq(plugin_impl(host(), "fn.wake"), "the impl");
    ck_assert_ptr_null(plugin_impl(host(), "fn.http"));
}
END_TEST

static int fired;
static uint64_t to_cancel;

static void on_timer(void *ud)
{
    const struct plugin_crumb *c = plugin_current();

    ck_assert_ptr_nonnull(c);
    ck_assert_ptr_eq(c->plugin, p);
    ck_assert_int_eq(c->context, PLUGIN_LOOP);
    ck_assert_str_eq(c->method, "timer");
    fired = fired * 10 + (int)(intptr_t)ud;
    if (to_cancel) {
        host()->timer->cancel(host(), to_cancel);
    }
}

START_TEST(timers)
{
    const struct fn_timer_if *t = host()->timer;
    uint64_t a;
    uint64_t b;
    uint64_t c;

    fired = 0;
    ck_assert_int_eq(t->arm(host(), fake->now + 1000, on_timer, (void *)2, &b), 0);
    ck_assert_int_eq(t->arm(host(), fake->now + 500, on_timer, (void *)1, &a), 0);
    ck_assert_int_eq(t->arm(host(), fake->now + 8000, on_timer, (void *)9, &c), 0);
    ck_assert_uint_ne(a, b);
    fake_env_advance(fake, 400);
    ck_assert_int_eq(fired, 0);
    fake_env_advance(fake, 700);
    ck_assert_int_eq(fired, 12);
    t->cancel(host(), a); /* stale: harmless */
    t->cancel(host(), 12345);
    to_cancel = c;
    t->arm(host(), fake->now + 100, on_timer, (void *)3, &a);
    fake_env_advance(fake, 100000);
    ck_assert_int_eq(fired, 123);
    ck_assert_int_eq(t->arm(host(), 1, NULL, NULL, &a), FN_E_INVALID);
    t->arm(host(), INT64_MAX, on_timer, NULL, &a); /* teardown releases it */
    ck_assert_uint_eq(fake->timers.n, 1);
    ck_assert_ptr_null(plugin_current());
}
END_TEST

/* Made and ended beside the loop: timers wait, and are gone before destroy() may run elsewhere. */
START_TEST(beside_the_loop)
{
    struct fn_error e = ERR_INIT;
    const struct fn_timer_if *t = host()->timer;
    struct plugin *first = p;
    struct plugin_crumb crumb;
    uint64_t id;

    fired = 0;
    to_cancel = 0;
    plugin_beside_begin();
    p = make("good", "two", &e);
    plugin_beside_end();
    ck_assert_msg(p != NULL, "%s", e.msg);
    plugin_enter(&crumb, p, PLUGIN_INIT, "create");
    ck_assert(plugin_is_beside());
    plugin_leave(&crumb);
    plugin_enter(&crumb, first, PLUGIN_INIT, "create");
    ck_assert(!plugin_is_beside());
    plugin_leave(&crumb);
    ck_assert_int_eq(t->arm(host(), fake->now + 1000, on_timer, (void *)1, &id), 0);
    fake_env_advance(fake, 5000);
    ck_assert_uint_eq(fake->timers.n, 0);
    ck_assert_int_eq(fired, 0);
    plugin_go(p);
    fake_env_advance(fake, 1);
    ck_assert_int_eq(fired, 1);
    ck_assert_int_eq(t->arm(host(), INT64_MAX, on_timer, (void *)1, &id), 0);
    ck_assert_uint_eq(fake->timers.n, 1);
    plugin_retire(p);
    ck_assert_uint_eq(fake->timers.n, 0);
    plugin_beside_begin();
    plugin_destroy(p);
    plugin_beside_end();
    p = first;
}
END_TEST

/* Two files with the same factory are refused in one reading of the configuration only. */
START_TEST(the_same_factory_in_the_next_reading)
{
    struct plugin_file *good = NULL;
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(plugin_file_open(h, sample_path("good"), &good, &e), 0);
    ck_assert_int_eq(plugin_file_open(h, sample_path("good-tail"), &f, &e), FN_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG916"));
    plugin_host_again(h);
    ck_assert_msg(plugin_file_open(h, sample_path("good-tail"), &f, &e) == 0, "%s", e.msg);
    ck_assert_ptr_ne(f, good);
    plugin_host_again(h);
    f = NULL;
    ck_assert_int_eq(plugin_file_open(h, sample_path("good"), &f, &e), 0);
    ck_assert_ptr_eq(f, good); /* nothing is mapped twice */
    ck_assert(plugin_is_same(p, good, plugin_factory(p), "one", NULL) ==
              !plugin_factory(p)->conf_size);
    ck_assert(!plugin_is_same(p, good, plugin_factory(p), "two", NULL));
}
END_TEST

/* Written over in place with another of its size, its time of change kept, as cp -p does. */
START_TEST(another_file_of_the_same_size_and_time)
{
    const char *path = sample_copy("good-tail");
    struct plugin_file *f = NULL;
    struct fn_error e = ERR_INIT;
    struct stat before, after;
    size_t len;
    char *bytes = read_file(path, &len);
    FILE *file;

    ck_assert_int_eq(stat(path, &before), 0);
    plugin_host_again(h);
    ck_assert_msg(plugin_file_open(h, path, &f, &e) == 0, "%s", e.msg);
    bytes[0] = 'x';
    file = fopen(path, "r+");
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    fclose(file);
    free(bytes);
    do {
        ck_assert_int_eq(utimensat(AT_FDCWD, path,
                                   (struct timespec[]){ before.st_atim, before.st_mtim }, 0), 0);
        ck_assert_int_eq(stat(path, &after), 0);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    plugin_host_again(h);
    ck_assert_int_lt(plugin_file_open(h, path, &f, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.msg, "PLG906"));
}
END_TEST

START_TEST(metrics_are_init_only_and_named)
{
    struct buf out = BUF_INIT(0);
    uint32_t id = 0;

    ck_assert_int_eq(host()->metric->declare(host(), "late", FN_METRIC_COUNTER, &id),
                     FN_E_PRECONDITION);
    host()->metric->add(host(), 0, 5); /* "things", declared by create */
    host()->metric->add(host(), 99, 5);
    ck_assert_int_eq(metric_print(&out), 0);
    ck_assert_ptr_nonnull(
        strstr(buf_text(&out), "fn_plugin_placer_sample_things{instance=\"one\"} 5"));
    buf_finish(&out);
}
END_TEST

START_TEST(chance_is_a_stream_of_its_own)
{
    struct fn_error e = ERR_INIT;
    uint64_t first = host()->rng->u64(host());
    uint64_t second = host()->rng->u64(host());
    struct plugin *other;

    ck_assert_uint_ne(first, second);
    plugin_destroy(p);
    plugin_host_destroy(h);
    fake_env_destroy(fake);
    fake = fake_env_create();
    h = plugin_host_create(&fake->env);
    plugin_host_offer(h, "fn.wake", 1, 3, "the table", "the impl");
    other = make("good", "another", &e);
    p = make("good", "one", &e);
    ck_assert_uint_ne(host()->rng->u64(host_of(other)), first);
    ck_assert_uint_eq(host()->rng->u64(host()), first); /* the other one shifted nothing */
    ck_assert_uint_eq(host()->rng->u64(host()), second);
    plugin_destroy(other);
}
END_TEST

/* A manager took a pool that a reload made anew for the last one, and heard old words. */
START_TEST(the_next_instance_of_a_name_draws_something_else)
{
    struct fn_error e = ERR_INIT;
    uint64_t first = host()->rng->u64(host());
    struct plugin *next = make("good", "one", &e);
    uint64_t second = host()->rng->u64(host_of(next));

    plugin_destroy(p);
    p = make("good", "one", &e);
    ck_assert_uint_ne(second, first);
    ck_assert_uint_ne(host()->rng->u64(host()), first);
    plugin_destroy(next);
}
END_TEST

START_TEST(without_env_tables_are_harmless)
{
    struct fn_error e = ERR_INIT;
    uint64_t id;

    plugin_destroy(p);
    plugin_host_destroy(h);
    h = plugin_host_create(NULL);
    p = make("good", "one", &e);
    ck_assert_msg(p != NULL, "%s", e.msg);
    ck_assert_int_eq(host()->clock->now_ns(host()), 0);
    ck_assert_int_eq(host()->clock->wall_ns(host()), 0);
    ck_assert_int_eq(host()->timer->arm(host(), 1, on_timer, NULL, &id), FN_E_UNAVAILABLE);
    ck_assert_int_eq(host()->timer->cancel(host(), 1), 0);
    ck_assert_uint_ne(host()->rng->u64(host()), host()->rng->u64(host()));
    plugin_bad_answer(p, "nothing");
}
END_TEST

START_TEST(breadcrumbs_nest)
{
    struct plugin_crumb outer;
    struct plugin_crumb inner;
    uint64_t calls = plugin_calls(p);

    ck_assert_ptr_null(plugin_current());
    plugin_enter(&outer, p, PLUGIN_LOOP, "decide");
    plugin_enter(&inner, p, PLUGIN_WORKER, "create");
    ck_assert_str_eq(plugin_current()->method, "create");
    plugin_leave(&inner);
    ck_assert_str_eq(plugin_current()->method, "decide");
    plugin_leave(&outer);
    ck_assert_ptr_null(plugin_current());
    ck_assert_uint_eq(plugin_calls(p), calls + 2);
}
END_TEST

static int64_t real_now_ns(struct env *e)
{
    struct timespec t;

    (void)e;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * ENV_S + t.tv_nsec;
}

static void spin(int64_t ns)
{
    int64_t until = real_now_ns(NULL) + ns;

    while (real_now_ns(NULL) < until) {
    }
}

START_TEST(slow_calls_are_counted)
{
    struct plugin_crumb crumb;
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;

    plugin_destroy(p);
    plugin_host_destroy(h);
    fake->env.now_ns = real_now_ns;
    h = plugin_host_create(&fake->env);
    p = make("good", "slow", &e);
    spin(30 * ENV_MS); /* the tick rate needs a while to be known */
    plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
    plugin_leave(&crumb);
    ck_assert_uint_eq(plugin_budget_misses(p), 0);
    plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
    spin(3 * ENV_MS);
    plugin_leave(&crumb);
    ck_assert_uint_eq(plugin_budget_misses(p), 1);
    plugin_enter(&crumb, p, PLUGIN_WORKER, "create"); /* may block */
    spin(3 * ENV_MS);
    plugin_leave(&crumb);
    ck_assert_uint_eq(plugin_budget_misses(p), 1);
    ck_assert_int_eq(metric_print(&out), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out),
                                 "fn_plugin_budget_misses{plugin=\"slow\",kind=\"placer\",method=\"decide\"} 1"));
    buf_finish(&out);
    plugin_host_budget(h, 0);
    plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
    spin(3 * ENV_MS);
    plugin_leave(&crumb);
    ck_assert_uint_eq(plugin_budget_misses(p), 1);
    plugin_destroy(p);
    p = NULL;
    plugin_host_destroy(h);
    h = plugin_host_create(NULL);
}
END_TEST

/* A call that is longer than the host is old: a step of the loop that hangs soon after a start. */
START_TEST(who_hangs_is_told_with_its_time)
{
    struct plugin_crumb crumb;
    struct plugin_busy busy;
    struct fn_error e = ERR_INIT;
    int64_t begun_ns, least_ns;

    plugin_destroy(p);
    plugin_host_destroy(h);
    fake->env.now_ns = real_now_ns;
    h = plugin_host_create(&fake->env);
    p = make("good", "slow", &e);
    spin(30 * ENV_MS);
    begun_ns = real_now_ns(NULL);
    plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
    spin(120 * ENV_MS);
    least_ns = real_now_ns(NULL) - begun_ns;
    ck_assert(plugin_host_busy(h, &busy));
    ck_assert_int_ge(busy.for_ns, least_ns * 9 / 10);
    ck_assert_int_le(busy.for_ns, (real_now_ns(NULL) - begun_ns) * 11 / 10);
    plugin_leave(&crumb);
    plugin_destroy(p);
    p = NULL;
    plugin_host_destroy(h);
    h = plugin_host_create(NULL);
}
END_TEST

/* The name outlives the instance, and one series is all that a name has. */
START_TEST(calls_become_histograms)
{
    static const char count[] =
        "fn_plugin_call_seconds_count{plugin=\"timed\",kind=\"placer\",method=\"%s\"} %d\n";
    struct plugin_crumb crumb;
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    char line[200];

    plugin_destroy(p);
    plugin_host_destroy(h);
    fake->env.now_ns = real_now_ns;
    h = plugin_host_create(&fake->env);
    for (int i = 0; i < 2; i++) {
        p = make("good", "timed", &e);
        spin(30 * ENV_MS);
        plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
        spin(2 * ENV_MS);
        plugin_leave(&crumb);
        ck_assert(crumb.missed);
        plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
        plugin_leave(&crumb);
        ck_assert(!crumb.missed);
        plugin_destroy(p);
    }
    ck_assert_int_eq(metric_print(&out), 0);
    snprintf(line, sizeof(line), count, "decide", 4);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), line));
    snprintf(line, sizeof(line), count, "create", 2);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), line));
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "method=\"decide\",le=\"0.001\"} 2\n"));
    buf_finish(&out);
    p = NULL;
    plugin_host_destroy(h);
    h = plugin_host_create(NULL);
}
END_TEST

START_TEST(slow_ones_rest)
{
    plugin_was_slow(p);
    plugin_was_slow(p);
    fake_env_advance(fake, 11 * ENV_S);
    plugin_was_slow(p);
    plugin_was_slow(p);
    ck_assert(!plugin_rests(p));
    plugin_was_slow(p);
    ck_assert(plugin_rests(p));
    fake_env_advance(fake, 30 * ENV_S);
    ck_assert(!plugin_rests(p));
}
END_TEST

START_TEST(host_calls_suspend)
{
    struct plugin_crumb crumb;
    struct plugin_crumb *c;

    ck_assert(!plugin_running());
    ck_assert_ptr_null(plugin_suspend("fn.log.write"));
    plugin_resume(NULL);
    plugin_enter(&crumb, p, PLUGIN_LOOP, "decide");
    ck_assert(plugin_running());
    c = plugin_suspend("fn.log.write");
    ck_assert(!plugin_running());
    ck_assert_ptr_eq(plugin_current(), &crumb);
    ck_assert_str_eq(plugin_current()->host_call, "fn.log.write");
    ck_assert_ptr_null(plugin_suspend("fn.clock.now")); /* inner: no effect */
    plugin_resume(NULL);
    ck_assert(!plugin_running());
    plugin_resume(c);
    ck_assert(plugin_running());
    host()->log->write(host(), FN_LOG_INFO, "x", 1);
    ck_assert(plugin_running());
    plugin_leave(&crumb);
}
END_TEST

START_TEST(log_lines_of_a_plugin_are_limited)
{
    struct metric *left_out = metric_simple("fn_log_suppressed_lines", METRIC_COUNTER, "");
    uint32_t level = log_level();

    log_set_level(FN_LOG_WARN);
    for (int i = 0; i < LOG_GATE_LINES + 200; i++) {
        host()->log->write(host(), FN_LOG_WARN, "x", 1);
    }
    ck_assert_int_eq(metric_value(left_out), 200);
    for (int i = 0; i < LOG_GATE_LINES + 300; i++) {
        ck_assert_ptr_null(host()->get(host(), "fn.unknown", 1));
    }
    ck_assert_int_eq(metric_value(left_out), 500);
    log_set_level(level);
}
END_TEST

/* What the inner call left behind cannot be repaired: named, then the end. */
START_TEST(jumping_out_is_the_end)
{
    struct plugin_crumb outer;
    struct plugin_crumb inner;

    plugin_enter(&outer, p, PLUGIN_LOOP, "start");
    plugin_enter(&inner, p, PLUGIN_LOOP, "index_build");
    plugin_leave(&outer);
}
END_TEST

START_TEST(bad_answers_are_counted)
{
    struct buf out = BUF_INIT(0);

    plugin_bad_answer(p, "index 9 of 3 runners");
    plugin_bad_answer(p, "index 9 of 3 runners");
    ck_assert_int_eq(metric_print(&out), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "fn_plugin_bad_answers{plugin=\"one\",kind=\"placer\"} 2"));
    buf_finish(&out);
}
END_TEST

START_TEST(create_and_destroy_many)
{
    struct fn_error e = ERR_INIT;
    struct plugin *many;
    int i;

    for (i = 0; i < 1000; i++) {
        many = make("good", "many", &e);
        ck_assert_msg(many != NULL, "%s", e.msg);
        plugin_destroy(many);
    }
    plugin_destroy(NULL);
}
END_TEST

TCase *instance_tests(void)
{
    TCase *t = tcase_create("instance");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, create_refused, 0, 5);
    tcase_add_test(t, releases_know_whether_there_is_an_instance);
    tcase_add_test(t, create_floods);
    tcase_add_test(t, tables_are_whole);
    tcase_add_test(t, only_listed_interfaces);
    tcase_add_test(t, timers);
    tcase_add_test(t, beside_the_loop);
    tcase_add_test(t, the_same_factory_in_the_next_reading);
    tcase_add_test(t, another_file_of_the_same_size_and_time);
    tcase_add_test(t, metrics_are_init_only_and_named);
    tcase_add_test(t, chance_is_a_stream_of_its_own);
    tcase_add_test(t, the_next_instance_of_a_name_draws_something_else);
    tcase_add_test(t, without_env_tables_are_harmless);
    tcase_add_test(t, breadcrumbs_nest);
    tcase_add_test(t, slow_calls_are_counted);
    tcase_add_test(t, who_hangs_is_told_with_its_time);
    tcase_add_test(t, calls_become_histograms);
    tcase_add_test(t, slow_ones_rest);
    tcase_add_test(t, host_calls_suspend);
    tcase_add_test(t, log_lines_of_a_plugin_are_limited);
    tcase_add_test_raise_signal(t, jumping_out_is_the_end, SIGABRT);
    tcase_add_test(t, bad_answers_are_counted);
    tcase_add_test(t, create_and_destroy_many);
    return t;
}
