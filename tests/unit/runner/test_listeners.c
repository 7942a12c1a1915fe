/* What listeners are told of a call: before it, with its model, and how it ended. */
#include "suites.h"
#include "world.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static void with_listener(struct world *w)
{
    w->with_listener = true;
}

START_TEST(listeners)
{
    struct world *w = world_create(with_listener);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok" });

    world_run_ms(w, 200);
    ck_assert(s->success);
    ck_assert_uint_eq(w->before, 1);
    ck_assert_uint_eq(w->after, 1);
    ck_assert_str_eq(w->last_before, s->id);
    ck_assert_str_eq(w->last_group, "default");
    world_call(w, (struct call_spec){ .config = ", \"FN_LB_GROUP_ID\": \"gold\"" });
    world_run_ms(w, 200);
    ck_assert_str_eq(w->last_group, "gold");
    world_call(w, (struct call_spec){ .config = ", \"FN_LB_GROUP_ID\": \"\"" });
    world_run_ms(w, 200);
    ck_assert_str_eq(w->last_group, "default");
    ck_assert_uint_eq(w->after, 3);
    w->listener_refuses = true;
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    ck_assert_int_eq(s->code, 403);
    ck_assert_str_eq(s->text, "not today");
    ck_assert_uint_eq(s->executions, 0);
    ck_assert_uint_eq(w->after, 3);
    world_destroy(w);
}
END_TEST

/* The hash is that of the containers, which the driver's extensions are part of. */
START_TEST(listeners_see_the_call)
{
    struct world *w = world_create(with_listener);
    static const struct fn_kv plan = { "plan", "gold" };
    struct engage_session *s;
    char first[72];

    w->extensions = &plan;
    w->n_extensions = 1;
    s = world_call(w, (struct call_spec){ .extra = ", \"annotations\": {\"zone\": [1, 2]}" });
    world_run_ms(w, 200);
    ck_assert(s->success);
    ck_assert_uint_eq(w->after, 1);
    ck_assert_str_eq(w->last_zone, "[1,2]");
    ck_assert_str_eq(w->last_plan, "gold");
    ck_assert_uint_eq(strlen(w->last_slot), 64);
    snprintf(first, sizeof(first), "%s", w->last_slot);
    w->n_extensions = 0;
    world_call(w, (struct call_spec){ .mem_mb = 256 });
    world_run_ms(w, 200);
    ck_assert_uint_eq(w->after, 2);
    ck_assert_str_eq(w->last_zone, "");
    ck_assert_str_eq(w->last_plan, "");
    ck_assert_str_ne(w->last_slot, first);
    world_destroy(w);
}
END_TEST

/* As the load balancer says it. */
START_TEST(listeners_of_an_aborted_call)
{
    struct world *w = world_create(with_listener);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .no_body = true });

    world_body(w, s, "abc", 3, false);
    world_run_ms(w, 200);
    world_gone(w, s);
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->after, 1);
    ck_assert_str_eq(w->last_end.outcome, "aborted");
    ck_assert_int_eq(w->last_end.code, FN_E_CANCELLED);
    ck_assert_uint_eq(w->last_end.http_status, 444);
    ck_assert_uint_eq(w->last_end.blame, FN_BLAME_USER);
    ck_assert_int_ge(w->last_end.ended_ns, w->last_end.started_ns + 100 * ENV_MS);
    s = world_call(w, (struct call_spec){ .what = "ms-500" });
    world_run_ms(w, 200);
    world_gone(w, s);
    world_run_ms(w, 600);
    ck_assert_uint_eq(w->after, 2);
    ck_assert_str_eq(w->last_end.outcome, "ok");
    ck_assert_int_eq(w->last_end.code, 0);
    world_destroy(w);
}
END_TEST

TCase *listeners_tests(void)
{
    TCase *t = tcase_create("listeners");

    tcase_add_test(t, listeners);
    tcase_add_test(t, listeners_see_the_call);
    tcase_add_test(t, listeners_of_an_aborted_call);
    return t;
}
