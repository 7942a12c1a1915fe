/* Packing in order up to the cap, what lies beyond it, refusals, and ends that nobody told
 * about. */
#include "placer_kit.h"

#include "room.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct kit k;

START_TEST(contract)
{
    kit_check_contract(NULL, NULL, (const char *const[]){ NULL }, 1);
    kit_check_contract(NULL, NULL, (const char *const[]){ "cap=1", NULL }, 1);
}
END_TEST

START_TEST(fills_in_order)
{
    KIT_OPEN(&k, "cap=3");
    kit_list(&k, 200);
    k.runners[1].weight = 2;
    k.runners[2].flags = FN_RUNNER_DRAINING;
    kit_publish(&k);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(kit_place(&k, "f"), 0);
    }
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_uint_eq(kit_place(&k, "f"), 1);
    }
    for (uint32_t i = 0; i < 197 * 3; i++) {
        ck_assert_uint_eq(kit_place(&k, "f"), 3 + i / 3);
    }
    ck_assert_str_eq(k.answer.note, "first with room");
    kit_end(&k, "f", 1, FN_DONE_OK);
    kit_end(&k, "f", 130, FN_DONE_FAILED);
    ck_assert_uint_eq(kit_place(&k, "f"), 1);
    ck_assert_uint_eq(kit_place(&k, "f"), 130);
    kit_close(&k);
}
END_TEST

/* Beyond the caps the load is spread, and nobody twice in a round. */
START_TEST(over_the_cap)
{
    KIT_OPEN(&k, "cap=2");
    kit_list(&k, 10);
    for (uint32_t i = 0; i < 20; i++) {
        kit_place(&k, "f");
    }
    for (uint32_t i = 0; i < 50; i++) {
        kit_place(&k, "f");
        ck_assert_str_eq(k.answer.note, "all at their cap");
    }
    for (uint32_t i = 0; i < 10; i++) {
        ck_assert_uint_eq(k.inflight[i], 7);
    }
    for (uint32_t i = 0; i < 10; i++) {
        ck_assert_uint_eq(kit_rounds(&k, "f", i, 1), 1);
    }
    kit_close(&k);
}
END_TEST

/* A runner that takes less than the cap is not asked by every call. */
START_TEST(refusals_count_as_full)
{
    KIT_OPEN(&k, "cap=8");
    kit_list(&k, 100);
    ck_assert_uint_eq(kit_place(&k, "f"), 0);
    kit_call(&k, "f");
    kit_ask(&k, FN_WHY_START);
    ck_assert_uint_eq(k.answer.index, 0);
    kit_ask(&k, FN_WHY_BUSY);
    ck_assert_uint_eq(k.answer.index, 1);
    for (uint32_t i = 0; i < 50; i++) {
        kit_call(&k, "f");
        kit_ask(&k, FN_WHY_START);
        ck_assert_uint_eq(k.answer.index, 1);
    }
    kit_end(&k, "f", 0, FN_DONE_OK);
    ck_assert_uint_eq(kit_place(&k, "f"), 0);
    kit_ask(&k, FN_WHY_BUSY);
    k.now_ns += ROOM_BUSY_NS;
    for (uint32_t i = 0; i < 100 / ROOM_SWEEP; i++) {
        kit_call(&k, "f");
        kit_ask(&k, FN_WHY_START);
    }
    ck_assert_uint_eq(k.answer.index, 0);
    kit_close(&k);
}
END_TEST

/* What the host refuses by itself has no room, though observe() is not told; what a wrapper passed
 * over for one call has what it had. */
START_TEST(refusals_that_are_not_observed)
{
    KIT_OPEN(&k, NULL);
    kit_list(&k, 100);
    k.refuser = KIT_HOST;
    kit_call(&k, "f");
    kit_ask(&k, FN_WHY_START);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(k.answer.index, i);
        kit_ask(&k, FN_WHY_UNREACHABLE);
    }
    kit_call(&k, "f");
    kit_ask(&k, FN_WHY_START);
    ck_assert_uint_eq(k.answer.index, 5);
    k.refuser = KIT_WRAPPER;
    kit_ask(&k, FN_WHY_BUSY);
    ck_assert_uint_eq(k.answer.index, 6);
    kit_call(&k, "f");
    kit_ask(&k, FN_WHY_START);
    ck_assert_uint_eq(k.answer.index, 5);
    kit_close(&k);
}
END_TEST

/* Room that nobody told about is found by and by. */
START_TEST(silent_ends_are_swept)
{
    uint32_t i;

    KIT_OPEN(&k, "cap=1");
    kit_list(&k, 400);
    for (i = 0; i < 400; i++) {
        kit_place(&k, "f");
    }
    k.inflight[7] = 0;
    for (i = 0; i < 400 / ROOM_SWEEP; i++) {
        kit_call(&k, "f");
        kit_ask(&k, FN_WHY_START);
        if (strcmp(k.answer.note, "first with room") == 0) {
            break;
        }
    }
    ck_assert_uint_lt(i, 400 / ROOM_SWEEP);
    ck_assert_uint_eq(k.answer.index, 7);
    kit_close(&k);
}
END_TEST

/* Without memory for an index the same choices are made, only slower. */
START_TEST(without_an_index)
{
    struct kit bare;

    KIT_OPEN(&k, "cap=2");
    KIT_OPEN(&bare, "cap=2", "tries=32");
    kit_list(&k, 30);
    kit_list(&bare, 30);
    bare.ops->index_free(bare.inst, (void *)(uintptr_t)bare.snap.index);
    bare.snap.index = NULL;
    for (uint32_t i = 0; i < 60; i++) {
        ck_assert_uint_eq(kit_place(&k, "f"), kit_place(&bare, "f"));
    }
    for (uint32_t i = 0; i < 30; i++) {
        ck_assert_uint_eq(kit_rounds(&bare, "f", i, 1), 1);
    }
    kit_close(&k);
    kit_close(&bare);
}
END_TEST

START_TEST(bits)
{
    uint64_t seed = 1;
    struct room r;

    KIT_OPEN(&k, NULL);
    kit_list(&k, 10000);
    ck_assert_int_eq(room_init(&r, &k.snap), 0);
    for (uint32_t i = 0; i < 10000; i++) {
        room_clear(&r, i);
    }
    ck_assert_uint_eq(room_find(&r, 0), ROOM_NONE);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t at = (uint32_t)(kit_random(&seed) % 10000);

        room_set(&r, at);
        if (room_find(&r, 0) != at || room_find(&r, at) != at ||
            room_find(&r, at + 1) != ROOM_NONE || !room_has(&r, at)) {
            ck_abort_msg("bit %u is lost", at);
        }
        room_clear(&r, at);
    }
    room_finish(&r);
    kit_close(&k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-first");
    TCase *t = tcase_create("first");
    SRunner *r;
    int failed;

    tcase_add_test(t, contract);
    tcase_add_test(t, fills_in_order);
    tcase_add_test(t, over_the_cap);
    tcase_add_test(t, refusals_count_as_full);
    tcase_add_test(t, refusals_that_are_not_observed);
    tcase_add_test(t, silent_ends_are_swept);
    tcase_add_test(t, without_an_index);
    tcase_add_test(t, bits);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
