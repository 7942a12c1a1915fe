/* Each runner once a round, rounds that begin anew, draining runners left out, starts spread by
 * chance. */
#include <decide.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define N_MAX 64

static struct fn_runner runners[N_MAX];
static struct fn_snapshot snap;
static struct naive_session session;
static struct fn_call call;

static void make(uint32_t n)
{
    memset(runners, 0, sizeof(runners));
    memset(&session, 0, sizeof(session));
    snap = (struct fn_snapshot){ .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                 .epoch = 7,
                                 .n = n,
                                 .stride = sizeof(struct fn_runner),
                                 .group = "default",
                                 .runners = runners };
}

static struct fn_answer ask(uint32_t why, uint64_t chance)
{
    struct fn_ask a = { .size = sizeof(a), .why = why, .call = &call, .snap = &snap,
                        .session = &session };
    struct fn_answer ret = { .size = sizeof(ret) };

    naive_decide(&session, &a, chance, 1000, &ret);
    return ret;
}

START_TEST(each_runner_once_per_round)
{
    uint32_t start;
    uint32_t i;

    for (start = 0; start < 5; start++) {
        make(5);
        for (i = 0; i < 5; i++) {
            struct fn_answer r = ask(i == 0 ? FN_WHY_START : FN_WHY_BUSY, start);

            ck_assert_uint_eq(r.verdict, FN_TRY);
            ck_assert_uint_eq(r.index, (start + i) % 5);
        }
        ck_assert_uint_eq(ask(FN_WHY_UNREACHABLE, 0).verdict, FN_WAIT);
    }
}
END_TEST

START_TEST(waits_for_pool_and_capacity)
{
    struct fn_answer r;

    make(0);
    r = ask(FN_WHY_START, 99);
    ck_assert_uint_eq(r.verdict, FN_WAIT);
    ck_assert_uint_eq(r.wake_mask, FN_WAKE_POOL | FN_WAKE_CAPACITY);
    ck_assert_int_eq(r.wait_ns, 1000);
}
END_TEST

START_TEST(a_wake_starts_a_new_round)
{
    make(2);
    ck_assert_uint_eq(ask(FN_WHY_START, 0).index, 0);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 0).index, 1);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 0).verdict, FN_WAIT);
    ck_assert_uint_eq(ask(FN_WHY_WAKE, 1).index, 1);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 0).index, 0);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 0).verdict, FN_WAIT);
    ck_assert_uint_eq(ask(FN_WHY_TIMER, 0).verdict, FN_TRY);
}
END_TEST

START_TEST(draining_runners_are_skipped)
{
    make(4);
    runners[1].flags = FN_RUNNER_DRAINING;
    runners[2].flags = FN_RUNNER_DRAINING;
    ck_assert_uint_eq(ask(FN_WHY_START, 1).index, 3);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 0).index, 0);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 0).verdict, FN_WAIT);
    runners[0].flags = runners[3].flags = FN_RUNNER_DRAINING;
    ck_assert_uint_eq(ask(FN_WHY_TIMER, 2).verdict, FN_WAIT);
}
END_TEST

START_TEST(a_new_snapshot_starts_a_new_round)
{
    make(3);
    ck_assert_uint_eq(ask(FN_WHY_START, 2).index, 2);
    snap.epoch = 8;
    snap.n = 1;
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 5).index, 0);
    ck_assert_uint_eq(ask(FN_WHY_BUSY, 5).verdict, FN_WAIT);
}
END_TEST

START_TEST(starts_spread_over_all_runners)
{
    uint32_t seen[N_MAX] = { 0 };
    uint64_t i;

    make(10);
    for (i = 0; i < 1000; i++) {
        memset(&session, 0, sizeof(session));
        seen[ask(FN_WHY_START, i * 0x9e3779b97f4a7c15u).index]++;
    }
    for (i = 0; i < 10; i++) {
        ck_assert_uint_ge(seen[i], 50);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-naive");
    TCase *t = tcase_create("decide");
    SRunner *r;
    int failed;

    tcase_add_test(t, each_runner_once_per_round);
    tcase_add_test(t, waits_for_pool_and_capacity);
    tcase_add_test(t, a_wake_starts_a_new_round);
    tcase_add_test(t, draining_runners_are_skipped);
    tcase_add_test(t, a_new_snapshot_starts_a_new_round);
    tcase_add_test(t, starts_spread_over_all_runners);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
