/* The ring behind `fnd why`: what it keeps of calls that ended, and what calls write into it. */
#include "fixture.h"
#include "suites.h"

#include <lb/lb_int.h>
#include <lb/why.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the ring alone -------------------------------------------------------------------------- */

static void name(struct why_entry *e, int i)
{
    snprintf(e->id, sizeof(e->id), "01M7Y437YSR00040GZYG%06d", i);
}

static void end_one(struct why *w, int i)
{
    struct why_entry *e = why_begin(w);

    ck_assert_ptr_nonnull(e);
    name(e, i);
    e->status = i;
    e->ended_ns = (1000 + i) * ENV_S;
    why_end(w, e);
}

static const struct why_entry *find(const struct why *w, int i)
{
    struct why_entry e;

    name(&e, i);
    return why_find(w, e.id);
}

START_TEST(the_ring_keeps_the_last_that_ended)
{
    struct why *w = NULL;
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(why_create(8, &w), 0);
    ck_assert_int_eq(why_unknown(w, "X", 0, &e), FN_E_NOT_FOUND);
    ck_assert(strstr(e.msg, "none has ended here yet") != NULL);
    for (int i = 0; i < 100; i++) {
        end_one(w, i);
        for (int k = 0; k <= i; k++) {
            const struct why_entry *found = find(w, k);

            ck_assert_msg((found != NULL) == (k > i - 8), "%d after %d", k, i);
            ck_assert(!found || found->status == k);
        }
    }
    ck_assert_int_eq(why_unknown(w, "X\n", 1200 * ENV_S, &e), FN_E_NOT_FOUND);
    ck_assert_str_eq(e.msg,
                     "LB307 unknown call X?: it does not run here and is not among the last "
                     "8 that ended, the oldest of them 108.000 s ago (lb.why_calls keeps 8)");
    why_destroy(w);
}
END_TEST

START_TEST(another_size_keeps_the_newest)
{
    struct why *w = NULL;
    struct why_entry *running;

    ck_assert_int_eq(why_create(8, &w), 0);
    for (int i = 0; i < 11; i++) {
        end_one(w, i);
    }
    running = why_begin(w);
    name(running, 11);
    ck_assert_int_eq(why_resize(w, 3), 0);
    ck_assert_ptr_null(find(w, 7));
    ck_assert_ptr_nonnull(find(w, 8));
    ck_assert_int_eq(why_resize(w, 16), 0);
    why_end(w, running);
    for (int i = 12; i < 24; i++) {
        end_one(w, i);
    }
    ck_assert_ptr_nonnull(find(w, 8));
    end_one(w, 24);
    ck_assert_ptr_null(find(w, 8));
    ck_assert_ptr_nonnull(find(w, 9));
    running = why_begin(w);
    ck_assert_int_eq(why_resize(w, 0), 0);
    why_end(w, running);
    ck_assert_ptr_null(why_begin(w));
    ck_assert_ptr_null(find(w, 24));
    why_destroy(w);
}
END_TEST

START_TEST(ids_of_any_length_are_looked_up)
{
    char long_id[5000];
    struct why *w = NULL;

    memset(long_id, 'A', sizeof(long_id) - 1);
    long_id[sizeof(long_id) - 1] = '\0';
    ck_assert_int_eq(why_create(4, &w), 0);
    end_one(w, 1);
    ck_assert_ptr_null(why_find(w, ""));
    ck_assert_ptr_null(why_find(w, "1"));
    ck_assert_ptr_null(why_find(w, "ZG000001")); /* the same key */
    ck_assert_ptr_null(why_find(w, long_id));
    ck_assert_ptr_nonnull(find(w, 1));
    why_destroy(w);
}
END_TEST

START_TEST(texts_are_cut_and_made_printable)
{
    struct trace t;
    char note[FN_NOTE_MAX], far[300];
    struct buf out = BUF_INIT(0);
    struct why *w = NULL;
    struct why_entry *e;

    ck_assert_int_eq(why_create(1, &w), 0);
    e = why_begin(w);
    name(e, 7);
    memset(note, 0xff, sizeof(note)); /* no end */
    note[0] = '"';
    note[1] = '\n';
    memset(far, 'r', sizeof(far));
    far[sizeof(far) - 1] = '\0';
    trace_init(&t);
    ck_assert_ptr_null(trace_last(&t));
    trace_end(&t, 1, TRACE_HOW_DOWN, 0, NULL); /* none is open: no effect */
    trace_begin(&e->trace, far, note, 5, 70000);
    trace_end(&e->trace, 6, 255, -1, far);
    memcpy(e->trace.note, note, sizeof(note));
    e->trace.verdict = FN_GIVE_UP;
    e->created_ns = 5;
    ck_assert_int_eq(why_print(e, 10, &out), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"note\":\"\\\"???"));
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"round\":65535"));
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"how\":\"open\""));
    ck_assert_uint_eq(strlen(e->trace.tries[0].address), TRACE_ADDRESS_MAX - 1);
    ck_assert_uint_eq(strlen(e->trace.tries[0].text), TRACE_TEXT_MAX - 1);
    for (size_t i = 0; i < out.len; i++) {
        ck_assert(out.data[i] >= ' ' && out.data[i] <= '~');
    }
    buf_finish(&out);
    why_end(w, e);
    why_destroy(w);
}
END_TEST

START_TEST(the_first_attempts_and_the_last_are_kept)
{
    static const char note[FN_NOTE_MAX] = "n";
    char address[16];
    struct trace t;

    trace_init(&t);
    for (int i = 1; i <= 20; i++) {
        snprintf(address, sizeof(address), "r%d", i);
        trace_begin(&t, address, note, i, 0);
        trace_end(&t, i, TRACE_HOW_DOWN, 0, NULL);
    }
    ck_assert_uint_eq(t.tries_n, 20);
    ck_assert_str_eq(t.tries[TRACE_TRIES - 2].address, "r7");
    ck_assert_str_eq(trace_last(&t)->address, "r20");
}
END_TEST

/* ---- calls ----------------------------------------------------------------------------------- */

static void setup(void)
{
    lb_opts = (struct lb_options){
        .placement_timeout_ns = 30 * ENV_S,
        .detached_placement_timeout_ns = 30 * ENV_S,
        .response_buffer_bytes = 1000,
        .response_bytes_max = 100000,
        .detached = true,
        .why_calls = 16,
        .generation = 5,
    };
    fixture_api = false;
    lb_setup();
}

/* Every part must stand in what is known about the call, in this order. */
static void expect(const char *id, ...)
{
    struct buf out = BUF_INIT(0);
    struct fn_error e = ERR_INIT;
    const char *at;
    va_list ap;

    ck_assert_msg(lb_why(lb, id, &out, &e) == 0, "%s", e.msg);
    at = buf_text(&out);
    va_start(ap, id);
    for (const char *part = va_arg(ap, const char *); part; part = va_arg(ap, const char *)) {
        const char *found = strstr(at, part);

        ck_assert_msg(found != NULL, "%s in %s", part, buf_text(&out));
        at = found + strlen(part);
    }
    va_end(ap);
    buf_finish(&out);
}

static void end_ok(void)
{
    struct engage_attempt *a = fake_engage_last(&fe);

    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
}

static void refuse_last(const char *text)
{
    struct engage_attempt *a = fake_engage_last(&fe);

    fake_attempt_finished(a, false, 503, false, text);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
}

START_TEST(a_refused_call_tells_its_runners)
{
    struct client *c;
    const char *id;

    PUBLISH("r1:1", "r2:1", "r3:1", "r4:1");
    fake_engage_up(&fe, "r3:1", false);
    c = INVOKE("");
    fake_env_advance(env, 2 * ENV_MS);
    refuse_last("memory");
    fake_env_advance(env, 3 * ENV_MS);
    fake_attempt_end(fake_engage_last(&fe), 14, ENGAGE_PROOF_NOT_SENT, true);
    fake_env_advance(env, 4 * ENV_MS);
    end_ok();
    id = answer_header(c, "Fn-Call-Id");
    expect(
        id, "\"kind\":\"sync\"", "\"state\":\"ended\"", "\"outcome\":\"ok\",\"status\":200",
        "\"fn_id\":\"" FN_HELLO "\"", "\"generation\":5", "\"group\":\"default\"",
        "\"placer\":\"placer\"", "\"runners\":4,\"waits\":0,\"tries_made\":4",
        "\"runner\":\"r1:1\",\"how\":\"busy\",\"round\":0,\"after_us\":0,\"took_us\":2000,"
        "\"code\":503,\"said\":\"memory\"}",
        "\"runner\":\"r2:1\",\"how\":\"not-sent\",\"round\":0,\"after_us\":2000,\"took_us\":3000",
        "\"runner\":\"r3:1\",\"how\":\"down\",\"round\":0,\"after_us\":5000,\"took_us\":0",
        "\"runner\":\"r4:1\",\"how\":\"ok\",\"round\":0,\"after_us\":5000,\"took_us\":4000}",
        "\"placement\":5000,\"queue\":0,\"attempt\":4000", "\"first_byte\":9000,\"total\":9000",
        NULL);
    client_free(c);
}
END_TEST

START_TEST(a_waiting_call_is_known_while_it_waits)
{
    char id[CALL_ID_LEN + 1];
    struct client *c;
    struct engage_attempt *a;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    snprintf(id, sizeof(id), "%.26s", strstr(a->json, "\"id\":\"") + 6);
    expect(id, "\"state\":\"running\"", "\"how\":\"running\"", NULL);
    refuse_last("queue full");
    expect(id, "\"state\":\"running\"", "\"last_refusal\":\"wait\"", "\"how\":\"busy\"",
           "queue full", NULL);
    fake_env_advance(env, 500 * ENV_MS);
    end_ok();
    expect(id, "\"outcome\":\"ok\"", "\"waits\":1,\"tries_made\":2", "\"round\":1", "\"queue\":1",
           NULL);
    client_free(c);
}
END_TEST

START_TEST(calls_without_an_answer_are_known_too)
{
    struct client *c = INVOKE("");
    struct fn_error e = ERR_INIT;
    struct buf out = BUF_INIT(0);

    fake_env_advance(env, 40 * ENV_S); /* no runner at all */
    ck_assert_int_eq(c->status, 503);
    expect(answer_header(c, "Fn-Call-Id"), "\"outcome\":\"not-executed\",\"status\":503",
           "\"error\":\"LB301 no runner: 0 known\"", "\"tries\":[]", NULL);
    client_free(c);

    c = send_request("POST", "/invoke/01FNNOBODY0000000000000000", "", NULL);
    expect(answer_header(c, "Fn-Call-Id"), "\"status\":404",
           "\"error\":", "\"fn_id\":\"01FNNOBODY0000000000000000\"", NULL);
    client_free(c);

    ck_assert_int_eq(lb_why(lb, "01M7Y437YSR00040GZYG999999", &out, &e), FN_E_NOT_FOUND);
    ck_assert(strstr(e.msg, "among the last 2 that ended") != NULL);
    buf_finish(&out);
}
END_TEST

START_TEST(a_detached_call_and_one_whose_client_left)
{
    struct engage_attempt *a;
    char id[CALL_ID_LEN + 1];
    struct client *c;

    PUBLISH("r1:1");
    c = send_request("POST", "/invoke/" FN_HELLO, "", "Fn-Invoke-Type", "detached", NULL);
    fake_attempt_start(fake_engage_last(&fe), 202, NULL);
    fake_env_advance(env, 5 * ENV_MS);
    end_ok();
    expect(answer_header(c, "Fn-Call-Id"), "\"kind\":\"detached\"", "\"status\":202",
           "\"first_byte\":0,\"total\":5000", NULL);
    client_free(c);

    c = INVOKE("");
    a = fake_engage_last(&fe);
    snprintf(id, sizeof(id), "%.26s", strstr(a->json, "\"id\":\"") + 6);
    fake_env_advance(env, 5 * ENV_MS);
    client_gone(c);
    expect(id, "\"outcome\":\"aborted\",\"status\":444", "\"how\":\"open\"", "\"took_us\":5000",
           NULL);
    client_free(c);
}
END_TEST

static const char *id_of(const struct engage_attempt *a, char ret[CALL_ID_LEN + 1])
{
    snprintf(ret, CALL_ID_LEN + 1, "%.26s", strstr(a->json, "\"id\":\"") + 6);
    return ret;
}

static void refuse_with_details(struct engage_attempt *a, const char *details)
{
    const struct engage_finished f = { .error_code = 503,
                                       .error_text = "Timed out - server too busy",
                                       .details = details };

    a->cb->on_finished(a->ud, &f);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
}

START_TEST(a_runner_tells_its_reason_in_details)
{
    char id[CALL_ID_LEN + 1];
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1", "r2:1", "r3:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    id_of(a, id);
    refuse_with_details(a, "memory or CPU is used up");
    refuse_with_details(fake_engage_last(&fe), id); /* as Go's runner does */
    end_ok();
    expect(id, "\"said\":\"memory or CPU is used up\"", "\"said\":\"Timed out - server too busy\"",
           "\"how\":\"ok\"", NULL);
    client_free(c);
}
END_TEST

/* A call waits for as long as it may, and each runner that refuses it may say much. */
START_TEST(what_refusals_say_is_not_gathered)
{
    enum { SAID = 1u << 20, REFUSALS = 50 };
    const char *list[REFUSALS + 2] = { NULL };
    char names[REFUSALS + 1][16];
    char *said = malloc(SAID + 1);
    struct engage_finished f = { .error_code = 503, .error_text = said, .details = said };
    struct engage_attempt *a;
    struct client *c;

    memset(said, 'x', SAID);
    said[SAID] = '\0';
    for (int i = 0; i <= REFUSALS; i++) {
        snprintf(names[i], sizeof(names[i]), "r%d:1", i);
        list[i] = names[i];
    }
    publish(list);
    fake_env_advance(env, 5 * ENV_S); /* links are opened by and by */
    c = INVOKE("");
    for (int i = 0; i < REFUSALS; i++) {
        a = fake_engage_last(&fe);
        a->cb->on_finished(a->ud, &f);
        fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    }
    ck_assert_uint_lt(c->call->arena.used_bytes, 64u << 10);
    a = fake_engage_last(&fe);
    f.error_code = 500;
    a->cb->on_finished(a->ud, &f);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_uint_eq(strlen(buf_text(&c->message)), FN_ERROR_TEXT_MAX - 1);
    client_free(c);
    free(said);
}
END_TEST

START_TEST(a_runner_tells_when_to_come_again)
{
    const struct engage_finished f = { .error_code = 503,
                                       .refusal = { ENGAGE_REASON_QUEUE, 2 * ENV_S, 0, 0, 0 } };
    char id[CALL_ID_LEN + 1];
    struct engage_attempt *a;
    struct client *c, *d;

    PUBLISH("r1:1", "r2:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    a->cb->on_finished(a->ud, &f);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    d = INVOKE("");
    id_of(fake_engage_last(&fe), id);
    end_ok();
    expect(id, "\"how\":\"told-before\"", "\"how\":\"ok\"", NULL);
    client_free(d);
    client_gone(c);
    client_free(c);
}
END_TEST

START_TEST(the_phases_of_a_start_are_told)
{
    const struct engage_finished cold = { .success = true, .scheduler_ns = 100 * ENV_MS,
                                          .execution_ns = ENV_MS,
                                          .image_pull_wait_ns = 60 * ENV_MS, .ctr_prep_ns = 7000,
                                          .ctr_create_ns = 20 * ENV_MS,
                                          .init_start_ns = -1 }; /* told wrong */
    char id[CALL_ID_LEN + 1];
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    id_of(a, id);
    fake_env_advance(env, 200 * ENV_MS);
    a->cb->on_finished(a->ud, &cold);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    expect(id, "\"runner_wait\":100000,\"execution\":1000,\"pull\":60000,\"prepare\":7,"
               "\"create\":20000,\"first_byte\"", NULL);
    client_free(c);
}
END_TEST

/* All of them that much; the call takes 2 s. */
static struct engage_finished durations_of(int64_t ns)
{
    return (struct engage_finished){ .success = true,
                                     .scheduler_ns = ns,
                                     .execution_ns = ns,
                                     .image_pull_wait_ns = ns,
                                     .ctr_prep_ns = ns,
                                     .ctr_create_ns = ns,
                                     .init_start_ns = ns };
}

static void run_with(const struct engage_finished *f, char id[CALL_ID_LEN + 1])
{
    struct engage_attempt *a;
    struct client *c;

    c = INVOKE("");
    a = fake_engage_last(&fe);
    id_of(a, id);
    fake_env_advance(env, 2 * ENV_S);
    a->cb->on_finished(a->ud, f);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    client_free(c);
}

/* A broken runner, or one whose clock is set by years meanwhile, spoils no figure. */
START_TEST(durations_that_cannot_be_are_not_believed)
{
    static const int64_t wrong[] = { -1, INT64_MIN, INT64_MAX, 24LL * 3600 * ENV_S,
                                     2 * ENV_S + 2 * ENV_S / 1000 + 1 };
    const int64_t right[] = { ENV_S, 2 * ENV_S, 2 * ENV_S + 2 * ENV_S / 1000 };
    struct metric *waits = lb->metrics.sched_latency, *runs = lb->metrics.exec_latency;
    int64_t waits_n = metric_value(waits), runs_n = metric_value(runs);
    char id[CALL_ID_LEN + 1];

    PUBLISH("r1:1");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct engage_finished f = durations_of(wrong[i]);
        struct buf out = BUF_INIT(0);

        run_with(&f, id);
        ck_assert_int_eq(lb_why(lb, id, &out, NULL), 0);
        ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"attempt\":2000000,\"first_byte\""));
        buf_finish(&out);
    }
    ck_assert_int_eq(metric_value(waits), waits_n);
    ck_assert_int_eq(metric_value(runs), runs_n);
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        const struct engage_finished f = durations_of(right[i]);

        run_with(&f, id);
        expect(id, i == 0 ? "\"runner_wait\":1000000,\"execution\":1000000,\"pull\":1000000"
                          : "\"runner_wait\":2000000,\"execution\":2000000,\"pull\":2000000", NULL);
    }
    ck_assert_int_eq(metric_value(waits), waits_n + 3);
    ck_assert_int_eq(metric_value(runs), runs_n + 3);
}
END_TEST

/* What says how long it ran, however wrong, does not say that it did not run. */
START_TEST(a_refusal_with_a_duration_that_cannot_be_is_no_proof)
{
    const struct engage_finished nack = { .error_code = 503, .error_text = "busy",
                                          .execution_ns = -1 };
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1", "r2:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    a->cb->on_finished(a->ud, &nack);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_uint_eq(fe.attempts_made, 1);
    ck_assert_int_eq(c->status, 502);
    expect_outcome(c, "unknown");
    client_free(c);
}
END_TEST

/* A runner that begins a container and then refuses tells how long that took. */
START_TEST(phases_of_a_refused_attempt_are_not_the_calls)
{
    const struct engage_finished nack = { .error_code = 503, .error_text = "busy",
                                          .ctr_create_ns = 20 * ENV_MS };
    char id[CALL_ID_LEN + 1];
    struct buf out = BUF_INIT(0);
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    id_of(a, id);
    a->cb->on_finished(a->ud, &nack);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    client_gone(c);
    ck_assert_int_eq(lb_why(lb, id, &out, NULL), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"said\":\"busy\""));
    ck_assert_ptr_null(strstr(buf_text(&out), "\"create\""));
    buf_finish(&out);
    client_free(c);
}
END_TEST

START_TEST(what_a_function_said_stays_out)
{
    struct engage_attempt *a;
    struct buf out = BUF_INIT(0);
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    fake_attempt_finished(a, false, 502, true, "SECRET of a function");
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(lb_why(lb, answer_header(c, "Fn-Call-Id"), &out, NULL), 0);
    ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"how\":\"function-error\""));
    ck_assert_ptr_null(strstr(buf_text(&out), "SECRET"));
    buf_finish(&out);
    client_free(c);
}
END_TEST

Suite *why_suite(void)
{
    Suite *s = suite_create("why");
    TCase *ring = tcase_create("ring"), *calls = tcase_create("calls");

    tcase_add_test(ring, the_ring_keeps_the_last_that_ended);
    tcase_add_test(ring, another_size_keeps_the_newest);
    tcase_add_test(ring, ids_of_any_length_are_looked_up);
    tcase_add_test(ring, texts_are_cut_and_made_printable);
    tcase_add_test(ring, the_first_attempts_and_the_last_are_kept);
    suite_add_tcase(s, ring);
    tcase_add_checked_fixture(calls, setup, lb_teardown);
    tcase_add_test(calls, a_refused_call_tells_its_runners);
    tcase_add_test(calls, a_waiting_call_is_known_while_it_waits);
    tcase_add_test(calls, calls_without_an_answer_are_known_too);
    tcase_add_test(calls, a_detached_call_and_one_whose_client_left);
    tcase_add_test(calls, a_runner_tells_its_reason_in_details);
    tcase_add_test(calls, what_refusals_say_is_not_gathered);
    tcase_add_test(calls, a_runner_tells_when_to_come_again);
    tcase_add_test(calls, the_phases_of_a_start_are_told);
    tcase_add_test(calls, durations_that_cannot_be_are_not_believed);
    tcase_add_test(calls, a_refusal_with_a_duration_that_cannot_be_is_no_proof);
    tcase_add_test(calls, phases_of_a_refused_attempt_are_not_the_calls);
    tcase_add_test(calls, what_a_function_said_stays_out);
    suite_add_tcase(s, calls);
    return s;
}
