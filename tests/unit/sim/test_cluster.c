/* The cluster model: what is conserved, what capacity means, homes, the same seed twice. */
#include "suites.h"

#include <sim/cluster.h>
#include <stdio.h>
#include <string.h>

static struct cluster_result run_with(const char *scenario, const char *plugin,
                                      const struct cluster_options *how, const char *set)
{
    struct cluster_options o = how ? *how : (struct cluster_options){ .seed = 7 };
    struct cluster_result r;
    struct conf_problems p;
    struct fn_error e = ERR_INIT;
    struct scenario *sc = NULL;

    conf_problems_init(&p);
    ck_assert_msg(scenario_load(scenario, &set, set ? 1 : 0, &sc, &p) == 0, "%s",
                  buf_text(&p.text));
    o.path = plugin;
    ck_assert_msg(cluster_run(sc, &o, &r, &p, &e) == 0, "%s %s", e.msg, buf_text(&p.text));
    scenario_destroy(sc);
    conf_problems_finish(&p);
    ck_assert_uint_eq(r.calls, r.placed + r.refused + r.lost);
    ck_assert_uint_le(r.cold, r.placed);
    ck_assert_uint_eq(r.bad_answers, 0);
    return r;
}

static struct cluster_result run(const char *text, const char *plugin)
{
    return run_with(scenario_text(text), plugin, NULL, NULL);
}

START_TEST(one_call_after_the_other_is_cold_once)
{
    struct cluster_result r = run("duration: 10s\n"
                                  "runners: {count: 1, memory: 128MiB, cold_start: 400ms, "
                                  "cold_spread: 0}\n"
                                  "functions: {count: 1, duration: 50ms}\n"
                                  "arrivals: {shape: constant, rate: 1}\n"
                                  "network: {delay: 1ms}\n",
                                  shipped("placer-naive"));

    ck_assert_uint_eq(r.calls, 9);
    ck_assert_uint_eq(r.placed, 9);
    ck_assert_uint_eq(r.cold, 1);
    ck_assert_uint_eq(r.attempts, 9);
    ck_assert_int_ge(r.wait_p50_ns, ENV_MS);
    ck_assert_int_le(r.wait_p50_ns, ENV_MS * 104 / 100);
    ck_assert_int_eq(r.wait_p99_ns, 401 * ENV_MS);
    ck_assert_uint_eq(r.slowdown_p99, 9040); /* (401 + 50 + 1) / 50 */
    ck_assert_uint_eq(r.used, 1);
}
END_TEST

START_TEST(a_full_pool_refuses_and_calls_wait)
{
    /* One container of 100 ms: 10 calls a second; 20 come. */
    struct cluster_result r = run("duration: 20s\n"
                                  "runners: {count: 1, memory: 128MiB, cold_start: 0}\n"
                                  "functions: {count: 1, duration: 100ms}\n"
                                  "arrivals: {shape: constant, rate: 20}\n"
                                  "placement: {timeout: 5s}\n",
                                  shipped("placer-naive"));

    ck_assert_uint_eq(r.calls, 399);
    ck_assert_uint_gt(r.refused, 100);
    ck_assert_uint_le(r.placed, 252);
    ck_assert_uint_gt(r.placed, 150);
    ck_assert_uint_gt(r.busy, 0);
    ck_assert_int_le(r.wait_p99_ns, 5200 * ENV_MS);
}
END_TEST

START_TEST(a_queue_at_the_runner_replaces_refusals)
{
    static const char with_queue[] = "duration: 10s\n"
                                     "runners: {count: 1, memory: 128MiB, cold_start: 0, "
                                     "queue: 1000}\n"
                                     "functions: {count: 2, duration: 100ms}\n"
                                     "arrivals: {shape: constant, rate: 12}\n";
    struct cluster_result r = run(with_queue, shipped("placer-naive"));

    ck_assert_uint_eq(r.busy, 0);
    ck_assert_uint_eq(r.placed, 120);
    ck_assert_int_gt(r.wait_p99_ns, ENV_S);
}
END_TEST

START_TEST(shared_processors_slow_calls_down)
{
    static const char text[] = "duration: 10s\nrunners: {count: 1, cpus: %d, cold_start: 0}\n"
                               "functions: {count: 1, duration: 100ms}\n"
                               "arrivals: {shape: constant, rate: 100}\n";
    char buf[256];
    struct cluster_result free_run, shared;

    snprintf(buf, sizeof(buf), text, 0);
    free_run = run(buf, shipped("placer-naive"));
    snprintf(buf, sizeof(buf), text, 8);
    shared = run(buf, shipped("placer-naive"));
    ck_assert_uint_eq(free_run.calls, shared.calls);
    ck_assert_int_gt(shared.ended_ns, free_run.ended_ns);
}
END_TEST

START_TEST(containers_per_function_and_idle_timeout_count)
{
    struct cluster_result r = run("duration: 10s\n"
                                  "runners: {count: 1, containers_per_function: 1, cold_start: 0, "
                                  "idle_timeout: 500ms}\n"
                                  "functions: {count: 1, duration: 10ms}\n"
                                  "arrivals: {shape: constant, rate: 1}\n",
                                  shipped("placer-naive"));

    ck_assert_uint_eq(r.cold, 9); /* idle for a second in between */
    r = run("duration: 10s\n"
            "runners: {count: 1, containers_per_function: 1, cold_start: 0}\n"
            "functions: {count: 1, duration: 2s}\n"
            "arrivals: {shape: constant, rate: 1}\nplacement: {timeout: 1s}\n",
            shipped("placer-naive"));
    ck_assert_uint_gt(r.refused, 2);
}
END_TEST

START_TEST(a_crash_loses_what_runs_and_no_more)
{
    static const char text[] = "duration: 10s\nrunners: {count: 2, cold_start: 0}\n"
                               "functions: {count: 1, duration: 1s}\n"
                               "arrivals: {shape: constant, rate: 50}\n"
                               "events:\n- {at: 5s, what: %s, runner: 0}\n";
    char buf[256];
    struct cluster_result crash, vanish, leave;

    snprintf(buf, sizeof(buf), text, "crash");
    crash = run(buf, shipped("placer-naive"));
    ck_assert_uint_gt(crash.lost, 10);
    ck_assert_uint_lt(crash.lost, 40);
    snprintf(buf, sizeof(buf), text, "vanish");
    vanish = run(buf, shipped("placer-naive"));
    ck_assert_uint_gt(vanish.lost, crash.lost + 40); /* those sent within the 3 s too */
    snprintf(buf, sizeof(buf), text, "leave");
    leave = run(buf, shipped("placer-naive"));
    ck_assert_uint_eq(leave.lost, 0);
    snprintf(buf, sizeof(buf), text, "drain");
    ck_assert_uint_eq(run(buf, shipped("placer-naive")).lost, 0);
}
END_TEST

START_TEST(runners_come_back_and_join)
{
    struct cluster_result r = run("duration: 10s\nrunners: {count: 1, cold_start: 0}\n"
                                  "functions: {count: 1, duration: 10ms}\n"
                                  "arrivals: {shape: constant, rate: 50}\n"
                                  "events:\n- {at: 3s, what: leave, back_after: 2s}\n"
                                  "- {at: 7s, what: join, count: 3}\n",
                                  shipped("placer-naive"));

    ck_assert_uint_eq(r.placed, 499); /* those without a runner waited */
    ck_assert_uint_eq(r.used, 4);
    ck_assert_int_gt(r.wait_p99_ns, ENV_S);
}
END_TEST

START_TEST(warm_up_and_calls_max)
{
    struct cluster_result r = run("duration: 10s\nwarm_up: 5s\nfunctions: {count: 1}\n"
                                  "arrivals: {shape: constant, rate: 10}\n",
                                  shipped("placer-naive"));

    ck_assert_uint_eq(r.calls, 50);
    ck_assert_uint_eq(r.placed_all, 99);
    ck_assert_uint_eq(r.cold, 0);
    r = run("duration: 10s\ncalls_max: 7\narrivals: {rate: 10}\n", shipped("placer-naive"));
    ck_assert_uint_eq(r.calls, 7);
}
END_TEST

START_TEST(decisions_may_cost_time)
{
    static const char text[] = "duration: 10s\nrunners: {count: 10, memory: 64GiB}\n"
                               "arrivals: {shape: constant, rate: 1000}\nwarm_up: 1s\n"
                               "placement: {decision_cost: %s}\n";
    char buf[256];

    snprintf(buf, sizeof(buf), text, "500us"); /* half of the time between two calls */
    ck_assert_int_le(run(buf, shipped("placer-naive")).wait_p50_ns, 700000);
    snprintf(buf, sizeof(buf), text, "1100us"); /* more than there is: they pile up */
    ck_assert_int_gt(run(buf, shipped("placer-naive")).wait_p99_ns, 800 * ENV_MS);
}
END_TEST

/* Losing the first of 10 runners: the jump hash over positions moves nearly everybody. */
START_TEST(homes_and_collateral_moves)
{
    static const char text[] = "duration: 4s\nrunners: {count: 10}\nfunctions: {count: 1000}\n"
                               "arrivals: {rate: 10}\n"
                               "events:\n- {at: 2s, what: leave, runner: %d}\n";
    char buf[256];
    struct cluster_result r;

    snprintf(buf, sizeof(buf), text, 0);
    r = run(buf, shipped("placer-ch"));
    ck_assert(r.has_homes);
    ck_assert_uint_eq(r.changes, 1);
    ck_assert_uint_eq(r.homes, 1000);
    ck_assert_uint_gt(r.collateral * 100, r.unaffected * 95);
    snprintf(buf, sizeof(buf), text, 9);
    r = run(buf, shipped("placer-ch"));
    ck_assert_uint_eq(r.collateral, 0);
    ck_assert_uint_gt(r.moved, 50);
    ck_assert_uint_eq(r.moved, r.homes - r.unaffected);
    ck_assert(!run(buf, shipped("placer-naive")).has_homes);
}
END_TEST

START_TEST(shapes_bring_their_rate)
{
    static const char *const shapes[] = { "constant", "poisson",
                                          "burst, burst_every: 5s, burst_length: 100ms",
                                          "diurnal, period: 10s" };
    char buf[256];

    for (int i = 0; i < 4; i++) {
        uint64_t calls;

        snprintf(buf, sizeof(buf), "duration: 20s\nrunners: {count: 50, memory: 64GiB}\n"
                                   "arrivals: {rate: 1000, shape: %s}\n", shapes[i]);
        calls = run(buf, shipped("placer-naive")).calls;
        ck_assert_msg(calls > 19000 && calls < 21000, "%s: %llu", shapes[i],
                      (unsigned long long)calls);
    }
}
END_TEST

START_TEST(the_same_seed_is_the_same_run)
{
    static const char *const names[] = { "azure-like", "burst", "churn", "steady" };

    for (int i = 0; i < 4; i++) {
        for (int nasty = 0; nasty < 2; nasty++) {
            struct cluster_options o = { .seed = 11, .nasty = nasty };
            struct cluster_result a = run_with(scenario_file(names[i]), shipped("placer-ch"), &o,
                                               "calls_max=5000");
            struct cluster_result b = run_with(scenario_file(names[i]), shipped("placer-ch"), &o,
                                               "calls_max=5000");

            ck_assert_uint_eq(a.hash, b.hash);
            ck_assert_mem_eq(&a, &b, sizeof(a));
            o.seed = 12;
            b = run_with(scenario_file(names[i]), shipped("placer-ch"), &o, "calls_max=5000");
            ck_assert_uint_ne(a.hash, b.hash);
        }
    }
}
END_TEST

START_TEST(chance_of_the_placer_shifts_nothing_else)
{
    struct cluster_result naive = run_with(scenario_file("steady"), shipped("placer-naive"), NULL,
                                           "calls_max=5000");
    struct cluster_result ch = run_with(scenario_file("steady"), shipped("placer-ch"), NULL,
                                        "calls_max=5000");

    ck_assert_uint_eq(naive.calls, ch.calls);
    ck_assert_uint_ne(naive.hash, ch.hash);
}
END_TEST

static void refused(const char *text, const char *plugin, const char *use, const char *sentence)
{
    struct cluster_options o = { .seed = 1, .path = plugin, .use = use };
    struct cluster_result r;
    struct conf_problems p;
    struct fn_error e = ERR_INIT;
    struct scenario *sc = NULL;

    conf_problems_init(&p);
    ck_assert_int_eq(scenario_load(scenario_text(text), NULL, 0, &sc, &p), 0);
    ck_assert_int_lt(cluster_run(sc, &o, &r, &p, &e), 0);
    ck_assert_msg(strstr(buf_text(&p.text), sentence) || strstr(e.msg, sentence), "%s\n%s%s",
                  sentence, buf_text(&p.text), e.msg);
    scenario_destroy(sc);
    conf_problems_finish(&p);
}

START_TEST(plugins_that_cannot_be_simulated)
{
    refused("{}", sample("threads"), NULL,
            "starts threads (FN_PLUGIN_HAS_THREADS); expected a plugin that leaves threads");
    refused("{}", sample("worker"), NULL, "has 0 placers; expected one");
    refused("{}", shipped("placer-naive"), "nave", "has 0 placers named nave");
    refused("{}", "/nowhere.so", NULL, "/nowhere.so");
    refused("placer: {retry_dellay: 5ms}\n", shipped("placer-naive"), NULL,
            "s.yaml:1:10: unknown key \"retry_dellay\"");
    refused("placer: {retry_delay: 5y}\n", shipped("placer-naive"), NULL, "s.yaml:1:23");
    refused("placer: {x: 1}\n", sample("inside"), NULL, "s.yaml:1:10");
}
END_TEST

START_TEST(bad_answers_are_counted)
{
    struct cluster_options o = { .seed = 1, .path = sample("index-beyond") };
    struct cluster_result r;
    struct conf_problems p;
    struct scenario *sc = NULL;

    conf_problems_init(&p);
    ck_assert_int_eq(scenario_load(scenario_text("duration: 1s\n"), NULL, 0, &sc, &p), 0);
    ck_assert_int_eq(cluster_run(sc, &o, &r, &p, NULL), 0);
    ck_assert_uint_gt(r.bad_answers, 0);
    ck_assert_ptr_nonnull(strstr(r.first_bad, "decide: index, got "));
    ck_assert_uint_eq(r.placed, 0);
    scenario_destroy(sc);
    conf_problems_finish(&p);
}
END_TEST

TCase *cluster_tests(void)
{
    TCase *t = tcase_create("cluster");

    tcase_add_test(t, one_call_after_the_other_is_cold_once);
    tcase_add_test(t, a_full_pool_refuses_and_calls_wait);
    tcase_add_test(t, a_queue_at_the_runner_replaces_refusals);
    tcase_add_test(t, shared_processors_slow_calls_down);
    tcase_add_test(t, containers_per_function_and_idle_timeout_count);
    tcase_add_test(t, a_crash_loses_what_runs_and_no_more);
    tcase_add_test(t, runners_come_back_and_join);
    tcase_add_test(t, warm_up_and_calls_max);
    tcase_add_test(t, decisions_may_cost_time);
    tcase_add_test(t, homes_and_collateral_moves);
    tcase_add_test(t, shapes_bring_their_rate);
    tcase_add_test(t, the_same_seed_is_the_same_run);
    tcase_add_test(t, chance_of_the_placer_shifts_nothing_else);
    tcase_add_test(t, plugins_that_cannot_be_simulated);
    tcase_add_test(t, bad_answers_are_counted);
    return t;
}
