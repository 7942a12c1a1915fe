/* Placement: bad answers of placers, and the breaker that puts one aside. */
#include "world.h"

#include <stdio.h>

START_TEST(bad_answers)
{
    static const struct fn_answer rows[] = {
        { .verdict = FN_TRY, .index = 1 },
        { .verdict = FN_TRY, .index = UINT32_MAX },
        { .verdict = FN_WAIT, .wait_ns = -1 },
        { .verdict = FN_WAIT, .wake_mask = 1u << 5 },
        { .verdict = 77 },
    };
    struct place_call *a;

    PUBLISH("r1:1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        t.fixed = rows[i];
        a = begin();
        ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
        ck_assert_int_eq(a->error.http_status, 500);
        ck_assert_uint_eq(placer.bad_answers, i + 1);
        leave(a);
    }
    t.fixed.verdict = 0;
    t.result = FN_E_INTERNAL;
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* Why none was tried is told to the caller: at once, or when its time is over. */
START_TEST(the_placer_s_reason)
{
    struct place_call *a;

    PUBLISH("r1:1", "r2:1");
    t.fixed = (struct fn_answer){ .verdict = FN_GIVE_UP, .note = "no runner has\tits labels" };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg,
                     "LB302 busy: the placer tried none of 2: no runner has?its labels");
    leave(a);
    memset(t.fixed.note, 'n', sizeof(t.fixed.note)); /* no end: it is cut, as fn/placer.h says */
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg,
                     "LB302 busy: the placer tried none of 2: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn");
    leave(a);
    t.fixed = (struct fn_answer){ .verdict = FN_WAIT, .wait_ns = INT64_MAX, .note = "patience" };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    fake_env_advance(env, 60 * ENV_S);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB302 busy: the placer tried none of 2: patience");
    leave(a);
}
END_TEST

/* ---- the breaker: `second` decides when `placer` was put aside ------------------------------- */

static struct plugin second;
static uint32_t second_decisions;
static bool second_is_asked_on; /* more than once about a call */

static int second_decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    (void)inst;
    ck_assert(ask->why == FN_WHY_START || (second_is_asked_on && second_decisions > 0));
    second_decisions++;
    ret->verdict = FN_TRY;
    return 0;
}

static void with_fallback(void)
{
    static const struct fn_placer_ops ops = {
        .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
        .decide = second_decide,
    };

    second_decisions = 0;
    second_is_asked_on = false;
    fake_plugin_init(&second, "second", &ops, NULL);
    ck_assert_int_eq(place_set_fallback(place, &second, NULL, NULL), 0);
    PUBLISH("r1:1");
}

static void one_good_call(void)
{
    struct place_call *a = begin();

    ck_assert_int_eq(place_next(a), PLACE_TRY);
    place_ended(a, FN_DONE_OK);
    leave(a);
}

/* A call that meets three bad answers is not lost: it waits a little and the fallback places it. */
START_TEST(breaker_saves_the_call)
{
    struct place_call *a;

    with_fallback();
    t.fixed = (struct fn_answer){ .verdict = 99 };
    a = begin();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(place_next(a), PLACE_PARKED);
        fake_env_advance(env, ENV_S);
    }
    ck_assert_uint_eq(placer.bad_answers, 3);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_uint_eq(second_decisions, 1);
    place_ended(a, FN_DONE_OK);
    leave(a);
}
END_TEST

START_TEST(breaker_opens_for_slow_decisions_and_closes)
{
    with_fallback();
    placer.slow = true;
    one_good_call();
    one_good_call();
    fake_env_advance(env, 11 * ENV_S); /* strikes are forgotten */
    one_good_call();
    one_good_call();
    ck_assert_uint_eq(second_decisions, 0);
    one_good_call(); /* the third: its answer is still taken */
    ck_assert_uint_eq(second_decisions, 0);
    one_good_call();
    ck_assert_uint_eq(second_decisions, 1);
    fake_env_advance(env, 30 * ENV_S); /* trial, failed: twice the pause */
    one_good_call();
    ck_assert_uint_eq(second_decisions, 1);
    one_good_call();
    ck_assert_uint_eq(second_decisions, 2);
    fake_env_advance(env, 59 * ENV_S);
    one_good_call();
    ck_assert_uint_eq(second_decisions, 3);
    placer.slow = false;
    fake_env_advance(env, 1 * ENV_S);
    for (int i = 0; i < 32; i++) {
        one_good_call();
    }
    placer.slow = true; /* trusted again: one strike is not enough */
    one_good_call();
    one_good_call();
    ck_assert_uint_eq(second_decisions, 3);
    placer.slow = false;
}
END_TEST

/* Slow decisions about one call, whose runners are all down: it goes on with the fallback. */
START_TEST(breaker_opens_within_a_round)
{
    const char *list[41] = { NULL };
    char names[40][16];
    struct place_call *a;

    with_fallback();
    second_is_asked_on = true;
    fe.up_at_once = false;
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "d%d:1", i);
        list[i] = names[i];
    }
    publish("default", list);
    placer.slow = true;
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    ck_assert_uint_eq(t.decisions, 3);
    ck_assert_uint_gt(second_decisions, 0);
    placer.slow = false;
    leave(a);
}
END_TEST

/* A bad fallback has nobody behind it; a new placer begins without strikes and fallback. */
START_TEST(breaker_ends_with_its_placer)
{
    struct place_call *a;

    with_fallback();
    placer.slow = true;
    one_good_call();
    one_good_call();
    ck_assert_int_eq(place_set_placer(place, &placer, NULL, NULL), 0);
    for (int i = 0; i < 4; i++) {
        one_good_call();
    }
    ck_assert_uint_eq(second_decisions, 0);
    placer.slow = false;
    t.fixed = (struct fn_answer){ .verdict = 99 };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* A placer that names an unreachable runner for ever does not hold the loop. */
START_TEST(stubborn_placer)
{
    struct place_call *a;

    fe.up_at_once = false;
    PUBLISH("r1:1");
    t.fixed = (struct fn_answer){ .verdict = FN_TRY };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    ck_assert_uint_le(t.decisions, 20);
    leave(a);
}
END_TEST

TCase *distrust_tests(void)
{
    const TTest *const tests[] = {
        bad_answers, the_placer_s_reason, breaker_saves_the_call, breaker_opens_for_slow_decisions_and_closes,
        breaker_opens_within_a_round, breaker_ends_with_its_placer, stubborn_placer,
    };

    return world_case("distrust", tests, sizeof(tests) / sizeof(tests[0]));
}
