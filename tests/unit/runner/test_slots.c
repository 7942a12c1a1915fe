/* Many calls, many functions, few resources. */
#include "suites.h"
#include "world.h"

#include <stdio.h>
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

static void many_starts_and_a_listener(struct world *w)
{
    many_starts(w);
    w->with_listener = true;
}

/* Containers for a burst of 20 calls of 1 s, behind 10 of them one after the other. */
static uint32_t burst_behind_calls(uint32_t refused_one_in)
{
    struct world *w = world_create(many_starts_and_a_listener);
    const struct call_spec spec = { .what = "ms-1000" };
    uint32_t creates;

    w->refused_one_in = refused_one_in;
    for (int i = 0; i < 10; i++) {
        world_call(w, spec);
        world_run_ms(w, 1200);
    }
    ck_assert_uint_eq(w->before, refused_one_in ? 9 : 10);
    for (int i = 0; i < 20; i++) {
        world_call(w, spec);
    }
    world_run_ms(w, 500);
    creates = w->creates;
    world_destroy(w);
    return creates;
}

/* A run of no time would say that one container is enough for all of them. */
START_TEST(refused_calls_are_no_short_runs)
{
    ck_assert_uint_eq(burst_behind_calls(10), burst_behind_calls(0));
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

static void one_fits(struct world *w)
{
    w->totals.mem_bytes = 128 * ACCOUNT_MIB;
}

/* Who waits beside it waited for queue_wait, or for a start that hangs. */
START_TEST(one_whose_caller_left_while_it_was_frozen_serves_others)
{
    struct world *w = world_create(one_fits);
    struct engage_session *first, *second;

    w->r->opt.freeze_idle_ns = 50 * ENV_MS;
    w->fast_ns = 20 * ENV_MS;
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 125);
    ck_assert_ptr_nonnull(world_container(w, CTR_FREEZE));
    first = world_call(w, (struct call_spec){ .what = "ok" });
    second = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 1);
    world_gone(w, first);
    world_run_ms(w, 60);
    ck_assert(second->success);
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

TCase *slots_tests(void)
{
    TCase *t = tcase_create("slots");

    tcase_add_test(t, burst_starts_all);
    tcase_add_test(t, short_calls_need_few_containers);
    tcase_add_test(t, refused_calls_are_no_short_runs);
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
    tcase_add_test(t, one_whose_caller_left_while_it_was_frozen_serves_others);
    tcase_add_test(t, freeze_fails);
    tcase_add_test(t, thaw_fails);
    return t;
}
