/* The way to the collector: batches, a collector that is away, a queue that is full, the end. */
#include "rig.h"

#include "../lib/machine.h"
#include "../lib/poor.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

TCase *export_tests(void);
TCase *export_machine_tests(void);

static const struct trace_options few = { .endpoint = "http://c/v1/traces", .permille = 1000,
                                          .follow = 1, .errors = 1, .queue_max = 10 };

struct counts {
    int64_t exported, failed, dropped;
};

static struct counts counts_of(const struct rig *r)
{
    return (struct counts){ metric_value(r->t->exported), metric_value(r->t->failed),
                            metric_value(r->t->dropped) };
}

#define GREW(r, from, exported_, failed_, dropped_)                                                \
    do {                                                                                           \
        ck_assert_int_eq(metric_value((r)->t->exported) - (from).exported, exported_);             \
        ck_assert_int_eq(metric_value((r)->t->failed) - (from).failed, failed_);                   \
        ck_assert_int_eq(metric_value((r)->t->dropped) - (from).dropped, dropped_);                \
    } while (0)

static void calls(struct rig *r, int n)
{
    for (int i = 0; i < n; i++) {
        rig_call(r, NULL, 1, false);
    }
}

START_TEST(calls_of_a_second_go_together)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    calls(&r, 3);
    fake_env_advance(r.fake, ENV_S / 2);
    ck_assert_uint_eq(r.fake->n_work, 0);
    calls(&r, 2);
    rig_settle(&r);
    ck_assert_uint_eq(r.posts, 1);
    GREW(&r, from, 5, 0, 0);
    ck_assert_int_eq(r.t->state, EXPORT_IDLE);
    rig_close(&r);
}
END_TEST

START_TEST(many_do_not_wait_and_one_batch_is_under_way)
{
    struct trace_options o = few;
    struct counts from;
    struct rig r;

    o.queue_max = 1000;
    rig_open(&r, &o);
    from = counts_of(&r);
    calls(&r, 300);
    ck_assert_uint_eq(r.fake->n_work, 1);
    fake_env_work_all(r.fake);
    rig_settle(&r);
    ck_assert_uint_eq(r.posts, 3);
    GREW(&r, from, 300, 0, 0);
    rig_close(&r);
}
END_TEST

START_TEST(a_full_queue_drops_and_counts)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    calls(&r, 25);
    GREW(&r, from, 0, 0, 15);
    rig_settle(&r);
    GREW(&r, from, 10, 0, 15);
    rig_close(&r);
}
END_TEST

static const uint32_t for_now[] = { 0, 429, 502, 503, 504 };

START_TEST(a_collector_that_is_away_is_asked_again)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.status = for_now[_i];
    calls(&r, 4);
    rig_settle(&r);
    ck_assert_int_eq(r.t->state, EXPORT_PAUSE);
    fake_env_advance(r.fake, ENV_S / 2);
    fake_env_work_all(r.fake);
    ck_assert_uint_eq(r.posts, 2);
    r.status = 200;
    fake_env_advance(r.fake, 5 * ENV_S);
    fake_env_work_all(r.fake);
    GREW(&r, from, 4, 0, 0);
    ck_assert_uint_eq(r.posts, 3);
    rig_close(&r);
}
END_TEST

START_TEST(it_says_when_to_come_again)
{
    struct rig r;

    rig_open(&r, &few);
    r.status = 503;
    r.retry_after_s = 30;
    calls(&r, 1);
    rig_settle(&r);
    fake_env_advance(r.fake, 28 * ENV_S);
    ck_assert_uint_eq(r.fake->n_work, 0);
    fake_env_advance(r.fake, 3 * ENV_S);
    ck_assert_uint_eq(r.fake->n_work, 1);
    fake_env_work_all(r.fake);
    rig_close(&r);
}
END_TEST

START_TEST(a_dead_collector_costs_a_bounded_time)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.status = 0;
    calls(&r, 4);
    for (int64_t ns = 0; ns < TRACE_RETRY_NS + 2 * ENV_S; ns += ENV_S) {
        fake_env_advance(r.fake, ENV_S);
        fake_env_work_all(r.fake);
    }
    GREW(&r, from, 0, 4, 0);
    ck_assert_int_eq(r.t->state, EXPORT_IDLE);
    ck_assert_uint_gt(r.posts, 5);
    ck_assert_uint_lt(r.posts, 15);
    rig_close(&r);
}
END_TEST

static const uint32_t for_good[] = { 400, 401, 404, 413, 500, 301 };

START_TEST(what_is_refused_is_not_sent_again)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.status = for_good[_i];
    calls(&r, 2);
    rig_settle(&r);
    fake_env_advance(r.fake, 20 * ENV_S);
    fake_env_work_all(r.fake);
    ck_assert_uint_eq(r.posts, 1);
    GREW(&r, from, 0, 2, 0);
    rig_close(&r);
}
END_TEST

START_TEST(a_part_may_be_refused)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.rejected = 2;
    calls(&r, 5);
    rig_settle(&r);
    GREW(&r, from, 3, 2, 0);
    rig_close(&r);
}
END_TEST

START_TEST(a_lane_without_room_is_tried_again)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.fake->submit_fails = 1;
    calls(&r, 1);
    rig_settle(&r);
    rig_settle(&r);
    GREW(&r, from, 1, 0, 0);
    ck_assert_uint_eq(r.last->resource_spans[0]->scope_spans[0]->n_spans, 1);
    rig_close(&r);
}
END_TEST

START_TEST(a_batch_without_memory_is_tried_again)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    calls(&r, 2);
    fake_env_advance(r.fake, 2 * ENV_S);
    poor_begin(1);
    fake_env_work_all(r.fake);
    ck_assert(poor_end());
    ck_assert_uint_eq(r.posts, 0);
    ck_assert_int_eq(r.t->state, EXPORT_PAUSE);
    rig_settle(&r);
    GREW(&r, from, 2, 0, 0);
    ck_assert_uint_eq(r.last->resource_spans[0]->scope_spans[0]->n_spans, 2);
    rig_close(&r);
}
END_TEST

/* Nor does it stay when it was never encoded. */
START_TEST(off_while_a_batch_has_no_worker)
{
    struct trace_options o = { .queue_max = 1 };
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.fake->submit_fails = 3;
    calls(&r, 1);
    rig_settle(&r);
    ck_assert_int_eq(tracer_set_options(r.t, &o), 0);
    rig_settle(&r);
    GREW(&r, from, 0, 1, 0);
    ck_assert_int_eq(r.t->state, EXPORT_IDLE);
    ck_assert_uint_eq(r.posts, 0);
    rig_close(&r);
}
END_TEST

/* ---- other settings, the end ----------------------------------------------------------------- */

START_TEST(other_settings_count_for_what_comes)
{
    struct trace_options o = few;
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    calls(&r, 2);
    o.service = "mine";
    ck_assert_int_eq(tracer_set_options(r.t, &o), 0);
    rig_settle(&r);
    ck_assert_str_eq(
        r.last->resource_spans[0]->resource->attributes[0]->value->string_value, "mine");
    calls(&r, 3);
    o.endpoint = NULL;
    ck_assert_int_eq(tracer_set_options(r.t, &o), 0);
    GREW(&r, from, 2, 0, 3);
    ck_assert_int_eq(r.t->state, EXPORT_IDLE);
    ck_assert_ptr_null(rig_begin(&r, RIG_SAMPLED));
    rig_close(&r);
}
END_TEST

START_TEST(off_while_a_batch_is_tried)
{
    struct trace_options o = { .queue_max = 1 };
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.status = 503;
    calls(&r, 2);
    rig_settle(&r);
    ck_assert_int_eq(tracer_set_options(r.t, &o), 0);
    rig_settle(&r);
    GREW(&r, from, 0, 2, 0);
    ck_assert_int_eq(r.t->state, EXPORT_IDLE);
    rig_close(&r);
}
END_TEST

START_TEST(at_the_end_what_waits_is_sent_at_once)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    calls(&r, 2);
    tracer_flush(r.t);
    ck_assert(!tracer_is_flushed(r.t));
    fake_env_work_all(r.fake);
    ck_assert(tracer_is_flushed(r.t));
    GREW(&r, from, 2, 0, 0);
    rig_close(&r);
}
END_TEST

START_TEST(at_the_end_nothing_is_tried_again)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    r.status = 503;
    calls(&r, 2);
    rig_settle(&r);
    tracer_flush(r.t);
    fake_env_work_all(r.fake);
    ck_assert(tracer_is_flushed(r.t));
    GREW(&r, from, 0, 2, 0);
    rig_close(&r);
}
END_TEST

START_TEST(the_end_does_not_wait_for_a_silent_collector)
{
    struct counts from;
    struct rig r;

    rig_open(&r, &few);
    from = counts_of(&r);
    calls(&r, 2);
    fake_env_advance(r.fake, 2 * ENV_S); /* under way */
    calls(&r, 3);
    tracer_flush(r.t);
    fake_env_advance(r.fake, TRACE_FLUSH_NS);
    ck_assert_int_eq(r.t->work.cancelled, 1);
    GREW(&r, from, 0, 0, 3);
    r.status = 0;
    fake_env_work_all(r.fake);
    ck_assert(tracer_is_flushed(r.t));
    GREW(&r, from, 0, 2, 3);
    calls(&r, 1);
    GREW(&r, from, 0, 2, 4);
    rig_close(&r);
}
END_TEST

TCase *export_tests(void)
{
    TCase *t = tcase_create("export");

    tcase_add_test(t, calls_of_a_second_go_together);
    tcase_add_test(t, many_do_not_wait_and_one_batch_is_under_way);
    tcase_add_test(t, a_full_queue_drops_and_counts);
    tcase_add_loop_test(t, a_collector_that_is_away_is_asked_again, 0, 5);
    tcase_add_test(t, it_says_when_to_come_again);
    tcase_add_test(t, a_dead_collector_costs_a_bounded_time);
    tcase_add_loop_test(t, what_is_refused_is_not_sent_again, 0, 6);
    tcase_add_test(t, a_part_may_be_refused);
    tcase_add_test(t, a_lane_without_room_is_tried_again);
    tcase_add_test(t, a_batch_without_memory_is_tried_again);
    tcase_add_test(t, off_while_a_batch_has_no_worker);
    tcase_add_test(t, other_settings_count_for_what_comes);
    tcase_add_test(t, off_while_a_batch_is_tried);
    tcase_add_test(t, at_the_end_what_waits_is_sent_at_once);
    tcase_add_test(t, at_the_end_nothing_is_tried_again);
    tcase_add_test(t, the_end_does_not_wait_for_a_silent_collector);
    return t;
}

TCase *export_machine_tests(void)
{
    return machine_tests(&export_states, STATE(EXPORT_IDLE), 0);
}
