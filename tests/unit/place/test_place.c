/* Placement: rounds, groups, stacks, random walks; with scripted plugins. */
#include "world.h"

#include <base/metric.h>
#include <stdio.h>


START_TEST(tries_in_order_and_counts)
{
    struct place_call *a;
    struct place_call *b;
    struct place_counts n;

    PUBLISH("r1:1", "r2:1");
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_TRY);
    ck_assert_str_eq(a->address, "r1:1");
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_uint_eq(t.inflight[0], 1);
    place_refused(b, FN_WHY_BUSY, FN_E_UNAVAILABLE);
    ck_assert_uint_eq(t.observed[FN_DONE_BUSY], 1);
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_str_eq(b->address, "r2:1");
    ck_assert_uint_eq(t.last_why, FN_WHY_BUSY);
    ck_assert_int_eq(t.last_code, FN_E_UNAVAILABLE);
    ck_assert_uint_eq(b->attempts, 2);
    place_count(place, &n);
    ck_assert_uint_eq(n.trying, 2);
    ck_assert_uint_eq(n.runners_up, 2);
    end(a);
    end(b);
    ck_assert_uint_eq(t.observed[FN_DONE_OK], 2);
    place_count(place, &n);
    ck_assert_uint_eq(n.trying, 0);
}
END_TEST

START_TEST(give_up_with_a_code)
{
    struct place_call *a;

    PUBLISH("r1:1");
    t.fixed = (struct fn_answer){ .verdict = FN_GIVE_UP, .code = FN_E_PERMISSION };
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_GIVE_UP);
    ck_assert_int_eq(a->error.code, FN_E_PERMISSION);
    ck_assert_uint_ne(a->error.flags & FN_ERR_RETRY, 0);
    leave(a);
}
END_TEST

START_TEST(groups_are_apart)
{
    struct place_call *a;
    struct place_call *b;

    publish("other", (const char *const[]){ "o1:1", NULL });
    a = begin();
    ck_assert_int_eq(place_next(a), PLACE_PARKED);
    t.group = "other";
    b = begin();
    ck_assert_int_eq(place_next(b), PLACE_TRY);
    ck_assert_str_eq(b->address, "o1:1");
    woken = 0;
    end(b);
    fake_env_advance(env, 0);
    ck_assert_int_eq(woken, 0);
    leave(a);
}
END_TEST

/* Random walks: counts always come back to zero, and nothing is asked from inside. */
static int64_t failing_metric(const char *code)
{
    static const char *const labels[] = { "code", NULL };
    const struct metric_def def = { .name = "fn_lb_runners_failing",
                                    .kind = METRIC_GAUGE,
                                    .labels = labels };

    return metric_value(metric_series(metric_declare(&def), &code));
}

static const char *placed_at(void)
{
    static char address[64];
    struct place_call *c = begin();

    ck_assert_int_eq(place_next(c), PLACE_TRY);
    snprintf(address, sizeof(address), "%s", c->address);
    end(c);
    return address;
}

/* One whose status fails gets no calls, and gets them again; unless most fail. */
START_TEST(failing_runners_are_left_out)
{
    static const char *const all[] = { "r1:1", "r2:1", "r3:1" };
    struct place_call *c;

    fe.up_at_once = false;
    PUBLISH("r1:1", "r2:1", "r3:1");
    for (int i = 0; i < 3; i++) {
        fake_engage_up(&fe, all[i], true);
    }
    ck_assert_str_eq(placed_at(), "r1:1");
    fake_engage_health(&fe, "r1:1", true, 503);
    ck_assert_int_eq(failing_metric("503"), 1);
    c = begin();
    ck_assert_int_eq(place_next(c), PLACE_TRY);
    ck_assert_str_eq(c->address, "r2:1");
    ck_assert_uint_eq(t.last_why, FN_WHY_UNREACHABLE);
    fake_engage_health(&fe, "r2:1", true, 502); /* most of them: all are used */
    ck_assert_str_eq(placed_at(), "r1:1");
    end(c);
    fake_engage_health(&fe, "r2:1", false, 0);
    ck_assert_str_eq(placed_at(), "r2:1");
    fake_engage_up(&fe, "r2:1", false);
    ck_assert_str_eq(placed_at(), "r3:1");
    fake_engage_up(&fe, "r1:1", false); /* it stays what it was */
    ck_assert_int_eq(failing_metric("503"), 0);
    fake_engage_up(&fe, "r1:1", true);
    ck_assert_int_eq(failing_metric("503"), 1);
    ck_assert_str_eq(placed_at(), "r3:1");
    fake_engage_up(&fe, "r3:1", false); /* the last one that is connected is used */
    ck_assert_str_eq(placed_at(), "r1:1");
    fake_engage_health(&fe, "r1:1", false, 0);
    ck_assert_int_eq(failing_metric("503"), 0);
    fake_engage_health(&fe, "r1:1", true, 7); /* no HTTP status */
    ck_assert_int_eq(failing_metric("0"), 1);
    PUBLISH("r2:1", "r3:1");
    ck_assert_int_eq(failing_metric("0"), 0);
}
END_TEST

/* Calls that wait are asked again. */
START_TEST(a_runner_that_is_good_again_wakes)
{
    struct place_call *c;

    PUBLISH("r1:1", "r2:1");
    fake_engage_health(&fe, "r1:1", true, 503);
    t.fixed = (struct fn_answer){ .verdict = FN_WAIT, .wake_mask = FN_WAKE_POOL };
    c = begin();
    ck_assert_int_eq(place_next(c), PLACE_PARKED);
    woken = 0;
    fake_env_advance(env, 1);
    ck_assert_int_eq(woken, 0);
    fake_engage_health(&fe, "r1:1", false, 0);
    fake_env_advance(env, 1);
    ck_assert_int_eq(woken, 1);
    leave(c);
}
END_TEST

START_TEST(random_walks)
{
    enum { N = 40 };
    struct place_call *calls[N] = { NULL };
    enum { NONE, TRYING, PARKED } states[N] = { NONE };
    static const char *const lists[][4] = {
        { "a:1", "b:1", NULL }, { "a:1", NULL }, { NULL }, { "c:1", "b:1", "a:1", NULL },
    };
    struct place_counts n;

    for (int step = 0; step < 20000; step++) {
        uint64_t x = env_random_u64(&env->env);
        int i = (int)(x % N);

        x >>= 8;
        if (x % 50 == 0) {
            publish("default", lists[x / 50 % 4]);
        } else if (x % 50 == 1) {
            struct engage_link *l = TAILQ_FIRST(&fe.links);

            if (l) {
                fake_engage_up(&fe, l->address, !l->up);
            }
        } else if (states[i] == NONE) {
            calls[i] = begin();
            states[i] = place_next(calls[i]) == PLACE_TRY ? TRYING : PARKED;
        } else if (states[i] == TRYING && x % 3 == 0) {
            end(calls[i]);
            states[i] = NONE;
        } else if (states[i] == TRYING && x % 3 == 1) {
            place_refused(calls[i], x & 8 ? FN_WHY_BUSY : FN_WHY_UNREACHABLE, FN_E_UNAVAILABLE);
            states[i] = place_next(calls[i]) == PLACE_TRY ? TRYING : PARKED;
        } else if (x % 7 == 0) {
            leave(calls[i]);
            states[i] = NONE;
        }
        if (x % 11 == 0) {
            fake_env_advance(env, (int64_t)(x % 200) * ENV_MS);
            for (int k = 0; k < N; k++) {
                if (states[k] == PARKED && !calls[k]->parked) {
                    states[k] = place_next(calls[k]) == PLACE_TRY ? TRYING : PARKED;
                    if (states[k] == PARKED && !calls[k]->parked) {
                        leave(calls[k]);
                        states[k] = NONE;
                    }
                }
            }
        }
    }
    for (int i = 0; i < N; i++) {
        if (states[i] != NONE) {
            leave(calls[i]);
        }
    }
    place_count(place, &n);
    ck_assert_uint_eq(n.waiting, 0);
    ck_assert_uint_eq(n.trying, 0);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_uint_eq(t.demand.mem_mb, 0);
    publish("default", lists[2]);
    ck_assert_uint_eq(fe.links_open, 0);
}
END_TEST

/* A wrapper sees the placers of its own configuration, above it in the list. */
START_TEST(stack_of_placers)
{
    const struct fn_placer_if *table = fake_plugin_table("fn.placer");
    const struct fn_placer_ops *ops = NULL;
    struct fn_error e = ERR_INIT;
    struct plugin inner, wrapper, fresh;
    void *inst = NULL;

    fake_plugin_init(&inner, "p2c", &placer_ops, &inner);
    fake_plugin_init(&wrapper, "slow", &placer_ops, &wrapper);
    fake_plugin_init(&fresh, "p2c", &placer_ops, &fresh);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), FN_E_NOT_FOUND);
    ck_assert_str_eq(e.msg,
                     "inner placer, got \"p2c\"; expected the name of a placer above it");
    place_stack_begin(place);
    ck_assert_int_eq(place_stack_add(place, &inner, &e), 0);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), 0);
    ck_assert_ptr_eq(ops, &placer_ops);
    ck_assert_ptr_eq(inst, &inner);
    ck_assert_int_eq(table->inner(&wrapper.host, "slow", &ops, &inst, &e), FN_E_NOT_FOUND);

    place_stack_begin(place);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), FN_E_NOT_FOUND);
    ck_assert_int_eq(place_stack_add(place, &fresh, &e), 0);
    ck_assert_int_eq(table->inner(&wrapper.host, "p2c", &ops, &inst, &e), 0);
    ck_assert_ptr_eq(inst, &fresh);
    for (uint32_t i = 1; i < PLACE_STACK_MAX; i++) {
        ck_assert_int_eq(place_stack_add(place, &wrapper, &e), 0);
    }
    ck_assert_int_eq(place_stack_add(place, &wrapper, &e), FN_E_RANGE);
    ck_assert_str_eq(e.msg, "placers, got 9; expected at most 8");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        tries_in_order_and_counts,
        failing_runners_are_left_out,
        a_runner_that_is_good_again_wakes, give_up_with_a_code, groups_are_apart, random_walks,
        stack_of_placers,
    };
    Suite *s = suite_create("place");
    SRunner *sr;
    int failed;

    suite_add_tcase(s, world_case("place", tests, sizeof(tests) / sizeof(tests[0])));
    suite_add_tcase(s, lists_tests());
    suite_add_tcase(s, long_lists_tests());
    suite_add_tcase(s, waiting_tests());
    suite_add_tcase(s, groups_tests());
    suite_add_tcase(s, distrust_tests());
    suite_add_tcase(s, counts_tests());
    suite_add_tcase(s, hints_tests());
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
