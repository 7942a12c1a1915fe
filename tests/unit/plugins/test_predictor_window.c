/* The desired size second by second: steady, growing, in a burst, with gaps, and with a clock
 * that jumps. */
#include <window.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define S 1000000000LL

static struct window_conf conf;
static struct window_state state;
static int64_t now_s;

static void setup(void)
{
    conf = (struct window_conf){ 60 * S, 10, 200, 100 };
    memset(&state, 0, sizeof(state));
    now_s = 5000;
}

/* Demand for some seconds; the last answer. */
static uint64_t pass(int seconds, uint64_t wanted_mb, uint64_t capacity_mb)
{
    uint64_t desired = 0;

    for (int i = 0; i < seconds; i++, now_s++) {
        const struct fn_load load = { .size = sizeof(load),
                                      .now_ns = now_s * S,
                                      .wanted_mb = wanted_mb,
                                      .capacity_mb = capacity_mb };

        desired = window_predict(&conf, &state, &load);
    }
    return desired;
}

START_TEST(steady_demand_is_what_is_desired)
{
    ck_assert_uint_eq(pass(1, 1000, 1000), 1000);
    ck_assert_uint_eq(pass(100, 1000, 1000), 1000);
}
END_TEST

START_TEST(the_first_call_wants_a_runner_at_once)
{
    pass(120, 0, 0);
    ck_assert_uint_ge(pass(1, 128, 0), 1);
}
END_TEST

START_TEST(small_changes_are_followed_slowly)
{
    pass(60, 1000, 1200);
    ck_assert_uint_le(pass(6, 1200, 1200), 1050);
    ck_assert_uint_eq(pass(60, 1200, 1200), 1200);
    ck_assert_uint_ge(pass(30, 0, 1200), 500);
    ck_assert_uint_eq(pass(60, 0, 1200), 0);
}
END_TEST

START_TEST(a_burst_is_a_panic_and_a_panic_only_grows)
{
    pass(60, 1000, 1000);
    ck_assert_uint_ge(pass(6, 5000, 1000), 4000);
    ck_assert_uint_ge(pass(40, 100, 5000), 4000); /* it holds through the dip */
    ck_assert_uint_le(pass(60, 100, 5000), 1000);
}
END_TEST

START_TEST(utilisation_leaves_room)
{
    conf.utilisation_percent = 80;
    ck_assert_uint_eq(pass(60, 800, 1000), 1000);
}
END_TEST

START_TEST(gaps_and_jumps_of_the_clock_do_no_harm)
{
    pass(60, 1000, 1000);
    now_s += 100000;
    ck_assert_uint_eq(pass(1, 1000, 1000), 1000);
    now_s -= 50;
    ck_assert_uint_eq(pass(1, 700, 1000), 700);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("predictor window");
    TCase *t = tcase_create("window");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, steady_demand_is_what_is_desired);
    tcase_add_test(t, the_first_call_wants_a_runner_at_once);
    tcase_add_test(t, small_changes_are_followed_slowly);
    tcase_add_test(t, a_burst_is_a_panic_and_a_panic_only_grows);
    tcase_add_test(t, utilisation_leaves_room);
    tcase_add_test(t, gaps_and_jumps_of_the_clock_do_no_harm);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
