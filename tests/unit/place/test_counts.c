/* What a call adds to Go Fn's metrics of placement: once, however it goes, placed or not. */
#include "world.h"

#include <base/metric.h>
#include <stdlib.h>

static int64_t count(const char *name)
{
    const struct metric_def def = { .name = name, .help = "" };

    return metric_value(metric_series(metric_declare(&def), NULL));
}

#define ATTEMPTS  count("fn_lb_placer_attempt_count")
#define LATENCIES count("fn_lb_placer_latency")
#define CANCELLED count("fn_lb_placer_client_cancelled_count")
#define ABORTED   count("fn_lb_placer_placed_abort_count")
#define TIMED_OUT count("fn_lb_placer_client_timeout_count")
#define GIVEN_UP  count("fn_lb_placer_timeout_count")
#define NO_POOL   count("fn_lb_placer_rp_error_count")
#define STALE     count("fn_lb_groups_stale")

static void check_each(int64_t calls)
{
    ck_assert_int_eq(ATTEMPTS, calls);
    ck_assert_int_eq(LATENCIES, calls);
}

START_TEST(a_client_that_leaves)
{
    struct place_call *waits = begin();
    struct place_call *runs;

    ck_assert_int_eq(place_next(waits), PLACE_PARKED);
    check_each(0);
    leave(waits);
    ck_assert_int_eq(CANCELLED, 1);
    ck_assert_int_eq(ABORTED, 0); /* nobody had it */
    check_each(1);
    PUBLISH("r1:1");
    runs = begin();
    ck_assert_int_eq(place_next(runs), PLACE_TRY);
    leave(runs);
    ck_assert_int_eq(CANCELLED, 2);
    ck_assert_int_eq(ABORTED, 1);
    check_each(2);
    leave(begin()); /* before it was asked for */
    ck_assert_int_eq(CANCELLED, 3);
    check_each(3);
}
END_TEST

START_TEST(a_call_that_is_given_up)
{
    struct place_call *pc = begin();

    pc->on_wake = ask_again;
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    fake_env_advance(env, 31 * ENV_S);
    ck_assert_int_eq(last_verdict, PLACE_GIVE_UP);
    leave(pc);
    ck_assert_int_eq(GIVEN_UP, 1);
    ck_assert_int_eq(CANCELLED, 0);
    check_each(1);
    t.fixed.verdict = FN_GIVE_UP;
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    leave(pc);
    ck_assert_int_eq(GIVEN_UP, 1);
    ck_assert_int_eq(CANCELLED, 0);
    check_each(2);
}
END_TEST

/* The node ends it: nobody left. */
START_TEST(a_call_that_is_cut)
{
    struct place_call *pc = begin();

    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    pc->answered = true;
    leave(pc);
    ck_assert_int_eq(CANCELLED, 0);
    check_each(1);
}
END_TEST

START_TEST(a_call_that_is_placed)
{
    struct place_call *pc;

    PUBLISH("r1:1", "r2:1");
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    fake_env_advance(env, 500 * ENV_MS);
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    fake_env_advance(env, 10 * ENV_S); /* it runs: no latency of placement */
    end(pc);
    check_each(1);
    ck_assert_int_eq(CANCELLED + ABORTED + TIMED_OUT + GIVEN_UP, 0);
    ck_assert_int_eq(count("fn_lb_placer_placed_ok_count"), 1);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    pc->overdue = true; /* as of a runner that does not end it */
    place_ended(pc, FN_DONE_FAILED);
    free(pc);
    ck_assert_int_eq(TIMED_OUT, 1);
    ck_assert_int_eq(ABORTED, 1);
    ck_assert_int_eq(count("fn_lb_placer_placed_error_count"), 0);
    check_each(2);
}
END_TEST

/* Calls are counted, each once, not refreshes. */
START_TEST(a_pool_that_fails)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_error why = ERR_INIT;
    struct place_call *pc;

    err_set(&why, FN_E_UNAVAILABLE, "no list");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq((snap->fail)(&pool.host, "default", &why), 0);
    }
    ck_assert_int_eq(NO_POOL, 0);
    ck_assert_int_eq(count("fn_lb_pool_refresh_failures_total"), 3);
    ck_assert_int_eq(STALE, 1);
    pc = begin();
    pc->on_wake = ask_again;
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    ck_assert_int_eq(NO_POOL, 1);
    fake_env_advance(env, 31 * ENV_S); /* it is asked again and again */
    ck_assert_int_eq(last_verdict, PLACE_GIVE_UP);
    ck_assert_int_eq(NO_POOL, 1);
    leave(pc);
    PUBLISH("r1:1");
    ck_assert_int_eq(STALE, 0);
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_int_eq(NO_POOL, 1);
    end(pc);
    t.group = ""; /* what no group is called */
    pc = begin();
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    ck_assert_int_eq(NO_POOL, 2);
    leave(pc);
    check_each(3);
}
END_TEST

TCase *counts_tests(void)
{
    const TTest *const tests[] = { a_client_that_leaves, a_call_that_is_given_up,
                                   a_call_that_is_cut, a_call_that_is_placed, a_pool_that_fails };

    return world_case("counts", tests, sizeof(tests) / sizeof(tests[0]));
}
