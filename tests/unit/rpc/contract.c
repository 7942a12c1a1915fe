/* What every implementation of model/engage.h owes its users; run over each of them. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture *f;

static char *pattern(size_t len)
{
    char *p = malloc(len ? len : 1);

    for (size_t i = 0; i < len; i++) {
        p[i] = (char)(i % 253);
    }
    return p;
}

static void assert_ok(const struct told *t)
{
    ck_assert_msg(t->grpc_status == 0, "status %d: %s", t->grpc_status, t->text);
    ck_assert(t->legal);
    ck_assert_uint_eq(t->ends, 1);
    ck_assert_uint_eq(t->finishes, 1);
}

static void echo(size_t len)
{
    char *body = pattern(len);
    struct told t = { 0 };

    told_run(&t, f, "echo", body, len);
    ck_assert_msg(t.grpc_status == 0, "%zu bytes: status %d: %s", len, t.grpc_status, t.text);
    assert_ok(&t);
    ck_assert(t.finished.success);
    ck_assert_uint_eq(t.starts, 1);
    ck_assert_int_eq(t.status, 200);
    ck_assert_uint_eq(t.data_bytes, len);
    ck_assert_uint_eq(t.data_sum, sum_of(body, len, 0));
    ck_assert_int_eq(t.finished.scheduler_ns, 1111);
    ck_assert_int_eq(t.finished.execution_ns, 2222);
    ck_assert_str_eq(t.finished_details, "the-call");
    free(body);
}

START_TEST(test_bodies)
{
    static const size_t sizes[] = { 0, 1, 10239, 10240, 10241, 20480, 25000, 65536, 1000000 };

    f = fixture_create(_i);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        echo(sizes[i]);
    }
    ck_assert_str_eq(f->last_request_id, "req-7");
    ck_assert_str_eq(f->last_ext, "two");
    ck_assert_str_eq(f->last_json, "echo");
    ck_assert_int_eq(f->last_deadline_ns, 0);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_deadline_reaches_the_server)
{
    struct told t = { 0 };
    int64_t now;

    f = fixture_create(_i);
    now = env_now_ns(f->env);
    told_start_deadline(&t, f, "echo", NULL, 0, 5000);
    WAIT(f, told_ended, &t);
    assert_ok(&t);
    ck_assert_int_gt(f->last_deadline_ns, now + 4000 * ENV_MS);
    ck_assert_int_lt(f->last_deadline_ns, now + 6000 * ENV_MS);
    fixture_destroy(f);
}
END_TEST

static bool one_gone(void *ud)
{
    (void)ud;
    return f->gone == 1;
}

START_TEST(test_deadline_passes)
{
    struct told t = { 0 };

    f = fixture_create(_i);
    told_start_deadline(&t, f, "hold", NULL, 0, 100);
    WAIT(f, told_ended, &t);
    ck_assert_int_eq(t.grpc_status, 4);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    WAIT(f, one_gone, NULL);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_nack)
{
    char *body = pattern(2000000);

    f = fixture_create(_i);
    for (int i = 0; i < 50; i++) {
        struct told t = { 0 };

        told_run(&t, f, "nack", body, i % 2 ? 2000000 : 10);
        assert_ok(&t);
        ck_assert(!t.finished.success);
        ck_assert_int_eq(t.finished.error_code, 503);
        ck_assert_str_eq(t.finished_text, "busy");
        ck_assert_int_eq(t.finished.refusal.reason, ENGAGE_REASON_ROOM);
        ck_assert_int_eq(t.finished.refusal.retry_ns, 250000000);
        ck_assert_uint_eq(t.finished.refusal.free_mem_bytes, 64 << 20);
        ck_assert_uint_eq(t.finished.refusal.free_cpu_milli, 500);
        ck_assert_uint_eq(t.finished.refusal.idle, 3);
        ck_assert_uint_eq(t.starts, 0);
    }
    ck_assert_uint_eq(f->gone, 0);
    free(body);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_answer_before_the_body_ends)
{
    char *body = pattern(2000000);
    static const char *const ways[] = { "early", "readsome" };

    f = fixture_create(_i);
    for (int i = 0; i < 2; i++) {
        struct told t = { 0 };

        told_run(&t, f, ways[i], body, 2000000);
        assert_ok(&t);
        ck_assert(t.finished.success);
        ck_assert_uint_eq(t.starts, 1);
    }
    free(body);
    fixture_destroy(f);
}
END_TEST

static void assert_big(const struct told *t, size_t len)
{
    unsigned char *want = malloc(len);

    for (size_t i = 0; i < len; i++) {
        want[i] = (unsigned char)(i % 251);
    }
    ck_assert_uint_eq(t->data_bytes, len);
    ck_assert_uint_eq(t->data_sum, sum_of(want, len, 0));
    free(want);
}

START_TEST(test_big_answer)
{
    struct told t = { 0 };

    f = fixture_create(_i);
    told_run(&t, f, "big:3000000", NULL, 0);
    assert_ok(&t);
    assert_big(&t, 3000000);
    ck_assert_uint_gt(f->writables, 0);
    fixture_destroy(f);
}
END_TEST

static bool tried(void *ud)
{
    (void)ud;
    return f->tries > 0;
}

START_TEST(test_pause_holds_the_server_back)
{
    struct told t = { .pause_at_start = true };
    struct told other = { 0 };

    f = fixture_create(_i);
    told_start(&t, f, "big:30000000", NULL, 0);
    WAIT(f, told_started, &t);
    told_run(&other, f, "echo", "x", 1); /* the link is not blocked by a paused stream */
    assert_ok(&other);
    loop_enter(f->loop);
    ck_assert_uint_eq(t.data_bytes, 0);
    ck_assert_uint_eq(f->finished, 1);
    f->client->attempt_pause(t.attempt, false);
    loop_leave(f->loop);
    WAIT(f, told_ended, &t);
    assert_ok(&t);
    assert_big(&t, 30000000);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_client_cancels)
{
    struct told t = { 0 };

    f = fixture_create(_i);
    told_start(&t, f, "hold", NULL, 0);
    WAIT(f, tried, NULL);
    told_close(&t);
    WAIT(f, one_gone, NULL);
    ck_assert_uint_eq(t.ends, 0);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_client_cancels_inside_a_callback)
{
    struct told t = { .close_after_bytes = 1 };
    struct told u = { .close_on_finished = true };
    struct told after = { 0 };

    f = fixture_create(_i);
    told_start(&t, f, "big:300000000", NULL, 0);
    WAIT(f, one_gone, NULL);
    ck_assert_uint_eq(t.ends, 0);
    ck_assert_uint_eq(t.data_calls, 1);
    told_start(&u, f, "nack", NULL, 0);
    told_run(&after, f, "echo", "abc", 3);
    assert_ok(&after);
    loop_enter(f->loop);
    ck_assert_uint_eq(u.ends, 0);
    ck_assert_uint_eq(u.finishes, 1);
    loop_leave(f->loop);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_server_aborts)
{
    struct told t = { 0 };
    struct told busy = { 0 };
    struct told mid = { 0 };
    struct told refused = { 0 };

    f = fixture_create(_i);
    told_run(&t, f, "abort:7", "x", 1);
    ck_assert_int_eq(t.grpc_status, 7);
    ck_assert_str_eq(t.text, "as asked");
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    ck_assert(t.legal);
    told_run(&busy, f, "abort:503", "x", 1);
    ck_assert_int_eq(busy.grpc_status, 503);
    told_run(&mid, f, "midabort", "x", 1);
    ck_assert_int_eq(mid.grpc_status, 13);
    ck_assert_int_eq(mid.proof, ENGAGE_PROOF_NONE);
    told_run(&refused, f, "refuse", "x", 1);
    ck_assert_int_eq(refused.grpc_status, 9);
    ck_assert_int_eq(refused.proof, ENGAGE_PROOF_NONE);
    ck_assert_uint_eq(f->gone, 0);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_illegal_orders)
{
    struct told t = { 0 };
    struct told two = { 0 };

    f = fixture_create(_i);
    told_run(&t, f, "wrongorder", NULL, 0);
    ck_assert(!t.legal);
    ck_assert_int_ne(t.grpc_status, 0);
    ck_assert_uint_eq(t.data_calls, 0);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    told_run(&two, f, "twostarts", NULL, 0);
    ck_assert(!two.legal);
    ck_assert_uint_eq(two.starts, 1);
    fixture_destroy(f);
}
END_TEST

#define MANY 1000

static uint32_t ended_n(struct told *t)
{
    uint32_t n = 0;

    for (int i = 0; i < MANY; i++) {
        n += t[i].ends;
    }
    return n;
}

static bool all_ended(void *ud)
{
    return ended_n(ud) == MANY;
}

START_TEST(test_many_at_once)
{
    struct told *t = calloc(MANY, sizeof(*t));

    f = fixture_create(_i);
    for (int i = 0; i < MANY; i++) {
        told_start(&t[i], f, "echo", "0123456789", 10);
    }
    WAIT(f, all_ended, t);
    for (int i = 0; i < MANY; i++) {
        assert_ok(&t[i]);
        ck_assert_uint_eq(t[i].data_bytes, 10);
    }
    ck_assert_uint_eq(f->tries, MANY);
    free(t);
    fixture_destroy(f);
}
END_TEST

static bool all_tried(void *ud)
{
    (void)ud;
    return f->tries == MANY;
}

static bool all_gone(void *ud)
{
    (void)ud;
    return f->gone == MANY;
}

START_TEST(test_many_held_then_cancelled)
{
    struct told *t = calloc(MANY, sizeof(*t));

    f = fixture_create(_i);
    for (int i = 0; i < MANY; i++) {
        told_start(&t[i], f, "hold", "0123456789", 10);
    }
    WAIT(f, all_tried, NULL);
    for (int i = 0; i < MANY; i++) {
        told_close(&t[i]);
    }
    WAIT(f, all_gone, NULL);
    free(t);
    fixture_destroy(f);
}
END_TEST

static void on_drained(void *ud)
{
    struct fixture *x = ud;

    x->drained = true;
    fixture_notify(x);
}

static bool is_drained(void *ud)
{
    (void)ud;
    return f->drained;
}

static void drain(void)
{
    loop_enter(f->loop);
    if (f->local) {
        local_drain(f->local, on_drained, f);
    } else {
        rpc_server_drain(f->server, on_drained, f);
    }
    ck_assert(!f->drained);
    loop_leave(f->loop);
}

static bool finished_one(void *ud)
{
    (void)ud;
    return f->finished > 0;
}

/* A whole answer that waits for a slow client is not lost to the deadline of its call. */
START_TEST(test_deadline_behind_a_pause)
{
    const int64_t timeout_ms = 200;
    struct told t = { .pause_at_start = true };
    int64_t past_ns;

    f = fixture_create(_i);
    past_ns = env_now_ns(f->env) + 2 * timeout_ms * ENV_MS;
    told_start_deadline(&t, f, "big:100", NULL, 0, timeout_ms);
    WAIT(f, told_started, &t);
    WAIT(f, finished_one, NULL);
    while (env_now_ns(f->env) < past_ns) {
        struct told other = { 0 };

        told_run(&other, f, "echo", "x", 1);
        assert_ok(&other);
    }
    loop_enter(f->loop);
    f->client->attempt_pause(t.attempt, false);
    loop_leave(f->loop);
    WAIT(f, told_ended, &t);
    assert_ok(&t);
    assert_big(&t, 100);
    fixture_destroy(f);
}
END_TEST

/* One that is not whole is, however long its owner does not read. */
START_TEST(test_deadline_of_a_paused_call)
{
    struct told t = { .pause_at_start = true };

    f = fixture_create(_i);
    told_start_deadline(&t, f, "big:30000000", NULL, 0, 200);
    WAIT(f, told_ended, &t);
    ck_assert_int_eq(t.grpc_status, 4);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    ck_assert(t.legal);
    WAIT(f, one_gone, NULL);
    fixture_destroy(f);
}
END_TEST

#define SLOW_N 20

static bool a_slow_one_ended(void *ud)
{
    const struct told *slow = ud;
    uint32_t ended = 0;

    for (int i = 0; i < SLOW_N; i++) {
        ended += slow[i].ends;
    }
    return ended > 0;
}

/* Answers whose owners do not read hold as much as all may: of these some end, and none whose owner
 * reads. An answer that is whole and waits for its owner is one of them. */
START_TEST(who_holds_most_ends_first)
{
    const char *const slow_ones[] = { "big:30000000", "big:900000" };
    struct rpc_config config = RPC_CONFIG_INIT;
    struct told slow[SLOW_N] = { 0 }, big = { 0 }, echo = { 0 };
    char *body = calloc(1, 300000);
    uint32_t ended = 0;

    config.memory_max_bytes = 16u << 20;
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    for (int i = 0; i < SLOW_N; i++) {
        slow[i].pause_at_start = true;
        told_start(&slow[i], f, slow_ones[_i], NULL, 0);
        WAIT(f, told_started, &slow[i]);
    }
    WAIT(f, a_slow_one_ended, slow);
    told_run(&big, f, "big:200000", NULL, 0);
    told_run(&echo, f, "echo", body, 300000);
    assert_ok(&big);
    assert_big(&big, 200000);
    assert_ok(&echo);
    loop_enter(f->loop);
    for (int i = 0; i < SLOW_N; i++) {
        ended += slow[i].ends;
        ck_assert_int_eq(slow[i].grpc_status, slow[i].ends ? 8 : 0);
        ck_assert_int_eq(slow[i].proof, ENGAGE_PROOF_NONE);
    }
    loop_leave(f->loop);
    ck_assert_uint_lt(ended, 8);
    for (int i = 0; i < SLOW_N; i++) {
        if (!slow[i].ends) {
            told_close(&slow[i]);
        }
    }
    free(body);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_drain)
{
    struct told t = { 0 };
    struct told late = { 0 };

    f = fixture_create(_i);
    told_start(&t, f, "big:100", NULL, 0);
    WAIT(f, told_ended, &t);
    memset(&t, 0, sizeof(t));
    t.pause_at_start = true;
    told_start(&t, f, "big:30000000", NULL, 0);
    WAIT(f, told_started, &t);
    drain();
    WAIT(f, is_down, f);
    told_run(&late, f, "echo", NULL, 0);
    ck_assert_int_eq(late.grpc_status, 14);
    ck_assert_int_eq(late.proof, ENGAGE_PROOF_NOT_SENT);
    loop_enter(f->loop);
    ck_assert(!f->drained);
    f->client->attempt_pause(t.attempt, false);
    loop_leave(f->loop);
    WAIT(f, told_ended, &t);
    assert_ok(&t);
    assert_big(&t, 30000000);
    WAIT(f, is_drained, NULL);
    fixture_destroy(f);
}
END_TEST

static bool holds(void *ud)
{
    (void)ud;
    return f->held != NULL;
}

START_TEST(test_server_ends)
{
    static const char *const ways[] = { "hold", "holdstart", "holddata" };
    struct told t = { 0 };

    f = fixture_create(_i / 3);
    told_start(&t, f, ways[_i % 3], "x", 1);
    if (_i % 3 == 0) {
        WAIT(f, holds, NULL);
    } else {
        WAIT(f, told_started, &t);
    }
    loop_enter(f->loop);
    if (f->local) {
        fixture_abort_all(f);
    } else {
        rpc_server_close(f->server);
    }
    loop_leave(f->loop);
    WAIT(f, told_ended, &t);
    ck_assert_int_ne(t.grpc_status, 0);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_texts_stay_valid)
{
    struct told t = { 0 };

    f = fixture_create(_i);
    told_run(&t, f, "early", NULL, 0);
    assert_ok(&t);
    ck_assert_uint_eq(t.n_headers, 3);
    /* A Go peer refuses what is not UTF-8; in process nothing has to be re-coded. */
    ck_assert_str_eq(t.header, _i == OVER_LOCAL ? "caf\xe9|caf\xc3\xa9"
                                                : "caf\xc3\xa9|caf\xc3\xa9");
    fixture_destroy(f);
}
END_TEST

/* A message that cannot be kept ends the call, however far it came; a cut answer never looks
 * whole. Even i: the function has not finished by then. */
static void lose_for_memory(int over, int i, struct told *t)
{
    char what[32];

    f = fixture_create(over);
    snprintf(what, sizeof(what), "%s:%d", i % 2 ? "nomemend" : "nomem", i / 2);
    told_run(t, f, what, NULL, 0);
    ck_assert_int_ne(t->grpc_status, 0);
    ck_assert_int_eq(t->proof, ENGAGE_PROOF_NONE);
    ck_assert_uint_eq(t->ends, 1);
    ck_assert_uint_eq(t->finishes, 0);
    if (i % 2 == 0) {
        WAIT(f, one_gone, NULL);
    }
    echo(65536);
    fixture_destroy(f);
}

START_TEST(test_no_memory_ends_the_call)
{
    struct told t = { 0 };

    lose_for_memory(OVER_LOCAL, _i, &t);
    ck_assert_int_eq(t.grpc_status, -FN_E_EXHAUSTED);
    ck_assert_str_eq(t.text, "runner local: out of memory");
}
END_TEST

/* The server ended itself. */
START_TEST(test_no_memory_of_a_server_loses_one_call)
{
    struct told t = { 0 };

    lose_for_memory(OVER_TCP, _i, &t);
}
END_TEST

TCase *contract_case(void)
{
    TCase *tc = tcase_create("contract");


    tcase_set_timeout(tc, 60);

    tcase_add_loop_test(tc, test_bodies, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_deadline_reaches_the_server, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_deadline_passes, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_nack, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_answer_before_the_body_ends, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_big_answer, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_pause_holds_the_server_back, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_deadline_behind_a_pause, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_deadline_of_a_paused_call, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, who_holds_most_ends_first, 0, 2);
    tcase_add_loop_test(tc, test_client_cancels, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_client_cancels_inside_a_callback, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_server_aborts, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_illegal_orders, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_many_at_once, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_many_held_then_cancelled, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_drain, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_server_ends, 0, 3 * TRANSPORTS_N);
    tcase_add_loop_test(tc, test_texts_stay_valid, 0, TRANSPORTS_N);
    tcase_add_loop_test(tc, test_no_memory_ends_the_call, 0, 2 * 4);
    tcase_add_loop_test(tc, test_no_memory_of_a_server_loses_one_call, 0, 2 * 3);
    return tc;
}
