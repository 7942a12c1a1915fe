/* What containers use: sampled once a second, a batch at a time, and never on the way of a call. */
#include "suites.h"
#include "world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void telling(struct world *w)
{
    w->with_usage = true;
    w->use = (struct fn_usage){ .flags = FN_USAGE_KNOWN,
                                .mem_bytes = 200 * ACCOUNT_MIB,
                                .mem_limit_bytes = 128 * ACCOUNT_MIB,
                                .net_rx_bytes = 7,
                                .disk_write_bytes = 200000 };
    w->opt.freeze_idle_ns = -1; /* as idle as they are, containers stay */
}

/* How many samples a histogram has, and in *ret_sum their sum. */
static int64_t samples_of(const char *name, int64_t *ret_sum)
{
    struct buf page = BUF_INIT(0);
    char line[80];
    const char *at;
    int64_t n = metric_value(metric_series(
        metric_declare(&(struct metric_def){ .name = name, .help = "" }), NULL));

    ck_assert_int_eq(metric_print(&page), 0);
    snprintf(line, sizeof(line), "\n%s_sum ", name);
    at = strstr(buf_text(&page), line);
    ck_assert_ptr_nonnull(at);
    *ret_sum = strtoll(at + strlen(line), NULL, 10);
    buf_finish(&page);
    return n;
}

static void check(const char *name, int64_t n, int64_t sum)
{
    int64_t got_sum;
    int64_t got = samples_of(name, &got_sum);

    ck_assert_msg(got == n && got_sum == sum, "%s: %lld samples of %lld, expected %lld of %lld",
                  name, (long long)got, (long long)got_sum, (long long)n, (long long)sum);
}

START_TEST(each_container_is_in_each_sample)
{
    struct world *w = world_create(telling);

    world_run_ms(w, 5000);
    ck_assert_uint_eq(w->samples, 0); /* nothing runs: nobody is asked */
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 3500);
    ck_assert_uint_eq(w->samples, 3);
    check("fn_docker_stats_mem_usage", 3, 3 * 200LL * (int64_t)ACCOUNT_MIB);
    check("fn_docker_stats_mem_limit", 3, 3 * 128LL * (int64_t)ACCOUNT_MIB);
    check("fn_docker_stats_net_rx", 3, 21);
    check("fn_docker_stats_net_tx", 3, 0);
    check("fn_docker_stats_disk_read", 3, 0);
    check("fn_docker_stats_disk_write", 3, 600000);
    world_destroy(w);
}
END_TEST

/* Percent of one processor, since the sample before. */
START_TEST(processor_time_is_of_the_interval)
{
    struct world *w = world_create(telling);
    int64_t before, after, first;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 1500);
    check("fn_docker_stats_cpu_total", 1, 0);
    w->use.cpu_ns = 1500 * ENV_MS; /* one processor and a half */
    w->use.cpu_user_ns = 1000 * ENV_MS;
    w->use.cpu_kernel_ns = 500 * ENV_MS;
    world_run_ms(w, 1000);
    check("fn_docker_stats_cpu_total", 2, 150);
    check("fn_docker_stats_cpu_user", 2, 100);
    check("fn_docker_stats_cpu_kernel", 2, 50);
    world_run_ms(w, 1000); /* it stands still */
    check("fn_docker_stats_cpu_total", 3, 150);
    w->use.cpu_ns = 0; /* counters that go back are no time */
    world_run_ms(w, 1000);
    check("fn_docker_stats_cpu_total", 4, 150);
    first = samples_of("fn_docker_stats_cpu_total", &before);
    w->opt.container_stats = false;
    runner_set_options(w->r, &w->opt);
    world_run_ms(w, 5000);
    ck_assert_int_eq(samples_of("fn_docker_stats_cpu_total", &after), first);
    world_destroy(w);
}
END_TEST

static void many(struct world *w)
{
    telling(w);
    w->totals = (struct account_totals){ .mem_bytes = 100000 * ACCOUNT_MIB,
                                           .cpu_milli = 400000 };
}

/* More than a batch take turns, and none is left out. */
START_TEST(many_containers_take_turns)
{
    struct world *w = world_create(many);
    char fn[150][32];

    for (int i = 0; i < 150; i++) {
        snprintf(fn[i], sizeof(fn[i]), "fn%d", i);
        world_call(w, (struct call_spec){ .fn = fn[i], .what = "ok", .mem_mb = 64 });
    }
    world_run_ms(w, 2500);
    ck_assert_uint_eq(w->live, 150);
    ck_assert_uint_eq(w->sampled_max, USAGE_BATCH);
    w->sampled = 0;
    world_run_ms(w, 3000); /* 192 of 150: all once, some twice */
    ck_assert_uint_eq(w->live, 150);
    ck_assert_uint_eq(w->sampled, 3 * USAGE_BATCH);
    for (struct container *c = w->r->containers; c; c = c->hh.next) {
        ck_assert_int_gt(c->usage.at_ns, 0);
    }
    world_destroy(w);
}
END_TEST

static void freezing(struct world *w)
{
    telling(w);
    w->opt.freeze_idle_ns = 50 * ENV_MS;
}

/* The driver is asked once after the freeze; then each sample has the same figures and no processor
 * time, until a call thaws it. */
START_TEST(what_is_frozen_is_asked_once)
{
    struct world *w = world_create(freezing);

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 5500);
    ck_assert_uint_eq(w->samples, 1);
    check("fn_docker_stats_mem_usage", 5, 5 * 200LL * (int64_t)ACCOUNT_MIB);
    check("fn_docker_stats_disk_write", 5, 1000000);
    check("fn_docker_stats_cpu_total", 5, 0);
    world_call(w, (struct call_spec){ .what = "ok" });
    w->use.cpu_ns = 515 * ENV_MS; /* the driver takes its time */
    world_run_ms(w, 2000);
    ck_assert_uint_eq(w->samples, 2);
    check("fn_docker_stats_cpu_total", 7, 50);
    world_destroy(w);
}
END_TEST

/* One that hangs is not asked again until it is back, and calls do not notice. */
START_TEST(a_driver_that_is_slow_is_asked_once)
{
    struct world *w = world_create(telling);
    struct engage_session *s;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 500);
    w->slow_ns = 4 * ENV_S;
    world_run_ms(w, 4000);
    ck_assert_uint_le(w->samples, 1);
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 50);
    ck_assert_int_eq(s->finishes, 1);
    w->slow_ns = 20 * ENV_MS;
    world_run_ms(w, 10000);
    world_destroy(w);
}
END_TEST

START_TEST(failures_and_strangers_are_no_samples)
{
    struct world *w = world_create(telling);
    int64_t sum;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 500);
    w->use.flags = 0; /* it has no figures */
    world_run_ms(w, 2000);
    ck_assert_uint_ge(w->samples, 2);
    ck_assert_int_eq(samples_of("fn_docker_stats_mem_usage", &sum), 0);
    w->use.flags = FN_USAGE_KNOWN;
    w->fail_method = "usage";
    w->fails = 2;
    err_set(&w->next_error, FN_E_INTERNAL, "no figures today");
    world_run_ms(w, 2000);
    ck_assert_int_eq(samples_of("fn_docker_stats_mem_usage", &sum), 0);
    world_run_ms(w, 1000);
    ck_assert_int_gt(samples_of("fn_docker_stats_mem_usage", &sum), 0);
    world_destroy(w);
}
END_TEST

/* ---- how containers end ---------------------------------------------------------------------- */

static int64_t ends(const char *status)
{
    static const char *const labels[] = { "api_name", "exit_status", NULL };
    const struct metric_def def = { .name = "fn_docker_exits", .help = "", .labels = labels };
    const char *const values[] = { "docker_wait_container", status };

    return metric_value(metric_series(metric_declare(&def), values));
}

START_TEST(ends_of_containers_are_counted)
{
    struct world *w = world_create(telling);

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 500);
    world_exit(w, world_container(w, CTR_IDLE)->id, FN_EXIT_CODE, 3);
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 500);
    world_exit(w, world_container(w, CTR_IDLE)->id, FN_EXIT_SIGNAL, 11);
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 500);
    world_exit(w, world_container(w, CTR_IDLE)->id, FN_EXIT_OOM, 0);
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 500);
    world_destroy(w); /* removes the last one */
    ck_assert_int_eq(ends("exit_3"), 1);
    ck_assert_int_eq(ends("exit_139"), 1);
    ck_assert_int_eq(ends("exit_137"), 1);
    ck_assert_int_eq(ends("ctx_canceled"), 1);
}
END_TEST

TCase *usage_tests(void)
{
    TCase *tc = tcase_create("usage");

    tcase_add_test(tc, each_container_is_in_each_sample);
    tcase_add_test(tc, processor_time_is_of_the_interval);
    tcase_add_test(tc, many_containers_take_turns);
    tcase_add_test(tc, what_is_frozen_is_asked_once);
    tcase_add_test(tc, a_driver_that_is_slow_is_asked_once);
    tcase_add_test(tc, failures_and_strangers_are_no_samples);
    tcase_add_test(tc, ends_of_containers_are_counted);
    return tc;
}
