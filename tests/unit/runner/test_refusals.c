/* What the caller of a call that was refused is told of the runner. */
#include "suites.h"
#include "world.h"

static void expect(const struct engage_session *s, enum engage_reason reason, int64_t retry_ms,
                   uint64_t free_mb)
{
    ck_assert_int_eq(s->code, 503);
    ck_assert_int_eq(s->refusal.reason, reason);
    ck_assert_int_eq(s->refusal.retry_ns, retry_ms * ENV_MS);
    ck_assert_uint_eq(s->refusal.free_mem_bytes, free_mb * ACCOUNT_MIB);
}

static void room_for_two(struct world *w)
{
    w->totals.mem_bytes = 2 * 128 * ACCOUNT_MIB;
    w->opt.freeze_idle_ns = -1;
}

START_TEST(room_and_queue)
{
    struct world *w = world_create(room_for_two);
    struct engage_session *s;
    int64_t counted = metric_value(w->r->metrics.refusals[ENGAGE_REASON_ROOM]);

    world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 200);
    world_call(w, (struct call_spec){ .fn = "b", .what = "ms-1000" });
    world_run_ms(w, 200);
    s = world_call(w, (struct call_spec){ .fn = "c", .mem_mb = 200, .what = "ok" });
    expect(s, ENGAGE_REASON_ROOM, 100, 128); /* what a's idle container has */
    ck_assert_uint_eq(s->refusal.idle, 1);
    ck_assert_int_eq(metric_value(w->r->metrics.refusals[ENGAGE_REASON_ROOM]), counted + 1);
    world_call(w, (struct call_spec){ .fn = "a", .what = "ms-1000" });
    world_run_ms(w, 10);
    for (int i = 0; i < 3; i++) { /* two may wait */
        s = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    }
    expect(s, ENGAGE_REASON_QUEUE, 100, 0); /* no run of b has ended yet */
    world_run_ms(w, 3000);
    for (int i = 0; i < 2; i++) {
        world_call(w, (struct call_spec){ .fn = "a", .what = "ms-600" });
        world_call(w, (struct call_spec){ .fn = "b", .what = "ms-600" });
    }
    world_run_ms(w, 10);
    for (int i = 0; i < 200 && s->refusal.reason != ENGAGE_REASON_QUEUE; i++) {
        s = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    }
    ck_assert_int_ge(s->refusal.retry_ns, 10 * ENV_MS); /* by what its runs took */
    ck_assert_int_le(s->refusal.retry_ns, 1000 * ENV_MS);
    world_run_ms(w, 5000);
    world_destroy(w);
}
END_TEST

START_TEST(image_start_and_engine)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->next_error = (struct fn_error){ .code = FN_E_UNAVAILABLE, .http_status = 503,
                                       .flags = FN_ERR_RETRY, .msg = "registry is away" };
    w->fail_method = "prepare_image";
    w->fails = 1;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    expect(s, ENGAGE_REASON_IMAGE, 1000, 1024);
    w->next_error.code = FN_E_EXHAUSTED;
    w->fail_method = "create";
    w->fails = 1;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    ck_assert_int_eq(s->refusal.reason, ENGAGE_REASON_START);
    w->engine_dead = true;
    world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 1000);
    s = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 10);
    ck_assert_int_eq(s->refusal.reason, ENGAGE_REASON_ENGINE);
    ck_assert_int_eq(s->refusal.retry_ns, 2 * ENV_S);
    w->engine_dead = false;
    world_run_ms(w, 5000);
    world_destroy(w);
}
END_TEST

static void on_drained(void *ud, bool clean)
{
    *(int *)ud = clean ? 1 : -1;
}

START_TEST(a_drain_refuses_until_its_deadline)
{
    struct world *w = world_create(NULL);
    struct engage_session *runs = world_call(w, (struct call_spec){ .what = "ms-2000" });
    struct engage_session *s;
    int state = 0;

    world_run_ms(w, 200);
    runner_drain(w->r, w->f->now + 30 * ENV_S, on_drained, &state);
    s = world_call(w, (struct call_spec){ .what = "ok" });
    ck_assert_int_eq(s->refusal.reason, ENGAGE_REASON_DRAINING);
    ck_assert_int_eq(s->refusal.retry_ns, 30 * ENV_S);
    ck_assert_uint_eq(world_counts(w).in_flight, 1); /* what runs is finished and counted */
    ck_assert_int_eq(world_status(w).active, 1);
    world_run_ms(w, 2500);
    ck_assert(runs->success);
    ck_assert_int_eq(state, 1);
    ck_assert_uint_eq(w->live, 0);
    ck_assert_uint_eq(world_counts(w).in_flight, 0);
    world_destroy(w);
}
END_TEST

/* A question to a dead engine would hold its runner when that is destroyed. */
START_TEST(who_is_drained_asks_no_engine)
{
    struct world *w = world_create(NULL);
    int state = 0;

    w->engine_dead = true;
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert(!world_counts(w).engine_up);
    runner_drain(w->r, w->f->now + 30 * ENV_S, on_drained, &state);
    world_run_ms(w, 1000);
    ck_assert_int_eq(state, 1);
    w->probes = 0;
    world_run_ms(w, 10000);
    ck_assert_uint_eq(w->probes, 0);
    world_destroy(w);
}
END_TEST

/* Nothing of it was begun: its load balancer may try another runner. */
START_TEST(a_call_without_memory_for_itself_did_not_run)
{
    struct world *w = world_create(NULL);
    int64_t counted = metric_value(w->r->metrics.refusals[ENGAGE_REASON_MEMORY]);
    struct engage_session *s;

    w->r->opt.call_json_arena_max = NO_CALL_BYTES;
    s = world_call_json(w, "{}", NULL);
    ck_assert_int_eq(s->code, 503);
    ck_assert_int_eq(s->refusal.reason, ENGAGE_REASON_MEMORY);
    ck_assert_int_eq(metric_value(w->r->metrics.refusals[ENGAGE_REASON_MEMORY]), counted + 1);
    ck_assert_uint_eq(world_counts(w).not_executed, 1);
    ck_assert_uint_eq(world_counts(w).in_flight, 0);
    world_destroy(w);
}
END_TEST

START_TEST(who_is_not_refused_is_told_nothing)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    world_run_ms(w, 100);
    ck_assert(s->success);
    ck_assert_int_eq(s->refusal.reason, ENGAGE_REASON_NONE);
    ck_assert_uint_eq(s->refusal.free_mem_bytes, 0);
    world_destroy(w);
}
END_TEST

TCase *refusals_tests(void)
{
    TCase *t = tcase_create("refusals");

    tcase_add_test(t, room_and_queue);
    tcase_add_test(t, image_start_and_engine);
    tcase_add_test(t, a_drain_refuses_until_its_deadline);
    tcase_add_test(t, who_is_drained_asks_no_engine);
    tcase_add_test(t, a_call_without_memory_for_itself_did_not_run);
    tcase_add_test(t, who_is_not_refused_is_told_nothing);
    return t;
}
