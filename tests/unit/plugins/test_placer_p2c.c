/* How even two choices are against one, shares by weight, and the end of tries. */
#include "placer_kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct kit k;

START_TEST(contract)
{
    kit_check_contract(NULL, NULL, (const char *const[]){ NULL }, 1);
    kit_check_contract(NULL, NULL, (const char *const[]){ "tries=1", NULL }, 0);
}
END_TEST

/* Balls into bins: the longest queue of two choices is far below that of one. */
START_TEST(two_choices_beat_one)
{
    uint32_t max = 0;

    KIT_OPEN(&k, NULL);
    kit_list(&k, 1000);
    for (int i = 0; i < 10000; i++) {
        kit_place(&k, "f");
    }
    for (int i = 0; i < 1000; i++) {
        max = k.inflight[i] > max ? k.inflight[i] : max;
    }
    ck_assert_uint_le(max, 13); /* mean 10; one choice gives 22 */
    kit_close(&k);
}
END_TEST

START_TEST(load_follows_weights)
{
    uint64_t light = 0;
    uint64_t heavy = 0;

    KIT_OPEN(&k, NULL);
    kit_list(&k, 100);
    for (int i = 0; i < 100; i += 2) {
        k.runners[i].weight = 3;
    }
    kit_publish(&k);
    for (int i = 0; i < 8000; i++) {
        kit_place(&k, "f");
    }
    for (int i = 0; i < 100; i++) {
        *(i % 2 ? &light : &heavy) += k.inflight[i];
    }
    ck_assert_uint_ge(heavy, light * 27 / 10);
    ck_assert_uint_le(heavy, light * 33 / 10);
    kit_close(&k);
}
END_TEST

START_TEST(the_idle_one_of_two)
{
    KIT_OPEN(&k, NULL);
    kit_list(&k, 2);
    k.inflight[0] = 5;
    for (int i = 0; i < 100; i++) {
        kit_call(&k, "f");
        kit_ask(&k, FN_WHY_START);
        ck_assert_uint_eq(k.answer.index, 1);
    }
    ck_assert(strcmp(k.answer.note, "first of two") == 0 ||
              strcmp(k.answer.note, "second of two") == 0);
    kit_ask(&k, FN_WHY_BUSY);
    ck_assert_uint_eq(k.answer.index, 0);
    ck_assert_str_eq(k.answer.note, "only one left");
    kit_close(&k);
}
END_TEST

START_TEST(tries_are_bounded)
{
    uint32_t tries = 1;

    KIT_OPEN(&k, "tries=5", "retry_delay=250ms");
    kit_list(&k, 100);
    kit_call(&k, "f");
    for (kit_ask(&k, FN_WHY_START); kit_ask(&k, FN_WHY_BUSY) == FN_TRY;) {
        tries++;
    }
    ck_assert_uint_eq(tries, 5);
    ck_assert_int_eq(k.answer.wait_ns, 250000000);
    ck_assert_uint_eq(kit_ask(&k, FN_WHY_WAKE), FN_TRY);
    kit_close(&k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-p2c");
    TCase *t = tcase_create("p2c");
    SRunner *r;
    int failed;

    tcase_add_test(t, contract);
    tcase_add_test(t, two_choices_beat_one);
    tcase_add_test(t, load_follows_weights);
    tcase_add_test(t, the_idle_one_of_two);
    tcase_add_test(t, tries_are_bounded);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
