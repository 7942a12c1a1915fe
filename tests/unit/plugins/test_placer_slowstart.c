/* The share of a young runner as it ages, over an inner placer of the test, and that young
 * runners are better than none. */
#include "placer_kit.h"

#include "slow.h"
#include "tries.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define S 1000000000ll

static struct kit k;

/* ---- an inner placer of the test: any runner that was not named in this round ---------------- */

static struct {
    uint64_t seed;
    uint32_t asked;
    uint32_t observed;
    int indexes;
    int give_up;
} t;

static int inner_decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct tries *s = ask->session;
    uint32_t n = ask->snap->n;
    uint32_t from = n ? (uint32_t)(kit_random(&t.seed) % n) : 0;

    if (inst != &t || ask->snap->index != &t) {
        ck_abort_msg("not the inner placer's instance and index");
    }
    if (ask->why == FN_WHY_BUSY && (ask->attempts == 0 || !tries_has(s, ask->last_index))) {
        ck_abort_msg("a refusal of a runner that was not named");
    }
    t.asked++;
    if (tries_starts_round(s, ask)) {
        tries_start(s, ask);
    }
    for (uint32_t i = 0; i < n && s->n < TRIES_MAX; i++) {
        if (tries_may(s, ask->snap, (from + i) % n)) {
            tries_try(s, (from + i) % n, ret);
            memcpy(ret->note, "inner", 6);
            return 0;
        }
    }
    tries_wait(s, 77000000, ret);
    memcpy(ret->note, "inner waits", 12);
    if (t.give_up) {
        ret->verdict = FN_GIVE_UP;
        ret->code = FN_E_UNAVAILABLE;
    }
    return 0;
}

static void inner_observe(void *inst, const struct fn_placed *what)
{
    if (inst != &t || what->snap->index != &t) {
        ck_abort_msg("not the inner placer's instance and index");
    }
    t.observed++;
}

static int inner_index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    (void)snap;
    t.indexes++;
    *ret_index = inst;
    return 0;
}

static void inner_index_free(void *inst, void *index)
{
    (void)inst;
    (void)index;
    t.indexes--;
}

static const struct fn_placer_ops inner_ops = { .hdr =
                                                    FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
                                                .session_size = sizeof(struct tries),
                                                .decide = inner_decide,
                                                .observe = inner_observe,
                                                .index_build = inner_index_build,
                                                .index_free = inner_index_free };

static void setup(void)
{
    memset(&t, 0, sizeof(t));
    t.seed = 9;
}

#define OPEN(...)                                                                                  \
    ck_assert_int_eq(kit_open(&k, &inner_ops, &t,                                                  \
                              (const char *const[]){ "inner=inner", __VA_ARGS__, NULL }, NULL),    \
                     0)

/* n runners, the last `young` of them that old; the others for ever. */
static void list(uint32_t n, uint32_t young, int64_t age_ns)
{
    kit_list(&k, n);
    for (uint32_t i = n - young; i < n; i++) {
        k.runners[i].since_ns = k.now_ns - age_ns;
    }
    kit_publish(&k);
}

/* Calls of 20 000 that the last runner gets. */
static uint32_t share_of_last(void)
{
    uint32_t got = 0;

    for (int i = 0; i < 20000; i++) {
        kit_call(&k, "f");
        if (kit_ask(&k, FN_WHY_START) != FN_TRY) {
            ck_abort_msg("not placed");
        }
        got += k.answer.index == k.snap.n - 1;
    }
    return got;
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(contract)
{
    kit_check_contract(&inner_ops, &t, (const char *const[]){ "inner=inner", NULL }, 1);
    kit_check_contract(&inner_ops, &t,
                       (const char *const[]){ "inner=inner", "floor=0", "window=1h", NULL }, 1);
    ck_assert_int_eq(t.indexes, 0);
}
END_TEST

START_TEST(chances)
{
    const struct slow_options o = { "x", 30 * S, 100 };

    ck_assert_uint_eq(slow_chance(&o, 30 * S, 100 * S), 1000);
    ck_assert_uint_eq(slow_chance(&o, 15 * S, 100 * S), 500);
    ck_assert_uint_eq(slow_chance(&o, 1 * S, 100 * S), 100);
    ck_assert_uint_eq(slow_chance(&o, 0, 100 * S), 100);
    ck_assert_uint_eq(slow_chance(&o, -5 * S, 100 * S), 100);
    ck_assert_uint_eq(slow_chance(&o, 0, 0), 1000); /* all new */
    ck_assert_uint_eq(slow_chance(&o, 4 * S, 5 * S), 800);
    ck_assert_uint_eq(slow_chance(&o, 4 * S, 4 * S), 1000);
}
END_TEST

/* One of ten: with chance c it gets 0.1 c / (0.9 + 0.1 c) of the calls. */
START_TEST(share_grows_with_age)
{
    static const struct {
        int64_t age_ns;
        uint32_t least, most;
    } want[] = { { 0, 150, 300 },          /* floor: 220 */
                 { 15 * S, 930, 1180 },    /* half: 1053 */
                 { 27 * S, 1690, 1950 },   /* nine tenths: 1818 */
                 { 30 * S, 1880, 2120 } }; /* all */
    uint32_t got;

    OPEN("floor=100");
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        list(10, 1, want[i].age_ns);
        got = share_of_last();
        ck_assert_uint_ge(got, want[i].least);
        ck_assert_uint_le(got, want[i].most);
    }
    list(10, 1, 0);
    k.now_ns += 30 * S; /* time passes over the same list */
    ck_assert_uint_ge(share_of_last(), 1880);
    kit_close(&k);
}
END_TEST

START_TEST(nobody_is_held_back_when_all_are_new)
{
    OPEN("floor=0");
    list(10, 10, 1 * S);
    t.asked = 0;
    ck_assert_uint_ge(share_of_last(), 1880);
    ck_assert_uint_eq(t.asked, 20000);
    list(1, 1, 0);
    ck_assert_uint_eq(share_of_last(), 20000);
    /* the old one is draining */
    list(3, 2, 0);
    k.runners[0].flags = FN_RUNNER_DRAINING;
    kit_publish(&k);
    t.asked = 0;
    ck_assert_uint_ge(share_of_last(), 6300);
    ck_assert_uint_eq(t.asked, 20000);
    kit_close(&k);
}
END_TEST

START_TEST(young_ones_are_better_than_waiting)
{
    OPEN("floor=0");
    list(6, 4, 0);
    for (uint32_t willing = 0; willing < 6; willing++) {
        for (int i = 0; i < 50; i++) {
            ck_assert_uint_eq(kit_rounds(&k, "f", willing, 1), 1);
        }
    }
    ck_assert_uint_eq(kit_rounds(&k, "f", UINT32_MAX, 4), 0);
    ck_assert_int_eq(k.answer.wait_ns, 77000000);
    t.give_up = 1;
    kit_call(&k, "f");
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_uint_eq(kit_ask(&k, i ? FN_WHY_BUSY : FN_WHY_START), FN_TRY);
    }
    ck_assert_str_eq(k.answer.note, "slow start, no other left");
    kit_close(&k);
}
END_TEST

START_TEST(questions_are_bounded)
{
    OPEN("floor=0");
    list(1000, 999, 0);
    for (int i = 0; i < 200; i++) {
        t.asked = 0;
        kit_call(&k, "f");
        kit_ask(&k, FN_WHY_START);
        ck_assert_uint_le(t.asked, SLOW_SKIPS_MAX + 1);
    }
    ck_assert_str_eq(k.answer.note, "slow start, skipped 8");
    kit_close(&k);
}
END_TEST

START_TEST(everything_else_is_the_inner_one_s)
{
    OPEN(NULL);
    list(5, 0, 0);
    kit_place(&k, "f");
    ck_assert_str_eq(k.answer.note, "inner");
    kit_end(&k, "f", k.answer.index, FN_DONE_OK);
    ck_assert_uint_eq(t.observed, 1);
    list(0, 0, 0);
    kit_call(&k, "f");
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_START), FN_WAIT);
    ck_assert_str_eq(k.answer.note, "inner waits");
    kit_close(&k);
}
END_TEST

START_TEST(refused)
{
    struct fn_placer_ops large = inner_ops;
    struct fn_error e = { .size = sizeof(e) };

    ck_assert_int_eq(kit_open(&k, NULL, NULL, (const char *const[]){ "inner=naive", NULL }, &e),
                     FN_E_NOT_FOUND);
    ck_assert_str_eq(e.msg, "no placer \"naive\"");
    large.session_size = SLOW_INNER_MAX + 8;
    ck_assert_int_eq(kit_open(&k, &large, &t, (const char *const[]){ "inner=inner", NULL }, &e),
                     FN_E_RANGE);
    ck_assert_str_eq(e.msg,
                     "inner placer \"inner\" keeps 192 bytes per call; expected at most 184");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-slowstart");
    TCase *tc = tcase_create("slowstart");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, contract);
    tcase_add_test(tc, chances);
    tcase_add_test(tc, share_grows_with_age);
    tcase_add_test(tc, nobody_is_held_back_when_all_are_new);
    tcase_add_test(tc, young_ones_are_better_than_waiting);
    tcase_add_test(tc, questions_are_bounded);
    tcase_add_test(tc, everything_else_is_the_inner_one_s);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
