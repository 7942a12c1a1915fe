/* Runners that say when they may be asked again. */
#include "world.h"

#include <base/metric.h>
#include <place/place_int.h>
#include <stdio.h>

#define MIB (UINT64_C(1) << 20)

static struct place_call *begin_of(const char *fn, uint64_t mem_mb)
{
    struct place_call *pc = begin();

    pc->view.fn_id = fn;
    pc->group->mem_mb += mem_mb - pc->view.mem_mb;
    pc->view.mem_mb = mem_mb;
    return pc;
}

static void expect_try(struct place_call *pc, const char *address)
{
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    ck_assert_str_eq(pc->address, address);
}

static void refuse(struct place_call *pc, enum engage_reason reason, int64_t ms, uint64_t free_mb)
{
    const struct engage_refusal told = { .reason = reason, .retry_ns = ms * ENV_MS,
                                         .free_mem_bytes = free_mb * MIB };

    pc->told = &told;
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_ptr_null(pc->told);
}

/* r1 refuses a call of `fn`, and the next runner takes it. */
static void be_refused(const char *fn, uint64_t mem_mb, enum engage_reason reason, int64_t ms,
                       uint64_t free_mb)
{
    struct place_call *pc = begin_of(fn, mem_mb);

    expect_try(pc, "r1:1");
    refuse(pc, reason, ms, free_mb);
    expect_try(pc, "r2:1");
    end(pc);
}

static void expect_first(const char *fn, uint64_t mem_mb, const char *address)
{
    struct place_call *pc = begin_of(fn, mem_mb);

    expect_try(pc, address);
    leave(pc);
}

START_TEST(a_runner_is_passed_over_until_the_time_it_told)
{
    struct place_call *pc;

    PUBLISH("r1:1", "r2:1");
    be_refused("f", 128, ENGAGE_REASON_QUEUE, 300, 4096);
    pc = begin_of("f", 128);
    expect_try(pc, "r2:1");
    ck_assert_uint_eq(t.last_why, FN_WHY_BUSY);
    ck_assert_int_eq(t.last_code, FN_E_UNAVAILABLE);
    ck_assert_uint_eq(t.observed[FN_DONE_BUSY], 1); /* the first call's */
    ck_assert_uint_eq(pc->attempts, 2);
    leave(pc);
    expect_first("g", 128, "r1:1"); /* said of f alone */
    fake_env_advance(env, 299 * ENV_MS);
    expect_first("f", 128, "r2:1");
    fake_env_advance(env, 1 * ENV_MS);
    expect_first("f", 128, "r1:1");
}
END_TEST

START_TEST(the_reason_says_whom_it_covers)
{
    static const enum engage_reason of_function[] = {
        ENGAGE_REASON_NONE,  ENGAGE_REASON_QUEUE, ENGAGE_REASON_MEMORY,
        ENGAGE_REASON_ENGINE, ENGAGE_REASON_IMAGE, ENGAGE_REASON_START
    };

    PUBLISH("r1:1", "r2:1");
    for (size_t i = 0; i < sizeof(of_function) / sizeof(of_function[0]); i++) {
        be_refused("f", 128, of_function[i], 300, 0);
        expect_first("f", 128, "r2:1");
        expect_first("g", 4096, "r1:1");
        fake_env_advance(env, 400 * ENV_MS);
    }
    be_refused("f", 1024, ENGAGE_REASON_ROOM, 300, 256); /* those that need more than it has */
    expect_first("f", 1024, "r2:1");
    expect_first("g", 257, "r2:1");
    expect_first("g", 256, "r1:1");
    fake_env_advance(env, 400 * ENV_MS);
    be_refused("f", 128, ENGAGE_REASON_ROOM, 300, 256); /* it lacks something else */
    expect_first("f", 128, "r2:1");
    expect_first("g", 4096, "r1:1");
    fake_env_advance(env, 400 * ENV_MS);
    be_refused("f", 128, ENGAGE_REASON_DRAINING, 300, 4096); /* all */
    expect_first("f", 128, "r2:1");
    expect_first("g", 16, "r2:1");
}
END_TEST

START_TEST(if_all_told_the_first_to_be_free_is_asked)
{
    static const int64_t ms[] = { 900, 300, 600 };
    struct place_call *pc;

    PUBLISH("r1:1", "r2:1", "r3:1");
    pc = begin_of("f", 128);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(place_next(pc), PLACE_TRY);
        refuse(pc, ENGAGE_REASON_QUEUE, ms[i], 0);
    }
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    leave(pc);
    pc = begin_of("f", 128);
    expect_try(pc, "r2:1");
    ck_assert_uint_eq(pc->attempts, 4); /* three were passed over */
    refuse(pc, ENGAGE_REASON_QUEUE, 300, 0);
    t.decisions = 0;
    ck_assert_int_eq(place_next(pc), PLACE_PARKED); /* as the placer had said */
    ck_assert_uint_eq(t.decisions, 0);
    leave(pc);
    fake_engage_up(&fe, "r2:1", false);
    pc = begin_of("f", 128); /* down counts as asked; then r3 */
    expect_try(pc, "r3:1");
    end(pc);
}
END_TEST

START_TEST(one_runner_is_always_asked)
{
    struct place_call *pc;

    PUBLISH("r1:1");
    for (int i = 0; i < 5; i++) {
        pc = begin_of("f", 128);
        expect_try(pc, "r1:1");
        refuse(pc, ENGAGE_REASON_DRAINING, 1000, 0);
        ck_assert_uint_eq(pc->busy, 1); /* passed over, then asked: one runner */
        ck_assert_int_eq(place_next(pc), PLACE_PARKED);
        leave(pc);
    }
}
END_TEST

START_TEST(a_hint_of_years_lasts_five_seconds)
{
    PUBLISH("r1:1", "r2:1");
    be_refused("f", 128, ENGAGE_REASON_QUEUE, INT64_MAX / ENV_MS, 0);
    fake_env_advance(env, 4999 * ENV_MS);
    expect_first("f", 128, "r2:1");
    fake_env_advance(env, 1 * ENV_MS);
    expect_first("f", 128, "r1:1");
    be_refused("f", 128, ENGAGE_REASON_QUEUE, -1000, 0);
    expect_first("f", 128, "r1:1");
    for (int i = 0; i < 100; i++) { /* the newest are kept */
        char fn[16];

        snprintf(fn, sizeof(fn), "f%d", i);
        be_refused(fn, 128, ENGAGE_REASON_QUEUE, 1000, 0);
    }
    expect_first("f99", 128, "r2:1");
    expect_first("f96", 128, "r2:1");
    expect_first("f0", 128, "r1:1");
}
END_TEST

START_TEST(what_disproves_a_hint_lifts_it)
{
    struct place_call *pc;

    PUBLISH("r1:1", "r2:1");
    pc = begin_of("f", 128);
    expect_try(pc, "r1:1"); /* runs */
    be_refused("f", 128, ENGAGE_REASON_QUEUE, 1000, 0);
    be_refused("g", 1024, ENGAGE_REASON_ROOM, 1000, 512);
    be_refused("h", 128, ENGAGE_REASON_QUEUE, 1000, 0);
    end(pc);
    expect_first("f", 128, "r1:1");
    expect_first("g", 1024, "r1:1");
    expect_first("h", 128, "r2:1");
    be_refused("i", 128, ENGAGE_REASON_DRAINING, 1000, 0);
    expect_first("f", 128, "r2:1");
    fake_engage_up(&fe, "r1:1", false);
    fake_engage_up(&fe, "r1:1", true); /* another process, for all that is known */
    expect_first("f", 128, "r1:1");
    expect_first("h", 128, "r1:1");
}
END_TEST

START_TEST(clients_are_told_when_to_come_again)
{
    struct place_call *pc;

    PUBLISH("r1:1", "r2:1");
    pc = begin_of("f", 128);
    fake_env_advance(env, 29900 * ENV_MS);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    refuse(pc, ENGAGE_REASON_QUEUE, 4000, 0);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    fake_env_advance(env, 100 * ENV_MS);
    refuse(pc, ENGAGE_REASON_ENGINE, 3000, 0);
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    ck_assert_int_eq(pc->error.retry_after_ns, 3 * ENV_S); /* the first one to end */
    leave(pc);
    pc = begin_of("g", 128);
    fake_env_advance(env, 29900 * ENV_MS);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    refuse(pc, ENGAGE_REASON_QUEUE, 100, 0);
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    fake_env_advance(env, 100 * ENV_MS);
    refuse(pc, ENGAGE_REASON_NONE, 0, 0);
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    ck_assert_int_eq(pc->error.retry_after_ns, 1 * ENV_S);
    leave(pc);
}
END_TEST

TCase *hints_tests(void)
{
    const TTest *const tests[] = { a_runner_is_passed_over_until_the_time_it_told,
                                   the_reason_says_whom_it_covers,
                                   if_all_told_the_first_to_be_free_is_asked,
                                   one_runner_is_always_asked,
                                   a_hint_of_years_lasts_five_seconds,
                                   what_disproves_a_hint_lifts_it,
                                   clients_are_told_when_to_come_again };

    return world_case("hints", tests, sizeof(tests) / sizeof(tests[0]));
}
