/* Placement: calls that wait: parking, wakes, retries, deadlines, limits. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

START_TEST(plugin_wakes)
{
    const struct fn_wake_if *w = fake_plugin_table("fn.wake");
    struct place_call *a = begin();

    place_next(a);
    woken = 0;
    w->wake(&placer.host, "other");
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 0);
    fake_plugin_on_worker = 1;
    w->wake(&placer.host, "default");
    fake_plugin_on_worker = 0;
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 1);
    leave(a);
}
END_TEST

/* Freed capacity wakes a few calls, oldest first. */
static struct place_call *order[64];
static int n_order;

static void note(struct place_call *pc)
{
    order[n_order++] = pc;
}

START_TEST(capacity_wakes_the_oldest)
{
    struct place_call *running;
    struct place_call *waiting[10];

    PUBLISH("r1:1");
    running = begin();
    ck_assert_int_eq(place_next(running), PLACE_TRY);
    for (int i = 0; i < 10; i++) {
        waiting[i] = begin();
        waiting[i]->on_wake = note;
        ck_assert_int_eq(place_next(waiting[i]), PLACE_TRY);
        place_refused(waiting[i], FN_WHY_BUSY, FN_E_UNAVAILABLE);
        ck_assert_int_eq(place_next(waiting[i]), PLACE_PARKED);
    }
    n_order = 0;
    end(running);
    fake_env_advance(env, 0);
    ck_assert_int_eq(n_order, 2);
    ck_assert_ptr_eq(order[0], waiting[0]);
    ck_assert_ptr_eq(order[1], waiting[1]);
    /* The first one fails again: it stays first. */
    ck_assert_int_eq(place_next(waiting[0]), PLACE_TRY);
    place_refused(waiting[0], FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(waiting[0]), PLACE_PARKED);
    ck_assert_int_eq(place_next(waiting[1]), PLACE_TRY);
    n_order = 0;
    place_ended(waiting[1], FN_DONE_OK);
    fake_env_advance(env, 0);
    ck_assert_int_eq(n_order, 2);
    ck_assert_ptr_eq(order[0], waiting[0]);
    ck_assert_ptr_eq(order[1], waiting[2]);
    for (int i = 0; i < 10; i++) {
        leave(waiting[i]);
    }
}
END_TEST

/* A call of that app and function that was refused and waits. */
static struct place_call *wait_as(const char *app, const char *fn)
{
    struct place_call *pc = begin();

    pc->view.app_id = app;
    pc->view.fn_id = fn;
    pc->deadline_ns = env->now + 3600 * ENV_S;
    pc->on_wake = note;
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
    return pc;
}

/* What comes free in one turn of the loop is offered in one turn. */
START_TEST(ends_of_one_turn_wake_as_many)
{
    struct place_call *running[10], *waiting[30];

    PUBLISH("r1:1");
    for (int i = 0; i < 10; i++) {
        running[i] = begin();
        ck_assert_int_eq(place_next(running[i]), PLACE_TRY);
    }
    for (int i = 0; i < 30; i++) {
        waiting[i] = wait_as("A", "a");
    }
    n_order = 0;
    for (int i = 0; i < 10; i++) {
        end(running[i]);
    }
    fake_env_advance(env, 0);
    ck_assert_int_eq(n_order, 20);
    for (int i = 0; i < 20; i++) {
        ck_assert_ptr_eq(order[i], waiting[i]);
    }
    for (int i = 0; i < 30; i++) {
        leave(waiting[i]);
    }
}
END_TEST

/* A place comes free: the next two are asked. */
static void free_a_place(void)
{
    struct place_call *pc = begin();

    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    end(pc);
    fake_env_advance(env, 0);
}

static void refuse_again(struct place_call *pc)
{
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(pc), PLACE_PARKED);
}

/* However many calls of one function came first, other apps, and other functions of its app, are
 * asked in their turn. */
START_TEST(apps_and_functions_take_turns)
{
    static const char *const expected[] = { "Aa", "Bb", "Cc", "AA", "Bb", "Aa", "AA", "Aa" };
    struct place_call *calls[12];
    int n = 0;

    PUBLISH("r1:1");
    for (int i = 0; i < 6; i++) {
        calls[n++] = wait_as("A", "a");
    }
    calls[n++] = wait_as("B", "b");
    calls[n++] = wait_as("B", "b");
    calls[n++] = wait_as("C", "c");
    calls[n++] = wait_as("A", "A");
    calls[n++] = wait_as("A", "A");
    n_order = 0;
    while (n_order < 8) {
        free_a_place();
    }
    for (int i = 0; i < 8; i++) {
        ck_assert_msg(order[i]->view.app_id[0] == expected[i][0] &&
                          order[i]->view.fn_id[0] == expected[i][1],
                      "turn %d: %s %s", i, order[i]->view.app_id, order[i]->view.fn_id);
    }
    for (int i = 0; i < n; i++) {
        leave(calls[i]);
    }
}
END_TEST

static bool noting;

static void note_or_try(struct place_call *pc)
{
    if (noting) {
        note(pc);
    } else {
        refuse_again(pc); /* its timer */
    }
}

/* Calls of a function are asked in the order of their arrival, whatever became of others and
 * however often they were refused. */
START_TEST(calls_of_a_function_keep_their_order)
{
    enum { N = 300 };
    static struct place_call *calls[N];
    uint32_t x = 1;

    PUBLISH("r1:1");
    for (int i = 0; i < N; i++) {
        calls[i] = wait_as("A", "a");
        calls[i]->on_wake = note_or_try;
    }
    for (int round = 0; round < 60; round++) {
        int first = 0;

        n_order = 0;
        noting = true;
        free_a_place();
        noting = false;
        ck_assert_int_eq(n_order, 2);
        while (!calls[first]) {
            first++;
        }
        ck_assert_ptr_eq(order[0], calls[first]);
        refuse_again(order[1]);
        refuse_again(order[0]);
        fake_env_advance(env, 300 * ENV_MS); /* timers take some out of the middle */
        for (int k = 0; k < 4; k++) {
            x = x * 1103515245u + 12345u;
            if (calls[x / 65536 % N]) {
                leave(calls[x / 65536 % N]);
                calls[x / 65536 % N] = NULL;
            }
        }
    }
    for (int i = 0; i < N; i++) {
        if (calls[i]) {
            leave(calls[i]);
        }
    }
}
END_TEST

/* What a refused call costs: at most ten attempts a second, however many runners and wakes. */
START_TEST(no_retry_storm)
{
    static const char *const three[] = { "r1:1", "r2:1", "r3:1", NULL };
    struct place_call *a;
    uint32_t before = 0;

    publish("default", three);
    a = begin();
    a->deadline_ns = env->now + 3600 * ENV_S;
    woken = 1;
    for (int ms = 0; ms < 20000; ms += 5) {
        if (woken) {
            woken = 0;
            while (place_next(a) == PLACE_TRY) {
                place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
            }
        }
        if (ms == 1000) {
            before = a->attempts;
        }
        if (ms >= 1000) { /* somebody else's call ends all the time */
            struct place_call *other = begin();

            ck_assert_int_eq(place_next(other), PLACE_TRY);
            end(other);
        }
        fake_env_advance(env, 5 * ENV_MS);
    }
    ck_assert_uint_le(a->attempts - before, 19 * 12);
    leave(a);
}
END_TEST

/* The bound holds also when one round alone has more attempts than that. */
START_TEST(many_runners_refuse)
{
    char names[40][16];
    const char *list[41] = { NULL };
    struct place_call *a;

    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "r%d:1", i);
        list[i] = names[i];
    }
    publish("default", list);
    a = begin();
    a->deadline_ns = env->now + 3600 * ENV_S;
    woken = 1;
    for (int ms = 0; ms < 60000; ms += 10) {
        if (woken) {
            woken = 0;
            while (place_next(a) == PLACE_TRY) {
                place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
            }
        }
        fake_env_advance(env, 10 * ENV_MS);
    }
    ck_assert_uint_ge(a->attempts, 60 * 6);
    ck_assert_uint_le(a->attempts, 80 + 60 * 10);
    leave(a);
}
END_TEST

START_TEST(waits_grow_to_a_second)
{
    struct place_call *a = begin();
    uint32_t before = 0;

    a->deadline_ns = env->now + 3600 * ENV_S;
    woken = 1;
    for (int i = 0; i < 1000; i++) {
        if (woken) {
            woken = 0;
            place_next(a);
        }
        fake_env_advance(env, 10 * ENV_MS);
    }
    before = t.decisions;
    ck_assert_uint_ge(before, 5 + 7);
    ck_assert_uint_le(before, 10 + 12);
    leave(a);
}
END_TEST

/* "Until it is woken": the sum with the time of day was a time in the past, and the loop asked for
 * ever. */
START_TEST(the_longest_wait_is_until_the_deadline_or_a_wake)
{
    const struct fn_wake_if *w = fake_plugin_table("fn.wake");
    struct place_call *a = begin();

    a->on_wake = ask_again;
    t.fixed = (struct fn_answer){ .verdict = FN_WAIT, .wait_ns = INT64_MAX,
                                  .wake_mask = FN_WAKE_PLUGIN };
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    fake_env_advance(env, 29 * ENV_S);
    ck_assert_uint_eq(t.decisions, 1);
    w->wake(&placer.host, "default");
    fake_env_advance(env, 0);
    ck_assert_uint_eq(t.decisions, 2);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.decisions, 3);
    ck_assert_int_eq(last_verdict, PLACE_GIVE_UP);
    leave(a);
}
END_TEST

START_TEST(deadline_says_why)
{
    struct place_call *a = begin();

    a->on_wake = ask_again;
    last_verdict = place_next(a);
    fake_env_advance(env, 29900 * ENV_MS);
    ck_assert_int_eq(last_verdict, PLACE_PARKED);
    fake_env_advance(env, 200 * ENV_MS);
    ck_assert_int_eq(last_verdict, PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB301 no runner: 0 known");
    ck_assert_int_eq(a->error.http_status, 503);
    ck_assert_int_gt(a->error.retry_after_ns, 0);
    leave(a);
    PUBLISH("r1:1", "r2:1");
    a = begin();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(place_next(a), PLACE_TRY);
        fake_env_advance(env, 16 * ENV_S);
        a->refusal = "memory or CPU is used up";
        place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    }
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB302 busy: 2 of 2 refused (memory or CPU is used up)");
    leave(a);
    fake_engage_up(&fe, "r1:1", false);
    fake_engage_up(&fe, "r2:1", false);
    a = begin();
    fake_env_advance(env, 31 * ENV_S);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB303 down: 2 of 2 unreachable");
    leave(a);
}
END_TEST

/* Runners that hold a call for long before they refuse it; no placer looks at the clock. */
START_TEST(the_deadline_ends_a_round)
{
    struct place_call *a;

    PUBLISH("r1:1", "r2:1", "r3:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    fake_env_advance(env, 31 * ENV_S);
    place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB302 busy: 1 of 3 refused");
    leave(a);
    a = begin();
    fake_env_advance(env, 31 * ENV_S);
    ck_assert_int_eq(place_next(a), PLACE_TRY); /* the only attempt that it has */
    place_refused(a, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* Where no runner was tried, none is blamed. */
START_TEST(what_was_never_tried_is_not_blamed)
{
    struct place_call *a;

    PUBLISH("r1:1", "r2:1");
    t.fixed.verdict = FN_GIVE_UP;
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB302 busy: the placer tried none of 2");
    leave(a);
    t.fixed.verdict = FN_WAIT;
    place_set_options(place, &(struct place_options){ .retry_min_ns = 10 * ENV_MS,
                                                       .retry_max_ns = ENV_S });
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB305 too many calls wait for a runner");
    leave(a);
    t.group = ""; /* of a pool: no group */
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_str_eq(a->error.msg, "LB301 no runner: the pool names no group for this call");
    leave(a);
}
END_TEST

START_TEST(demand_each_second)
{
    struct place_call *a = begin();
    struct place_call *b;

    a->on_wake = ask_again;
    place_next(a);
    fake_env_advance(env, 10 * ENV_S);
    ck_assert_uint_ge(t.wants, 10);
    ck_assert_uint_eq(t.demand.mem_mb, 128);
    ck_assert_uint_eq(t.demand.waiting, 1);
    PUBLISH("r1:1");
    b = begin();
    place_next(b);
    leave(a);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.demand.waiting, 0);
    ck_assert_uint_eq(t.demand.running, 1);
    end(b);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.demand.mem_mb, 0);
}
END_TEST

static void on_stopped(void *ud)
{
    ++*(int *)ud;
}

START_TEST(stop_gives_up_waiting_calls)
{
    struct place_call *a = begin();
    int stopped = 0;

    place_next(a);
    woken = 0;
    place_stop(place, on_stopped, &stopped);
    fake_env_advance(env, 0);
    ck_assert_int_eq(stopped, 1);
    ck_assert_int_eq(woken, 1);
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    leave(a);
}
END_TEST

/* Ten thousand waiting calls: memory of each, and the cost of asking them again. */
START_TEST(many_waiting)
{
    enum { N = 10000 };
    static struct place_call *calls[N];
    struct place_counts n;

    PUBLISH("r1:1");
    for (int i = 0; i < N; i++) {
        calls[i] = begin();
        calls[i]->deadline_ns = env->now + 3600 * ENV_S;
        ck_assert_int_eq(place_next(calls[i]), PLACE_TRY);
        place_refused(calls[i], FN_WHY_BUSY, FN_E_UNAVAILABLE);
        ck_assert_int_eq(place_next(calls[i]), PLACE_PARKED);
    }
    ck_assert_uint_le(sizeof(struct place_call), 1024);
    place_count(place, &n);
    ck_assert_uint_eq(n.waiting, N);
    for (int i = 0; i < N; i++) {
        leave(calls[i]);
    }
}
END_TEST

START_TEST(waiting_limit)
{
    struct place_call *calls[3];
    struct place_deps deps = { .env = &env->env, .client = &fe.client,
                               .options = { 10 * ENV_MS, ENV_S, 2 } };
    struct place *small;
    struct fn_error e = ERR_INIT;

    fake_plugin_reset();
    ck_assert_int_eq(place_create(&deps, &small, &e), 0);
    ck_assert_int_eq(place_set_placer(small, &placer, NULL, NULL), 0);
    ck_assert_int_eq(place_start(small, &pool, &e), 0);
    for (int i = 0; i < 3; i++) {
        calls[i] = calloc(1, sizeof(*calls[i]));
        calls[i]->view = (struct fn_call){ .lb_group = "default" };
        calls[i]->deadline_ns = env->now + ENV_S;
        calls[i]->on_wake = on_wake;
        place_begin(small, calls[i]);
        ck_assert_int_eq(place_next(calls[i]), i < 2 ? PLACE_PARKED : PLACE_GIVE_UP);
    }
    ck_assert_int_eq(calls[2]->error.http_status, 503);
    for (int i = 0; i < 3; i++) {
        leave(calls[i]);
    }
    place_destroy(small);
}
END_TEST

static struct place_call *find_no_place(const char *app, const char *why)
{
    struct place_call *pc = begin();

    pc->view.app_id = app;
    ck_assert_int_eq(place_next(pc), PLACE_TRY);
    place_refused(pc, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_int_eq(place_next(pc), PLACE_GIVE_UP);
    ck_assert_str_eq(pc->error.msg, why);
    return pc;
}

/* One app cannot have all places of waiting calls. */
START_TEST(an_app_has_a_share_of_the_waiting_calls)
{
    struct place_options options = { 10 * ENV_MS, ENV_S, 10, 10 * ENV_S, 0 };
    struct place_call *calls[16];
    struct place_counts counts;
    int n = 0;

    PUBLISH("r1:1");
    place_set_options(place, &options);
    while (n < 8) {
        calls[n++] = wait_as("A", "a");
    }
    calls[n++] = find_no_place("A", "LB305 too many calls of this app wait for a runner");
    calls[n++] = wait_as("B", "b");
    n_order = 0;
    free_a_place();
    /* Those who are asked have their places still. */
    calls[n++] = find_no_place("A", "LB305 too many calls of this app wait for a runner");
    calls[n++] = wait_as("C", "c");
    calls[n++] = find_no_place("D", "LB305 too many calls wait for a runner");
    place_count(place, &counts);
    ck_assert_uint_eq(counts.waiting, 8);
    refuse_again(order[0]); /* who waits already is not given up */
    refuse_again(order[1]);
    place_count(place, &counts);
    ck_assert_uint_eq(counts.waiting, 10);
    for (int i = 0; i < n; i++) {
        leave(calls[i]);
    }
    for (n = 0; n < 8; n++) {
        calls[n] = wait_as("A", "a");
    }
    for (int i = 0; i < n; i++) {
        leave(calls[i]);
    }
}
END_TEST

START_TEST(a_call_that_runs_has_no_place)
{
    struct place_options options = { 10 * ENV_MS, ENV_S, 1, 10 * ENV_S, 0 };
    struct place_call *a, *b, *c;

    PUBLISH("r1:1");
    place_set_options(place, &options);
    a = wait_as("A", "a");
    n_order = 0;
    free_a_place();
    ck_assert_int_eq(n_order, 1);
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    fake_env_advance(env, 4 * ENV_S); /* it may still be refused */
    b = find_no_place("B", "LB305 too many calls wait for a runner");
    fake_env_advance(env, ENV_S);
    c = wait_as("B", "b");
    end(a);
    leave(b);
    leave(c);
}
END_TEST

TCase *waiting_tests(void)
{
    const TTest *const tests[] = {
        plugin_wakes, capacity_wakes_the_oldest, ends_of_one_turn_wake_as_many,
        apps_and_functions_take_turns,
        calls_of_a_function_keep_their_order, an_app_has_a_share_of_the_waiting_calls,
        a_call_that_runs_has_no_place, no_retry_storm, many_runners_refuse,
        waits_grow_to_a_second, the_longest_wait_is_until_the_deadline_or_a_wake, deadline_says_why,
        the_deadline_ends_a_round,
        what_was_never_tried_is_not_blamed,
        demand_each_second, stop_gives_up_waiting_calls, many_waiting, waiting_limit,
    };

    return world_case("waiting", tests, sizeof(tests) / sizeof(tests[0]));
}
