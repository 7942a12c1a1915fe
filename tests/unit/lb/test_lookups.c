/* What strangers' questions cost those whose functions are known: places, shares and turns of
 * lookups at the API node, old values while a refresh runs, memory of ids that are not there. */
#include "fixture.h"
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FN_JSON  "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"i\",\"memory\":64}"
#define APP_JSON "{\"id\":\"A\",\"name\":\"demo\"}"
#define CLIENTS_MAX 2000

static struct client *clients[CLIENTS_MAX];
static int n_clients;

static void setup(void)
{
    memset(fixture_client, 0, sizeof(fixture_client));
    n_clients = 0;
    lb_opts = (struct lb_options){ .placement_timeout_ns = ENV_S,
                                    .execution_headroom_ns = 360 * ENV_S,
                                    .response_buffer_bytes = 65536 };
    fixture_api = true;
    lb_setup();
    PUBLISH("r1:1");
}

static void done(struct client *c)
{
    if (!c->terminal) {
        client_gone(c);
    }
    client_free(c);
}

static void teardown(void)
{
    for (int i = 0; i < n_clients; i++) {
        done(clients[i]);
    }
    for (int i = 0; i < n_api; i++) {
        if (!api[i].answered) {
            api_answer(i, 404, "");
            fake_env_settle(env);
        }
    }
    catalog_destroy(catalog); /* it sweeps for as long as it lives */
    catalog = NULL;
    lb_teardown();
}

/* Kept until the end of the test. */
static struct client *invoke(const char *id)
{
    char path[100];

    snprintf(path, sizeof(path), "/invoke/%s", id);
    ck_assert_int_lt(n_clients, CLIENTS_MAX);
    return clients[n_clients++] = send_request("POST", path, "", NULL);
}

static void from(unsigned char address)
{
    fixture_client[15] = address;
}

/* n requests for ids that nobody has. */
static void ask_for_nothing(const char *name, int n)
{
    char id[40];

    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "%s%d", name, i);
        invoke(id);
    }
}

/* The API node answers what is asked about F. */
static void answer_function(void)
{
    int i = n_api - 1;

    while (api[i].answered || strcmp(api[i].path, "/v2/fns/F") != 0) {
        i--;
    }
    api_answer(i, 200, FN_JSON);
    ck_assert_str_eq(api[n_api - 1].path, "/v2/apps/A");
    api_answer(n_api - 1, 200, APP_JSON);
}

static void load(void)
{
    invoke("F");
    answer_function();
    ck_assert_uint_eq(fe.attempts_open, 1);
}

static int asked_for(const char *path)
{
    int n = 0;

    for (int i = 0; i < n_api; i++) {
        n += strcmp(api[i].path, path) == 0;
    }
    return n;
}

START_TEST(a_function_in_use_is_refreshed_ahead)
{
    load();
    fake_env_advance(env, 4500 * ENV_MS);
    invoke("F");
    invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 3); /* with the value that is there */
    ck_assert_int_eq(asked_for("/v2/fns/F"), 2);
    answer_function();
    fake_env_advance(env, 3 * ENV_S);
    invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 4);
    ck_assert_int_eq(asked_for("/v2/fns/F"), 2);
}
END_TEST

/* Past its time a value is waited for, but not for long; then the old one serves while the load
 * runs. */
START_TEST(a_slow_refresh_holds_nobody_up)
{
    struct client *c;

    load();
    fake_env_advance(env, 6 * ENV_S);
    c = invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 1);
    fake_env_advance(env, 500 * ENV_MS);
    ck_assert_uint_eq(fe.attempts_open, 2);
    invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 3);
    ck_assert_int_eq(asked_for("/v2/fns/F"), 2); /* once, however many ask */
    api_answer(2, 404, "");
    ck_assert_int_eq(invoke("F")->status, 404);
    ck_assert_int_eq(c->terminal, 0);
}
END_TEST

START_TEST(strangers_hold_up_no_refresh)
{
    load();
    ask_for_nothing("x", 700);
    ck_assert_int_eq(n_api, 2 + (int)LOOKUPS_PLACES);
    fake_env_advance(env, 4500 * ENV_MS);
    invoke("F");
    ck_assert_int_eq(asked_for("/v2/fns/F"), 2);
    ck_assert_uint_eq(fe.attempts_open, 2);
}
END_TEST

START_TEST(addresses_have_their_turns)
{
    struct client *late;

    from(1);
    ask_for_nothing("x", 100);
    from(2);
    late = invoke("F");
    ck_assert_int_eq(n_api, (int)LOOKUPS_PLACES);
    for (int i = 0; i < 2; i++) { /* one for each address */
        api_answer(i, 404, "");
        fake_env_settle(env);
    }
    ck_assert_int_eq(asked_for("/v2/fns/F"), 1);
    answer_function();
    ck_assert_int_eq(late->terminal, 0);
    ck_assert_uint_eq(fe.attempts_open, 1);
}
END_TEST

/* A lookup that waits is of all who want it, not of the address that asked first. */
START_TEST(a_lookup_has_the_turn_of_whoever_waits_least)
{
    struct client *first, *late;

    from(1);
    ask_for_nothing("x", 100);
    first = invoke("F");
    from(2);
    late = invoke("F");
    from(3);
    invoke("F"); /* it would wait no shorter */
    for (int i = 0; i < 2; i++) { /* one for each address */
        api_answer(i, 404, "");
        fake_env_settle(env);
    }
    ck_assert_int_eq(asked_for("/v2/fns/F"), 1);
    answer_function();
    ck_assert_int_eq(first->terminal, 0);
    ck_assert_int_eq(late->terminal, 0);
    ck_assert_uint_eq(fe.attempts_open, 3);
}
END_TEST

/* What stands behind it costs it nothing: the next one of a long queue stays that. */
START_TEST(a_lookup_that_is_next_stays_next)
{
    from(9);
    ask_for_nothing("z", (int)LOOKUPS_PLACES);
    from(1);
    invoke("F");
    ask_for_nothing("x", 10);
    from(2);
    ask_for_nothing("y", 8);
    invoke("F");
    api_answer(0, 404, "");
    fake_env_settle(env);
    ck_assert_int_eq(asked_for("/v2/fns/F"), 1);
}
END_TEST

/* An address that waits for as much as it may is told so; others are heard. */
START_TEST(an_address_has_a_share_of_the_waiting_lookups)
{
    struct client *last;

    from(1);
    ask_for_nothing("x", 1000);
    last = clients[n_clients - 1];
    ck_assert_int_eq(last->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&last->message), "LB312 too many unknown functions"));
    ck_assert_str_ne(answer_header(last, "Retry-After"), "");
    expect_outcome(last, "not-executed");
    from(2);
    ck_assert_int_eq(invoke("y")->terminal, 0);
    ck_assert_int_eq(n_api, (int)LOOKUPS_PLACES);
}
END_TEST

START_TEST(nobody_waits_for_a_place_for_ever)
{
    struct client *c;

    from(1);
    ask_for_nothing("x", 20);
    c = clients[n_clients - 1];
    fake_env_advance(env, LOOKUPS_WAIT_NS);
    ck_assert_int_eq(c->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB312"));
    ck_assert_int_eq(clients[0]->terminal, 0); /* it has a place, and the API node's time */
}
END_TEST

/* With lb.cache_stale: 0 a function that is known is as good as unknown while the API node hangs. */
START_TEST(nobody_waits_for_a_refresh_without_end)
{
    char id[16], json[128];
    int n = 2 * (int)LOOKUPS_PLACES;

    catalog_set_options(catalog, &(struct catalog_options){ .ttl_ns = 5 * ENV_S,
                                                            .entries_max = 10000 },
                        &fixture_source);
    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "F%d", i);
        snprintf(json, sizeof(json), "{\"id\":\"%s\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"i\"}",
                 id);
        done(invoke(id));
        n_clients = 0;
        api_answer(n_api - 1, 200, json);
        api_answer(n_api - 1, 200, APP_JSON);
    }
    fake_env_advance(env, 6 * ENV_S); /* past their time */
    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "F%d", i);
        invoke(id);
    }
    fake_env_advance(env, LOOKUPS_WAIT_NS - ENV_MS);
    ck_assert_int_eq(clients[n - 1]->terminal, 0);
    fake_env_advance(env, 2 * ENV_MS);
    ck_assert_int_eq(clients[0]->terminal, 0); /* it is being asked about, which has its own limit */
    ck_assert_int_eq(clients[n - 1]->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&clients[n - 1]->message), "LB306"));
}
END_TEST

START_TEST(who_goes_gives_up_its_place_in_the_queue)
{
    from(1);
    ask_for_nothing("x", 20);
    for (int i = (int)LOOKUPS_PLACES; i < 20; i++) {
        client_gone(clients[i]);
    }
    invoke("F");
    api_answer(0, 404, "");
    fake_env_settle(env);
    ck_assert_int_eq(asked_for("/v2/fns/F"), 1);
    ck_assert_int_eq(asked_for("/v2/fns/x8"), 0);
}
END_TEST

/* Ids that are not there push out each other, and no function. */
START_TEST(ids_that_are_not_there_are_forgotten_first)
{
    struct client *c;
    char path[40];

    load();
    for (int i = 0; i < 4097; i++) {
        snprintf(path, sizeof(path), "/invoke/x%d", i);
        c = send_request("POST", path, "", NULL);
        api_answer(n_api - 1, 404, "");
        client_free(c);
        fake_env_settle(env);
    }
    ck_assert_int_eq(n_api, 2 + 4097);
    ck_assert_int_eq(invoke("x1")->status, 404); /* known not to be there */
    ck_assert_int_eq(n_api, 2 + 4097);
    invoke("x0"); /* forgotten */
    ck_assert_int_eq(n_api, 2 + 4098);
    invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 2);
}
END_TEST

Suite *lookups_suite(void)
{
    const TTest *const tests[] = {
        a_function_in_use_is_refreshed_ahead,
        a_slow_refresh_holds_nobody_up,
        strangers_hold_up_no_refresh,
        addresses_have_their_turns,
        a_lookup_has_the_turn_of_whoever_waits_least,
        a_lookup_that_is_next_stays_next,
        an_address_has_a_share_of_the_waiting_lookups,
        nobody_waits_for_a_place_for_ever,
        nobody_waits_for_a_refresh_without_end,
        who_goes_gives_up_its_place_in_the_queue,
        ids_that_are_not_there_are_forgotten_first,
    };
    Suite *s = suite_create("lb lookups");
    TCase *tc = tcase_create("lookups");

    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    return s;
}
