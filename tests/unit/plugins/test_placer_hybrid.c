/* Packing and spreading by load, warm runners before cold ones, and the bounds of the table of
 * warm ones. */
#include "placer_kit.h"

#include "decide.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S 1000000000ll

static struct kit k;

START_TEST(contract)
{
    kit_check_contract(NULL, NULL, (const char *const[]){ NULL }, 1);
    kit_check_contract(NULL, NULL, (const char *const[]){ "high=0", NULL }, 1);
    kit_check_contract(NULL, NULL, (const char *const[]){ "cap=1", "high=100", "tries=2", NULL },
                       0);
}
END_TEST

START_TEST(packs_at_low_load)
{
    KIT_OPEN(&k, "cap=4", "high=50");
    kit_list(&k, 10);
    for (uint32_t i = 0; i < 20; i++) { /* half of 10 * 4 */
        ck_assert_uint_eq(kit_place(&k, "f"), i / 4);
        ck_assert_str_eq(k.answer.note, "packed, first with room");
    }
    kit_close(&k);
}
END_TEST

START_TEST(spreads_at_high_load)
{
    uint32_t max = 0;

    KIT_OPEN(&k, "cap=4", "high=50");
    kit_list(&k, 10);
    for (uint32_t i = 0; i < 80; i++) {
        kit_place(&k, "f");
        max = k.inflight[k.answer.index] > max ? k.inflight[k.answer.index] : max;
    }
    ck_assert_str_eq(k.answer.note, "spread, least loaded");
    ck_assert_uint_eq(max, 8); /* exactly even */
    kit_list(&k, 1000);
    max = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        kit_place(&k, "f");
        max = k.inflight[k.answer.index] > max ? k.inflight[k.answer.index] : max;
    }
    ck_assert_uint_le(max, 11); /* of a sample */
    kit_close(&k);
}
END_TEST

START_TEST(goes_where_it_is_warm)
{
    KIT_OPEN(&k, "cap=2");
    kit_list(&k, 10);
    for (uint32_t i = 0; i < 6; i++) {
        kit_place(&k, i == 4 ? "g" : "f"); /* g at 2 */
    }
    kit_end(&k, "g", 2, FN_DONE_OK);
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 4) {
            kit_end(&k, "f", i / 2, FN_DONE_FAILED); /* leaves nothing warm */
        }
    }
    ck_assert_uint_eq(kit_place(&k, "g"), 2);
    ck_assert_str_eq(k.answer.note, "packed, warm");
    ck_assert_uint_eq(kit_place(&k, "g"), 0); /* the one idle container is taken */
    kit_end(&k, "g", 2, FN_DONE_OK);
    kit_end(&k, "g", 0, FN_DONE_FAILED);
    k.now_ns += 31 * S;
    ck_assert_uint_eq(kit_place(&k, "g"), 0); /* cold by now */
    kit_close(&k);
}
END_TEST

/* Idle containers count as full: a cold start beside them would evict one. */
START_TEST(cold_starts_evict_nobody)
{
    KIT_OPEN(&k, "cap=4");
    kit_list(&k, 3);
    for (uint32_t i = 0; i < 4; i++) {
        k.inflight[0]++;
        kit_end(&k, i % 2 ? "f" : "g", 0, FN_DONE_OK);
    }
    ck_assert_uint_eq(kit_place(&k, "h"), 1);
    ck_assert_uint_eq(kit_place(&k, "f"), 0);
    k.now_ns += 31 * S;
    for (uint32_t i = 0; i < WARM_SETS * WARM_WAYS / WARM_SWEEP; i++) {
        kit_call(&k, "other");
        kit_ask(&k, FN_WHY_START);
    }
    ck_assert_uint_eq(k.answer.index, 0); /* by now they are gone */
    kit_close(&k);
}
END_TEST

/* Warmth belongs to runners, not to places in a list. */
START_TEST(warmth_survives_a_new_list)
{
    KIT_OPEN(&k, NULL);
    kit_list(&k, 10);
    k.inflight[7] = 1;
    kit_end(&k, "f", 7, FN_DONE_OK);
    memmove(&k.runners[0], &k.runners[3], 7 * sizeof(k.runners[0]));
    k.snap.n = 7;
    kit_publish(&k);
    ck_assert_uint_eq(kit_place(&k, "f"), 4);
    kit_end(&k, "f", 4, FN_DONE_OK);
    k.runners[4].flags = FN_RUNNER_DRAINING;
    kit_publish(&k);
    ck_assert_uint_eq(kit_place(&k, "f"), 0);
    kit_close(&k);
}
END_TEST

START_TEST(warm_and_high_load)
{
    KIT_OPEN(&k, "high=0");
    kit_list(&k, 4);
    k.inflight[0] = k.inflight[1] = k.inflight[2] = 3;
    k.inflight[3] = 5;
    kit_end(&k, "f", 3, FN_DONE_OK); /* 4: one more than the others */
    ck_assert_uint_eq(kit_place(&k, "f"), 3);
    ck_assert_str_eq(k.answer.note, "spread, warm");
    k.inflight[3] = 6;
    kit_end(&k, "f", 3, FN_DONE_OK);
    ck_assert_uint_ne(kit_place(&k, "f"), 3);
    ck_assert_str_eq(k.answer.note, "spread, least loaded");
    kit_close(&k);
}
END_TEST

START_TEST(a_refusal_is_not_warm)
{
    KIT_OPEN(&k, NULL);
    kit_list(&k, 4);
    for (int i = 0; i < 3; i++) {
        k.inflight[2]++;
        kit_end(&k, "f", 2, FN_DONE_OK);
    }
    kit_call(&k, "f");
    kit_ask(&k, FN_WHY_START);
    ck_assert_uint_eq(k.answer.index, 2);
    kit_ask(&k, FN_WHY_BUSY);
    ck_assert_uint_eq(k.answer.index, 0);
    kit_call(&k, "f");
    kit_ask(&k, FN_WHY_START);
    ck_assert_uint_eq(k.answer.index, 0);
    kit_close(&k);
}
END_TEST

START_TEST(warm_table_is_bounded)
{
    struct warm *w = warm_create(30 * S);
    char id[32];
    uint32_t known = 0;
    uint32_t idle = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(id, sizeof(id), "fn-%u", i);
        for (uint32_t r = 0; r < 12; r++) {
            warm_add(w, warm_hash(id), r + 1, (i + 1) * 1000 + r);
        }
    }
    for (uint32_t i = 0; i < 20000; i++) {
        struct warm_fn *f;

        snprintf(id, sizeof(id), "fn-%u", i);
        f = warm_of(w, warm_hash(id), 20001 * 1000);
        known += f != NULL;
        for (uint32_t p = 0; f && p < WARM_PAIRS; p++) {
            if (f->pair[p].runner < 5) {
                ck_abort_msg("the oldest of 12 runners were kept");
            }
        }
    }
    ck_assert_uint_ge(known, WARM_SETS * WARM_WAYS * 9 / 10);
    ck_assert_uint_le(known, WARM_SETS * WARM_WAYS);
    for (uint32_t r = 0; r < 12; r++) { /* what fell out is not counted any more */
        idle += warm_idle(w, r + 1);
    }
    ck_assert_uint_eq(idle, known * WARM_PAIRS);
    for (uint32_t i = 0; i < WARM_SETS * WARM_WAYS; i++) {
        warm_sweep(w, 100 * S);
    }
    for (uint32_t r = 0; r < 12; r++) {
        ck_assert_uint_eq(warm_idle(w, r + 1), 0);
    }
    free(w);
}
END_TEST

START_TEST(without_an_index)
{
    kit_check_no_index();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-hybrid");
    TCase *t = tcase_create("hybrid");
    SRunner *r;
    int failed;

    tcase_add_test(t, contract);
    tcase_add_test(t, packs_at_low_load);
    tcase_add_test(t, spreads_at_high_load);
    tcase_add_test(t, goes_where_it_is_warm);
    tcase_add_test(t, cold_starts_evict_nobody);
    tcase_add_test(t, warmth_survives_a_new_list);
    tcase_add_test(t, warm_and_high_load);
    tcase_add_test(t, a_refusal_is_not_warm);
    tcase_add_test(t, warm_table_is_bounded);
    tcase_add_test(t, without_an_index);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
