/* Integer logarithms and variates against the real ones; histograms. */
#include "suites.h"

#include <math.h>
#include <sim/fixed.h>
#include <sim/stats.h>
#include <stdlib.h>

START_TEST(log2_and_exp2_are_near)
{
    struct sim_rng r = sim_rng_make(1, 1);

    fixed_init();
    for (int i = 0; i < 20000; i++) {
        uint64_t x = sim_rng_u64(&r) >> sim_rng_below(&r, 64);
        double got = (double)fixed_log2(x ? x : 1) / (double)Q24_ONE;

        ck_assert_double_le(fabs(got - log2(x ? (double)x : 1)), 1e-6);
    }
    for (int e = -20 * 256; e <= 20 * 256; e++) {
        double want = 1e9 * exp2(e / 256.0);
        double got = (double)fixed_exp2(1000000000, (int64_t)e * 65536);

        ck_assert_double_le(fabs(got - want), want * 1e-6 + 1);
    }
    ck_assert_uint_eq(fixed_exp2(1, 63 * Q24_ONE), UINT64_MAX);
    ck_assert_uint_eq(fixed_exp2(UINT64_MAX, 2 * Q24_ONE), UINT64_MAX);
    ck_assert_uint_eq(fixed_exp2(1000, -80 * Q24_ONE), 0);
    ck_assert_uint_eq(fixed_exp2(0, 5), 0);
    ck_assert_uint_eq(fixed_exp2(1 << 20, -Q24_ONE), 1 << 19);
}
END_TEST

START_TEST(variates_have_their_moments)
{
    enum { N = 200000 };
    struct sim_rng r = sim_rng_make(2, 2);
    double sum = 0, squares = 0, normal = 0, spread = 0, logs = 0;

    fixed_init();
    for (int i = 0; i < N; i++) {
        double x = (double)fixed_exponential(&r, 1000000);
        double z = (double)fixed_normal(&r) / (double)Q24_ONE;

        sum += x;
        squares += x * x;
        normal += z;
        spread += z * z;
        logs += log((double)fixed_lognormal(&r, 1000000000, Q24_ONE) / 1e9);
    }
    ck_assert_double_le(fabs(sum / N - 1e6), 1e4);
    ck_assert_double_le(fabs(squares / N - 2e12), 6e10);
    ck_assert_double_le(fabs(normal / N), 0.01);
    ck_assert_double_le(fabs(spread / N - 1), 0.02);
    ck_assert_double_le(fabs(logs / N), 0.01);
}
END_TEST

/* Equal on every machine and compiler: what the traces stand on. */
START_TEST(variates_are_these)
{
    struct sim_rng r = sim_rng_make(42, 7);

    fixed_init();
    ck_assert_int_eq(fixed_log2(3), 26591258);
    ck_assert_uint_eq(fixed_exp2(1ULL << 40, Q24_ONE / 3), 1385297895890);
    ck_assert_uint_eq(fixed_exponential(&r, 1000000000), 1166304528);
    ck_assert_int_eq(fixed_normal(&r), 19872280);
    ck_assert_uint_eq(fixed_lognormal(&r, 1000000000, Q24_ONE / 2), 3429930039);
}
END_TEST

START_TEST(quantiles_are_of_the_bucket)
{
    struct stats *s = calloc(1, sizeof(*s));

    ck_assert_uint_eq(stats_quantile(s, 500), 0);
    for (uint64_t i = 1; i <= 10000; i++) {
        stats_add(s, i);
    }
    ck_assert_uint_ge(stats_quantile(s, 500), 5000);
    ck_assert_uint_le(stats_quantile(s, 500), 5200);
    ck_assert_uint_ge(stats_quantile(s, 990), 9900);
    ck_assert_uint_eq(stats_quantile(s, 1000), 10000);
    ck_assert_uint_eq(s->sum, 50005000);
    for (uint64_t v = 0; v < 100000; v++) {
        ck_assert_uint_le(stats_bucket(v), stats_bucket(v + 1));
        ck_assert_uint_le(stats_bucket(v + 1) - stats_bucket(v), 1);
    }
    stats_add(s, UINT64_MAX);
    ck_assert_uint_eq(s->max, UINT64_MAX);
    free(s);
}
END_TEST

TCase *model_tests(void)
{
    TCase *t = tcase_create("model");

    tcase_add_test(t, log2_and_exp2_are_near);
    tcase_add_test(t, variates_have_their_moments);
    tcase_add_test(t, variates_are_these);
    tcase_add_test(t, quantiles_are_of_the_bucket);
    return t;
}
