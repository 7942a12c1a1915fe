/* What a function says of its own starts. */
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

static struct engage_session *with_limit(struct world *w, const char *image, const char *json)
{
    char extra[128];

    snprintf(extra, sizeof(extra), ", \"annotations\": {\"fnd/start-timeout\": %s}", json);
    return world_call(w, (struct call_spec){ .image = image, .what = "ok", .extra = extra });
}

START_TEST(a_function_has_its_own_start_limit)
{
    static const struct {
        const char *json;
        int64_t ms;
    } cases[] = { { "\"1s\"", 1000 }, { "20", 20000 }, { "\"1m30s\"", 90000 }, { "1.5", 1500 } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *w = world_create(NULL);
        struct engage_session *s = with_limit(w, "never-listens", cases[i].json);
        char expected[64];

        world_run_ms(w, cases[i].ms);
        ck_assert_int_eq(s->finishes, 0);
        world_run_ms(w, 200); /* image, create and start before */
        ck_assert_int_eq(s->finishes, 1);
        ck_assert_int_eq(s->code, 504);
        snprintf(expected, sizeof(expected), ": no socket within %d ms", (int)cases[i].ms);
        ck_assert_ptr_nonnull(strstr(s->text, expected));
        world_destroy(w);
    }
}
END_TEST

/* A start of 15 s, longer than start_timeout and start_wait. */
START_TEST(a_slow_start_that_was_announced_is_waited_for)
{
    struct world *w = world_create(NULL);
    struct engage_session *said, *not;

    w->boot_ns = 15 * ENV_S;
    said = with_limit(w, "hello", "\"30s\"");
    not = world_call(w, (struct call_spec){ .fn = "other", .what = "ok" });
    world_run_ms(w, 16000);
    ck_assert(said->success);
    ck_assert_int_eq(not->code, 504);
    world_destroy(w);
}
END_TEST

START_TEST(a_start_limit_that_cannot_be_is_refused)
{
    static const char *const wrong[] = { "\"soon\"", "\"\"", "0", "-1", "\"never\"", "\"5m\"",
                                         "{}", "\"10ms\"", "true",
                                         "\"1s1s1s1s1s1s1s1s1s1s1s1s1s1s\"" };
    struct world *w = world_create(NULL);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct engage_session *s = with_limit(w, "hello", wrong[i]);

        ck_assert_msg(s->code == 400, "%s: got %d", wrong[i], s->code);
        ck_assert_ptr_nonnull(strstr(s->text, "RUN405 annotation fnd/start-timeout, got "));
        ck_assert_ptr_nonnull(strstr(s->text, "from 100 ms to 120000 ms"));
    }
    ck_assert_uint_eq(w->creates, 0);
    world_destroy(w);
}
END_TEST

TCase *task_tests(void)
{
    TCase *t = tcase_create("task");

    tcase_add_test(t, a_function_has_its_own_start_limit);
    tcase_add_test(t, a_slow_start_that_was_announced_is_waited_for);
    tcase_add_test(t, a_start_limit_that_cannot_be_is_refused);
    return t;
}
