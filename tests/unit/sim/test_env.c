/* Virtual time: order, nastiness within the contract, fibres, deadlines, cancelling, the trace. */
#include "suites.h"

#include <sim/sim.h>
#include <sim/sim_int.h>

#include <stdlib.h>
#include <string.h>

static struct sim *sim;
static struct env *env;
static char seen[4096];

static void note(char c)
{
    size_t n = strlen(seen);

    ck_assert_uint_lt(n, sizeof(seen) - 1);
    seen[n] = c;
    seen[n + 1] = '\0';
}

static void begin(uint64_t seed, struct sim_nasty nasty)
{
    sim = sim_create(&(struct sim_options){ .seed = seed, .nasty = nasty });
    ck_assert_ptr_nonnull(sim);
    env = sim_env(sim);
    seen[0] = '\0';
}

static void setup(void)
{
    begin(1, (struct sim_nasty){ 0 });
}

static void teardown(void)
{
    sim_destroy(sim);
}

struct letter {
    struct env_timer timer;
    char c;
    int64_t fired_ns;
};

static void on_letter(struct env_timer *t)
{
    struct letter *l = container_of(t, struct letter, timer);

    l->fired_ns = sim_now_ns(sim);
    note(l->c);
}

static void letters_set(struct letter *l, const char *names, const int64_t *after_ms)
{
    for (int i = 0; names[i]; i++) {
        l[i] = (struct letter){ .timer.cb = on_letter, .c = names[i] };
        env_timer_set(env, &l[i].timer, env_now_ns(env) + after_ms[i] * ENV_MS);
    }
}

START_TEST(timers_fire_in_order_and_ties_as_set)
{
    struct letter l[6];

    letters_set(l, "abcdef", (const int64_t[]){ 30, 10, 20, 10, -5, 30 });
    env_timer_clear(env, &l[2].timer);
    ck_assert(!env_timer_is_set(&l[2].timer));
    ck_assert(sim_run(sim, 0));
    ck_assert_str_eq(seen, "ebdaf");
    ck_assert_int_eq(l[1].fired_ns, 1000 * ENV_S + 10 * ENV_MS);
    ck_assert_int_eq(l[5].fired_ns, 1000 * ENV_S + 30 * ENV_MS);
}
END_TEST

START_TEST(a_timer_moves_when_set_again)
{
    struct letter l[2];

    letters_set(l, "ab", (const int64_t[]){ 10, 20 });
    env_timer_set(env, &l[0].timer, env_now_ns(env) + 30 * ENV_MS);
    sim_run(sim, 0);
    ck_assert_str_eq(seen, "ba");
}
END_TEST

START_TEST(many_timers_keep_the_heap)
{
    enum { N = 2000 };
    struct letter *l = calloc(N, sizeof(*l));
    struct sim_rng r = sim_rng_make(3, 3);
    int64_t last = 0;
    int64_t start = sim_now_ns(sim);

    for (int i = 0; i < N; i++) {
        l[i].timer.cb = on_letter;
        l[i].c = 'x';
        sim_at(sim, &l[i].timer, start + (int64_t)sim_rng_below(&r, 500));
    }
    for (int i = 0; i < N; i += 3) {
        env_timer_clear(env, &l[i].timer);
    }
    for (int n = 0; n < N && sim_step(sim); n++) {
        ck_assert_int_ge(sim_now_ns(sim), last);
        last = sim_now_ns(sim);
        seen[0] = '\0';
    }
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(l[i].fired_ns, i % 3 == 0 ? 0 : l[i].timer.at_ns);
    }
    free(l);
}
END_TEST

struct chain {
    struct env_task task;
    int left;
};

static void on_chain(struct env_task *t)
{
    struct chain *c = container_of(t, struct chain, task);

    note('t');
    if (--c->left > 0) {
        env_defer(env, t);
    }
}

START_TEST(tasks_run_after_the_callback_before_the_next_timer)
{
    struct chain c = { .task.cb = on_chain, .left = 3 };
    struct chain gone = { .task.cb = on_chain, .left = 1 };
    struct letter l[2];

    letters_set(l, "ab", (const int64_t[]){ 0, 0 });
    env_defer(env, &c.task);
    env_defer(env, &c.task);
    env_defer(env, &gone.task);
    env_undefer(env, &gone.task);
    ck_assert_str_eq(seen, "");
    sim_run(sim, 0);
    ck_assert_str_eq(seen, "tttab");
    ck_assert(!sim_step(sim));
}
END_TEST

START_TEST(run_until_stops_between)
{
    struct letter l[2];
    int64_t start = sim_now_ns(sim);
    int64_t wall = env_wall_ns(env);

    letters_set(l, "ab", (const int64_t[]){ 10, 20 });
    sim_run_until(sim, start + 15 * ENV_MS);
    ck_assert_str_eq(seen, "a");
    ck_assert_int_eq(sim_now_ns(sim), start + 15 * ENV_MS);
    ck_assert_int_eq(env_wall_ns(env), wall + 15 * ENV_MS);
    sim_jump(sim, ENV_S);
    sim_step(sim);
    ck_assert_str_eq(seen, "ab");
    ck_assert_int_eq(l[1].fired_ns, start + 15 * ENV_MS + ENV_S);
}
END_TEST

/* ---- nastiness ------------------------------------------------------------------------------- */

static uint64_t run_letters(uint64_t seed, struct sim_nasty nasty, int64_t *ret_last_ns)
{
    static const int64_t after_ms[] = { 10, 10, 10, 10, 20, 20, 30, 40 };
    struct letter l[8];
    uint64_t hash;

    begin(seed, nasty);
    letters_set(l, "abcdefgh", after_ms);
    sim_run(sim, 0);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_ge(l[i].fired_ns, l[i].timer.at_ns);
    }
    *ret_last_ns = sim_now_ns(sim);
    hash = sim_hash(sim);
    sim_destroy(sim);
    return hash;
}

START_TEST(late_timers_are_late_and_never_early)
{
    struct sim_nasty nasty = { .late_max_ns = 100 * ENV_MS };
    int64_t clean, late;

    teardown();
    run_letters(5, (struct sim_nasty){ 0 }, &clean);
    ck_assert_int_eq(clean, 1000 * ENV_S + 40 * ENV_MS);
    run_letters(5, nasty, &late);
    ck_assert_int_gt(late, clean);
    ck_assert_str_ne(seen, "abcdefgh");
    setup();
}
END_TEST

START_TEST(batched_timers_fire_together)
{
    int64_t last;

    teardown();
    run_letters(5, (struct sim_nasty){ .batch_ns = 50 * ENV_MS }, &last);
    ck_assert_int_eq(last, 1000 * ENV_S + 50 * ENV_MS);
    ck_assert_str_eq(seen, "abcdefgh");
    setup();
}
END_TEST

START_TEST(the_seed_shuffles_equal_deadlines)
{
    char first[32];
    int64_t last;
    int different = 0;

    teardown();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t a = run_letters(seed, (struct sim_nasty){ .shuffle = true }, &last);

        strcpy(first, seen);
        ck_assert_uint_eq(a, run_letters(seed, (struct sim_nasty){ .shuffle = true }, &last));
        ck_assert_str_eq(first, seen);
        different += strcmp(seen, "abcdefgh") != 0;
        ck_assert_ptr_eq(strchr(seen, 'h'), seen + 7);
    }
    ck_assert_int_ge(different, 15);
    setup();
}
END_TEST

START_TEST(the_clock_jumps_between_callbacks)
{
    int64_t last;

    teardown();
    run_letters(5, (struct sim_nasty){ .jump_one_in = 1, .jump_max_ns = 10 * ENV_S }, &last);
    ck_assert_int_gt(last, 1000 * ENV_S + 40 * ENV_MS + ENV_S);
    ck_assert_str_eq(seen, "abcdefgh");
    setup();
}
END_TEST

START_TEST(each_seed_runs_twice_alike_and_unlike_others)
{
    uint64_t hashes[50];
    int64_t last;

    teardown();
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct sim_nasty n = sim_nasty_from_seed(seed);

        hashes[seed] = run_letters(seed, n, &last);
        ck_assert_uint_eq(hashes[seed], run_letters(seed, n, &last));
        for (uint64_t i = 0; i < seed; i++) {
            ck_assert_uint_ne(hashes[i], hashes[seed]);
        }
    }
    setup();
}
END_TEST

/* ---- operations ------------------------------------------------------------------------------ */

struct sleeper {
    struct env_work work;
    char c;
    int64_t ns[3];
    int result;
    int64_t ended_ns;
    bool done;
};

static void sleeper_run(struct env_work *w, struct fn_op *op)
{
    struct sleeper *sl = container_of(w, struct sleeper, work);

    for (int i = 0; i < 3 && sl->result == 0; i++) {
        note(sl->c);
        sl->result = sim_op_if.sleep_until(op, sim_now_ns(sim) + sl->ns[i]);
    }
    sl->ended_ns = sim_now_ns(sim);
}

static void sleeper_done(struct env_work *w)
{
    struct sleeper *sl = container_of(w, struct sleeper, work);

    ck_assert(!sl->done);
    sl->done = true;
    note((char)(sl->c - 'a' + 'A'));
}

static struct sleeper sleeper(char c, int64_t a_ms, int64_t b_ms, int64_t c_ms)
{
    return (struct sleeper){ .work = { .run = sleeper_run, .done = sleeper_done,
                                       .lane = ENV_LANE_CONTROL },
                             .c = c,
                             .ns = { a_ms * ENV_MS, b_ms * ENV_MS, c_ms * ENV_MS } };
}

START_TEST(operations_interleave_in_virtual_time)
{
    struct sleeper a = sleeper('a', 4500, 1000, 1000);
    struct sleeper b = sleeper('b', 1000, 1000, 1000);
    struct sleeper c = sleeper('c', 1500, 1700, 100);

    ck_assert_int_eq(env_submit(env, &a.work), 0);
    ck_assert_int_eq(env_submit(env, &b.work), 0);
    ck_assert_int_eq(env_submit(env, &c.work), 0);
    ck_assert_str_eq(seen, "");
    sim_run(sim, 0);
    ck_assert_str_eq(seen, "abcbcbBcCaaA");
    ck_assert_int_eq(a.ended_ns, 1000 * ENV_S + 6500 * ENV_MS);
    ck_assert_uint_eq(sim_ops_running(sim), 0);
}
END_TEST

START_TEST(a_lane_runs_no_more_than_its_width)
{
    struct sleeper list[6];

    for (int i = 0; i < 6; i++) {
        list[i] = sleeper((char)('a' + i), 10, 10, 10);
        ck_assert_int_eq(env_submit(env, &list[i].work), 0);
    }
    sim_run_until(sim, sim_now_ns(sim) + 1 * ENV_MS);
    ck_assert_str_eq(seen, "abcd");
    sim_run(sim, 0);
    ck_assert_int_eq(list[5].ended_ns, 1000 * ENV_S + 60 * ENV_MS);
}
END_TEST

START_TEST(a_deadline_ends_a_sleep)
{
    struct sleeper a = sleeper('a', 10, 500, 1);

    a.work.deadline_ns = sim_now_ns(sim) + 100 * ENV_MS;
    env_submit(env, &a.work);
    sim_run(sim, 0);
    ck_assert_int_eq(a.result, FN_E_DEADLINE);
    ck_assert_int_eq(a.ended_ns, 1000 * ENV_S + 100 * ENV_MS);
}
END_TEST

START_TEST(cancelling_ends_a_sleep_now)
{
    struct sleeper a = sleeper('a', 10000, 1, 1);
    struct sleeper never = sleeper('n', 1, 1, 1);

    env_submit(env, &a.work);
    sim_run_until(sim, sim_now_ns(sim) + 50 * ENV_MS);
    env_cancel(env, &a.work);
    env_submit(env, &never.work);
    env_cancel(env, &never.work);
    sim_run(sim, 0);
    ck_assert_int_eq(a.result, FN_E_CANCELLED);
    ck_assert_int_eq(a.ended_ns, 1000 * ENV_S + 50 * ENV_MS);
    ck_assert_int_eq(never.result, FN_E_CANCELLED);
    ck_assert(a.done && never.done);
}
END_TEST

START_TEST(a_full_lane_refuses)
{
    struct sleeper *list = calloc(1025, sizeof(*list));

    for (int i = 0; i < 1025; i++) {
        list[i] = sleeper('x', 0, 0, 0);
        ck_assert_int_eq(env_submit(env, &list[i].work), i < 1024 ? 0 : FN_E_EXHAUSTED);
    }
    for (bool more = true; more; seen[0] = '\0') {
        more = sim_step(sim);
    }
    ck_assert(list[1023].done && !list[1024].done);
    free(list);
}
END_TEST

static void *at_exit;

static void sleep_once(void *ud, struct fn_op *op)
{
    int64_t *ns = ud;

    *ns = sim_op_if.sleep_until(op, sim_now_ns(sim) + *ns);
    at_exit = op;
}

static void defer_inside(void *ud, struct fn_op *op)
{
    (void)op;
    env->enter(env);
    env_defer(env, ud);
    ck_assert_str_eq(seen, "");
    env->leave(env);
    ck_assert_str_eq(seen, "t");
}

START_TEST(one_operation_can_be_driven)
{
    struct chain c = { .task.cb = on_chain, .left = 1 };
    int64_t ns = ENV_S;

    ck_assert_int_eq(sim_run_op(sim, &(struct sim_op){ .fn = sleep_once, .ud = &ns }), 0);
    ck_assert_int_eq(ns, 0);
    ck_assert_int_eq(sim_now_ns(sim), 1001 * ENV_S);
    ns = 10 * ENV_S;
    ck_assert_int_eq(sim_run_op(sim, &(struct sim_op){ .fn = sleep_once, .ud = &ns,
                                                       .cancel_at_ns = 1003 * ENV_S }), 0);
    ck_assert_int_eq(ns, FN_E_CANCELLED);
    ck_assert_int_eq(sim_now_ns(sim), 1003 * ENV_S);
    ck_assert_int_eq(sim_run_op(sim, &(struct sim_op){ .fn = defer_inside, .ud = &c.task }), 0);
}
END_TEST

START_TEST(unfinished_operations_go_with_the_sim)
{
    struct sleeper a = sleeper('a', 10000, 1, 1);

    env_submit(env, &a.work);
    sim_run_until(sim, sim_now_ns(sim) + ENV_MS);
    ck_assert_uint_eq(sim_ops_running(sim), 1);
}
END_TEST

START_TEST(operations_are_alike_under_every_nastiness)
{
    teardown();
    for (uint64_t seed = 0; seed < 30; seed++) {
        uint64_t hash[2];
        char order[2][64];

        for (int k = 0; k < 2; k++) {
            struct sleeper a = sleeper('a', 45, 10, 10);
            struct sleeper b = sleeper('b', 10, 10, 10);

            begin(seed, sim_nasty_from_seed(seed));
            while (env_submit(env, &a.work) < 0) {
            }
            while (env_submit(env, &b.work) < 0) {
            }
            sim_run(sim, 0);
            ck_assert(a.done && b.done);
            hash[k] = sim_hash(sim);
            strcpy(order[k], seen);
            sim_destroy(sim);
        }
        ck_assert_uint_eq(hash[0], hash[1]);
        ck_assert_str_eq(order[0], order[1]);
    }
    setup();
}
END_TEST

static void on_still(void *ud)
{
    (void)ud;
    exit(3);
}

static void set_again(struct env_timer *t)
{
    env_timer_set(env, t, env_now_ns(env) + 1);
}

/* It went on for ever. */
START_TEST(time_that_stands_still_is_told)
{
    struct env_timer t = { .cb = set_again };

    sim_destroy(sim);
    sim = sim_create(&(struct sim_options){ .seed = 1, .still = on_still });
    env = sim_env(sim);
    env_timer_set(env, &t, env_now_ns(env));
    sim_run_until(sim, sim_now_ns(sim) + ENV_S);
}
END_TEST

TCase *env_tests(void)
{
    TCase *t = tcase_create("env");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, timers_fire_in_order_and_ties_as_set);
    tcase_add_test(t, a_timer_moves_when_set_again);
    tcase_add_test(t, many_timers_keep_the_heap);
    tcase_add_test(t, tasks_run_after_the_callback_before_the_next_timer);
    tcase_add_test(t, run_until_stops_between);
    tcase_add_exit_test(t, time_that_stands_still_is_told, 3);
    tcase_add_test(t, late_timers_are_late_and_never_early);
    tcase_add_test(t, batched_timers_fire_together);
    tcase_add_test(t, the_seed_shuffles_equal_deadlines);
    tcase_add_test(t, the_clock_jumps_between_callbacks);
    tcase_add_test(t, each_seed_runs_twice_alike_and_unlike_others);
    tcase_add_test(t, operations_interleave_in_virtual_time);
    tcase_add_test(t, a_lane_runs_no_more_than_its_width);
    tcase_add_test(t, a_deadline_ends_a_sleep);
    tcase_add_test(t, cancelling_ends_a_sleep_now);
    tcase_add_test(t, a_full_lane_refuses);
    tcase_add_test(t, one_operation_can_be_driven);
    tcase_add_test(t, unfinished_operations_go_with_the_sim);
    tcase_add_test(t, operations_are_alike_under_every_nastiness);
    return t;
}
