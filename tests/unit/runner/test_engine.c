/* Starts that fail, engines that do not answer, sweeps, drains. */
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *image;
    int code;
    const char *text;
    int by_ms;
} bad_starts[] = {
    { "never-listens", 504, "Container initialization timed out", 5200 },
    { "exits", 502,
      "Container failed to initialize, please ensure you are using the latest fdk and "
      "check the logs: container exit code 3",
      500 },
    { "bad-socket", 502, "FN604 socket leaves its directory", 500 },
};

START_TEST(starts_that_fail)
{
    struct world *w = world_create(NULL);
    struct engage_session *s[30];

    for (int i = 0; i < 30; i++) {
        s[i] = world_call(w, (struct call_spec){ .image = bad_starts[_i].image, .mem_mb = 32 });
    }
    world_run_ms(w, bad_starts[_i].by_ms + 300);
    for (int i = 0; i < 30; i++) {
        ck_assert_msg(s[i]->finishes == 1, "call %d has no answer", i);
        ck_assert_int_eq(s[i]->code, bad_starts[_i].code);
        ck_assert_msg(strstr(s[i]->text, bad_starts[_i].text), "got %s", s[i]->text);
        ck_assert(s[i]->user);
        ck_assert_uint_eq(s[i]->executions, 0);
    }
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(start_error_with_nobody_waiting)
{
    struct world *w = world_create(NULL);
    struct engage_session *a, *b;

    /* The first container serves both before the second start fails. */
    a = world_call(w, (struct call_spec){ .what = "ok" });
    b = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 65);
    w->fail_method = "start";
    w->fails = 0;
    world_run_ms(w, 300);
    ck_assert(a->success && b->success);
    world_destroy(w);
}
END_TEST

START_TEST(pull_fails)
{
    struct world *w = world_create(NULL);
    struct engage_session *s[5];

    w->fail_method = "prepare_image";
    w->fails = 1;
    err_set_http(&w->next_error, FN_E_PERMISSION, 401, FN_BLAME_USER,
                 "Failed to pull image 'hello': unauthorized");
    for (int i = 0; i < 5; i++) {
        s[i] = world_call(w, (struct call_spec){ .what = "ok" });
    }
    world_run_ms(w, 100);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(s[i]->code, 401);
        ck_assert_ptr_eq(strstr(s[i]->text, "Failed to pull image "), s[i]->text);
    }
    ck_assert_uint_eq(w->prepares, 1);
    ck_assert_uint_eq(w->creates, 0);
    world_destroy(w);
}
END_TEST

static void five_seconds(struct world *w)
{
    w->opt.pull_timeout_ns = 5 * ENV_S;
}

START_TEST(pull_takes_too_long)
{
    struct world *w = world_create(five_seconds);
    struct engage_session *s;

    w->fail_method = "prepare_image";
    w->fails = 1;
    err_set(&w->next_error, FN_E_DEADLINE, "engine: no answer to the look within a second");
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    ck_assert_int_eq(s->code, 503); /* no fault of the function's */
    w->hang_app = "app";
    w->hang_method = "prepare_image";
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 5100);
    ck_assert_int_eq(s->code, 504);
    ck_assert_str_eq(s->text, "Image pull timed out");
    ck_assert(s->user);
    world_destroy(w);
}
END_TEST

/* The driver waits for a file of the operator's that another call loads, up to the limit. */
START_TEST(what_is_worth_another_runner_is_no_slow_pull)
{
    struct world *w = world_create(five_seconds);
    struct engage_session *s;

    w->fail_method = w->hang_method = "prepare_image";
    w->hang_app = "app";
    w->fails = 1;
    err_set(&w->next_error, FN_E_DEADLINE, "load_file /images.tar: it is being loaded");
    w->next_error.flags = FN_ERR_RETRY;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 5100);
    ck_assert_uint_eq(w->fails, 0);
    ck_assert_int_eq(s->code, 503);
    ck_assert(!s->user);
    world_destroy(w);
}
END_TEST

START_TEST(image_vanished)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->image_missing = true;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(s->success);
    ck_assert_uint_eq(w->prepares, 2);
    world_destroy(w);
}
END_TEST

START_TEST(raw_engine_error)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->fail_method = "create";
    w->fails = 1;
    err_set(&w->next_error, FN_E_INTERNAL, "runc: secret path /var/lib/x");
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 300);
    ck_assert_int_eq(s->code, 500); /* never 0, and nothing internal */
    ck_assert_ptr_null(strstr(s->text, "secret"));
    world_destroy(w);
}
END_TEST

/* F40: a cold call learns of a hung engine from the probe, not from the time limit of a pull. */
START_TEST(engine_hung_cold)
{
    struct world *w = world_create(NULL);
    struct engage_session *hot, *cold;

    w->r->opt.freeze_idle_ns = -1;
    world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 200);
    w->engine_hung = true;
    cold = world_call(w, (struct call_spec){ .fn = "b", .image = "other", .what = "ok" });
    hot = world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 10);
    ck_assert(hot->success);
    world_run_ms(w, 3000);
    ck_assert_int_eq(cold->code, 503);
    ck_assert(!world_counts(w).engine_up);
    w->engine_hung = false;
    world_run_ms(w, 5000);
    cold = world_call(w, (struct call_spec){ .fn = "b", .image = "other", .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(cold->success);
    world_destroy(w);
}
END_TEST

START_TEST(engine_down)
{
    struct world *w = world_create(NULL);
    struct engage_session *hot, *cold;
    struct engage_status st;

    w->r->opt.freeze_idle_ns = -1;
    st = world_status(w);
    ck_assert(!st.failed);
    world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 200);
    w->engine_dead = true;
    cold = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 1000);
    ck_assert_int_eq(cold->code, 503);
    ck_assert(!world_counts(w).engine_up);
    cold = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    ck_assert_int_eq(cold->code, 503); /* at once */
    hot = world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 10);
    ck_assert(hot->success);
    world_run_ms(w, 10000);
    st = world_status(w);
    ck_assert(st.failed);
    ck_assert_int_eq(st.error_code, 503);
    ck_assert_ptr_nonnull(strstr(st.error_text, "container engine does not answer for 1"));
    w->engine_dead = false;
    world_run_ms(w, 5000);
    ck_assert(world_counts(w).engine_up);
    st = world_status(w);
    ck_assert(!st.failed);
    cold = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(cold->success);
    world_destroy(w);
}
END_TEST

START_TEST(engine_hung)
{
    struct world *w = world_create(NULL);
    struct engage_session *hot, *frozen, *s[40];

    world_call(w, (struct call_spec){ .fn = "cold", .what = "ok" });
    world_run_ms(w, 300);
    w->r->opt.freeze_idle_ns = -1;
    world_call(w, (struct call_spec){ .fn = "hot", .what = "ok" });
    world_run_ms(w, 300);
    w->engine_hung = true;
    w->in_flight_max = 0;
    frozen = world_call(w, (struct call_spec){ .fn = "cold", .what = "ok" });
    for (int i = 0; i < 40; i++) {
        char fn[16];

        snprintf(fn, sizeof(fn), "n%d", i);
        s[i] = world_call(w, (struct call_spec){ .fn = fn, .what = "ok", .mem_mb = 16 });
    }
    world_run_ms(w, 3500);
    ck_assert_int_eq(frozen->code, 503); /* thaw limit, no byte written */
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(s[i]->code, 503);
    }
    hot = world_call(w, (struct call_spec){ .fn = "hot", .what = "ok" });
    world_run_ms(w, 10);
    ck_assert(hot->success);
    ck_assert_uint_le(w->in_flight_max, 4 + 1 + 1);
    world_run_ms(w, 600000);
    ck_assert_uint_le(w->in_flight_max, 4 + 1 + 1);
    w->engine_hung = false;
    world_run_ms(w, 5000);
    hot = world_call(w, (struct call_spec){ .fn = "n1", .what = "ok" });
    world_run_ms(w, 500);
    ck_assert(hot->success);
    world_destroy(w);
}
END_TEST

START_TEST(removal_is_retried)
{
    struct world *w = world_create(NULL);

    world_call(w, (struct call_spec){ .what = "crash" });
    w->fail_method = "close";
    w->fails = 5;
    err_set(&w->next_error, FN_E_INTERNAL, "device busy");
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->live, 1);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 128 * ACCOUNT_MIB); /* W6 */
    world_run_ms(w, 10000);
    ck_assert_uint_eq(w->live, 0);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 0);
    world_destroy(w);
}
END_TEST

/* An engine that ends while it is asked leaves half an answer: nothing ran, so another runner may. */
START_TEST(what_the_driver_says_may_be_tried_elsewhere_is_refused)
{
    static const char *const methods[] = { "prepare_image", "create", "start" };

    for (size_t i = 0; i < 6; i++) {
        struct world *w = world_create(NULL);
        struct engage_session *s;
        bool retry = i < 3;

        w->fail_method = methods[i % 3];
        w->fails = 1;
        err_set(&w->next_error, FN_E_DATA_LOSS, "answer is cut short");
        w->next_error.flags = retry ? FN_ERR_RETRY : 0;
        s = world_call(w, (struct call_spec){ .what = "ok" });
        world_run_ms(w, 500);
        ck_assert_int_eq(s->code, retry ? 503 : 500);
        world_destroy(w);
    }
}
END_TEST

START_TEST(sweep_at_start)
{
    struct world *w = world_create(NULL);

    w->fail_method = "sweep";
    w->fails = 2;
    err_set(&w->next_error, FN_E_UNAVAILABLE, "not yet");
    runner_start(w->r);
    world_run_ms(w, 10000);
    ck_assert_uint_eq(w->sweeps, 3);
    world_destroy(w);
}
END_TEST

/* Another runner may die at any time, and its address never come back. */
START_TEST(sweeps_go_on)
{
    struct world *w = world_create(NULL);

    runner_start(w->r);
    world_run_ms(w, 25000);
    ck_assert_uint_eq(w->sweeps, 3);
    world_destroy(w);
}
END_TEST

START_TEST(a_sweep_that_finds_the_lane_full_comes_later)
{
    struct world *w = world_create(NULL);

    w->lanes_full = 2;
    runner_start(w->r);
    world_run_ms(w, 2900);
    ck_assert_int_eq(w->lanes_full, 0);
    ck_assert_uint_eq(w->sweeps, 0);
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->sweeps, 1);
    world_destroy(w);
}
END_TEST

static void on_drained(void *ud, bool clean)
{
    *(int *)ud = clean ? 1 : 2;
}

START_TEST(drain_waits_for_calls)
{
    struct world *w = world_create(NULL);
    struct engage_session *runs, *stays, *late;
    int state = 0;

    runs = world_call(w, (struct call_spec){ .what = "ms-1000" });
    stays = world_call(w, (struct call_spec){ .fn = "f2", .what = "never" });
    world_run_ms(w, 200);
    runner_drain(w->r, w->f->now + 3 * ENV_S, on_drained, &state);
    late = world_call(w, (struct call_spec){ .what = "ok" });
    ck_assert_int_eq(late->code, 503);
    world_run_ms(w, 2000);
    ck_assert(runs->success);
    ck_assert_int_eq(stays->finishes, 0);
    ck_assert_int_eq(state, 0);
    world_run_ms(w, 1500);
    ck_assert_int_eq(stays->code, 502);
    ck_assert_int_eq(state, 1);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

START_TEST(drain_does_not_wait_for_orphans)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "never" });
    int state = 0;

    world_run_ms(w, 200);
    world_gone(w, s);
    ck_assert_uint_eq(world_counts(w).running, 1);
    runner_drain(w->r, w->f->now + 60 * ENV_S, on_drained, &state);
    world_run_ms(w, 200);
    ck_assert_int_eq(state, 1);
    world_destroy(w);
}
END_TEST

/* It may be loading images, for minutes. */
START_TEST(drain_ends_a_sweep)
{
    struct world *w = world_create(NULL);
    int state = 0;

    w->engine_hung = true;
    runner_start(w->r);
    world_run_ms(w, 200);
    runner_drain(w->r, w->f->now + 60 * ENV_S, on_drained, &state);
    world_run_ms(w, 200);
    ck_assert_int_eq(state, 1);
    ck_assert_uint_eq(w->sweeps, 1);
    world_run_ms(w, 60000);
    ck_assert_uint_eq(w->sweeps, 1);
    world_destroy(w);
}
END_TEST

/* A drain while the engine makes containers; one that hangs is waited for until the deadline. */
static void drain_in_mid_create(bool hung)
{
    struct world *w = world_create(NULL);
    int state = 0;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 25); /* image 20, create 20 */
    w->engine_hung = hung;
    runner_drain(w->r, w->f->now + 3 * ENV_S, on_drained, &state);
    world_run_ms(w, 1000);
    ck_assert_int_eq(state, hung ? 0 : 1);
    world_run_ms(w, 7000);
    ck_assert_int_ne(state, 0);
    ck_assert_uint_eq(w->creates, 1);
    ck_assert_uint_eq(w->lost_creates, hung);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}

START_TEST(drain_leaves_no_container_in_the_making)
{
    drain_in_mid_create(_i);
}
END_TEST

/* In the midst of the step that asked it. */
START_TEST(a_driver_reports_from_the_loop)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->uid_exits = true;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    ck_assert_int_eq(s->code, 502);
    ck_assert_msg(strstr(s->text, "container exit code"), "got %s", s->text);
    w->uid_exits = false;

    w->key_downs = true;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    ck_assert_int_eq(s->code, 503);
    w->key_downs = false;
    world_run_ms(w, 2000); /* a probe says otherwise */
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

TCase *engine_tests(void)
{
    TCase *t = tcase_create("engine");

    tcase_add_loop_test(t, starts_that_fail, 0, (int)(sizeof(bad_starts) / sizeof(bad_starts[0])));
    tcase_add_test(t, start_error_with_nobody_waiting);
    tcase_add_test(t, pull_fails);
    tcase_add_test(t, pull_takes_too_long);
    tcase_add_test(t, what_is_worth_another_runner_is_no_slow_pull);
    tcase_add_test(t, image_vanished);
    tcase_add_test(t, raw_engine_error);
    tcase_add_test(t, engine_hung_cold);
    tcase_add_test(t, engine_down);
    tcase_add_test(t, engine_hung);
    tcase_add_test(t, a_driver_reports_from_the_loop);
    tcase_add_test(t, removal_is_retried);
    tcase_add_test(t, what_the_driver_says_may_be_tried_elsewhere_is_refused);
    tcase_add_test(t, sweep_at_start);
    tcase_add_test(t, sweeps_go_on);
    tcase_add_test(t, a_sweep_that_finds_the_lane_full_comes_later);
    tcase_add_test(t, drain_waits_for_calls);
    tcase_add_test(t, drain_does_not_wait_for_orphans);
    tcase_add_test(t, drain_ends_a_sweep);
    tcase_add_loop_test(t, drain_leaves_no_container_in_the_making, 0, 2);
    return t;
}
