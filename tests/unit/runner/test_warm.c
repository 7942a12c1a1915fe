/* The pool of warm containers: what is kept, what is started, who gets it and who takes it away. */
#include "suites.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

#define MB(n) ((uint64_t)(n) * ACCOUNT_MIB)

static void pool_of_four(struct world *w)
{
    w->opt.warm_max = 4;
    w->opt.warm_hold_ns = 120 * ENV_S;
    w->totals.mem_bytes = MB(8 * 128);
}

static struct engage_session *call_fn(struct world *w, const char *fn)
{
    return world_call(w, (struct call_spec){ .fn = fn, .what = "ms-20" });
}

static void burst(struct world *w, const char *fn, int n)
{
    struct engage_session *s[16];

    for (int i = 0; i < n; i++) {
        s[i] = call_fn(w, fn);
    }
    world_run_ms(w, 300);
    for (int i = 0; i < n; i++) {
        ck_assert(s[i]->success);
    }
    world_check(w);
}

/* The first container of a function, in one of the states from `from` to `to`. */
static struct container *container_of_fn(struct world *w, const char *fn, enum ctr_state from,
                                         enum ctr_state to)
{
    struct container *c, *next;

    HASH_ITER(hh, w->r->containers, c, next) {
        if (strcmp(c->task.fn_id, fn) == 0 && c->state >= from && c->state <= to) {
            return c;
        }
    }
    return NULL;
}

static uint32_t containers_of(struct world *w, const char *fn)
{
    struct container *c, *next;
    uint32_t n = 0;

    HASH_ITER(hh, w->r->containers, c, next) {
        n += strcmp(c->task.fn_id, fn) == 0 && c->state < CTR_CLOSE;
    }
    return n;
}

static struct runner_warm_counts warm_of(struct world *w)
{
    return world_counts(w).warm;
}

/* Ends the containers of a function, as if they had crashed. */
static void kill_all(struct world *w, const char *fn)
{
    struct container *c;

    while ((c = container_of_fn(w, fn, CTR_IDLE, CTR_FROZEN))) {
        world_exit(w, c->id, FN_EXIT_SIGNAL, 9);
    }
}

/* Until one is with the engine to be created. */
static void wait_for_start(struct world *w, const char *fn)
{
    for (int i = 0; i < 300 && !container_of_fn(w, fn, CTR_CREATE, CTR_CREATE); i++) {
        world_run_ms(w, 10);
    }
    ck_assert_ptr_nonnull(container_of_fn(w, fn, CTR_CREATE, CTR_CREATE));
}

START_TEST(without_it_nothing_is_kept)
{
    struct world *w = world_create(NULL);

    burst(w, "a", 2);
    ck_assert_ptr_null(w->r->queues->warm);
    ck_assert(!env_timer_is_set(&w->r->warm.timer));
    world_run_ms(w, 40000);
    ck_assert_uint_eq(world_counts(w).containers, 0);
    ck_assert_uint_eq(world_counts(w).queues, 0);
    ck_assert_uint_eq(warm_of(w).misses, 0);
    world_destroy(w);
}
END_TEST

START_TEST(what_a_burst_needed_is_there_for_the_next_one)
{
    struct world *w = world_create(pool_of_four);

    burst(w, "a", 3);
    ck_assert_uint_eq(warm_of(w).misses, 3);
    ck_assert_uint_eq(warm_of(w).now, 0);
    world_run_ms(w, 60000); /* twice the idle timeout */
    ck_assert_uint_eq(containers_of(w, "a"), 3);
    ck_assert_uint_eq(warm_of(w).now, 3);
    burst(w, "a", 3);
    ck_assert_uint_eq(w->creates, 3);
    ck_assert_uint_eq(warm_of(w).hits, 3);
    ck_assert_uint_eq(warm_of(w).misses, 3);
    ck_assert_uint_eq(warm_of(w).now, 0);
    world_destroy(w);
}
END_TEST

START_TEST(no_more_than_the_maximum_is_kept)
{
    struct world *w = world_create(pool_of_four);

    burst(w, "a", 7);
    ck_assert_uint_eq(containers_of(w, "a"), 7);
    world_run_ms(w, 60000);
    ck_assert_uint_eq(containers_of(w, "a"), 4);
    world_destroy(w);
}
END_TEST

START_TEST(those_that_are_wanted_are_not_frozen)
{
    struct world *w = world_create(pool_of_four);
    uint32_t thaws;

    burst(w, "a", 2);
    world_run_ms(w, 10000);
    burst(w, "a", 2); /* thaws them, if they were frozen before the number was known */
    thaws = w->thaws;
    world_run_ms(w, 60000);
    ck_assert_ptr_nonnull(container_of_fn(w, "a", CTR_IDLE, CTR_IDLE));
    burst(w, "a", 2);
    ck_assert_uint_eq(w->thaws, thaws);
    world_destroy(w);
}
END_TEST

START_TEST(what_is_not_needed_any_more_goes_by_and_by)
{
    struct world *w = world_create(pool_of_four);
    uint32_t n = 4, steps = 0;

    burst(w, "a", 4);
    world_run_ms(w, 110000);
    ck_assert_uint_eq(containers_of(w, "a"), 4); /* it holds */
    for (int minute = 0; minute < 10; minute++) {
        uint32_t now;

        world_run_ms(w, 60000);
        now = containers_of(w, "a");
        ck_assert_uint_le(now, n);
        ck_assert_uint_le(n - now, 1); /* a quarter of four, of three, ... */
        steps += now < n;
        n = now;
    }
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(steps, 4);
    ck_assert_uint_eq(warm_of(w).expired, 4);
    ck_assert_uint_eq(world_counts(w).queues, 0);
    world_destroy(w);
}
END_TEST

START_TEST(one_that_is_lost_is_started_again)
{
    struct world *w = world_create(pool_of_four);

    burst(w, "a", 1);
    world_run_ms(w, 2000);
    kill_all(w, "a");
    world_run_ms(w, 2000);
    ck_assert_uint_eq(containers_of(w, "a"), 1);
    ck_assert_uint_eq(warm_of(w).started, 1);
    ck_assert_str_eq(w->last_env, "A=b;FN_FORMAT=http-stream;FN_LISTENER=unix:/tmp/iofs/lsnr.sock;");
    burst(w, "a", 1);
    ck_assert_uint_eq(warm_of(w).hits, 1);
    ck_assert_uint_eq(warm_of(w).misses, 1);
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

START_TEST(starts_for_the_pool_are_few_and_wait_for_those_of_calls)
{
    struct world *w = world_create(pool_of_four);

    burst(w, "a", 4);
    world_run_ms(w, 2000);
    w->slow_ns = 500 * ENV_MS;
    kill_all(w, "a");
    world_call(w, (struct call_spec){ .fn = "b", .what = "ms-20" });
    world_run_ms(w, 1400); /* a tick, while b is created and started */
    ck_assert_uint_eq(warm_of(w).now, 0);
    for (int i = 0; i < 60; i++) {
        world_run_ms(w, 100);
        world_check(w); /* at most WARM_STARTS_MAX of them */
    }
    ck_assert_uint_eq(warm_of(w).started, 4);
    world_destroy(w);
}
END_TEST

START_TEST(a_call_that_comes_while_one_starts_gets_it)
{
    struct world *w = world_create(pool_of_four);
    struct engage_session *s;

    burst(w, "a", 1);
    world_run_ms(w, 2000);
    w->slow_ns = 300 * ENV_MS;
    kill_all(w, "a");
    wait_for_start(w, "a");
    ck_assert_uint_eq(warm_of(w).now, 1);
    s = call_fn(w, "a");
    ck_assert_uint_eq(warm_of(w).now, 0);
    world_run_ms(w, 1000);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_uint_eq(warm_of(w).misses, 2);
    world_check(w);
    world_destroy(w);
}
END_TEST

/* One that waits at the gate of the pool's starts goes to that of calls. */
START_TEST(a_call_hastens_the_start_that_it_gets)
{
    struct world *w = world_create(pool_of_four);
    struct engage_session *s;
    struct container *c;

    burst(w, "a", 1);
    world_run_ms(w, 2000);
    kill_all(w, "a");
    w->slow_ns = 300 * ENV_MS;
    w->r->engine.warm_starts.max = 0;
    wait_for_start(w, "a");
    c = container_of_fn(w, "a", CTR_CREATE, CTR_CREATE);
    ck_assert(c->op.pass.waits);
    s = call_fn(w, "a");
    ck_assert(c->op.submitted);
    world_run_ms(w, 1000);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

static void room_for_three(struct world *w)
{
    pool_of_four(w);
    w->totals.mem_bytes = MB(3 * 128);
    w->opt.warm_memory_percent = 100;
}

START_TEST(warm_ones_are_evicted_first)
{
    struct world *w = world_create(room_for_three);
    struct engage_session *s;

    burst(w, "b", 1); /* idle for longest, but a call may come */
    w->r->opt.warm_max = 0;
    burst(w, "c", 1);
    w->r->opt.warm_max = 4;
    burst(w, "a", 1);
    world_run_ms(w, 2000);
    kill_all(w, "a");
    world_run_ms(w, 2000); /* started for the pool, after all others */
    ck_assert_uint_eq(warm_of(w).now, 1);
    s = call_fn(w, "d");
    world_run_ms(w, 1); /* until its image was looked at */
    ck_assert_uint_eq(warm_of(w).evicted, 1);
    ck_assert_uint_eq(containers_of(w, "a"), 0);
    ck_assert_uint_eq(containers_of(w, "b"), 1);
    ck_assert_uint_eq(containers_of(w, "c"), 1);
    world_run_ms(w, 300);
    ck_assert(s->success);
    world_run_ms(w, 3000); /* it takes free memory only: there is none */
    ck_assert_uint_eq(containers_of(w, "a"), 0);
    ck_assert_uint_eq(containers_of(w, "b"), 1);
    world_check(w);
    world_destroy(w);
}
END_TEST

START_TEST(one_that_only_starts_is_evicted_too)
{
    struct world *w = world_create(room_for_three);
    struct engage_session *s[3];

    burst(w, "a", 1);
    world_run_ms(w, 2000);
    kill_all(w, "a");
    w->slow_ns = 400 * ENV_MS;
    wait_for_start(w, "a");
    for (int i = 0; i < 3; i++) {
        s[i] = world_call(w, (struct call_spec){ .fn = "b", .what = "ms-300" });
    }
    world_run_ms(w, 1000);
    ck_assert_uint_eq(warm_of(w).evicted, 1);
    world_check(w);
    world_run_ms(w, 4000);
    for (int i = 0; i < 3; i++) {
        ck_assert(s[i]->success);
    }
    world_destroy(w);
}
END_TEST

static void half_of_eight(struct world *w)
{
    pool_of_four(w);
    w->opt.warm_max = 8;
    w->opt.warm_memory_percent = 50;
}

START_TEST(they_hold_no_more_than_their_share_of_the_memory)
{
    struct world *w = world_create(half_of_eight);

    burst(w, "a", 6);
    world_run_ms(w, 60000);
    ck_assert_uint_eq(containers_of(w, "a"), 4);
    ck_assert_uint_eq(warm_of(w).started, 0);
    world_check(w);
    world_destroy(w);
}
END_TEST

START_TEST(what_fails_to_start_is_tried_again_more_and_more_seldom)
{
    struct world *w = world_create(pool_of_four);
    uint32_t after_a_minute;

    w->r->opt.warm_hold_ns = 1000 * ENV_S;
    burst(w, "a", 1);
    world_run_ms(w, 2000);
    w->fail_method = "start";
    w->fails = 1000;
    err_set(&w->next_error, FN_E_INTERNAL, "no such device");
    kill_all(w, "a");
    world_run_ms(w, 60000);
    after_a_minute = w->starts - 1;
    ck_assert_uint_ge(after_a_minute, 4);
    ck_assert_uint_le(after_a_minute, 7); /* after 1, 2, 4, 8, 16 and 32 s */
    ck_assert_uint_eq(warm_of(w).failed, after_a_minute);
    world_run_ms(w, 300000);
    ck_assert_uint_le(w->starts - 1, after_a_minute + 4);
    w->fails = 0;
    world_run_ms(w, 302000);
    ck_assert_uint_eq(containers_of(w, "a"), 1);
    world_destroy(w);
}
END_TEST

START_TEST(an_engine_that_is_down_is_left_alone)
{
    struct world *w = world_create(pool_of_four);
    struct fn_error why = ERR_INIT;
    uint32_t creates;

    burst(w, "a", 2);
    world_run_ms(w, 2000);
    creates = w->creates;
    w->engine_dead = true;
    err_set(&why, FN_E_UNAVAILABLE, "gone");
    engine_set(w->r, false, &why);
    kill_all(w, "a");
    world_run_ms(w, 20000);
    ck_assert_uint_eq(w->creates, creates);
    w->engine_dead = false;
    world_run_ms(w, 5000);
    ck_assert_uint_eq(containers_of(w, "a"), 2);
    world_check(w);
    world_destroy(w);
}
END_TEST

START_TEST(it_can_be_turned_off_and_on)
{
    struct world *w = world_create(pool_of_four);

    burst(w, "a", 3);
    burst(w, "b", 1);
    world_run_ms(w, 40000);
    ck_assert_uint_eq(warm_of(w).now, 4);
    w->opt = w->r->opt;
    w->opt.warm_max = 2;
    runner_set_options(w->r, &w->opt);
    world_run_ms(w, 2000);
    ck_assert_uint_eq(containers_of(w, "a"), 2);
    kill_all(w, "b");
    wait_for_start(w, "b");
    w->opt.warm_max = 0;
    runner_set_options(w->r, &w->opt);
    ck_assert_uint_eq(warm_of(w).now, 0);
    ck_assert(!env_timer_is_set(&w->r->warm.timer));
    world_check(w);
    world_run_ms(w, 1000);
    ck_assert_uint_eq(world_counts(w).containers, 0);
    ck_assert_uint_eq(world_counts(w).queues, 0);
    w->opt.warm_max = 1;
    runner_set_options(w->r, &w->opt);
    burst(w, "a", 1);
    world_run_ms(w, 40000);
    ck_assert_uint_eq(warm_of(w).now, 1);
    world_destroy(w);
}
END_TEST

static void warm_drained(void *ud, bool clean)
{
    *(int *)ud = clean ? 1 : 2;
}

START_TEST(a_drain_removes_them_and_starts_no_more)
{
    struct world *w = world_create(pool_of_four);
    uint32_t creates;
    int state = 0;

    burst(w, "a", 2);
    burst(w, "b", 1);
    world_run_ms(w, 40000);
    kill_all(w, "b");
    w->slow_ns = 200 * ENV_MS;
    wait_for_start(w, "b");
    creates = w->creates;
    runner_drain(w->r, w->f->now + 10 * ENV_S, warm_drained, &state);
    world_run_ms(w, 3000);
    ck_assert_int_eq(state, 1);
    ck_assert_uint_le(w->creates, creates + 1); /* that was with the engine */
    ck_assert_uint_eq(w->live, 0);
    ck_assert_uint_eq(warm_of(w).now, 0);
    world_destroy(w);
}
END_TEST

START_TEST(people_see_which_ones_are_warm)
{
    struct world *w = world_create(pool_of_four);
    struct runner_container_row row;
    struct walk walk;

    burst(w, "a", 1);
    world_run_ms(w, 40000);
    runner_walk_containers(w->r, &walk);
    ck_assert(runner_walk_next_container(w->r, &walk, &row));
    walk_end(&walk);
    ck_assert(row.warm);
    ck_assert_str_eq(row.waits_for, "a call; it is kept ready");
    world_destroy(w);
}
END_TEST

/* ---- a plugin says how many ------------------------------------------------------------------ */

struct guess {
    uint32_t n;
    int result;
    uint32_t asked;
    struct fn_traffic last; /* its texts are gone */
};

static int guess(void *inst, void *state, const struct fn_traffic *t, uint32_t *ret_n)
{
    struct world *w = inst;
    struct guess *g = w->predictor_data;
    uint64_t *times = state;

    ck_assert_uint_eq((uintptr_t)state % 16, 0);
    ck_assert_uint_eq(t->size, sizeof(*t));
    ck_assert_str_eq(t->fn_id, "a");
    ck_assert_str_eq(t->app_id, "app");
    ck_assert_str_eq(t->image, "hello");
    ck_assert_uint_eq(*times, g->asked); /* its own, kept for it */
    *times = ++g->asked;
    g->last = *t;
    if (g->result == 0) {
        *ret_n = g->n;
    }
    return g->result;
}

static int no_prediction(void *inst, void *state, const struct fn_load *load, uint64_t *ret_mb)
{
    (void)inst;
    (void)state;
    (void)load;
    (void)ret_mb;
    return FN_E_UNIMPLEMENTED;
}

static const struct fn_predictor_ops guess_ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .state_size = sizeof(uint64_t),
    .predict = no_prediction,
    .containers = guess,
};
static const struct fn_predictor_ops mute_ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .predict = no_prediction,
};

static void with_a_guess(struct world *w)
{
    pool_of_four(w);
    w->predictor = (struct plugin){ "guess", &guess_ops, w };
}

START_TEST(a_plugin_says_how_many)
{
    struct world *w = world_create(with_a_guess);
    struct guess g = { .n = 3 };

    w->predictor_data = &g;
    burst(w, "a", 2);
    world_run_ms(w, 3000);
    ck_assert_uint_eq(containers_of(w, "a"), 3);
    ck_assert_uint_eq(warm_of(w).now, 1);
    ck_assert_uint_eq(g.last.kept, 3);
    ck_assert_uint_eq(g.last.kept_max, 4);
    ck_assert_uint_eq(g.last.containers, 3);
    ck_assert_uint_eq(g.last.mem_mb, 128);
    ck_assert_int_eq(g.last.interval_ns, ENV_S);
    ck_assert_int_gt(g.last.start_ns, 0);
    ck_assert_int_ge(g.last.idle_ns, 2 * ENV_S);
    g.n = 1000;
    world_run_ms(w, 4000);
    ck_assert_uint_eq(containers_of(w, "a"), 4);
    g.n = 0;
    g.result = FN_E_INTERNAL; /* the number stays */
    world_run_ms(w, 60000);
    ck_assert_uint_eq(containers_of(w, "a"), 4);
    g.result = 0;
    world_run_ms(w, 2000);
    ck_assert_uint_eq(containers_of(w, "a"), 0);
    world_destroy(w);
}
END_TEST

START_TEST(a_plugin_hears_what_came)
{
    struct world *w = world_create(with_a_guess);
    struct guess g = { .n = 4 };

    w->predictor_data = &g;
    burst(w, "a", 3);
    world_run_ms(w, 700);
    ck_assert_uint_eq(g.asked, 1);
    ck_assert_uint_eq(g.last.calls, 3);
    ck_assert_uint_eq(g.last.missed, 3);
    ck_assert_uint_eq(g.last.running_max, 3);
    ck_assert_int_eq(g.last.interval_ns, 0);
    world_run_ms(w, 3000);
    burst(w, "a", 4);
    world_run_ms(w, 700);
    ck_assert_uint_eq(g.last.calls, 4);
    ck_assert_uint_eq(g.last.hits, 1); /* the fourth */
    ck_assert_uint_eq(g.last.missed, 0);
    ck_assert_uint_eq(g.last.running_max, 4);
    world_destroy(w);
}
END_TEST

START_TEST(a_plugin_that_cannot_say_is_refused)
{
    struct plugin mute = { "mute", &mute_ops, NULL }, able = { "able", &guess_ops, NULL };
    struct fn_error err = ERR_INIT;

    ck_assert_int_eq(runner_check_predictor(&mute, &err), FN_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "\"mute\", which has no containers()"));
    ck_assert_int_eq(runner_check_predictor(&able, &err), 0);
    ck_assert_int_eq(runner_check_predictor(NULL, &err), 0);
}
END_TEST

/* ---- the rule without a plugin --------------------------------------------------------------- */

START_TEST(the_rule)
{
    static const struct {
        int64_t at_s;
        uint32_t missed, containers, running, expected;
    } steps[] = {
        { 1, 0, 0, 1, 0 },   { 2, 1, 1, 1, 1 },    /* a miss: as many as there are */
        { 3, 2, 6, 4, 6 },   { 4, 1, 3, 2, 6 },    /* never fewer for a miss */
        { 60, 0, 6, 2, 6 },  { 103, 0, 6, 2, 6 },  /* it holds for 100 s */
        { 105, 0, 6, 2, 4 }, { 106, 0, 4, 2, 4 },  /* a quarter, then not for a minute */
        { 166, 0, 4, 2, 3 }, { 170, 0, 3, 3, 3 },  /* reached: it holds again */
        { 230, 0, 3, 1, 3 }, { 271, 0, 3, 0, 2 },  { 340, 0, 2, 0, 1 },
        { 401, 0, 1, 0, 0 }, { 500, 0, 0, 0, 0 },  { 501, 30, 30, 30, 10 },
    };
    struct warm_rule rule = { 0 };

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct fn_traffic t = { .size = sizeof(t),
                                .now_ns = steps[i].at_s * ENV_S,
                                .missed = steps[i].missed,
                                .containers = steps[i].containers,
                                .running_max = steps[i].running,
                                .kept_max = 10 };

        ck_assert_msg(warm_rule(&rule, &t, 100 * ENV_S) == steps[i].expected,
                      "at %d s: got %u; expected %u", (int)steps[i].at_s, rule.level,
                      steps[i].expected);
    }
}
END_TEST

TCase *warm_tests(void)
{
    TCase *t = tcase_create("warm");

    tcase_add_test(t, without_it_nothing_is_kept);
    tcase_add_test(t, what_a_burst_needed_is_there_for_the_next_one);
    tcase_add_test(t, no_more_than_the_maximum_is_kept);
    tcase_add_test(t, those_that_are_wanted_are_not_frozen);
    tcase_add_test(t, what_is_not_needed_any_more_goes_by_and_by);
    tcase_add_test(t, one_that_is_lost_is_started_again);
    tcase_add_test(t, starts_for_the_pool_are_few_and_wait_for_those_of_calls);
    tcase_add_test(t, a_call_that_comes_while_one_starts_gets_it);
    tcase_add_test(t, a_call_hastens_the_start_that_it_gets);
    tcase_add_test(t, warm_ones_are_evicted_first);
    tcase_add_test(t, one_that_only_starts_is_evicted_too);
    tcase_add_test(t, they_hold_no_more_than_their_share_of_the_memory);
    tcase_add_test(t, what_fails_to_start_is_tried_again_more_and_more_seldom);
    tcase_add_test(t, an_engine_that_is_down_is_left_alone);
    tcase_add_test(t, it_can_be_turned_off_and_on);
    tcase_add_test(t, a_drain_removes_them_and_starts_no_more);
    tcase_add_test(t, people_see_which_ones_are_warm);
    tcase_add_test(t, a_plugin_says_how_many);
    tcase_add_test(t, a_plugin_hears_what_came);
    tcase_add_test(t, a_plugin_that_cannot_say_is_refused);
    tcase_add_test(t, the_rule);
    return t;
}
