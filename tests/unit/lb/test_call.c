/* The life of a call: the retry table row by row, streaming, limits, detached calls, clients that
 * go. */
#include "fixture.h"
#include "suites.h"

#include <base/metric.h>
#include <model/call.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void setup(void)
{
    lb_opts = (struct lb_options){
        .placement_timeout_ns = 30 * ENV_S,
        .detached_placement_timeout_ns = 30 * ENV_S,
        .execution_headroom_ns = 360 * ENV_S,
        .response_buffer_bytes = 1000,
        .response_bytes_max = 100000,
        .detached = true,
    };
    fixture_api = false;
    lb_setup();
}

static void finish_ok(struct engage_attempt *a)
{
    fake_attempt_finished(a, true, 0, false, NULL);
    fake_attempt_end(a, 0, ENGAGE_PROOF_NONE, true);
}

START_TEST(invoke_ok)
{
    struct engage_attempt *a;
    struct client *c;
    struct arena arena;
    struct call m;
    char hex[SLOT_HEX_BYTES];

    PUBLISH("r1:1");
    c = send_request("POST", "/invoke/" FN_HELLO "?x=1", "body", "Content-Type", "text/plain",
                     "Fn-Call-Id", "mine", "Accept", "*/*", NULL);
    a = fake_engage_last(&fe);
    ck_assert_uint_eq(a->body->bytes.len, 4);
    ck_assert_int_eq(a->deadline_ns, 0);
    arena_init(&arena, 0);
    call_init(&m, &arena);
    ck_assert_int_eq(call_from_json(&m, a->json, strlen(a->json), NULL), 0);
    ck_assert_str_eq(m.url, "http://lb:8080/invoke/" FN_HELLO "?x=1");
    ck_assert_int_eq(call_slot_hex(&m, hex), 0);
    ck_assert_str_eq(a->slot_hash_id, hex);
    ck_assert_str_eq(m.method, "POST");
    ck_assert_str_eq(m.image, "fnd/hello:1");
    ck_assert_str_eq(m.app_name, "demo");
    ck_assert_int_eq(m.timeout_s, 10);
    ck_assert_uint_eq(m.mem_mb, 64);
    ck_assert_str_eq(kvs_get(&m.config, "A"), "app");
    ck_assert_str_eq(kvs_get(&m.config, "B"), "fn");
    ck_assert_str_eq(kvs_get(&m.config, "FN_TYPE"), "sync");
    ck_assert_str_eq(kvs_get(&m.config, "FN_MEMORY"), "64");
    ck_assert_str_eq(kvs_get(&m.config, "FN_FN_ID"), FN_HELLO);
    ck_assert_str_eq(kvs_get(&m.config, "FN_APP_ID"), "APP");
    ck_assert_str_eq(kvs_get(&m.annotations, "k"), "{\"a\":1}");
    ck_assert_str_eq(headers_get(&m.headers, "Accept"), "*/*");
    ck_assert_ptr_null(headers_get(&m.headers, "Fn-Call-Id"));
    fake_attempt_start(a, 200, "Content-Type", "text/plain", "Content-Length", "5", "X-Y", "z",
                       NULL);
    fake_attempt_data(a, "hello", 5);
    ck_assert_int_eq(c->terminal, 0);
    finish_ok(a);
    ck_assert_int_eq(c->status, 200);
    ck_assert_str_eq(body_text(c), "hello");
    expect_outcome(c, "ok");
    ck_assert_str_eq(answer_header(c, "Fn-Call-Id"), m.id);
    ck_assert_str_eq(answer_header(c, "X-Y"), "z");
    ck_assert_str_eq(answer_header(c, "Content-Length"), "");
    arena_finish(&arena);
    client_free(c);
}
END_TEST

START_TEST(empty_success)
{
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    finish_ok(fake_engage_last(&fe));
    ck_assert_int_eq(c->status, 200);
    expect_outcome(c, "ok");
    client_free(c);
}
END_TEST

/* ---- the retry table ------------------------------------------------------------------------- */

/* Events: S ResultStart, D data, L ResultStart with Content-Length 4 and 4 bytes, T 2000 bytes
 * (more than the buffer: streaming), M that many with a length and as many again, H and h a
 * status that is none, N, n and Z a NACK with times. */
static const struct row {
    const char *what;
    const char *events;
    int finished; /* 0 none, 1 success, else the error code */
    bool user;
    int grpc;
    enum engage_proof proof;
    bool legal;
    bool retried;
    int status; /* 0 = a cut answer */
    const char *outcome;
    const char *text;
} rows[] = {
    { "nothing sent", "", 0, 0, 14, ENGAGE_PROOF_NOT_SENT, 1, 1, 0, "", "" },
    { "stream refused", "", 0, 0, 14, ENGAGE_PROOF_REFUSED, 1, 1, 0, "", "" },
    { "refused after output", "S", 0, 0, 14, ENGAGE_PROOF_REFUSED, 1, 0, 502, "unknown", "lost" },
    { "not sent after output", "S", 0, 0, 14, ENGAGE_PROOF_NOT_SENT, 1, 0, 502, "unknown", "lost" },
    { "not sent in mid stream", "ST", 0, 0, 14, ENGAGE_PROOF_NOT_SENT, 1, 0, 0, "", "" },
    { "nack", "", 503, 0, 0, ENGAGE_PROOF_NONE, 1, 1, 0, "", "" },
    { "nack, then a broken stream", "", 503, 0, 14, ENGAGE_PROOF_NONE, 1, 1, 0, "", "" },
    { "full", "", 0, 0, 8, ENGAGE_PROOF_FULL, 1, 1, 0, "", "" },
    { "full, by its own word", "", 0, 0, 8, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "broke off" },
    { "a nack's code in trailers", "", 0, 0, 503, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "broke off" },
    { "the same after output", "S", 0, 0, 503, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "broke off" },
    { "internal", "", 0, 0, 13, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "broke off" },
    { "unimplemented", "", 0, 0, 12, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "broke off" },
    { "a status above 599", "H", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "not understood" },
    { "a status below 200", "h", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "not understood" },
    { "more than was announced", "LD", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "failed",
      "FN603 answer went on after 8 of 4 bytes" },
    { "the same in mid stream", "M", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 0, "", "" },
    { "nack of a call that began", "N", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "after it had begun" },
    { "nack of a call that took time", "n", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "after it had begun" },
    { "nack with Go's zero date", "Z", 0, 0, 0, ENGAGE_PROOF_NONE, 1, 1, 0, "", "" },
    { "nack of the user's fault", "", 503, 1, 0, ENGAGE_PROOF_NONE, 1, 0, 503, "failed", "said" },
    { "nack after start", "S", 503, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "refused" },
    { "nack after data", "D", 503, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "refused" },
    { "nack in mid stream", "ST", 503, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 0, "", "" },
    { "unavailable", "", 0, 0, 14, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "lost" },
    { "cancelled by the peer", "", 0, 0, 1, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "broke off" },
    { "broken after start", "S", 0, 0, 14, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "lost" },
    { "broken after data", "SD", 0, 0, 14, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "lost" },
    { "F08 broken in mid stream", "ST", 0, 0, 14, ENGAGE_PROOF_NONE, 1, 0, 0, "", "" },
    { "F09 all data, no Finished", "L", 0, 0, 14, ENGAGE_PROOF_NONE, 1, 0, 200, "unknown", "" },
    { "F10 after Finished", "L", 1, 0, 14, ENGAGE_PROOF_NONE, 1, 0, 200, "ok", "" },
    { "deadline", "", 0, 0, 4, ENGAGE_PROOF_NONE, 1, 0, 504, "unknown", "reservation period" },
    { "function failed", "", 502, 1, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "failed", "said" },
    { "function timed out", "S", 504, 1, 0, ENGAGE_PROOF_NONE, 1, 0, 504, "failed", "said" },
    { "function failed in mid stream", "ST", 502, 1, 0, ENGAGE_PROOF_NONE, 1, 0, 0, "", "" },
    { "runner refuses the model", "", 400, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 400, "not-executed",
      "said" },
    { "detached not enabled", "", 501, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 501, "not-executed", "said" },
    { "runner fails", "", 500, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 500, "unknown", "said" },
    { "code 0 is never a 200", "", -1, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 500, "unknown", "internal" },
    { "code 200 is never a 200", "", 200, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 500, "unknown",
      "internal" },
    { "code 1000", "", 1000, 1, 0, ENGAGE_PROOF_NONE, 1, 0, 500, "failed", "internal" },
    { "malformed", "", 0, 0, 2, ENGAGE_PROOF_NONE, 0, 0, 502, "unknown", "not understood" },
    { "malformed after success", "L", 1, 0, 0, ENGAGE_PROOF_NONE, 0, 0, 502, "unknown",
      "not understood" },
    { "malformed with a nack's code", "", 503, 0, 0, ENGAGE_PROOF_NONE, 0, 0, 502, "unknown",
      "not understood" },
    { "second start", "SS", 1, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown", "not understood" },
    { "start after data", "DS", 1, 0, 0, ENGAGE_PROOF_NONE, 1, 0, 502, "unknown",
      "not understood" },
};

static void nack(struct engage_attempt *a, const char *started_at, int64_t execution_ns)
{
    struct engage_finished f = { .error_code = 503, .started_at = started_at,
                                 .execution_ns = execution_ns };

    a->cb->on_finished(a->ud, &f);
}

static void play(struct engage_attempt *a, const char *events)
{
    static char big[2000];

    for (; *events; events++) {
        switch (*events) {
        case 'S': fake_attempt_start(a, 200, "X", "y", NULL); break;
        case 'D': fake_attempt_data(a, "data", 4); break;
        case 'L':
            fake_attempt_start(a, 200, "Content-Length", "4", NULL);
            fake_attempt_data(a, "data", 4);
            break;
        case 'H': fake_attempt_start(a, 600, "X", "y", NULL); break;
        case 'h': fake_attempt_start(a, 199, "X", "y", NULL); break;
        case 'M':
            fake_attempt_start(a, 200, "Content-Length", "2000", NULL);
            fake_attempt_data(a, big, 2000);
            fake_attempt_data(a, big, 2000);
            break;
        case 'N': nack(a, "2026-11-21T04:17:24.501Z", 0); break;
        case 'n': nack(a, NULL, 1); break;
        case 'Z': nack(a, "0001-01-01T00:00:00.000Z", 0); break;
        default: fake_attempt_data(a, big, sizeof(big)); break;
        }
    }
}

START_TEST(retry_table)
{
    const struct row *r = &rows[_i];
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1", "r2:1");
    c = INVOKE("x");
    a = fake_engage_last(&fe);
    ck_assert_str_eq(a->address, "r1:1");
    play(a, r->events);
    if (!c->terminal) {
        if (r->finished) {
            fake_attempt_finished(a, r->finished == 1, r->finished < 0 ? 0 : r->finished, r->user,
                                  "what the runner said");
        }
        fake_attempt_end(a, r->grpc, r->proof, r->legal);
    }
    if (r->retried) {
        ck_assert_msg(fe.attempts_made == 2, "%s: not tried again", r->what);
        ck_assert_str_eq(fake_engage_last(&fe)->address, "r2:1");
        finish_ok(fake_engage_last(&fe));
        expect_outcome(c, "ok");
        client_free(c);
        return;
    }
    ck_assert_msg(fe.attempts_made == 1, "%s: tried again without a proof", r->what);
    ck_assert_msg(c->terminal == 1, "%s: no answer", r->what);
    if (!r->status) {
        ck_assert_msg(c->cut, "%s: the answer looks whole", r->what);
    } else {
        ck_assert_msg(c->status == r->status, "%s: status %d", r->what, c->status);
        expect_outcome(c, r->outcome);
        ck_assert_msg(strcmp(r->outcome, "not-executed") == 0 || !*answer_header(c, "Retry-After"),
                      "%s: told to come again", r->what);
        ck_assert_msg(strstr(buf_text(&c->message), r->text) != NULL, "%s: \"%s\"", r->what,
                      buf_text(&c->message));
    }
    client_free(c);
}
END_TEST

/* ---- placement ------------------------------------------------------------------------------- */

START_TEST(no_runner_until_the_deadline)
{
    struct client *c = INVOKE("");

    fake_env_advance(env, 29 * ENV_S);
    ck_assert_int_eq(c->terminal, 0);
    fake_env_advance(env, 2 * ENV_S);
    ck_assert_int_eq(c->status, 503);
    ck_assert_str_eq(buf_text(&c->message), "LB301 no runner: 0 known");
    ck_assert_str_eq(answer_header(c, "Retry-After"), "1");
    expect_outcome(c, "not-executed");
    client_free(c);
}
END_TEST

START_TEST(all_busy_then_free)
{
    struct client *first;
    struct client *c;
    struct engage_attempt *running;

    PUBLISH("r1:1");
    first = INVOKE("");
    running = fake_engage_last(&fe);
    c = INVOKE("");
    fake_attempt_finished(fake_engage_last(&fe), false, 503, false, "busy");
    fake_attempt_end(fake_engage_last(&fe), 0, ENGAGE_PROOF_NONE, true);
    ck_assert_uint_eq(fe.attempts_open, 1);
    finish_ok(running);
    fake_env_advance(env, 0);
    ck_assert_uint_eq(fe.attempts_open, 1);
    finish_ok(fake_engage_last(&fe));
    expect_outcome(c, "ok");
    client_free(first);
    client_free(c);
}
END_TEST

START_TEST(no_memory_for_an_attempt)
{
    struct client *c;

    PUBLISH("r1:1");
    fe.no_memory = true;
    c = INVOKE("");
    ck_assert_int_eq(c->status, 503);
    expect_outcome(c, "not-executed");
    client_free(c);
}
END_TEST

/* The runner says that it had the call before. Of the only offer that proves that this one did not
 * run; of a later one that an earlier one may have run, whatever refused it said. */
START_TEST(an_id_that_is_known)
{
    struct client *c;

    PUBLISH("r1:1", "r2:1");
    c = INVOKE("x");
    if (_i == 1) {
        fake_attempt_end(fake_engage_last(&fe), 14, ENGAGE_PROOF_NOT_SENT, true);
    }
    fake_attempt_finished(fake_engage_last(&fe), false, 409, false, "RUN408 id seen");
    fake_attempt_end(fake_engage_last(&fe), 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(c->status, _i ? 502 : 409);
    expect_outcome(c, _i ? "unknown" : "not-executed");
    client_free(c);
}
END_TEST

/* A runner that lives and never ends a call: also one whose answer streams already. */
START_TEST(a_runner_that_never_ends_a_call)
{
    struct engage_attempt *a;
    struct client *c, *young;

    PUBLISH("r1:1");
    c = INVOKE("x");
    a = fake_engage_last(&fe);
    if (_i >= 1) {
        fake_attempt_start(a, 200, NULL);
    }
    if (_i == 2) {
        play(a, "T");
    }
    fake_env_advance(env, 300 * ENV_S);
    young = INVOKE("y");
    fake_env_advance(env, 98 * ENV_S); /* 30 s of placement, 10 s of the function, 360 s */
    ck_assert_int_eq(c->terminal, 0);
    fake_env_advance(env, 3 * ENV_S);
    ck_assert_int_eq(c->terminal, 1);
    if (_i == 2) {
        ck_assert(c->cut);
    } else {
        ck_assert_int_eq(c->status, 504);
        ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB315"));
        expect_outcome(c, "unknown");
    }
    ck_assert_uint_eq(fe.attempts_open, 1);
    ck_assert_int_eq(young->terminal, 0);
    client_gone(young);
    client_free(young);
    client_free(c);
}
END_TEST

/* Calls keep the options of their time, and the oldest may have the longest time. */
START_TEST(an_older_call_hides_no_overdue_one)
{
    struct client *old, *young;

    PUBLISH("r1:1");
    old = INVOKE("x");
    lb_opts.execution_headroom_ns = 20 * ENV_S;
    lb_set_options(lb, &lb_opts);
    young = INVOKE("y");
    fake_env_advance(env, 70 * ENV_S); /* 30 s of placement, 10 s of the function, 20 s */
    ck_assert_int_eq(young->terminal, 1);
    ck_assert_int_eq(young->status, 504);
    ck_assert_int_eq(old->terminal, 0);
    client_gone(old);
    client_free(old);
    client_free(young);
}
END_TEST

/* A call that no runner takes, for its size, is refused where it is known that nothing ran. */
START_TEST(a_call_that_is_too_large)
{
    char quotes[400] = "";
    struct client *c;

    PUBLISH("r1:1");
    lb_opts.message_bytes_max = 1000;
    lb_set_options(lb, &lb_opts);
    c = INVOKE("x");
    ck_assert_int_eq(c->terminal, 0);
    client_gone(c);
    client_free(c);
    memset(quotes, '"', sizeof(quotes) - 1); /* twice as long in JSON */
    c = send_request("POST", "/invoke/" FN_HELLO, "x", "X", quotes, NULL);
    ck_assert_int_eq(c->status, 400);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB316"));
    expect_outcome(c, "not-executed");
    client_free(c);
}
END_TEST

/* ---- answers --------------------------------------------------------------------------------- */

#ifndef __SANITIZE_ADDRESS__ /* which ends the process */
/* The function has answered: nobody may be told that it did not run. */
START_TEST(no_memory_for_an_answer)
{
    struct engage_attempt *a;
    struct client *c;

    lb_opts.response_buffer_bytes = INT64_MAX;
    lb_opts.response_bytes_max = 0;
    lb_set_options(lb, &lb_opts);
    PUBLISH("r1:1");
    c = INVOKE("x");
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 200, NULL);
    fake_attempt_data(a, "more than there is", SIZE_MAX / 4);
    ck_assert_int_eq(c->status, 502);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB314"));
    expect_outcome(c, "unknown");
    ck_assert_str_eq(answer_header(c, "Retry-After"), "");
    client_free(c);
}
END_TEST
#endif

START_TEST(streams_beyond_the_buffer)
{
    static char data[800];
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 200, "Content-Type", "x/y", NULL);
    fake_attempt_data(a, data, sizeof(data));
    ck_assert(!c->streamed);
    c->full = 1;
    fake_attempt_data(a, data, sizeof(data));
    ck_assert(c->streamed);
    ck_assert(a->paused);
    ck_assert_int_eq(c->declared, -1);
    ck_assert_uint_eq(c->body.len, 1600);
    lb_call_writable(c->call);
    ck_assert(!a->paused);
    fake_attempt_data(a, data, sizeof(data));
    ck_assert_uint_eq(c->body.len, 2400);
    finish_ok(a);
    ck_assert(!c->cut);
    ck_assert_uint_eq(strlen(answer_header(c, "Fn-Call-Id")), CALL_ID_LEN);
    client_free(c);
}
END_TEST

/* Row 25: fewer bytes than declared is never a whole answer. */
START_TEST(too_few_bytes)
{
    static char data[2000];
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 200, "Content-Length", "10", NULL);
    fake_attempt_data(a, "12345", 5);
    finish_ok(a);
    ck_assert_int_eq(c->status, 502);
    ck_assert_str_eq(buf_text(&c->message), "FN603 answer ended after 5 of 10 bytes");
    expect_outcome(c, "failed");
    client_free(c);
    c = INVOKE("");
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 200, "Content-Length", "3000", NULL);
    fake_attempt_data(a, data, sizeof(data));
    ck_assert_int_eq(c->declared, 3000);
    finish_ok(a);
    ck_assert(c->cut);
    client_free(c);
}
END_TEST

START_TEST(response_limits)
{
    static char data[60000];
    char *value = malloc(70000);
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = INVOKE("");
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 200, NULL);
    fake_attempt_data(a, data, sizeof(data));
    fake_attempt_data(a, data, sizeof(data));
    ck_assert(c->cut);
    client_free(c);
    c = INVOKE("");
    fake_attempt_start(fake_engage_last(&fe), 200, "Content-Length", "120000", NULL);
    ck_assert_int_eq(c->status, 502);
    ck_assert_str_eq(buf_text(&c->message), "function response body too large");
    expect_outcome(c, "failed");
    client_free(c);
    memset(value, 'v', 69999);
    value[69999] = '\0';
    c = INVOKE("");
    fake_attempt_start(fake_engage_last(&fe), 200, "X", value, NULL);
    ck_assert_int_eq(c->status, 502);
    ck_assert_str_eq(buf_text(&c->message), "function response header too large");
    expect_outcome(c, "failed");
    client_free(c);
    free(value);
}
END_TEST

/* ---- detached -------------------------------------------------------------------------------- */

static struct client *detached(void)
{
    return send_request("POST", "/invoke/" FN_HELLO, "x", "Fn-Invoke-Type", "detached", NULL);
}

START_TEST(detached_ack)
{
    struct engage_attempt *a;
    struct client *c;

    PUBLISH("r1:1");
    c = detached();
    a = fake_engage_last(&fe);
    ck_assert_ptr_nonnull(strstr(a->json, "\"type\":\"detached\""));
    ck_assert_int_eq(a->deadline_ns, env->now + 400 * ENV_S);
    fake_attempt_start(a, 202, NULL);
    ck_assert_int_eq(c->status, 202);
    ck_assert_uint_eq(c->body.len, 0);
    ck_assert_uint_eq(strlen(answer_header(c, "Fn-Call-Id")), CALL_ID_LEN);
    client_free(c);
    fake_attempt_data(a, "ignored", 7);
    ck_assert_uint_eq(fe.attempts_open, 1);
    finish_ok(a);
    ck_assert_uint_eq(fe.attempts_open, 0);
}
END_TEST

START_TEST(detached_breaks_after_ack)
{
    struct metric *broken = metric_simple("fn_detached_broken", METRIC_COUNTER, "");
    int64_t before = metric_value(broken);
    struct engage_attempt *a;
    struct lb_counts n;
    struct client *c;

    PUBLISH("r1:1", "r2:1");
    c = detached();
    a = fake_engage_last(&fe);
    fake_attempt_start(a, 202, NULL);
    client_free(c);
    fake_attempt_end(a, 14, ENGAGE_PROOF_NONE, true);
    ck_assert_uint_eq(fe.attempts_made, 1);
    lb_count(lb, &n);
    ck_assert_uint_eq(n.unknown, 1);
    ck_assert_int_eq(metric_value(broken), before + 1);
}
END_TEST

START_TEST(detached_client_goes)
{
    struct engage_attempt *a;
    struct lb_counts n;
    struct client *c;

    PUBLISH("r1:1", "r2:1");
    c = detached();
    a = fake_engage_last(&fe);
    client_gone(c);
    client_free(c);
    fake_attempt_end(a, 14, ENGAGE_PROOF_NOT_SENT, true);
    a = fake_engage_last(&fe);
    ck_assert_str_eq(a->address, "r2:1");
    fake_attempt_start(a, 202, NULL);
    finish_ok(a);
    lb_count(lb, &n);
    ck_assert_uint_eq(n.ok, 1);
}
END_TEST

/* Detached calls that wait hold memory of bodies without a client: so much of it as is their app's
 * share. */
START_TEST(bodies_of_an_app_have_a_share_of_the_memory)
{
    static char text[20001];
    struct client *c;

    fixture_bodies.limit_bytes = 100000;
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 4; i++) {
        c = send_request("POST", "/invoke/" FN_HELLO, text, "Fn-Invoke-Type", "detached", NULL);
        client_gone(c);
        client_free(c);
    }
    c = INVOKE(text);
    ck_assert_int_eq(c->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB317"));
    expect_outcome(c, "not-executed");
    client_free(c);
    c = send_request("POST", "/invoke/" FN_OTHER, text, NULL);
    ck_assert_int_eq(c->terminal, 0);
    client_gone(c);
    client_free(c);
    c = INVOKE("small");
    ck_assert_int_eq(c->terminal, 0);
    fake_env_advance(env, 31 * ENV_S); /* nobody took them */
    ck_assert_int_eq(c->status, 503);
    client_free(c);
    ck_assert_uint_eq(fixture_bodies.used_bytes, 0);
    c = INVOKE(text);
    ck_assert_int_eq(c->terminal, 0);
    client_gone(c);
    client_free(c);
}
END_TEST

START_TEST(detached_error_before_ack)
{
    struct metric *broken = metric_simple("fn_detached_broken", METRIC_COUNTER, "");
    int64_t before = metric_value(broken);
    struct client *c;

    PUBLISH("r1:1");
    c = detached();
    fake_attempt_finished(fake_engage_last(&fe), false, 501, false, "Detach call functions are not "
                                                                    "supported on this server");
    fake_attempt_end(fake_engage_last(&fe), 0, ENGAGE_PROOF_NONE, true);
    ck_assert_int_eq(c->status, 501);
    expect_outcome(c, "not-executed");
    ck_assert_int_eq(metric_value(broken), before);
    client_free(c);
    c = detached();
    finish_ok(fake_engage_last(&fe));
    ck_assert_int_eq(c->status, 202);
    client_free(c);
}
END_TEST

/* ---- clients that go away -------------------------------------------------------------------- */

START_TEST(client_goes)
{
    static const char *const when[] = { "", "S", "SD", "ST" };
    struct engage_attempt *a;
    struct lb_counts n;
    struct client *c;

    c = INVOKE("");
    client_gone(c); /* parked */
    client_free(c);
    PUBLISH("r1:1");
    for (int i = 0; i < 4; i++) {
        c = INVOKE("");
        a = fake_engage_last(&fe);
        play(a, when[i]);
        client_gone(c);
        ck_assert_uint_eq(fe.attempts_open, 0);
        client_free(c);
    }
    lb_count(lb, &n);
    ck_assert_uint_eq(n.aborted, 5);
}
END_TEST

/* ---- how Go Fn counts the end of a call ------------------------------------------------------ */

static int64_t ended(const char *as)
{
    static const char *const label[] = { "call_status", NULL };
    const struct metric_def def = { .name = "fn_lb_call_latency", .help = "", .labels = label };

    return metric_value(metric_series(metric_declare(&def), &as));
}

static int64_t counted(const char *as)
{
    char name[64];

    snprintf(name, sizeof(name), "fn_%s", as);
    return metric_value(metric_simple(name, METRIC_COUNTER, ""));
}

START_TEST(each_end_has_its_call_status)
{
    static const char *const all[] = { "completed", "canceled", "timeouts", "errors",
                                       "server_busy" };
    struct client *c;

    c = INVOKE("");
    fake_env_advance(env, 31 * ENV_S);
    ck_assert_int_eq(c->status, 503);
    client_free(c);
    PUBLISH("r1:1");
    c = INVOKE("");
    fake_attempt_start(fake_engage_last(&fe), 200, NULL);
    finish_ok(fake_engage_last(&fe));
    client_free(c);
    c = INVOKE("");
    client_gone(c);
    client_free(c);
    c = INVOKE("");
    fake_attempt_end(fake_engage_last(&fe), 4, ENGAGE_PROOF_NONE, true); /* DEADLINE_EXCEEDED */
    ck_assert_int_eq(c->status, 504);
    client_free(c);
    c = send_request("POST", "/invoke/none", "", NULL);
    ck_assert_int_eq(c->status, 404);
    client_free(c);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ck_assert_int_eq(ended(all[i]), 1);
        ck_assert_int_eq(counted(all[i]), 1);
    }
}
END_TEST

/* ---- metrics of functions -------------------------------------------------------------------- */

static void call_well(const char *path)
{
    struct client *c = send_request("POST", path, "", NULL);

    fake_env_advance(env, 20 * ENV_MS);
    fake_attempt_start(fake_engage_last(&fe), 200, NULL);
    finish_ok(fake_engage_last(&fe));
    ck_assert_int_eq(c->status, 200);
    client_free(c);
}

static void page_has(const char *line, bool expected)
{
    struct buf page = { 0 };
    const char *at;

    ck_assert_int_eq(metric_print(&page), 0);
    at = strstr(buf_text(&page), line);
    ck_assert_msg(!at == !expected && (!at || at[-1] == '\n'), "%s", line);
    buf_finish(&page);
}

#define OF(fn) "app_id=\"APP\",fn_id=\"" fn "\""

#define OTHERS "app_id=\"other\",fn_id=\"other\""

START_TEST(functions_have_metrics)
{
    struct client *c;

    lb_opts.functions_max = 1;
    lb_set_options(lb, &lb_opts);
    PUBLISH("r1:1");
    call_well("/invoke/" FN_HELLO);
    call_well("/invoke/" FN_HELLO);
    call_well("/t/demo/hello"); /* the same function by its trigger */
    c = INVOKE("");
    client_gone(c);
    client_free(c);
    client_free(send_request("POST", "/invoke/none", "", NULL)); /* is nobody's */
    page_has("fn_lb_function_calls_total{outcome=\"ok\"," OF(FN_HELLO) "} 3\n", true);
    page_has("fn_lb_function_calls_total{outcome=\"aborted\"," OF(FN_HELLO) "} 1\n", true);
    page_has("fn_lb_function_seconds_bucket{" OF(FN_HELLO) ",le=\"0.01\"} 0\n", true);
    page_has("fn_lb_function_seconds_bucket{" OF(FN_HELLO) ",le=\"0.05\"} 3\n", true);
    page_has("fn_lb_function_seconds_sum{" OF(FN_HELLO) "} 0.06\n", true);
    page_has("fn_lb_function_calls_total{outcome=\"not-executed\"", false);
    call_well("/invoke/" FN_OTHER); /* less used than the one that is shown */
    page_has("fn_lb_function_calls_total{outcome=\"ok\"," OTHERS "} 1\n", true);
    page_has(FN_OTHER, false);
    lb_opts.functions_max = 0;
    lb_set_options(lb, &lb_opts);
    call_well("/invoke/" FN_HELLO);
    page_has("fn_lb_function_calls_total{outcome=\"ok\"," OTHERS "} 2\n", true);
    page_has(FN_HELLO, false);
}
END_TEST

/* ---- drain ----------------------------------------------------------------------------------- */

static void note(void *ud)
{
    ++*(int *)ud;
}

START_TEST(drains)
{
    struct client *running;
    struct client *c;
    int drained = 0;

    PUBLISH("r1:1");
    running = INVOKE("");
    lb_drain(lb, note, &drained);
    fake_env_settle(env);
    ck_assert_int_eq(drained, 0);
    c = INVOKE("");
    ck_assert_int_eq(c->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB304"));
    ck_assert_str_ne(answer_header(c, "Retry-After"), "");
    client_free(c);
    finish_ok(fake_engage_last(&fe));
    fake_env_settle(env);
    ck_assert_int_eq(drained, 1);
    client_free(running);
}
END_TEST

/* At the drain deadline nobody is left without an answer: one that a runner has, one that waits, one
 * whose answer has begun. */
START_TEST(cuts_what_a_drain_leaves)
{
    struct client *running, *parked, *streaming;
    static char data[2000];
    struct lb_counts n;
    int drained = 0;

    parked = INVOKE("");
    lb_count(lb, &n);
    ck_assert_uint_eq(n.in_flight, 1); /* no runner is listed */
    PUBLISH("r1:1");
    running = INVOKE("");
    streaming = INVOKE("");
    fake_attempt_start(fake_engage_last(&fe), 200, NULL);
    fake_attempt_data(fake_engage_last(&fe), data, sizeof(data));
    ck_assert(streaming->streamed);
    lb_drain(lb, note, &drained);
    lb_cut(lb);
    ck_assert_int_eq(running->status, 502);
    ck_assert_str_eq(answer_header(running, "Fn-Outcome"), "unknown");
    ck_assert_ptr_nonnull(strstr(buf_text(&running->message), "LB313"));
    ck_assert_int_eq(parked->status, 503);
    ck_assert_str_eq(answer_header(parked, "Fn-Outcome"), "not-executed");
    ck_assert_ptr_nonnull(strstr(buf_text(&parked->message), "LB304"));
    ck_assert(streaming->cut);
    fake_env_settle(env);
    ck_assert_int_eq(drained, 1);
    lb_count(lb, &n);
    ck_assert_uint_eq(n.unknown, 2);
    ck_assert_uint_eq(n.not_executed, 1);
    client_free(running);
    client_free(parked);
    client_free(streaming);
}
END_TEST

/* ---- ten thousand waiting calls -------------------------------------------------------------- */

START_TEST(parked_memory)
{
    enum { N = 10000 };
    static struct client *clients[N];
    size_t before = mallinfo2().uordblks;
    size_t each;

    for (int i = 0; i < N; i++) {
        clients[i] = INVOKE("a body of thirty-two bytes, here");
    }
    each = (mallinfo2().uordblks - before) / N;
    printf("a parked call: %zu bytes in lb, place and this test's client\n", each);
#ifndef __SANITIZE_ADDRESS__
    ck_assert_uint_le(each, 12 * 1024);
#endif
    fake_env_advance(env, 31 * ENV_S);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(clients[i]->status, 503);
        client_free(clients[i]);
    }
}
END_TEST

Suite *call_suite(void)
{
    const TTest *const tests[] = {
        invoke_ok, empty_success, no_runner_until_the_deadline, all_busy_then_free,
        no_memory_for_an_attempt, a_call_that_is_too_large, streams_beyond_the_buffer, too_few_bytes, response_limits,
        bodies_of_an_app_have_a_share_of_the_memory, detached_ack, detached_breaks_after_ack, detached_client_goes, detached_error_before_ack,
        client_goes, each_end_has_its_call_status, functions_have_metrics, drains, cuts_what_a_drain_leaves, parked_memory,
        an_older_call_hides_no_overdue_one,
    };
    Suite *s = suite_create("lb call");
    TCase *tc = tcase_create("call");

    tcase_add_checked_fixture(tc, setup, lb_teardown);
    tcase_add_loop_test(tc, an_id_that_is_known, 0, 2);
    tcase_add_loop_test(tc, a_runner_that_never_ends_a_call, 0, 3);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(tc, no_memory_for_an_answer);
#endif
    tcase_add_loop_test(tc, retry_table, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    return s;
}
