/* Many calls, many functions, few resources, bad engines. */
#include "suites.h"
#include "world.h"

#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void many_starts(struct world *w)
{
    w->opt.parallel_starts_max = 1000;
    w->totals.mem_bytes = 100 * 128 * ACCOUNT_MIB;
}

START_TEST(burst_starts_all)
{
    struct world *w = world_create(many_starts);
    struct engage_session *s[100];

    for (int i = 0; i < 100; i++) {
        s[i] = world_call(w, (struct call_spec){ .what = "ms-200" });
    }
    world_run_ms(w, 75); /* image 20, create 20, start 20, boot 5 */
    ck_assert_uint_eq(w->prepares, 1);
    ck_assert_uint_eq(w->creates, 100);
    ck_assert_uint_eq(w->executions, 100);
    world_run_ms(w, 300);
    for (int i = 0; i < 100; i++) {
        ck_assert(s[i]->success);
    }
    world_destroy(w);
}
END_TEST

START_TEST(short_calls_need_few_containers)
{
    struct world *w = world_create(many_starts);
    struct engage_session *s[60];

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    w->r->opt.start_target_ns = 10 * ENV_MS;
    for (int i = 0; i < 60; i++) { /* of 1 ms each */
        s[i] = world_call(w, (struct call_spec){ .what = "ok" });
    }
    world_run_ms(w, 200);
    for (int i = 0; i < 60; i++) {
        ck_assert(s[i]->success);
    }
    ck_assert_uint_le(w->creates, 16);
    world_destroy(w);
}
END_TEST

static void four_at_a_time(struct world *w)
{
    many_starts(w);
    w->opt.parallel_starts_max = 4;
    w->totals.cpu_milli = 2000;
}

START_TEST(starts_of_a_burst_end_when_its_calls_prove_short)
{
    struct world *w = world_create(four_at_a_time);
    struct engage_session *s[60];

    for (int i = 0; i < 60; i++) { /* of 1 ms each, at a function without containers */
        s[i] = world_call(w, (struct call_spec){ .what = "ok" });
    }
    world_run_ms(w, 1000);
    for (int i = 0; i < 60; i++) {
        ck_assert(s[i]->success);
    }
    ck_assert_uint_le(w->creates, 12);
    world_destroy(w);
}
END_TEST

/* A machine whose processors are all in use. */
static int read_busy(void *ud, const char *path, char *ret, size_t cap)
{
    unsigned *ticks = ud;

    ck_assert_str_eq(path, "/proc/stat");
    *ticks += 20;
    return snprintf(ret, cap, "cpu  %u 0 0 5 0 0 0 0 0 0\n", *ticks);
}

static void one_processor(struct world *w)
{
    many_starts(w);
    w->totals.cpu_milli = 1000;
}

/* As many short calls as keep the four containers of one processor busy for longer than anybody's
 * patience. */
static unsigned creates_for_short_calls(const struct account_reader *reader)
{
    struct world *w = world_create(one_processor);
    struct engage_session *s[150];
    unsigned creates;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    w->r->opt.start_target_ns = 1000 * ENV_MS;
    w->r->deps.reader = *reader;
    for (int i = 0; i < 150; i++) { /* of 1 ms each */
        s[i] = world_call(w, (struct call_spec){ .what = "ok" });
    }
    world_run_ms(w, 400);
    for (int i = 0; i < 150; i++) {
        ck_assert(s[i]->success);
    }
    creates = w->creates;
    world_destroy(w);
    return creates;
}

START_TEST(a_machine_that_is_used_up_gets_no_more_containers)
{
    unsigned ticks = 0;
    const struct account_reader idle = { NULL, NULL }, busy = { read_busy, &ticks };

    ck_assert_uint_gt(creates_for_short_calls(&idle), 4);
    ck_assert_uint_eq(creates_for_short_calls(&busy), 4);
    ck_assert_uint_gt(ticks, 0);
}
END_TEST

static void two_processors(struct world *w)
{
    many_starts(w);
    w->totals.cpu_milli = 2000;
}

/* Rounds of `calls` calls of 1 ms at a time, on a machine without processor time to spare. */
static unsigned creates_for_rounds(int rounds, int calls)
{
    struct world *w = world_create(two_processors);
    unsigned ticks = 0, creates;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    w->r->opt.start_target_ns = 1000 * ENV_MS;
    w->r->deps.reader = (struct account_reader){ read_busy, &ticks };
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < calls; k++) {
            world_call(w, (struct call_spec){ .what = "ok" });
        }
        world_run_ms(w, 40);
    }
    creates = w->creates;
    world_destroy(w);
    return creates;
}

START_TEST(calls_back_to_back_get_four_containers_for_each_processor)
{
    ck_assert_uint_eq(creates_for_rounds(4, 30), 8);
}
END_TEST

START_TEST(calls_that_meet_now_and_then_share_a_container)
{
    ck_assert_uint_eq(creates_for_rounds(50, 2), 1);
}
END_TEST

/* Three idle containers of another function fill the rest of the memory. */
START_TEST(calls_back_to_back_evict_nobody)
{
    struct world *w = world_create(two_processors);
    unsigned ticks = 0;

    world_call(w, (struct call_spec){ .what = "ok" });
    for (int i = 0; i < 3; i++) {
        world_call(w, (struct call_spec){ .what = "ms-20", .fn = "other" });
    }
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->creates, 4);
    w->r->account.totals.mem_bytes = w->r->account.used.mem_bytes;
    w->r->opt.start_target_ns = 1000 * ENV_MS;
    w->r->deps.reader = (struct account_reader){ read_busy, &ticks };
    for (int i = 0; i < 4 * 30; i++) {
        world_call(w, (struct call_spec){ .what = "ok" });
    }
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->creates, 4);
    world_destroy(w);
}
END_TEST

/* Runs that take twenty times as long as they did because there are too many at a time. */
START_TEST(runs_that_a_busy_machine_makes_longer_get_no_more_containers)
{
    struct world *w = world_create(two_processors);
    struct engage_session *s[60];
    unsigned ticks = 0;

    world_call(w, (struct call_spec){ .what = "ok" }); /* 1 ms */
    world_run_ms(w, 100);
    w->r->opt.start_target_ns = 10 * ENV_MS;
    w->r->deps.reader = (struct account_reader){ read_busy, &ticks };
    for (int i = 0; i < 60; i++) {
        s[i] = world_call(w, (struct call_spec){ .what = "ms-20" });
    }
    world_run_ms(w, 600);
    for (int i = 0; i < 60; i++) {
        ck_assert(s[i]->success);
    }
    ck_assert_uint_le(w->creates, 8);
    world_destroy(w);
}
END_TEST

/* One call holds the only container; the others wait for patience and a start. */
static void short_calls_behind_a_slow_one(const struct account_reader *reader)
{
    struct world *w = world_create(many_starts);
    struct engage_session *s[10];

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 100);
    w->r->opt.start_target_ns = 100 * ENV_MS;
    w->r->opt.freeze_idle_ns = -1;
    w->r->deps.reader = *reader;
    world_call(w, (struct call_spec){ .what = "ms-5000" });
    for (int i = 0; i < 10; i++) {
        s[i] = world_call(w, (struct call_spec){ .what = "ok" });
    }
    world_run_ms(w, 250);
    for (int i = 0; i < 10; i++) {
        ck_assert(s[i]->success);
    }
    world_run_ms(w, 6000);
    world_destroy(w);
}

START_TEST(a_slow_call_does_not_hold_up_short_ones)
{
    unsigned ticks = 0;
    const struct account_reader unknown = { NULL, NULL }, busy = { read_busy, &ticks };

    short_calls_behind_a_slow_one(&unknown);
    short_calls_behind_a_slow_one(&busy);
}
END_TEST

START_TEST(parallel_starts_are_bounded)
{
    struct world *w = world_create(NULL);

    for (int i = 0; i < 8; i++) {
        world_call(w, (struct call_spec){ .what = "ms-500" });
    }
    world_run_ms(w, 1000);
    ck_assert_uint_eq(w->executions, 8);
    ck_assert_uint_le(w->in_flight_max, 5);
    world_destroy(w);
}
END_TEST

START_TEST(full_is_an_answer)
{
    struct world *w = world_create(NULL);
    struct engage_session *s[8], *more[40], *other;
    int refused = 0;

    for (int i = 0; i < 8; i++) { /* 8 x 128 = all there is */
        s[i] = world_call(w, (struct call_spec){ .what = "ms-3000" });
    }
    world_run_ms(w, 500);
    other = world_call(w, (struct call_spec){ .fn = "f2", .what = "ok" });
    ck_assert_int_eq(other->code, 503); /* at once: f2 has no container */
    for (int i = 0; i < 40; i++) {
        more[i] = world_call(w, (struct call_spec){ .what = "ok" });
        refused += more[i]->finishes;
    }
    ck_assert_int_eq(refused, 40 - 2 * 8); /* bounded queue */
    world_run_ms(w, 490);
    for (int i = 0; i < 16; i++) {
        ck_assert_int_eq(more[i]->finishes, 0);
    }
    world_run_ms(w, 20);
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(more[i]->code, 503);
    }
    world_run_ms(w, 4000);
    for (int i = 0; i < 8; i++) {
        ck_assert(s[i]->success);
    }
    world_destroy(w);
}
END_TEST

START_TEST(waiters_are_served_in_order)
{
    struct world *w = world_create(NULL);
    struct engage_session *s[3];

    w->r->account.totals.mem_bytes = 128 * ACCOUNT_MIB;
    w->totals.mem_bytes = 128 * ACCOUNT_MIB;
    world_call(w, (struct call_spec){ .what = "ms-100" });
    world_run_ms(w, 90);
    for (int i = 0; i < 2; i++) {
        s[i] = world_call(w, (struct call_spec){ .what = "ms-100" });
    }
    world_run_ms(w, 100);
    ck_assert_uint_eq(s[0]->executions, 1);
    ck_assert_uint_eq(s[1]->executions, 0);
    world_run_ms(w, 110);
    ck_assert_uint_eq(s[1]->executions, 1);
    ck_assert_uint_eq(w->creates, 1);
    world_destroy(w);
}
END_TEST

static void three_places(struct world *w)
{
    w->totals.mem_bytes = 384 * ACCOUNT_MIB;
}

START_TEST(eviction_takes_the_least_recently_used)
{
    struct world *w = world_create(three_places);
    char oldest[28], middle[28];
    struct engage_session *s;

    world_call(w, (struct call_spec){ .fn = "a", .what = "ok" });
    world_run_ms(w, 500);
    world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 500);
    world_call(w, (struct call_spec){ .fn = "c", .what = "ok" });
    world_run_ms(w, 500);
    world_call(w, (struct call_spec){ .fn = "a", .what = "ok" }); /* a is fresh again */
    world_run_ms(w, 500);
    memcpy(middle, TAILQ_NEXT(TAILQ_FIRST(&w->r->lru), lru_link)->id, 28);
    memcpy(oldest, TAILQ_FIRST(&w->r->lru)->id, 28);
    ck_assert_str_eq(TAILQ_FIRST(&w->r->lru)->q->fn_id, "b");
    s = world_call(w, (struct call_spec){ .fn = "d", .what = "ok" });
    world_run_ms(w, 500);
    ck_assert(s->success);
    ck_assert_uint_eq(w->n_closed, 1);
    ck_assert_str_eq(w->closed_ids[0], oldest);
    s = world_call(w, (struct call_spec){ .fn = "e", .what = "ok" });
    world_run_ms(w, 500);
    ck_assert_str_eq(w->closed_ids[1], middle);
    ck_assert_uint_le(w->live_max, 3);
    world_destroy(w);
}
END_TEST

START_TEST(eviction_takes_the_smallest_useful_set)
{
    struct world *w = world_create(three_places);
    struct engage_session *s;

    /* In order of use: 64, 192, 128 MB. A call of 192 needs only the second. */
    world_call(w, (struct call_spec){ .fn = "a", .what = "ok", .mem_mb = 64 });
    world_run_ms(w, 500);
    world_call(w, (struct call_spec){ .fn = "b", .what = "ok", .mem_mb = 192 });
    world_run_ms(w, 500);
    world_call(w, (struct call_spec){ .fn = "c", .what = "ok", .mem_mb = 128 });
    world_run_ms(w, 500);
    s = world_call(w, (struct call_spec){ .fn = "d", .what = "ok", .mem_mb = 192 });
    world_run_ms(w, 500);
    ck_assert(s->success);
    ck_assert_uint_eq(w->n_closed, 1); /* only the one of 192 MB */
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 384 * ACCOUNT_MIB);
    world_destroy(w);
}
END_TEST

START_TEST(busy_ones_are_not_evicted)
{
    struct world *w = world_create(three_places);
    struct engage_session *a, *b;

    a = world_call(w, (struct call_spec){ .fn = "a", .what = "ms-1000", .mem_mb = 384 });
    world_run_ms(w, 200);
    b = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    ck_assert_int_eq(b->code, 503);
    world_run_ms(w, 1200);
    ck_assert(a->success);
    b = world_call(w, (struct call_spec){ .fn = "b", .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(b->success);
    world_destroy(w);
}
END_TEST

START_TEST(nothing_is_reserved_while_pulling)
{
    struct world *w = world_create(NULL);

    w->slow_ns = 5 * ENV_S;
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 4000);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 0);
    world_run_ms(w, 2000);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 128 * ACCOUNT_MIB);
    world_run_ms(w, 20000);
    world_destroy(w);
}
END_TEST

START_TEST(freeze_and_thaw)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    world_run_ms(w, 110);
    ck_assert_uint_eq(w->freezes, 0);
    world_run_ms(w, 40);
    ck_assert_uint_eq(w->freezes, 1);
    ck_assert_ptr_nonnull(world_container(w, CTR_FROZEN));
    s = world_call(w, (struct call_spec){ .what = "ok" });
    ck_assert_uint_eq(s->executions, 0);
    world_run_ms(w, 10);
    ck_assert(s->success);
    ck_assert_uint_eq(w->thaws, 1);
    ck_assert_uint_eq(w->creates, 1);
    world_run_ms(w, 31000);
    ck_assert_uint_eq(w->live, 0); /* idle timeout goes on while frozen */
    world_destroy(w);
}
END_TEST

START_TEST(taken_while_freezing)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->r->opt.freeze_idle_ns = 50 * ENV_MS;
    w->fast_ns = 20 * ENV_MS;
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 125);
    ck_assert_ptr_nonnull(world_container(w, CTR_FREEZE));
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 60);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 1);
    world_destroy(w);
}
END_TEST

START_TEST(freeze_fails)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->fail_method = "freeze";
    w->fails = 1;
    err_set(&w->next_error, FN_E_INTERNAL, "no cgroup");
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->live, 0);
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

START_TEST(thaw_fails)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    w->fail_method = "thaw";
    w->fails = 1;
    err_set(&w->next_error, FN_E_INTERNAL, "no cgroup");
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(s->success); /* on another container */
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

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

static uint32_t user_lines, user_lines_lost;

static void count_user_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    const char *lost = memmem(line, len, " suppressed=", 12);

    (void)level;
    (void)wall_ns;
    if (memmem(line, len, "user_log=true", 13)) {
        user_lines++;
        user_lines_lost += lost ? (uint32_t)strtoul(lost + 12, NULL, 10) : 0;
    }
}

static int64_t no_time(void)
{
    return 0;
}

static void few_lines(struct world *w)
{
    w->opt.user_logs = 1;
    w->opt.user_log_lines_per_s = 3;
}

static void print_lines(struct container *c, int n)
{
    while (n-- > 0) {
        container_output(c, 1, "hello\n", 6);
    }
}

START_TEST(output_goes_to_the_log_within_its_limit)
{
    const struct log_config counted = { .level = FN_LOG_INFO, .fd = 2, .wall_ns = no_time,
                                        .sink = count_user_line };
    const struct log_config plain = { .level = FN_LOG_ERROR, .fd = 2, .wall_ns = no_time };
    struct world *w = world_create(few_lines);
    struct runner_options other = w->opt;
    struct container *c;

    user_lines = user_lines_lost = 0;
    log_setup(&counted);
    world_call(w, (struct call_spec){ .what = "ms-5000" });
    world_run_ms(w, 200);
    c = world_container(w, CTR_BUSY);
    print_lines(c, 10);
    ck_assert_uint_eq(user_lines, 3);
    world_run_ms(w, 1100);
    print_lines(c, 1);
    ck_assert_uint_eq(user_lines, 4);
    ck_assert_uint_eq(user_lines_lost, 7);
    other.user_log_lines_per_s = 5;
    runner_set_options(w->r, &other); /* a reload */
    print_lines(c, 10);
    ck_assert_uint_eq(user_lines, 8);
    log_setup(&plain);
    world_run_ms(w, 6000);
    world_destroy(w);
}
END_TEST

START_TEST(output_is_kept)
{
    struct world *w = world_create(NULL);
    struct container *c;
    char line[100];

    world_call(w, (struct call_spec){ .what = "ms-1000" });
    world_run_ms(w, 200);
    c = world_container(w, CTR_BUSY);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(line, sizeof(line), "line %d of some length to fill the ring\n", i);

        container_output(c, 1 + (uint32_t)(i % 2), line, (size_t)n);
        ck_assert_uint_le(c->output.ring->records.len, w->opt.log_ring_bytes * 3 / 2);
    }
    ck_assert_ptr_nonnull(strstr(output_tail(&c->output, 2048), "line 4999"));
    ck_assert_uint_ge(c->output.ring->records.len, w->opt.log_ring_bytes / 2);
    c->r->opt.log_ring_bytes *= 4; /* by a reload */
    for (int i = 0; i < 20000; i++) {
        container_output(c, 1, line, strlen(line));
        ck_assert_uint_ge(c->output.ring->records.len, w->opt.log_ring_bytes * 9 / 10);
    }
    ck_assert_uint_ge(c->output.ring->records.len, 4 * w->opt.log_ring_bytes * 9 / 10);
    c->r->opt.log_ring_bytes = w->opt.log_ring_bytes;
    container_output(c, 1, line, strlen(line));
    ck_assert_uint_le(c->output.ring->records.len, w->opt.log_ring_bytes);
    world_run_ms(w, 2000);
    world_destroy(w);
}
END_TEST

TCase *slots_tests(void)
{
    TCase *t = tcase_create("slots");

    tcase_add_test(t, burst_starts_all);
    tcase_add_test(t, short_calls_need_few_containers);
    tcase_add_test(t, starts_of_a_burst_end_when_its_calls_prove_short);
    tcase_add_test(t, a_slow_call_does_not_hold_up_short_ones);
    tcase_add_test(t, a_machine_that_is_used_up_gets_no_more_containers);
    tcase_add_test(t, calls_back_to_back_get_four_containers_for_each_processor);
    tcase_add_test(t, calls_back_to_back_evict_nobody);
    tcase_add_test(t, calls_that_meet_now_and_then_share_a_container);
    tcase_add_test(t, runs_that_a_busy_machine_makes_longer_get_no_more_containers);
    tcase_add_test(t, parallel_starts_are_bounded);
    tcase_add_test(t, full_is_an_answer);
    tcase_add_test(t, waiters_are_served_in_order);
    tcase_add_test(t, eviction_takes_the_least_recently_used);
    tcase_add_test(t, eviction_takes_the_smallest_useful_set);
    tcase_add_test(t, busy_ones_are_not_evicted);
    tcase_add_test(t, nothing_is_reserved_while_pulling);
    tcase_add_test(t, freeze_and_thaw);
    tcase_add_test(t, taken_while_freezing);
    tcase_add_test(t, freeze_fails);
    tcase_add_test(t, thaw_fails);
    tcase_add_loop_test(t, starts_that_fail, 0, (int)(sizeof(bad_starts) / sizeof(bad_starts[0])));
    tcase_add_test(t, start_error_with_nobody_waiting);
    tcase_add_test(t, pull_fails);
    tcase_add_test(t, pull_takes_too_long);
    tcase_add_test(t, image_vanished);
    tcase_add_test(t, raw_engine_error);
    tcase_add_test(t, engine_hung_cold);
    tcase_add_test(t, engine_down);
    tcase_add_test(t, engine_hung);
    tcase_add_test(t, removal_is_retried);
    tcase_add_test(t, what_the_driver_says_may_be_tried_elsewhere_is_refused);
    tcase_add_test(t, sweep_at_start);
    tcase_add_test(t, sweeps_go_on);
    tcase_add_test(t, a_sweep_that_finds_the_lane_full_comes_later);
    tcase_add_test(t, drain_waits_for_calls);
    tcase_add_test(t, drain_does_not_wait_for_orphans);
    tcase_add_loop_test(t, drain_leaves_no_container_in_the_making, 0, 2);
    tcase_add_test(t, output_is_kept);
    tcase_add_test(t, output_goes_to_the_log_within_its_limit);
    return t;
}
