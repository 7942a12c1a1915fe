/* Who moves when runners go or come, shares by weight, the bound on load, and what happens
 * without memory for homes. */
#include "placer_kit.h"

#include "homes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS 4000

static struct kit k;
static uint64_t home[FUNCTIONS]; /* ids */

static const char *name_of(uint32_t f)
{
    static char id[40];

    snprintf(id, sizeof(id), "01M7Y437YSR00040GZYG%06u", f);
    return id;
}

/* Id of the function's home, without load. */
static uint64_t home_of(uint32_t f)
{
    kit_call(&k, name_of(f));
    if (kit_ask(&k, FN_WHY_START) != FN_TRY || strcmp(k.answer.note, "home") != 0) {
        ck_abort_msg("function %u has no home", f);
    }
    return k.runners[k.answer.index].id;
}

static void note_homes(void)
{
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        home[f] = home_of(f);
    }
}

START_TEST(contract)
{
    kit_check_contract(NULL, NULL, (const char *const[]){ NULL }, 1);
    kit_check_contract(NULL, NULL, (const char *const[]){ "tries=32", "bound=400", NULL }, 1);
    kit_check_contract(NULL, NULL, (const char *const[]){ "tries=2", "bound=100", NULL }, 0);
}
END_TEST

/* Functions whose home did not go stay, whichever runner goes; those of the lost one are spread. */
static void check_loss(uint32_t n, uint32_t lost, int drain)
{
    struct fn_runner *all = malloc(n * sizeof(*all));
    uint64_t gone;
    uint32_t to[KIT_RUNNERS_MAX] = { 0 };
    uint32_t moved = 0;

    memcpy(all, k.runners, n * sizeof(*all));
    gone = all[lost].id;
    if (drain) {
        k.runners[lost].flags = FN_RUNNER_DRAINING;
    } else {
        memmove(&k.runners[lost], &k.runners[lost + 1], (n - lost - 1) * sizeof(*all));
        k.snap.n = n - 1;
    }
    kit_publish(&k);
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        uint64_t now = home_of(f);

        if (now != home[f] && home[f] != gone) {
            ck_abort_msg("function %u moved although its runner stayed", f);
        }
        moved += home[f] == gone;
        to[k.answer.index] += home[f] == gone;
    }
    ck_assert_uint_gt(moved, FUNCTIONS / n / 4);
    for (uint32_t i = 0; i < n && n <= 20; i++) {
        ck_assert_uint_le(to[i], moved / (n - 1) * 3 + 12);
    }
    memcpy(k.runners, all, n * sizeof(*all));
    k.snap.n = n;
    kit_publish(&k);
    free(all);
}

START_TEST(no_collateral_moves)
{
    static const uint32_t sizes[] = { 5, 10, 20 };

    for (int i = 0; i < 6; i++) {
        uint32_t n = sizes[i % 3];

        KIT_OPEN(&k, NULL);
        kit_list(&k, n);
        for (uint32_t j = 0; i >= 3 && j < n; j++) {
            k.runners[j].weight = 1 + j % 3;
        }
        kit_publish(&k);
        note_homes();
        for (uint32_t lost = 0; lost < n; lost++) {
            check_loss(n, lost, lost % 2);
        }
        kit_close(&k);
    }
}
END_TEST

/* The same with what is remembered, and after a shuffle. */
START_TEST(large_lists)
{
    uint64_t seed = 5;

    KIT_OPEN(&k, NULL);
    kit_list(&k, 300);
    note_homes();
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        if (home_of(f) != home[f]) { /* remembered by now, or pushed out and found again */
            ck_abort_msg("function %u has two homes", f);
        }
    }
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t j = (uint32_t)(kit_random(&seed) % 300);
        struct fn_runner r = k.runners[i];

        k.runners[i] = k.runners[j];
        k.runners[j] = r;
    }
    kit_publish(&k);
    check_loss(300, 17, 0);
    check_loss(300, 299, 1);
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        if (home_of(f) != home[f]) {
            ck_abort_msg("the order of the list moved function %u", f);
        }
    }
    kit_close(&k);
}
END_TEST

START_TEST(homes_are_even)
{
    uint32_t seen[10] = { 0 };

    KIT_OPEN(&k, NULL);
    kit_list(&k, 10);
    for (uint32_t i = 0; i < 10; i++) {
        k.runners[i].id = i + 1; /* poor ids make good homes too */
    }
    kit_publish(&k);
    for (uint32_t f = 0; f < 100000; f++) {
        home_of(f);
        seen[k.answer.index]++;
    }
    for (uint32_t i = 0; i < 10; i++) {
        ck_assert_uint_ge(seen[i], 9600); /* 4 sigma */
        ck_assert_uint_le(seen[i], 10400);
    }
    kit_close(&k);
}
END_TEST

START_TEST(weights_are_respected)
{
    uint32_t seen[7] = { 0 };
    uint32_t moved = 0;

    KIT_OPEN(&k, NULL);
    kit_list(&k, 7);
    for (uint32_t i = 0; i < 7; i++) {
        k.runners[i].weight = i; /* 0 counts as 1 */
    }
    kit_publish(&k);
    for (uint32_t f = 0; f < 66000; f++) {
        home_of(f);
        seen[k.answer.index]++;
    }
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t want = 3000 * (i ? i : 1);

        ck_assert_uint_ge(seen[i], want - want / 15);
        ck_assert_uint_le(seen[i], want + want / 15);
    }
    note_homes();
    k.runners[2].weight = 8;
    kit_publish(&k);
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        uint64_t now = home_of(f);

        if (now != home[f]) {
            if (now != k.runners[2].id) {
                ck_abort_msg("function %u moved elsewhere than to the heavier one", f);
            }
            moved++;
        }
    }
    ck_assert_uint_gt(moved, FUNCTIONS / 8);
    kit_close(&k);
}
END_TEST

/* One function only: at every moment nobody has more than the bound allows. */
static void check_bound(const char *bound, uint32_t percent, uint32_t n, int weighted)
{
    uint32_t jumps = 0;
    uint64_t weight = 0;

    KIT_OPEN(&k, bound, "least=0");
    kit_list(&k, n);
    for (uint32_t i = 0; i < n; i++) {
        k.runners[i].weight = weighted ? 1 + i % 4 : 1;
        weight += k.runners[i].weight;
    }
    kit_publish(&k);
    for (uint64_t total = 1; total <= 2000; total++) {
        uint32_t i = kit_place(&k, "hot");
        uint64_t most = (percent * total * k.runners[i].weight + 100 * weight - 1) / (100 * weight);

        if (k.inflight[i] > most) {
            ck_abort_msg("%u calls at a runner for %u, of %u", k.inflight[i], (unsigned)most,
                         (unsigned)total);
        }
        jumps += strncmp(k.answer.note, "jump", 4) == 0;
    }
    ck_assert_uint_ge(jumps, 100);
    kit_close(&k);
}

START_TEST(bound_is_respected)
{
    static const uint32_t sizes[] = { 2, 10, 63, 65, 500 };

    for (int i = 0; i < 5; i++) {
        check_bound("bound=125", 125, sizes[i], 0);
        check_bound("bound=100", 100, sizes[i], 0);
        check_bound("bound=150", 150, sizes[i], 1);
        check_bound("bound=400", 400, sizes[i] + 20, 1);
    }
}
END_TEST

/* A few calls are nothing to balance: they stay at home, whatever the mean. */
START_TEST(least_is_always_allowed)
{
    uint32_t most = 0;

    KIT_OPEN(&k, "least=3");
    kit_list(&k, 20);
    k.runners[7].weight = 2;
    kit_publish(&k);
    for (uint32_t f = 0; f < 200; f++) {
        for (uint32_t i = 0; i < 20; i++) {
            k.inflight[i] = 0;
        }
        for (uint32_t i = 0; i < 7; i++) {
            uint32_t at = kit_place(&k, name_of(f));

            most = i == 0 ? 3 * k.runners[at].weight : most;
            if ((strcmp(k.answer.note, "home") == 0) != (i < most)) {
                ck_abort_msg("function %u, call %u: %s", f, i, k.answer.note);
            }
        }
    }
    kit_close(&k);
}
END_TEST

START_TEST(jumps_are_even_and_stay)
{
    static const uint32_t sizes[] = { 50, 1000 };
    static uint32_t seen[1000];
    struct homes *all, *fewer;
    uint32_t moved = 0;

    for (int s = 0; s < 2; s++) {
        uint32_t n = sizes[s];

        KIT_OPEN(&k, NULL);
        kit_list(&k, n);
        memset(seen, 0, sizeof(seen));
        ck_assert_int_eq(homes_create(&k.snap, &all), 0);
        k.snap.n = n - 1;
        ck_assert_int_eq(homes_create(&k.snap, &fewer), 0);
        for (uint32_t f = 0; f < 1000 * n / 10; f++) {
            uint32_t was = homes_jump(all, homes_mix(f), f % 31 + 1);

            seen[was]++;
            if (was != n - 1 && homes_jump(fewer, homes_mix(f), f % 31 + 1) != was) {
                moved++;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_uint_ge(seen[i], s ? 20 : 60);
            ck_assert_uint_le(seen[i], s ? 500 : 145);
        }
        ck_assert_uint_eq(moved, 0);
        homes_destroy(all);
        homes_destroy(fewer);
        kit_close(&k);
    }
}
END_TEST

/* The idle one refuses always, the loaded one would take more: it gets the call. */
START_TEST(refusals_lift_the_bound)
{
    KIT_OPEN(&k, NULL);
    kit_list(&k, 2);
    k.inflight[0] = 50;
    ck_assert_uint_eq(kit_rounds(&k, "f", 0, 1), 1);
    kit_list(&k, 60);
    for (uint32_t i = 0; i < 60; i += 2) {
        k.inflight[i] = 50;
    }
    ck_assert_uint_ne(kit_rounds(&k, "f", 30, 50), 0);
    kit_close(&k);
}
END_TEST

START_TEST(without_an_index)
{
    kit_check_no_index();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("placer-chbl");
    TCase *t = tcase_create("chbl");
    SRunner *r;
    int failed;

    tcase_add_test(t, contract);
    tcase_add_test(t, no_collateral_moves);
    tcase_add_test(t, large_lists);
    tcase_add_test(t, homes_are_even);
    tcase_add_test(t, weights_are_respected);
    tcase_add_test(t, bound_is_respected);
    tcase_add_test(t, least_is_always_allowed);
    tcase_add_test(t, jumps_are_even_and_stay);
    tcase_add_test(t, refusals_lift_the_bound);
    tcase_add_test(t, without_an_index);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
