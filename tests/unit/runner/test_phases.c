/* What calls are told of the starts that they waited for. The engine takes 20 ms for an image, a
 * create, a start and a removal, the function 5 ms to listen. */
#include "suites.h"
#include "world.h"

static void expect_phases(const struct engage_session *s, int64_t pull, int64_t prepare,
                          int64_t create, int64_t init)
{
    ck_assert_int_eq(s->pull_ns, pull * ENV_MS);
    ck_assert_int_eq(s->prepare_ns, prepare * ENV_MS);
    ck_assert_int_eq(s->create_ns, create * ENV_MS);
    ck_assert_int_eq(s->init_ns, init * ENV_MS);
}

START_TEST(a_cold_call_is_told_all_and_a_hot_one_nothing)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });
    int64_t counted[PHASES_N];

    for (int i = 0; i < PHASES_N; i++) {
        counted[i] = metric_value(w->r->metrics.phases[i]);
    }
    world_run_ms(w, 100);
    ck_assert(s->success);
    expect_phases(s, 20, 0, 40, 5);
    ck_assert_int_eq(s->scheduler_ns, 65 * ENV_MS);
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 20);
    ck_assert(s->success);
    expect_phases(s, 0, 0, 0, 0);
    for (int i = 0; i < PHASES_N; i++) { /* a start is counted once, whoever waits for it */
        ck_assert_int_eq(metric_value(w->r->metrics.phases[i]), counted[i] + 1);
    }
    world_destroy(w);
}
END_TEST

START_TEST(who_comes_in_the_middle_is_told_its_part)
{
    struct world *w = world_create(NULL);
    struct engage_session *a = world_call(w, (struct call_spec){ .what = "ok" });
    struct engage_session *b;

    world_run_ms(w, 30); /* half of the create is over */
    b = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    ck_assert(a->success && b->success);
    expect_phases(a, 20, 0, 40, 5);
    expect_phases(b, 0, 0, 30, 5); /* its own start was not needed */
    ck_assert_int_eq(b->scheduler_ns, 36 * ENV_MS); /* and the run of the other */
    world_destroy(w);
}
END_TEST

static void room_for_one(struct world *w)
{
    w->totals.mem_bytes = 128 * ACCOUNT_MIB;
    w->opt.freeze_idle_ns = -1;
}

START_TEST(the_wait_for_memory_is_a_phase)
{
    struct world *w = world_create(room_for_one);
    struct engage_session *s = world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });

    world_run_ms(w, 100);
    ck_assert(s->success);
    s = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 200);
    ck_assert(s->success);
    /* The image is known; while the other's container is removed, its own is made. */
    expect_phases(s, 0, 20, 20, 5);
    world_destroy(w);
}
END_TEST

START_TEST(a_start_that_failed_tells_how_far_it_came)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .image = "never-listens", .what = "ok" });

    world_run_ms(w, 6000);
    ck_assert_int_eq(s->code, 504);
    expect_phases(s, 20, 0, 40, w->opt.start_timeout_ns / ENV_MS);
    w->next_error = (struct fn_error){ .code = FN_E_INVALID, .http_status = 404,
                                       .blame = FN_BLAME_USER, .msg = "no such image" };
    w->fail_method = "prepare_image";
    w->fails = 1;
    s = world_call(w, (struct call_spec){ .image = "other", .what = "ok" });
    world_run_ms(w, 200);
    ck_assert_int_eq(s->code, 404);
    expect_phases(s, 20, 0, 0, 0);
    world_destroy(w);
}
END_TEST

START_TEST(an_image_that_was_lost_counts_as_pull)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    w->image_missing = true;
    world_run_ms(w, 200);
    ck_assert(s->success);
    expect_phases(s, 40, 0, 40, 5); /* image, a create in vain, the image again, at once */
    world_destroy(w);
}
END_TEST

TCase *phases_tests(void)
{
    TCase *t = tcase_create("phases");

    tcase_add_test(t, a_cold_call_is_told_all_and_a_hot_one_nothing);
    tcase_add_test(t, who_comes_in_the_middle_is_told_its_part);
    tcase_add_test(t, the_wait_for_memory_is_a_phase);
    tcase_add_test(t, a_start_that_failed_tells_how_far_it_came);
    tcase_add_test(t, an_image_that_was_lost_counts_as_pull);
    return t;
}
