/* Random scripts of events against many calls. Whatever happens: each request gets exactly one
 * terminal answer (the fixture checks it), an attempt follows another of the same call only when
 * the earlier one ended with a proof, and the books balance. */
#include "../lib/sanitized.h"
#include "fixture.h"
#include "suites.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS = 30, STEPS = 6000 };

static void setup(void)
{
    lb_opts = (struct lb_options){
        .placement_timeout_ns = 3 * ENV_S,
        .detached_placement_timeout_ns = 3 * ENV_S,
        .execution_headroom_ns = ENV_S,
        .response_buffer_bytes = 300,
        .response_bytes_max = 5000,
        .detached = true,
    };
    fixture_api = false;
    lb_setup();
}

/* Ids of calls whose attempt ended without a proof: they must never be seen again. */
static char spent[20000][CALL_ID_LEN + 1];
static int n_spent;

static void id_of(const struct engage_attempt *a, char ret[CALL_ID_LEN + 1])
{
    memcpy(ret, strstr(a->json, "\"id\":\"") + 6, CALL_ID_LEN);
    ret[CALL_ID_LEN] = '\0';
}

static void check_not_spent(const struct engage_attempt *a)
{
    char id[CALL_ID_LEN + 1];

    id_of(a, id);
    for (int i = 0; i < n_spent; i++) {
        ck_assert_msg(strcmp(spent[i], id) != 0, "call %s was sent again without a proof", id);
    }
}

struct shadow {
    uint32_t number;
    bool output;
    bool finished;
    bool nack;
};
static struct shadow shadows[4096];
static int n_shadows;

static struct shadow *shadow_of(struct engage_attempt *a)
{
    for (int i = 0; i < n_shadows; i++) {
        if (shadows[i].number == a->number) {
            return &shadows[i];
        }
    }
    check_not_spent(a);
    ck_assert_int_lt(n_shadows, 4096);
    shadows[n_shadows] = (struct shadow){ .number = a->number };
    return &shadows[n_shadows++];
}

/* Forgets attempts that were closed. */
static void forget_closed(void)
{
    struct engage_attempt *a;
    int kept = 0;

    for (int i = 0; i < n_shadows; i++) {
        TAILQ_FOREACH(a, &fe.attempts, link) {
            if (a->number == shadows[i].number) {
                shadows[kept++] = shadows[i];
                break;
            }
        }
    }
    n_shadows = kept;
}

static void one_event(struct engage_attempt *a, uint64_t x)
{
    static const int codes[] = { 503, 500, 502, 504, 400, 0, 501, 429 };
    static const int grpc[] = { 14, 1, 2, 4, 13, 503, 0 };
    static char data[256];
    struct shadow *s = shadow_of(a);
    enum engage_proof proof = (enum engage_proof)(x / 64 % 4);
    bool legal = x / 256 % 8 != 0;
    bool user = x / 4096 % 2;
    int code = codes[x / 8192 % 8];
    int status = grpc[x / 65536 % 7];

    if (s->finished) {
        goto end;
    }
    switch (x % 8) {
    case 0:
    case 1:
        s->output = true;
        fake_attempt_start(a, 200, "X", "y", NULL);
        return;
    case 2:
    case 3:
    case 4:
        s->output = true;
        fake_attempt_data(a, data, x / 131072 % sizeof(data));
        return;
    case 5:
        s->finished = true;
        fake_attempt_finished(a, true, 0, false, NULL);
        return;
    case 6:
        s->finished = true;
        s->nack = code == 503 && !user && !s->output;
        fake_attempt_finished(a, false, code, user, "text");
        return;
    default:
        break;
    }
    if (s->output && (proof == ENGAGE_PROOF_NOT_SENT || proof == ENGAGE_PROOF_FULL)) {
        proof = ENGAGE_PROOF_NONE; /* the transport does not claim that after output */
    }
end:
    if (s->finished && proof != ENGAGE_PROOF_NONE) {
        proof = ENGAGE_PROOF_NONE;
    }
    if (!(legal && (proof == ENGAGE_PROOF_NOT_SENT || proof == ENGAGE_PROOF_FULL ||
                    (proof == ENGAGE_PROOF_REFUSED && !s->output) || s->nack))) {
        ck_assert_int_lt(n_spent, 20000);
        id_of(a, spent[n_spent++]);
    }
    fake_attempt_end(a, status, proof, legal);
}

static struct engage_attempt *pick(uint64_t x)
{
    struct engage_attempt *a;
    uint64_t n = fe.attempts_open ? x % fe.attempts_open : 0;

    TAILQ_FOREACH(a, &fe.attempts, link) {
        if (n-- == 0) {
            return a;
        }
    }
    return NULL;
}

static void reap(struct client **clients)
{
    for (int i = 0; i < CALLS; i++) {
        if (clients[i] && clients[i]->terminal) {
            client_free(clients[i]);
            clients[i] = NULL;
        }
    }
    forget_closed();
}

static void one_step(struct client **clients, uint64_t x)
{
    static const char *const lists[][4] = { { "a:1", "b:1", NULL }, { "a:1", NULL }, { NULL },
                                            { "c:1", "b:1", "a:1", NULL } };
    int i = (int)(x % CALLS);
    struct engage_attempt *a = pick(x >> 8);
    uint64_t kind = x / CALLS % 100;

    x >>= 20;
    if (kind < 25 && !clients[i]) {
        clients[i] = send_request("POST", "/invoke/" FN_HELLO, "x", "Fn-Invoke-Type",
                                  x % 4 ? "sync" : "detached", NULL);
        if (x % 16 == 0 && !clients[i]->terminal) {
            clients[i]->full = 2;
        }
    } else if (kind < 80 && a) {
        one_event(a, x);
    } else if (kind < 84 && clients[i] && !clients[i]->terminal) {
        client_gone(clients[i]);
    } else if (kind < 88 && clients[i] && clients[i]->call) {
        lb_call_writable(clients[i]->call);
    } else if (kind < 90) {
        publish(lists[x % 4]);
    } else if (kind < 92 && !TAILQ_EMPTY(&fe.links)) {
        struct engage_link *l = TAILQ_FIRST(&fe.links);

        fake_engage_up(&fe, l->address, !l->up);
    } else {
        fake_env_advance(env, (int64_t)(x % 300) * ENV_MS);
    }
    fake_env_settle(env);
    reap(clients);
    TAILQ_FOREACH(a, &fe.attempts, link) {
        shadow_of(a);
    }
}

START_TEST(random_scripts)
{
    struct client *clients[CALLS] = { NULL };
    struct engage_attempt *a;
    struct lb_counts n;

    env->random_state = (uint64_t)_i * 7919 + 1;
    n_spent = n_shadows = 0;
    PUBLISH("a:1", "b:1");
    for (int step = 0; step < STEPS; step++) {
        one_step(clients, env_random_u64(&env->env));
        lb_count(lb, &n);
        ck_assert_uint_eq(n.received,
                          n.ok + n.failed + n.not_executed + n.unknown + n.aborted + n.in_flight);
    }
    for (int i = 0; i < CALLS; i++) {
        if (clients[i]) {
            client_gone(clients[i]);
        }
    }
    reap(clients);
    for (int round = 0; round < 2; round++) { /* links that open late wake some */
        while ((a = pick(0))) { /* detached ones go on without their client */
            fake_attempt_end(a, 14, ENGAGE_PROOF_NONE, true);
        }
        fake_env_advance(env, 10 * ENV_S);
    }
    ck_assert_uint_gt(n.ok, 5);
    ck_assert_uint_gt(n.unknown, 5);
    ck_assert_uint_gt(n.failed, 5);
}
END_TEST

Suite *random_suite(void)
{
    Suite *s = suite_create("lb random");
    TCase *tc = tcase_create("random");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, lb_teardown);
    tcase_add_loop_test(tc, random_scripts, 0, RANDOM_ROUNDS(12));
    suite_add_tcase(s, tc);
    return s;
}
