/* When idle containers are frozen. */
#include "suites.h"
#include "world.h"

#include <stdio.h>

/* A call, then the pause until the next one. */
static void call_and_wait(struct world *w, const char *fn, int64_t ms)
{
    struct engage_session *s = world_call(w, (struct call_spec){ .fn = fn, .what = "ok" });

    world_run_ms(w, ms);
    ck_assert(s->success);
}

/* Freezes of n calls that come one after the other. */
static uint32_t freezes_of(struct world *w, const char *fn, int n, int64_t pause_ms)
{
    uint32_t before = w->freezes;

    while (n-- > 0) {
        call_and_wait(w, fn, pause_ms);
    }
    return w->freezes - before;
}

START_TEST(calls_that_come_soon_again_find_it_running)
{
    struct world *w = world_create(NULL); /* 2 ms to freeze, 2 ms to thaw */

    call_and_wait(w, "a", 300);
    ck_assert_uint_eq(w->freezes, 1); /* nothing was known of it */
    freezes_of(w, "a", 20, 100);      /* it learns */
    ck_assert_uint_eq(freezes_of(w, "a", 50, 100), 0);
    world_run_ms(w, 300);
    ck_assert_uint_eq(world_container(w, CTR_FROZEN) != NULL, 1); /* they left it alone */
    world_destroy(w);
}
END_TEST

START_TEST(calls_that_come_late_find_it_frozen)
{
    struct world *w = world_create(NULL);

    call_and_wait(w, "a", 300);
    ck_assert_uint_eq(freezes_of(w, "a", 20, 1000), 20); /* beyond 100 times the cost */
    ck_assert_uint_eq(w->thaws, 20);
    world_destroy(w);
}
END_TEST

static void cheap(struct world *w)
{
    w->fast_ns = 10000; /* as through a cgroup */
}

START_TEST(what_costs_next_to_nothing_is_done_at_once)
{
    struct world *w = world_create(cheap);

    call_and_wait(w, "a", 300);
    ck_assert_uint_eq(freezes_of(w, "a", 20, 100), 20);
    world_destroy(w);
}
END_TEST

START_TEST(each_function_has_its_own_pace)
{
    struct world *w = world_create(NULL);

    call_and_wait(w, "a", 300);
    freezes_of(w, "a", 30, 100);
    ck_assert_uint_eq(freezes_of(w, "b", 5, 1000), 5 + 1); /* and the one of a, meanwhile */
    freezes_of(w, "a", 30, 100);
    ck_assert_uint_eq(freezes_of(w, "a", 20, 100), 0);
    world_destroy(w);
}
END_TEST

/* A machine of which `spare` tells how much is idle, in percent. */
static int spare;
static unsigned long long ticks_used, ticks_idle;

static int read_stat(void *ud, const char *path, char *ret, size_t cap)
{
    (void)ud;
    (void)path;
    ticks_used += 100 - (unsigned)spare;
    ticks_idle += (unsigned)spare;
    return snprintf(ret, cap, "cpu  %llu 0 0 %llu 0 0 0 0 0 0\n", ticks_used, ticks_idle);
}

static void when_busy(struct world *w)
{
    w->opt.freeze_when = "busy";
}

START_TEST(none_is_frozen_while_processors_are_idle)
{
    struct world *w = world_create(when_busy);

    w->r->deps.reader.read = read_stat;
    spare = 80;
    call_and_wait(w, "a", 5000);
    ck_assert_uint_eq(w->freezes, 0);
    spare = 3;
    world_run_ms(w, 2000);
    ck_assert_uint_eq(w->freezes, 1);
    spare = 80;
    call_and_wait(w, "a", 5000);
    ck_assert_uint_eq(w->freezes, 1);
    ck_assert_uint_eq(w->thaws, 1);
    world_run_ms(w, 30000); /* its idle timeout ends it nonetheless */
    ck_assert_uint_eq(world_counts(w).containers, 0);
    world_destroy(w);
}
END_TEST

START_TEST(where_nothing_is_known_of_processors_none_is_frozen)
{
    struct world *w = world_create(when_busy); /* its reader reads nothing */

    call_and_wait(w, "a", 5000);
    ck_assert_uint_eq(w->freezes, 0);
    world_destroy(w);
}
END_TEST

/* ---- while the engine is down ---------------------------------------------------------------- */

static struct engage_session *call_without_engine(struct world *w)
{
    struct engage_session *s;

    call_and_wait(w, "a", 1000);
    ck_assert_uint_eq(w->freezes, 1);
    w->engine_dead = true;
    world_call(w, (struct call_spec){ .fn = "b", .what = "ok" }); /* finds it out */
    world_run_ms(w, 1000);
    ck_assert(!world_counts(w).engine_up);
    s = world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 1000);
    return s;
}

START_TEST(a_driver_with_a_freezer_of_its_own_needs_no_engine)
{
    struct world *w = world_create(NULL);

    w->own_freezer = true;
    ck_assert(call_without_engine(w)->success);
    ck_assert_uint_eq(w->thaws, 1);
    ck_assert_uint_eq(w->freezes, 1); /* not again, until the engine is back */
    world_destroy(w);
}
END_TEST

START_TEST(what_an_absent_engine_cannot_thaw_is_kept)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = call_without_engine(w);
    uint32_t creates = w->creates;

    ck_assert_int_eq(s->code, 503);
    ck_assert_str_eq(s->details, "container engine is down");
    ck_assert_uint_eq(s->executions, 0);
    ck_assert_uint_eq(w->thaws, 1); /* the next call is not kept up by another try */
    world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->thaws, 1);
    w->engine_dead = false;
    world_run_ms(w, 3000);
    s = world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 100);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, creates);
    world_destroy(w);
}
END_TEST

TCase *freeze_tests(void)
{
    TCase *t = tcase_create("freeze");

    tcase_add_test(t, calls_that_come_soon_again_find_it_running);
    tcase_add_test(t, calls_that_come_late_find_it_frozen);
    tcase_add_test(t, what_costs_next_to_nothing_is_done_at_once);
    tcase_add_test(t, each_function_has_its_own_pace);
    tcase_add_test(t, none_is_frozen_while_processors_are_idle);
    tcase_add_test(t, where_nothing_is_known_of_processors_none_is_frozen);
    tcase_add_test(t, a_driver_with_a_freezer_of_its_own_needs_no_engine);
    tcase_add_test(t, what_an_absent_engine_cannot_thaw_is_kept);
    return t;
}
