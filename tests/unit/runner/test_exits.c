/* Calls whose connection or container ends. */
#include "suites.h"
#include "world.h"

#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(refused_connection_moves_on)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "refuse-once" });

    world_run_ms(w, 500);
    ck_assert(s->success);
    ck_assert_uint_eq(s->executions, 1);
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

/* What the first container did is not held against the second. */
START_TEST(an_exit_before_the_call_reached_it_is_forgotten)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "exit-first", .timeout_s = 2 });

    world_run_ms(w, 3000);
    ck_assert_uint_eq(w->creates, 2);
    ck_assert_int_eq(s->code, 504);
    ck_assert_str_eq(s->text, "Timed out");
    world_destroy(w);
}
END_TEST

/* A part of a body that cannot be kept: what is left of it must not run. */
START_TEST(no_memory_for_the_rest_of_a_body)
{
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "refuse", .no_body = true });
    static const char rest[8192];
    struct rcall *rc = s->ud;

    world_body(w, s, "begin", 5, false);
    while (rc->attempts == 0) {
        world_run_ms(w, 1);
    }
    ck_assert_int_eq(rc->state, RC_WAIT);
    rc->body.limit = 100;
    world_body(w, s, rest, sizeof(rest), true);
    world_run_ms(w, 500);
    ck_assert_int_eq(s->code, 503);
    ck_assert_str_eq(s->details, "out of memory");
    ck_assert_uint_eq(s->executions, 0);
    world_destroy(w);
}
END_TEST

START_TEST(refused_connections_end)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "refuse" });

    world_run_ms(w, 2000);
    ck_assert_int_eq(s->code, 503);
    ck_assert_uint_eq(w->creates, 3);
    world_destroy(w);
}
END_TEST

START_TEST(exit_while_idle)
{
    struct world *w = world_create(NULL);
    struct engage_session *s;

    w->r->opt.freeze_idle_ns = -1;
    world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 200);
    world_exit(w, world_container(w, CTR_IDLE)->id, FN_EXIT_REMOVED, 0);
    s = world_call(w, (struct call_spec){ .what = "ok" });
    world_run_ms(w, 300);
    ck_assert(s->success);
    ck_assert_uint_eq(w->creates, 2);
    world_destroy(w);
}
END_TEST

START_TEST(exit_in_a_call)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "never" });

    world_run_ms(w, 200);
    world_exit(w, world_container(w, CTR_BUSY)->id, FN_EXIT_SIGNAL, 11);
    world_run_ms(w, 400);
    ck_assert_int_eq(s->code, 502);
    ck_assert_ptr_nonnull(strstr(s->text, "container killed by signal 11"));
    world_destroy(w);
}
END_TEST

START_TEST(exit_behind_an_answer)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ms-50" });

    world_run_ms(w, 80);
    world_exit(w, world_container(w, CTR_BUSY)->id, FN_EXIT_CODE, 0);
    world_run_ms(w, 100);
    ck_assert(s->success); /* the answer was in the socket */
    world_run_ms(w, 100);
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

/* ---- a function that dies whenever it is connected to ---------------------------------------- */

static struct engage_session *call_of(struct world *w, const char *what)
{
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = what, .timeout_s = 2 });

    world_run_ms(w, 1500);
    return s;
}

static void expect_exit(const struct engage_session *s)
{
    ck_assert_int_eq(s->code, 502);
    ck_assert_str_eq(s->text, "error receiving function response: container exit code 43");
    ck_assert_uint_eq(s->executions, 0);
}

/* Its author is told so, as of one that dies before its socket is there. */
START_TEST(deaths_in_a_row_are_the_functions)
{
    static const char *const whats[] = { "dies", "dies-told-late" };
    struct world *w = world_create(NULL);
    struct engage_session *s;

    expect_exit(call_of(w, whats[_i]));
    ck_assert_uint_eq(w->creates, 3);
    ck_assert(call_of(w, "ok")->success);
    ck_assert_uint_eq(w->creates, 4);
    s = call_of(w, whats[_i]); /* the first one had served, so that two have not */
    ck_assert_int_eq(s->code, 503);
    ck_assert_str_eq(s->details, "no connection to the function");
    ck_assert_uint_eq(w->creates, 6);
    world_destroy(w);
}
END_TEST

static void with_listener(struct world *w)
{
    w->with_listener = true;
}

/* Its container has not served before it read something. */
START_TEST(a_refused_call_does_not_stand_for_one_that_was_served)
{
    struct world *w = world_create(with_listener);

    w->listener_refuses = true;
    ck_assert_int_eq(call_of(w, "ok")->code, 403);
    w->listener_refuses = false;
    expect_exit(call_of(w, "dies"));
    ck_assert_uint_eq(w->creates, 3);
    world_destroy(w);
}
END_TEST

START_TEST(who_is_killed_did_not_die_by_itself)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = call_of(w, "killed");

    ck_assert_int_eq(s->code, 503);
    ck_assert_str_eq(s->details, "no connection to the function");
    ck_assert_uint_eq(w->creates, 3);
    world_destroy(w);
}
END_TEST

/* The whole answer is in the socket; the caller reads it when its container is gone for long. */
START_TEST(an_answer_is_not_cut_when_its_container_exits)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .timeout_s = 10 });

    w->hellos = 1;
    w->rest_ns = 200 * ENV_MS;
    s->full = true;
    world_run_ms(w, 500);
    ck_assert_uint_eq(s->data_bytes, 5);
    world_exit(w, world_container(w, CTR_BUSY)->id, FN_EXIT_CODE, 0);
    world_run_ms(w, 2000);
    ck_assert_int_eq(s->finishes, 0);
    w->cb.on_writable(s->ud);
    world_run_ms(w, 500);
    ck_assert(s->success);
    world_destroy(w);
}
END_TEST

/* Ended for what it writes beside its socket, it was left to write on for as long as its caller did
 * not read. */
START_TEST(one_that_fills_its_directory_is_not_waited_for)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .timeout_s = 10 });

    w->hellos = 1;
    s->full = true;
    world_run_ms(w, 500);
    world_outgrow(w, world_container(w, CTR_BUSY)->id);
    world_run_ms(w, 1000);
    ck_assert_int_eq(s->code, 502);
    ck_assert_ptr_null(world_container(w, CTR_BUSY));
    ck_assert_uint_eq(w->live, 0);
    world_destroy(w);
}
END_TEST

/* What its driver reports of it then is how it was ended, and no death of its own. */
START_TEST(one_that_fills_its_directory_keeps_that_end)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "never" });
    const char *id;

    world_run_ms(w, 200);
    id = world_container(w, CTR_BUSY)->id;
    world_outgrow(w, id);
    world_exit(w, id, FN_EXIT_CODE, 43);
    world_run_ms(w, 1000);
    ck_assert_int_eq(s->code, 502);
    ck_assert_ptr_nonnull(strstr(s->text, "container was removed"));
    world_destroy(w);
}
END_TEST

/* Nobody reads it in the time of the call. */
START_TEST(an_answer_that_is_not_read_runs_out_of_time)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ok", .timeout_s = 10 });

    w->hellos = 1;
    s->full = true;
    world_run_ms(w, 500);
    world_exit(w, world_container(w, CTR_BUSY)->id, FN_EXIT_CODE, 0);
    world_run_ms(w, 10000);
    ck_assert_int_eq(s->code, 504);
    ck_assert_str_eq(s->text, "Timed out");
    world_destroy(w);
}
END_TEST

/* Fn-Http-Status is among them. */
START_TEST(an_answer_does_not_lose_its_headers)
{
    struct world *w = world_create(NULL);
    struct engage_session *s = world_call(w, (struct call_spec){ .what = "ms-50" });
    struct rcall *rc = s->ud;

    world_run_ms(w, 80);
    ck_assert_int_eq(rc->state, RC_RUN);
    rc->arena.limit_bytes = 1;
    while (arena_alloc(&rc->arena, 16)) {
    }
    world_run_ms(w, 100);
    ck_assert_int_eq(s->starts, 0);
    ck_assert_int_eq(s->code, 502);
    ck_assert_msg(strncmp(s->text, "RUN424", 6) == 0 && !s->user, "%s", s->text);
    world_destroy(w);
}
END_TEST

static void nothing(void *ud, bool clean)
{
    (void)ud;
    (void)clean;
}

static char failure[1024]; /* the last line about a call */

static void note_failure(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)level;
    (void)wall_ns;
    if (strstr(line, "call failed")) {
        snprintf(failure, sizeof(failure), "%.*s", (int)len, line);
    }
}

/* Its exchange still runs when the call is told. */
START_TEST(the_line_of_a_failure_counts_what_a_function_has)
{
    const struct log_config noted = { .level = FN_LOG_INFO, .fd = 2, .sink = note_failure };
    const struct log_config plain = { .level = FN_LOG_ERROR, .fd = 2 };
    struct world *w = world_create(NULL);

    log_setup(&noted);
    world_call(w, (struct call_spec){ .what = "never", .timeout_s = 1 });
    world_run_ms(w, 2000);
    log_setup(&plain);
    ck_assert_msg(strstr(failure, "bytes_to_function=100\n"), "%s", failure);
    world_destroy(w);
}
END_TEST

#define LOST_N (2 * LOG_GATE_LINES)

static char *told; /* lines about calls that failed */
static size_t told_len;

static void keep_failure(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)level;
    (void)wall_ns;
    if (memmem(line, len, "call failed", 11)) {
        told = realloc(told, told_len + len + 1);
        memcpy(told + told_len, line, len);
        told[told_len += len] = '\0';
    }
}

static void much_memory(struct world *w)
{
    w->totals.mem_bytes = (uint64_t)64 << 30;
    w->totals.cpu_milli = 1000000;
}

static uint32_t lines_of(const char *id, const char *with)
{
    uint32_t n = 0;

    for (const char *at = told; at && (at = strstr(at, id)); at++) {
        const char *end = strchr(at, '\n');

        n += memmem(at, (size_t)(end - at), with, strlen(with)) != NULL;
    }
    return n;
}

/* A detached call has nobody whom its end could be told but the log, however many end at a time:
 * with their runner, at its drain deadline, where their load balancers have gone. */
START_TEST(each_detached_call_that_is_cut_is_named)
{
    const struct log_config kept = { .level = FN_LOG_INFO, .fd = 2, .sink = keep_failure };
    const struct log_config plain = { .level = FN_LOG_ERROR, .fd = 2 };
    struct world *w = world_create(much_memory);
    struct engage_session *s[LOST_N];
    struct runner_counts n;

    told_len = 0;
    for (int i = 0; i < LOST_N; i++) {
        world_call(w, (struct call_spec){ .what = "never", .mem_mb = 16, .timeout_s = 100 });
        s[i] = world_call(w, (struct call_spec){ .what = "never", .mem_mb = 16, .fn = "f2",
                                                 .timeout_s = 100, .detached = true });
    }
    world_run_ms(w, 10000);
    ck_assert_uint_eq(world_counts(w).running, 2 * LOST_N);
    world_gone(w, s[0]);
    log_setup(&kept);
    runner_drain(w->r, w->f->now + ENV_S, nothing, NULL);
    world_run_ms(w, 500);
    ck_assert_uint_eq(world_counts(w).active, 2 * LOST_N);
    runner_cut(w->r);
    log_setup(&plain);
    n = world_counts(w);
    ck_assert_uint_eq(n.active, 0);
    ck_assert_uint_eq(n.unknown, 2 * LOST_N - 1);
    ck_assert_uint_eq(n.aborted, 1);
    for (int i = 0; i < LOST_N; i++) {
        ck_assert_uint_eq(lines_of(s[i]->id, " app_id=app fn_id=f2 "), 1);
        ck_assert(i == 0 || (s[i]->code == 502 && !s[i]->user));
    }
    free(told);
    world_destroy(w);
}
END_TEST

/* Its load balancer goes away with the rest of its body. */
START_TEST(a_detached_call_without_the_rest_of_its_body_is_named)
{
    const struct log_config kept = { .level = FN_LOG_INFO, .fd = 2, .sink = keep_failure };
    const struct log_config plain = { .level = FN_LOG_ERROR, .fd = 2 };
    struct world *w = world_create(NULL);
    struct engage_session *s =
        world_call(w, (struct call_spec){ .what = "never", .no_body = true, .detached = true });

    told_len = 0;
    world_body(w, s, "half", 4, false);
    world_run_ms(w, 200);
    ck_assert_int_eq(s->start_status, 202);
    log_setup(&kept);
    world_gone(w, s);
    log_setup(&plain);
    ck_assert_uint_eq(lines_of(s->id, " app_id=app fn_id=f1 "), 1);
    ck_assert_uint_eq(world_counts(w).active, 0);
    free(told);
    world_destroy(w);
}
END_TEST

TCase *exits_tests(void)
{
    TCase *t = tcase_create("exits");

    tcase_add_test(t, refused_connection_moves_on);
    tcase_add_test(t, an_exit_before_the_call_reached_it_is_forgotten);
    tcase_add_test(t, no_memory_for_the_rest_of_a_body);
    tcase_add_test(t, refused_connections_end);
    tcase_add_test(t, exit_while_idle);
    tcase_add_test(t, exit_in_a_call);
    tcase_add_test(t, exit_behind_an_answer);
    tcase_add_test(t, an_answer_is_not_cut_when_its_container_exits);
    tcase_add_test(t, one_that_fills_its_directory_is_not_waited_for);
    tcase_add_test(t, one_that_fills_its_directory_keeps_that_end);
    tcase_add_test(t, an_answer_that_is_not_read_runs_out_of_time);
    tcase_add_test(t, an_answer_does_not_lose_its_headers);
    tcase_add_test(t, the_line_of_a_failure_counts_what_a_function_has);
    tcase_add_test(t, each_detached_call_that_is_cut_is_named);
    tcase_add_test(t, a_detached_call_without_the_rest_of_its_body_is_named);
    tcase_add_loop_test(t, deaths_in_a_row_are_the_functions, 0, 2);
    tcase_add_test(t, a_refused_call_does_not_stand_for_one_that_was_served);
    tcase_add_test(t, who_is_killed_did_not_die_by_itself);
    return t;
}
