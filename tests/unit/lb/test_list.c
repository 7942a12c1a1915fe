/* The list of calls, while calls come and go between two of its slices. */
#include "fixture.h"
#include "suites.h"

static void setup(void)
{
    lb_opts = (struct lb_options){ .placement_timeout_ns = 30 * ENV_S,
                                   .detached_placement_timeout_ns = 30 * ENV_S,
                                   .response_buffer_bytes = 1000 };
    fixture_api = false;
    lb_setup();
}

static void next_is(struct walk *w, const char *state, const char *waits_for, const char *runner)
{
    struct lb_call_row row;

    ck_assert(lb_walk_next(lb, w, &row));
    ck_assert_uint_eq(strlen(row.call_id), CALL_ID_LEN);
    ck_assert_str_eq(row.state, state);
    ck_assert_str_eq(row.waits_for, waits_for);
    if (runner) {
        ck_assert_str_eq(row.runner, runner);
    } else {
        ck_assert_ptr_null(row.runner);
    }
}

START_TEST(rows_say_what_a_call_waits_for)
{
    struct client *c[3];
    struct lb_call_row row;
    struct walk w;

    c[0] = INVOKE("first");
    fake_env_advance(env, 5 * ENV_S);
    c[1] = INVOKE("second");
    lb_walk(lb, &w);
    ck_assert(lb_walk_next(lb, &w, &row));
    ck_assert_str_eq(row.fn_id, FN_HELLO);
    ck_assert_str_eq(row.app_id, "APP");
    ck_assert_int_eq(row.age_ns, 5 * ENV_S);
    ck_assert_uint_eq(row.offers, 0);
    next_is(&w, "placing", "a runner", NULL);
    ck_assert(!lb_walk_next(lb, &w, &row));
    walk_end(&w);
    PUBLISH("r1:1");
    c[2] = INVOKE("third");
    lb_walk(lb, &w);
    ck_assert(lb_walk_next(lb, &w, &row) && lb_walk_next(lb, &w, &row));
    next_is(&w, "offered", "the runner's answer", "r1:1");
    walk_end(&w);
    for (int i = 0; i < 3; i++) {
        client_gone(c[i]);
        client_free(c[i]);
    }
}
END_TEST

START_TEST(calls_go_between_two_slices)
{
    struct client *c[4];
    struct lb_call_row row;
    struct walk w, beside;
    char second[CALL_ID_LEN + 1];

    for (int i = 0; i < 4; i++) {
        c[i] = INVOKE("");
    }
    lb_walk(lb, &w);
    lb_walk(lb, &beside);
    ck_assert(lb_walk_next(lb, &w, &row));
    client_gone(c[0]); /* shown; the other walk stands on it */
    client_gone(c[1]); /* next of both */
    ck_assert(lb_walk_next(lb, &w, &row));
    memcpy(second, row.call_id, sizeof(second));
    ck_assert(lb_walk_next(lb, &beside, &row));
    ck_assert_str_eq(row.call_id, second);
    walk_end(&beside);
    client_gone(c[3]);
    ck_assert(!lb_walk_next(lb, &w, &row)); /* the last one went */
    walk_end(&w);
    client_gone(c[2]);
    for (int i = 0; i < 4; i++) {
        client_free(c[i]);
    }
}
END_TEST

Suite *list_suite(void)
{
    Suite *s = suite_create("lb list");
    TCase *tc = tcase_create("list");

    tcase_add_checked_fixture(tc, setup, lb_teardown);
    tcase_add_test(tc, rows_say_what_a_call_waits_for);
    tcase_add_test(tc, calls_go_between_two_slices);
    suite_add_tcase(s, tc);
    return s;
}
