/* Containers that are made at the engine while the room that was promised to them is being made. The
 * engine takes 20 ms for a create, a start and a removal, the function 5 ms to listen. */
#include "suites.h"
#include "world.h"

#include <check.h>

static void room_for_one(struct world *w)
{
    w->totals.mem_bytes = 128 * ACCOUNT_MIB;
    w->opt.freeze_idle_ns = -1;
}

/* The room is a's, which is idle; then b asks. */
static struct engage_session *evict_for_b(struct world *w)
{
    struct engage_session *s =
        world_call(w, (struct call_spec){ .fn = "a", .app = "holder", .what = "ok" });

    world_run_ms(w, 100);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 1);
    return world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
}

/* Until keep_room(w, false) the removal does not end. */
static void keep_room(struct world *w, bool on)
{
    w->hang_app = on ? "holder" : NULL;
    w->hang_method = "close";
}

START_TEST(what_is_promised_is_made_meanwhile)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s = evict_for_b(w);

    world_run_ms(w, 10);
    ck_assert_uint_eq(w->in_flight, 2); /* the removal, and the create */
    ck_assert_ptr_nonnull(world_container(w, CTR_RESERVE));
    world_run_ms(w, 15);
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_ptr_nonnull(world_container(w, CTR_START));
    world_run_ms(w, 25);
    ck_assert(s->success); /* 20 ms sooner than one after the other */
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

/* As long as the room is not there it uses none, so it is not started. */
START_TEST(what_is_made_waits_for_its_room)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s;

    keep_room(w, true);
    s = evict_for_b(w);
    world_run_ms(w, 2000);
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_uint_eq(w->starts, 1);
    ck_assert_ptr_nonnull(world_container(w, CTR_RESERVE));
    keep_room(w, false);
    world_run_ms(w, 50);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_uint_eq(w->starts, 2);
    world_destroy(w);
}
END_TEST

/* Whatever it failed for: when the room is there it is made once more, and that decides. */
START_TEST(what_cannot_be_made_early_is_made_later)
{
    static const int codes[] = { FN_E_INTERNAL, FN_E_NOT_FOUND, FN_E_EXHAUSTED, FN_E_INVALID };
    struct world *w = world_create(room_for_one);
    struct engage_session *s;

    keep_room(w, true);
    w->fail_method = "create";
    err_set_http(&w->next_error, codes[_i], 502, FN_BLAME_USER, "not now");
    s = evict_for_b(w);
    w->fails = 1;
    world_run_ms(w, 100);
    ck_assert_int_eq(w->fails, 0);
    ck_assert_int_eq(s->finishes, 0);
    ck_assert_uint_eq(w->creates, 2);
    keep_room(w, false);
    world_run_ms(w, 100);
    ck_assert_msg(s->success, "%s", s->text);
    ck_assert_uint_eq(w->creates, 3);
    world_destroy(w);
}
END_TEST

/* And when it cannot be made then, its caller is told. */
START_TEST(what_can_never_be_made_is_told)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s;

    keep_room(w, true);
    w->fail_method = "create";
    err_set_http(&w->next_error, FN_E_INVALID, 400, FN_BLAME_USER, "no such setting");
    s = evict_for_b(w);
    w->fails = 2;
    world_run_ms(w, 100);
    keep_room(w, false);
    world_run_ms(w, 100);
    ck_assert_int_eq(s->code, 400);
    ck_assert_str_eq(s->text, "no such setting");
    ck_assert_uint_eq(w->creates, 3);
    world_destroy(w);
}
END_TEST

static void one_start_at_a_time(struct world *w)
{
    w->totals.mem_bytes = 192 * ACCOUNT_MIB;
    w->opt.freeze_idle_ns = -1;
    w->opt.parallel_starts_max = 1;
}

/* Its room comes while it waits for a place at the engine, or is being made: it is made once. */
START_TEST(room_may_come_first)
{
    struct world *w = world_create(one_start_at_a_time);
    struct engage_session *s[2];

    evict_for_b(w);
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_ptr_null(world_container(w, CTR_RESERVE));
    s[0] = world_call(w, (struct call_spec){ .fn = "c", .what = "ok", .mem_mb = 64 });
    if (_i == 0) {
        world_run_ms(w, 25); /* c is being made */
    }
    s[1] = world_call(w, (struct call_spec){ .fn = "d", .what = "ok" });
    world_run_ms(w, 30);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 192 * ACCOUNT_MIB);
    world_run_ms(w, 200);
    ck_assert(s[0]->success && s[1]->success);
    ck_assert_uint_eq(w->creates, 4);
    ck_assert_uint_eq(w->starts, 4);
    world_destroy(w);
}
END_TEST

/* While it is being made, and when it is. */
START_TEST(what_nobody_waits_for_is_removed)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s;

    keep_room(w, true);
    s = evict_for_b(w);
    world_run_ms(w, _i == 0 ? 10 : 50);
    ck_assert_ptr_nonnull(world_container(w, CTR_RESERVE));
    world_gone(w, s);
    ck_assert_ptr_null(world_container(w, CTR_RESERVE));
    ck_assert_uint_eq(w->r->reserving.mem_bytes, 0);
    world_run_ms(w, 50);
    ck_assert_uint_eq(w->lost_creates, _i == 0);
    ck_assert_uint_eq(w->live, 1); /* a's */
    ck_assert_uint_eq(w->starts, 1);
    keep_room(w, false);
    world_destroy(w);
}
END_TEST

START_TEST(room_that_never_comes_is_not_waited_for)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s;

    w->fail_method = "close";
    err_set(&w->next_error, FN_E_INTERNAL, "busy");
    s = evict_for_b(w);
    w->fails = 100;
    world_run_ms(w, 5000);
    ck_assert_ptr_nonnull(world_container(w, CTR_RESERVE));
    world_run_ms(w, 6000);
    ck_assert_int_eq(s->code, 503);
    ck_assert_uint_eq(w->starts, 1);
    ck_assert_uint_eq(w->live, 2); /* neither can be removed */
    w->fails = 0;
    world_run_ms(w, 30000);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(an_engine_that_goes_down_takes_it_along)
{
    struct world *w = world_create(room_for_one);
    struct fn_error why = ERR_INIT;
    struct engage_session *s;

    err_set(&why, FN_E_UNAVAILABLE, "gone");
    keep_room(w, true);
    s = evict_for_b(w);
    world_run_ms(w, _i == 0 ? 10 : 100);
    engine_set(w->r, false, &why);
    world_run_ms(w, 100);
    ck_assert_int_eq(s->code, 503);
    ck_assert_uint_eq(w->r->reserving.mem_bytes, 0);
    engine_set(w->r, true, NULL);
    keep_room(w, false);
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->live, 0);
    ck_assert_uint_eq(w->starts, 1);
    world_destroy(w);
}
END_TEST

/* The driver keeps the create for itself: its caller is told, and its room is free. */
START_TEST(a_create_that_does_not_return_is_given_up)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s;

    w->opt.engine_timeout_ns = 2 * ENV_S;
    runner_set_options(w->r, &w->opt);
    s = world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 100);
    ck_assert(s->success);
    w->fail_method = "close";
    w->fails = 10;
    err_set(&w->next_error, FN_E_INTERNAL, "busy");
    w->hang_app = "held";
    w->hang_method = "create";
    w->hang_for_ever = true;
    s = world_call(w, (struct call_spec){ .fn = "b", .app = "held", .what = "ok" });
    world_run_ms(w, 3500);
    ck_assert_int_eq(s->finishes, 0);
    world_run_ms(w, 2500);
    ck_assert_int_eq(s->code, 503);
    ck_assert_uint_eq(w->r->reserving.mem_bytes, 0);
    w->hang_app = NULL;
    w->fails = 0;
    world_run_ms(w, 30000);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

/* Callers that come and go while nothing is removed leave a bounded number behind. */
START_TEST(those_without_room_are_few)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s;
    uint32_t made;

    keep_room(w, true);
    s = evict_for_b(w);
    w->fail_method = "close";
    w->fails = 1000;
    err_set(&w->next_error, FN_E_INTERNAL, "busy");
    for (int i = 0; i < 100; i++) {
        world_run_ms(w, 25);
        ck_assert_int_eq(s->finishes, 0);
        world_gone(w, s);
        s = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    }
    made = w->creates;
    ck_assert_uint_gt(made, 10);
    ck_assert_uint_lt(made, 50);
    ck_assert_uint_eq(w->live, made);
    w->fails = 0;
    keep_room(w, false);
    world_run_ms(w, 60000);
    ck_assert(s->success);
    ck_assert_uint_eq(w->r->n_early, 0);
    world_destroy(w);
}
END_TEST

TCase *early_tests(void)
{
    TCase *t = tcase_create("early");

    tcase_add_test(t, what_is_promised_is_made_meanwhile);
    tcase_add_test(t, what_is_made_waits_for_its_room);
    tcase_add_loop_test(t, what_cannot_be_made_early_is_made_later, 0, 4);
    tcase_add_test(t, what_can_never_be_made_is_told);
    tcase_add_loop_test(t, room_may_come_first, 0, 2);
    tcase_add_loop_test(t, what_nobody_waits_for_is_removed, 0, 2);
    tcase_add_test(t, room_that_never_comes_is_not_waited_for);
    tcase_add_loop_test(t, an_engine_that_goes_down_takes_it_along, 0, 2);
    tcase_add_test(t, a_create_that_does_not_return_is_given_up);
    tcase_add_test(t, those_without_room_are_few);
    return t;
}
