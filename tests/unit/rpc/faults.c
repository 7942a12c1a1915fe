/* What the client makes of runners that fail or break the protocol, and of their connections. */
#include "certs.h"
#include "fakepeer.h"
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fixture *f;
static struct fakepeer *peer;

static void open_with(enum fake_act act, const struct rpc_config *config)
{
    struct rpc_config c = RPC_CONFIG_INIT;

    f = fixture_create_with(OVER_UNIX, config ? config : &c);
    peer = fakepeer_create(f->address + strlen("unix:"), act);
    fixture_link_open(f, f->address);
}

static void finish(void)
{
    fakepeer_destroy(peer);
    fixture_destroy(f);
}

struct expect {
    enum fake_act act;
    int status; /* -1: any but 0 */
    enum engage_proof proof;
    int legal; /* -1: either */
    uint32_t starts, finishes;
    uint64_t bytes;
};

/* Rows that are others over gRPC C core. */
static const struct expect core_table[] = {
    /* The peer overruns the window, for which C core ends the connection; the message that is too
     * large may have come out of it before. */
    { FAKE_BIG_FRAME, 13, ENGAGE_PROOF_NONE, -1, 1, 0, 0 },
};

static const struct expect table[] = {
    { FAKE_REFUSE, 14, ENGAGE_PROOF_REFUSED, true, 0, 0, 0 },
    { FAKE_REFUSE_LATE, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_GOAWAY_LATE, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_RST_INTERNAL, 13, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_GOAWAY_BELOW, 14, ENGAGE_PROOF_REFUSED, true, 0, 0, 0 },
    { FAKE_GOAWAY_ABOVE, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_CLOSE, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_CLOSE_MID, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_CLOSE_STARTED, 14, ENGAGE_PROOF_NONE, true, 1, 0, 0 },
    { FAKE_CLOSE_DATA, 14, ENGAGE_PROOF_NONE, true, 1, 0, 2 },
    { FAKE_CLOSE_FINISHED, 14, ENGAGE_PROOF_NONE, true, 1, 1, 0 },
    { FAKE_GARBAGE_LATE, -1, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_LIAR, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_AFTER_FINISHED, 13, ENGAGE_PROOF_NONE, false, 1, 1, 0 },
    { FAKE_TWO_FINISHED, 13, ENGAGE_PROOF_NONE, false, 1, 1, 0 },
    { FAKE_UNKNOWN_KIND, 13, ENGAGE_PROOF_NONE, false, 0, 0, 0 },
    { FAKE_NEWER, 0, ENGAGE_PROOF_NONE, true, 1, 1, 2 },
    { FAKE_MANY_FIELDS, 13, ENGAGE_PROOF_NONE, false, 0, 0, 0 },
    { FAKE_NUL, 13, ENGAGE_PROOF_NONE, false, 0, 0, 0 },
    { FAKE_NOT_PROTOBUF, 13, ENGAGE_PROOF_NONE, false, 0, 0, 0 },
    { FAKE_BIG_FRAME, 13, ENGAGE_PROOF_NONE, false, 1, 0, 0 },
    { FAKE_NO_TRAILERS, 13, ENGAGE_PROOF_NONE, true, 0, 1, 0 },
    { FAKE_NO_FINISHED, 13, ENGAGE_PROOF_NONE, true, 1, 0, 0 },
    { FAKE_BAD_TRAILERS, 13, ENGAGE_PROOF_NONE, true, 0, 1, 0 },
    { FAKE_HUGE_LENGTH, 8, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_COMPRESSED, 13, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_HTTP_503, 14, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_HTML, 2, ENGAGE_PROOF_NONE, true, 0, 0, 0 },
    { FAKE_EARLY, 14, ENGAGE_PROOF_NONE, true, 1, 0, 0 },
    { FAKE_FULL, 8, ENGAGE_PROOF_FULL, true, 0, 0, 0 },
    { FAKE_FIRST_FINISHED, 0, ENGAGE_PROOF_NONE, true, 0, 1, 0 },
};

#define TABLE_N ((int)(sizeof(table) / sizeof(table[0])))

static const struct expect *row_of(int i)
{
    for (size_t k = 0; fixture_over_core() && k < sizeof(core_table) / sizeof(core_table[0]); k++) {
        if (core_table[k].act == table[i].act) {
            return &core_table[k];
        }
    }
    return &table[i];
}

static void expect_told(const struct expect *x, const struct told *t)
{
    ck_assert_uint_eq(t->ends, 1);
    if (x->status < 0) {
        ck_assert_int_ne(t->grpc_status, 0);
    } else {
        ck_assert_msg(t->grpc_status == x->status, "case %d: status %d: %s", x->act, t->grpc_status,
                      t->text);
    }
    ck_assert_msg(t->proof == x->proof, "case %d: proof %d: %s", x->act, t->proof, t->text);
    ck_assert_msg(x->legal < 0 || t->legal == x->legal, "case %d: legal %d: %s", x->act, t->legal, t->text);
    /* Also what came before the connection broke. */
    ck_assert_uint_eq(t->starts, x->starts);
    ck_assert_uint_eq(t->finishes, x->finishes);
    ck_assert_uint_eq(t->data_bytes, x->bytes);
}

START_TEST(test_misbehaving_runner)
{
    const struct expect *x = row_of(_i);
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };
    size_t len = x->act == FAKE_CLOSE_MID ? 1000000 : 10;
    char *body = calloc(1, len);

    c.end_timeout_ns = 200 * ENV_MS;
    open_with(x->act, &c);
    WAIT(f, is_up, f);
    told_run(&t, f, "any", body, len);
    expect_told(x, &t);
    free(body);
    finish();
}
END_TEST

/* The rest of an answer that was kept while its call was paused is handed over before its end, also
 * when that end and the reason to go on come in one read. */
START_TEST(test_end_behind_a_pause)
{
    struct told first = { .pause_at_start = true };
    struct told second = { .resume_at_start = &first };

    open_with(FAKE_PAIR, NULL);
    WAIT(f, is_up, f);
    told_start(&first, f, "any", "x", 1);
    WAIT(f, told_started, &first);
    told_run(&second, f, "any", "x", 1);
    WAIT(f, told_ended, &first);
    ck_assert_msg(first.grpc_status == 0, "status %d: %s", first.grpc_status, first.text);
    ck_assert_uint_eq(first.data_bytes, 2);
    ck_assert_uint_eq(first.finishes, 1);
    finish();
}
END_TEST

/* Calls that stay on a connection behind a GOAWAY: who answers a ping may go on, silence is death. */
START_TEST(test_silence_after_goaway)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };

    c.probe_interval_ns = 50 * ENV_MS;
    c.answer_ns = _i == 0 ? c.answer_ns : ENV_S / 2;
    open_with(_i == 0 ? FAKE_GOAWAY_PINGED : FAKE_GOAWAY_HANG, &c);
    WAIT(f, is_up, f);
    told_run(&t, f, "any", "x", 1);
    ck_assert(t.legal);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    ck_assert_msg(t.grpc_status == (_i == 0 ? 0 : 14), "status %d: %s", t.grpc_status, t.text);
    ck_assert_uint_eq(t.finishes, _i == 0 ? 1 : 0);
    ck_assert_str_eq(t.text, _i == 0 ? "" : "the peer does not answer a ping");
    finish();
}
END_TEST

/* F06: a NACK and then death: the NACK counts. */
START_TEST(test_nack_then_death)
{
    struct told t = { 0 };

    open_with(FAKE_NACK_CLOSE, NULL);
    WAIT(f, is_up, f);
    told_run(&t, f, "any", "x", 1);
    ck_assert(t.legal);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    ck_assert_uint_eq(t.starts, 0);
    ck_assert_int_eq(t.grpc_status, 0);
    ck_assert_uint_eq(t.finishes, 1);
    ck_assert_int_eq(t.finished.error_code, 503);
    WAIT(f, is_down, f);
    finish();
}
END_TEST

/* A write that fails does not lose what came before the peer closed. */
START_TEST(test_nack_before_a_failed_write)
{
    const struct engage_try try_call = { .call_json = "any", .call_json_len = 3,
                                         .slot_hash_id = "" };
    struct told t = { 0 };
    struct told late = { 0 };

    open_with(FAKE_NACK_SLAM, NULL);
    WAIT(f, is_up, f);
    told_start(&t, f, "any", "x", 1);
    loop_enter(f->loop); /* it reads nothing until we leave; the second call is written then */
    while (fakepeer_closed(peer) == 0) {
        usleep(1000);
    }
    late.f = f;
    late.attempt = f->client->attempt(f->link, &try_call, NULL, 0, told_cb(), &late);
    loop_leave(f->loop);
    WAIT(f, told_ended, &t);
    WAIT(f, told_ended, &late);
    ck_assert_msg(t.grpc_status == 0, "status %d: %s", t.grpc_status, t.text);
    ck_assert_int_eq(t.finished.error_code, 503);
    ck_assert_int_eq(late.grpc_status, 14);
    ck_assert_int_eq(late.proof, ENGAGE_PROOF_NOT_SENT);
    finish();
}
END_TEST

/* TryCall in part is no call: the peer's window takes 64 KiB, and it does not read on. */
START_TEST(test_try_in_part)
{
    static const size_t sizes[] = { 60000, 100000 };
    static const enum engage_proof proofs[] = { ENGAGE_PROOF_NONE, ENGAGE_PROOF_NOT_SENT };
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };
    char *json = malloc(sizes[_i] + 1);

    memset(json, 'x', sizes[_i]);
    json[sizes[_i]] = '\0';
    c.probe_interval_ns = 200 * ENV_MS;
    c.probe_timeout_ns = 200 * ENV_MS;
    open_with(FAKE_HANG, &c);
    WAIT(f, is_up, f);
    told_run(&t, f, json, "x", 1);
    ck_assert_int_eq(t.grpc_status, 14);
    ck_assert_int_eq(t.proof, proofs[_i]);
    free(json);
    finish();
}
END_TEST

/* The same with a deadline: the connection goes on. */
START_TEST(test_try_in_part_at_the_deadline)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };
    char *json = malloc(100001);

    memset(json, 'x', 100000);
    json[100000] = '\0';
    open_with(FAKE_SILENT, &c);
    WAIT(f, is_up, f);
    told_start_deadline(&t, f, json, "x", 1, 100);
    WAIT(f, told_ended, &t);
    ck_assert_int_eq(t.grpc_status, 4);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NOT_SENT);
    loop_enter(f->loop);
    ck_assert_uint_eq(f->downs, 0);
    loop_leave(f->loop);
    free(json);
    finish();
}
END_TEST

/* A connection has ids for 2^30 calls; the next ones go over another, none is lost. */
START_TEST(test_ids_run_out)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told held = { 0 };
    int served = 0;

    c.calls_max = 10;
    c.reconnect_first_ns = c.reconnect_max_ns = 10 * ENV_MS;
    f = fixture_create_with(OVER_UNIX, &c);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    told_start_deadline(&held, f, "hold", "x", 1, 0);
    for (int i = 0; i < 100 && served < 35; i++) {
        struct told t = { 0 };

        WAIT(f, is_up, f);
        told_run(&t, f, "echo", "x", 1);
        ck_assert(t.grpc_status == 0 || t.proof == ENGAGE_PROOF_NOT_SENT);
        served += t.grpc_status == 0;
    }
    ck_assert_int_eq(served, 35);
    loop_enter(f->loop);
    ck_assert_uint_ge(f->ups, 4);
    ck_assert_uint_eq(held.ends, 0);
    loop_leave(f->loop);
    told_close(&held);
    fixture_destroy(f);
}
END_TEST

static bool one_gone(void *ud)
{
    (void)ud;
    return f->gone == 1;
}

/* Silent calls take all that the runner lets in: the next one is told so and waits nowhere inside;
 * the probe finds another way, and the link lives. One that ended makes room. */
START_TEST(test_a_full_link_is_probed)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told held[2] = { 0 }, late = { 0 }, after = { 0 };

    c.streams_max = 2;
    c.probe_interval_ns = c.probe_timeout_ns = 50 * ENV_MS;
    f = fixture_create_with(OVER_UNIX, &c);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    told_start_deadline(&held[0], f, "hold", "x", 1, 0);
    told_start_deadline(&held[1], f, "hold", "x", 1, 0);
    told_start_deadline(&late, f, "echo", "x", 1, 0);
    WAIT(f, told_ended, &late);
    ck_assert_int_eq(late.grpc_status, 8);
    ck_assert_int_eq(late.proof, ENGAGE_PROOF_FULL);
    ck_assert_ptr_nonnull(strstr(late.text, "as many calls run on the connection as it lets in"));
    usleep(500000); /* several probes */
    loop_enter(f->loop);
    ck_assert_uint_eq(f->downs, 0);
    ck_assert_uint_eq(held[0].ends + held[1].ends, 0);
    loop_leave(f->loop);
    told_close(&held[0]);
    WAIT(f, one_gone, NULL);
    told_run(&after, f, "echo", "x", 1);
    ck_assert_msg(after.grpc_status == 0, "%s", after.text);
    told_close(&held[1]);
    fixture_destroy(f);
}
END_TEST

/* Nobody there: at once, and nothing was sent. */
START_TEST(test_nobody_listens)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };

    f = fixture_create_with(OVER_UNIX, &c);
    fixture_link_open(f, f->address);
    told_run(&t, f, "any", "x", 1);
    ck_assert_int_eq(t.grpc_status, 14);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NOT_SENT);
    fixture_destroy(f);
}
END_TEST

/* The other side speaks something else: the link never comes up. */
static bool three_accepted(void *ud)
{
    (void)ud;
    return fakepeer_accepted(peer) >= 3;
}

static void poke(struct env_timer *t)
{
    fixture_notify(f);
    env_timer_set(f->env, t, env_now_ns(f->env) + 20 * ENV_MS);
}

static struct env_timer poker = { .cb = poke };

static void poke_start(void)
{
    loop_enter(f->loop);
    poke(&poker);
    loop_leave(f->loop);
}

START_TEST(test_peer_is_no_runner)
{
    struct told t = { 0 };

    open_with(FAKE_GARBAGE, NULL);
    poke_start();
    WAIT(f, three_accepted, NULL);
    told_run(&t, f, "any", "x", 1);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NOT_SENT);
    loop_enter(f->loop);
    ck_assert_uint_eq(f->ups, 0);
    env_timer_clear(f->env, &poker);
    loop_leave(f->loop);
    finish();
}
END_TEST

/* F12: a peer that stopped is given up after probe interval and time-out; what ran is unknown. */
START_TEST(test_hung_peer)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };
    int64_t began;

    c.probe_interval_ns = 200 * ENV_MS;
    c.probe_timeout_ns = 200 * ENV_MS;
    open_with(FAKE_HANG, &c);
    WAIT(f, is_up, f);
    began = env_now_ns(f->env);
    told_run(&t, f, "any", "x", 1);
    ck_assert_int_eq(t.grpc_status, 14);
    ck_assert_int_eq(t.proof, ENGAGE_PROOF_NONE);
    ck_assert_ptr_nonnull(strstr(t.text, "no answer for 200 ms"));
    ck_assert_int_lt(t.ended_ns - began, 1500 * ENV_MS);
    WAIT(f, is_down, f);
    finish();
}
END_TEST

/* A peer that answers probes is alive, however long a call takes. */
START_TEST(test_slow_call_is_not_dead)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct told t = { 0 };

    c.probe_interval_ns = 30 * ENV_MS;
    c.probe_timeout_ns = 1000 * ENV_MS;
    f = fixture_create_with(OVER_UNIX, &c);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    told_start_deadline(&t, f, "hold", NULL, 0, 1000);
    WAIT(f, told_ended, &t);
    ck_assert_int_eq(t.grpc_status, 4);
    ck_assert_uint_eq(f->downs, 0);
    fixture_destroy(f);
}
END_TEST

/* A restarted runner is used again within a second, whenever it comes back. */
START_TEST(test_restart)
{
    struct told t = { 0 };
    struct told after = { 0 };
    struct timespec pause = { .tv_nsec = _i * 400 * ENV_MS };
    struct timespec hold = { .tv_sec = _i == 2 ? 3 : 0, .tv_nsec = pause.tv_nsec % ENV_S };
    int64_t began;

    f = fixture_create(OVER_TCP);
    told_start(&t, f, "hold", "x", 1);
    told_close(&t);
    fixture_server_close(f);
    WAIT(f, is_down, f);
    nanosleep(&hold, NULL); /* how long the runner is away is the subject of the test */
    fixture_server_open(f);
    began = env_now_ns(f->env);
    WAIT(f, is_up, f);
    ck_assert_int_lt(env_now_ns(f->env) - began, 1000 * ENV_MS);
    told_run(&after, f, "echo", "x", 1);
    ck_assert_int_eq(after.grpc_status, 0);
    ck_assert_uint_eq(f->ups, 2);
    fixture_destroy(f);
}
END_TEST

/* F14: no storm of dials at a runner that dies at once. */
START_TEST(test_few_dials)
{
    struct timespec watched = { .tv_nsec = 999 * ENV_MS };
    struct rpc_config c = RPC_CONFIG_INIT;
    int n;

    c.reconnect_first_ns /= 3;
    c.reconnect_max_ns /= 3;
    open_with(FAKE_GARBAGE, &c);
    nanosleep(&watched, NULL);
    n = fakepeer_accepted(peer);
    ck_assert_int_ge(n, 3);
    ck_assert_int_le(n, 9);
    finish();
}
END_TEST

/* The server goes away while calls run: killed connections, one answer each, no proof. */
#define RUNNING 100

static struct told running[RUNNING];

static bool all_running(void *ud)
{
    (void)ud;
    return f->tries == RUNNING;
}

static bool running_ended(void *ud)
{
    (void)ud;
    for (int i = 0; i < RUNNING; i++) {
        if (running[i].ends != 1) {
            return false;
        }
    }
    return true;
}

START_TEST(test_server_closed_under_load)
{
    memset(running, 0, sizeof(running));
    f = fixture_create(OVER_UNIX);
    for (int i = 0; i < RUNNING; i++) {
        told_start(&running[i], f, "never", "x", 1);
    }
    WAIT(f, all_running, NULL);
    fixture_server_close(f);
    WAIT(f, running_ended, NULL);
    for (int i = 0; i < RUNNING; i++) {
        ck_assert_int_ne(running[i].grpc_status, 0);
        ck_assert_int_eq(running[i].proof, ENGAGE_PROOF_NONE);
    }
    fixture_destroy(f);
}
END_TEST

static char status_error[64];

static void on_status(void *ud, const struct rpc_status_result *r)
{
    struct rpc_status_result *to = ud;

    *to = *r;
    to->text = NULL;
    snprintf(status_error, sizeof(status_error), "%s", r->error_text ? r->error_text : "");
    to->error_text = status_error;
    f->drained = true;
    fixture_notify(f);
}

static bool answered(void *ud)
{
    (void)ud;
    return f->drained;
}

START_TEST(test_status)
{
    struct rpc_status_result r = { .grpc_status = -1 };

    f = fixture_create(OVER_UNIX);
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_status(f->link, env_now_ns(f->env) + 5 * ENV_S, on_status, &r), 0);
    loop_leave(f->loop);
    WAIT(f, answered, NULL);
    ck_assert_int_eq(r.grpc_status, 0);
    ck_assert_int_eq(r.active, 3);
    ck_assert(r.failed);
    ck_assert_int_eq(r.error_code, 503);
    ck_assert_str_eq(r.error_text, "no engine \xc3\xa4");
    f->drained = false;
    fixture_server_close(f);
    loop_enter(f->loop);
    ck_assert_int_eq(rpc_status(f->link, env_now_ns(f->env) + 5 * ENV_S, on_status, &r), 0);
    loop_leave(f->loop);
    WAIT(f, answered, NULL);
    ck_assert_int_eq(r.grpc_status, 14);
    fixture_destroy(f);
}
END_TEST

static struct {
    int changes;
    bool failing;
    int32_t code;
    char why[64];
} health;

static void on_health(void *ud, const struct engage_health *h)
{
    (void)ud;
    health.changes++;
    health.failing = h->failing;
    health.code = h->code;
    snprintf(health.why, sizeof(health.why), "%s", h->why);
    fixture_notify(f);
}

static bool has_changed(void *ud)
{
    return health.changes == *(int *)ud;
}

static bool is_asked_again(void *ud)
{
    return f->asks >= *(uint32_t *)ud;
}

static const char *why_of_peers(void)
{
    struct rpc_peer_row row;
    struct walk w;
    const char *why = NULL;

    rpc_walk_peers(f->rpc, &w);
    while (rpc_walk_next_peer(f->rpc, &w, &row)) {
        ck_assert_str_eq(row.state, "up");
        why = row.why ? row.why : why;
    }
    walk_end(&w);
    return why;
}

/* A link whose owner wants to know asks, and tells changes only; others do not ask. */
START_TEST(test_health)
{
    static const struct engage_link_cb cb = { .on_health = on_health };
    struct rpc_config config = RPC_CONFIG_INIT;
    struct engage_link *l;
    uint32_t asks;
    int changes = 1;

    config.status_interval_ns = 20 * ENV_MS;
    memset(&health, 0, sizeof(health));
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    ck_assert_uint_eq(f->asks, 0);
    loop_enter(f->loop);
    l = f->client->link_open(f->client, f->address, NULL, &cb, NULL);
    loop_leave(f->loop);
    WAIT(f, has_changed, &changes);
    loop_enter(f->loop);
    ck_assert(health.failing);
    ck_assert_int_eq(health.code, 503);
    ck_assert_str_eq(health.why, "no engine \xc3\xa4");
    ck_assert_str_eq(why_of_peers(), "no engine \xc3\xa4");
    asks = f->asks + 3;
    loop_leave(f->loop);
    WAIT(f, is_asked_again, &asks);
    loop_enter(f->loop);
    ck_assert_int_eq(health.changes, 1);
    f->well = true;
    loop_leave(f->loop);
    changes = 2;
    WAIT(f, has_changed, &changes);
    loop_enter(f->loop);
    ck_assert(!health.failing);
    ck_assert_str_eq(health.why, "");
    ck_assert_ptr_null(why_of_peers());
    f->client->link_close(l);
    loop_leave(f->loop);
    fixture_destroy(f);
}
END_TEST

/* A link that is closed leaves its attempts running. */
START_TEST(test_link_closed_under_a_call)
{
    struct told t = { .pause_at_start = true };

    f = fixture_create(OVER_TCP);
    told_start(&t, f, "big:3000000", NULL, 0);
    WAIT(f, told_started, &t);
    loop_enter(f->loop);
    f->client->link_close(f->link);
    f->link = NULL;
    f->client->attempt_pause(t.attempt, false);
    loop_leave(f->loop);
    WAIT(f, told_ended, &t);
    ck_assert_msg(t.grpc_status == 0, "%d %s", t.grpc_status, t.text);
    ck_assert_uint_eq(t.data_bytes, 3000000);
    fixture_destroy(f);
}
END_TEST

START_TEST(test_addresses)
{
    static const char *const bad[] = { "",          "localhost", "1.2.3.4:",     "1.2.3.4:x",
                                       ":70000",    "unix:",     "unix:relative", "host:1x",
                                       "nohost.invalid:1" };
    struct rpc_config c = RPC_CONFIG_INIT;
    static const struct engage_server_cb cb;
    struct rpc_server *s = NULL;
    struct fn_error err = ERR_INIT;
    char taken[128];

    f = fixture_create_with(OVER_TCP, &c);
    loop_enter(f->loop);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(rpc_server_open(f->rpc, bad[i], &cb, NULL, &s, &err) == FN_E_INVALID,
                      "\"%s\" was taken or said %d", bad[i], err.code);
        ck_assert_uint_gt(strlen(err.msg), 10);
    }
    ck_assert_int_eq(rpc_server_open(f->rpc, "127.0.0.1:0", &cb, NULL, &s, &err), 0);
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", rpc_server_port(s));
    ck_assert_int_eq(rpc_server_open(f->rpc, taken, &cb, NULL, &s, &err), FN_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "is in use"));
    snprintf(taken, sizeof(taken), "unix:%s/s", f->dir);
    ck_assert_int_eq(rpc_server_open(f->rpc, taken, &cb, NULL, &s, &err), 0);
    ck_assert_int_eq(rpc_server_open(f->rpc, taken, &cb, NULL, &s, &err), FN_E_EXISTS);
    loop_leave(f->loop);
    fixture_destroy(f);
}
END_TEST

/* Mutual TLS: a name that fits, a name that is told, a name that does not fit, a client without a
 * certificate, a client that trusts another CA, plain text at a TLS port. */
struct tls_case {
    const char *ca;
    bool with_cert;
    const char *name;
    bool up;
};

static const struct tls_case tls_cases[] = {
    { ca_pem, true, NULL, true },          { ca_pem, true, "runner-1.test", true },
    { ca_pem, true, "runner-2.test", false }, { ca_pem, false, NULL, false },
    { other_ca_pem, true, NULL, false },   { NULL, false, NULL, false },
};

START_TEST(test_tls)
{
    const struct tls_case *x = &tls_cases[_i];
    struct rpc_config c = RPC_CONFIG_INIT;
    struct fixture *server;
    struct told t = { 0 };

    c.tls = c.tls_server = (struct net_tls){ .cert_pem = node_pem, .key_pem = node_key,
                                             .ca_pem = ca_pem };
    server = fixture_create_with(OVER_TCP, &c);
    fixture_server_open(server);
    c.tls = (struct net_tls){ .cert_pem = x->with_cert ? node_pem : NULL,
                              .key_pem = x->with_cert ? node_key : NULL,
                              .ca_pem = x->ca };
    f = fixture_create_with(OVER_TCP, &c);
    fixture_link_open_named(f, server->address, x->name);
    if (x->up) {
        WAIT(f, is_up, f);
        told_run(&t, f, "echo", "x", 1);
        ck_assert_int_eq(t.grpc_status, 0);
        ck_assert_uint_eq(server->tries, 1);
    } else {
        struct timespec some = { .tv_nsec = 500 * ENV_MS };

        nanosleep(&some, NULL); /* several dials: a client certificate is checked late in TLS 1.3 */
        told_run(&t, f, "echo", "x", 1);
        ck_assert_int_ne(t.grpc_status, 0);
        ck_assert_uint_eq(server->tries, 0);
    }
    fixture_destroy(f);
    fixture_destroy(server);
}
END_TEST

TCase *faults_case(void)
{
    TCase *tc = tcase_create("faults");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_misbehaving_runner, 0, TABLE_N);
    tcase_add_test(tc, test_end_behind_a_pause);
    tcase_add_loop_test(tc, test_silence_after_goaway, 0, 2);
    tcase_add_test(tc, test_nack_then_death);
    tcase_add_test(tc, test_nack_before_a_failed_write);
    tcase_add_loop_test(tc, test_try_in_part, 0, 2);
    tcase_add_test(tc, test_try_in_part_at_the_deadline);
    tcase_add_test(tc, test_ids_run_out);
    tcase_add_test(tc, test_nobody_listens);
    tcase_add_test(tc, test_peer_is_no_runner);
    tcase_add_test(tc, test_hung_peer);
    tcase_add_test(tc, test_slow_call_is_not_dead);
    tcase_add_loop_test(tc, test_restart, 0, 3);
    tcase_add_test(tc, test_few_dials);
    tcase_add_test(tc, test_a_full_link_is_probed);
    tcase_add_test(tc, test_server_closed_under_load);
    tcase_add_test(tc, test_status);
    tcase_add_test(tc, test_health);
    tcase_add_test(tc, test_link_closed_under_a_call);
    tcase_add_test(tc, test_addresses);
    tcase_add_loop_test(tc, test_tls, 0, (int)(sizeof(tls_cases) / sizeof(tls_cases[0])));
    return tc;
}
