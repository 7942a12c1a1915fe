/* How often the API may be asked, and how often a token may be guessed, on a fake clock. What is
 * asked is refused with 400 before the store, of which there is none: 400 is "let pass" here. */
#include <api/api.h>

#include <base/metric.h>
#include <check.h>
#include <fake_env.h>
#include <stdio.h>
#include <string.h>

#define PASSED     400
#define STRANGERS  10000u /* each with an address: far more than the table has entries */
#define LOOK       "GET", "/v2/fns"  /* without app_id */
#define CHANGE     "POST", "/v2/fns" /* without a body */

/* Of the texts "look", "ci" and "root". */
static const char *const tokens[] = {
    "looker read 3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8",
    "ci deploy 1b158839f8aa339e89bb50b1603e90ec68e0fd5565fe10a7cb32729fddf7070a",
    "ops admin 4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2",
};

static struct fake_env *env;
static struct api *api;
static struct id_maker ids;
static struct api_options options;

static struct {
    int status;
    char text[256];
    char retry_after[16];
} said;

static void on_whole(void *ud, int status, const struct headers *h, const void *body, size_t len)
{
    const char *after = h ? headers_get(h, "Retry-After") : NULL;

    (void)ud;
    said.status = status;
    snprintf(said.text, sizeof(said.text), "%.*s", (int)len, (const char *)body);
    snprintf(said.retry_after, sizeof(said.retry_after), "%s", after ? after : "");
}

static void on_error(void *ud, int status, const struct headers *h, const char *text)
{
    on_whole(ud, status, h, text, strlen(text));
}

/* address 0: none is known. token NULL: none is sent. */
static int ask(uint32_t address, const char *token, const char *method, const char *path)
{
    static const struct api_reply reply = { on_whole, on_error };
    unsigned char client[API_ADDRESS_BYTES] = { 0 };
    char authorization[64];
    const struct api_request rq = { .method = method, .path = path, .scheme = "http", .host = "n:1",
                                    .body = "", .peer = "test", .client = client,
                                    .authorization = token ? authorization : NULL };

    memcpy(client, &address, sizeof(address));
    snprintf(authorization, sizeof(authorization), "Bearer %s", token ? token : "");
    said.status = 0;
    ck_assert_ptr_null(api_submit(api, &rq, &reply, NULL));
    return said.status;
}

/* That many are let pass, and then none. */
static void check_burst(uint32_t n, uint32_t address, const char *token, const char *method,
                        const char *path)
{
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_msg(ask(address, token, method, path) == PASSED, "%u of %u: %d %s", i, n,
                      said.status, said.text);
    }
    ck_assert_int_eq(ask(address, token, method, path), 429);
}

static void fail_often(uint32_t address, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_int_eq(ask(address, "guess", CHANGE), 401);
    }
}

static int64_t limited(const char *reason)
{
    static const char *const labels[] = { "reason", NULL };
    static const struct metric_def def = { .name = "fn_api_limited", .help = "-",
                                           .kind = METRIC_COUNTER, .labels = labels };

    return metric_value(metric_series(metric_declare(&def), &reason));
}

static void setup(void)
{
    static const unsigned char ipv4[4] = { 192, 0, 2, 2 };
    struct api_deps deps;

    env = fake_env_create();
    id_maker_init(&ids, ipv4, 28180);
    options = (struct api_options){ .tokens = { tokens, 3 }, .read_without_token = 1 };
    deps = (struct api_deps){ &env->env, NULL, &ids, &options };
    ck_assert_int_eq(api_create(&deps, &api, NULL), 0);
}

static void teardown(void)
{
    api_destroy(api);
    fake_env_destroy(env);
}

/* ---- requests -------------------------------------------------------------------------------- */

START_TEST(nobody_is_held_without_a_limit)
{
    for (uint32_t i = 0; i < 3000; i++) {
        ck_assert_int_eq(ask(1, i % 2 ? "ci" : NULL, LOOK), PASSED);
        ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED);
        ck_assert_int_eq(ask(1, "guess", CHANGE), 401);
    }
}
END_TEST

START_TEST(a_burst_and_then_a_rate)
{
    options.requests_max = 5;
    check_burst(5, 1, "ci", LOOK);
    ck_assert_str_eq(said.text, "API1111 too many requests of the token ci; expected at most 5 a "
                                "second (api.requests_max)");
    ck_assert_str_eq(said.retry_after, "1");
    for (uint32_t i = 0; i < 1000; i++) { /* what is refused takes nothing */
        ck_assert_int_eq(ask(1, "ci", LOOK), 429);
    }
    fake_env_advance(env, 199 * ENV_MS);
    ck_assert_int_eq(ask(1, "ci", LOOK), 429);
    fake_env_advance(env, ENV_MS);
    check_burst(1, 1, "ci", LOOK);
    fake_env_advance(env, 600 * ENV_MS);
    check_burst(3, 1, "ci", LOOK);
    fake_env_advance(env, 3600 * ENV_S); /* a bucket holds no more than itself */
    check_burst(5, 1, "ci", LOOK);
    ck_assert_int_eq(limited("requests"), 1005);
}
END_TEST

START_TEST(one_a_second_is_a_limit_too)
{
    options.requests_max = 1;
    check_burst(1, 1, NULL, LOOK);
    ck_assert_str_eq(said.text, "API1111 too many requests of your address; expected at most 1 a "
                                "second (api.requests_max)");
    fake_env_advance(env, ENV_S - 1);
    ck_assert_int_eq(ask(1, NULL, LOOK), 429);
    fake_env_advance(env, 1);
    check_burst(1, 1, NULL, LOOK);
}
END_TEST

/* A token is itself wherever it comes from; an address is asked for without one alone. */
START_TEST(tokens_and_addresses_are_apart)
{
    options.requests_max = 4;
    ck_assert_int_eq(ask(1, "ci", LOOK), PASSED);
    ck_assert_int_eq(ask(2, "ci", LOOK), PASSED);
    check_burst(2, 3, "ci", LOOK);
    check_burst(4, 1, "root", LOOK);
    check_burst(4, 1, NULL, LOOK);
    check_burst(4, 2, NULL, LOOK);
    check_burst(4, 0, NULL, LOOK);
    options.tokens.n = 0; /* one that is not asked for is none */
    check_burst(4, 4, "ci", LOOK);
    ck_assert_int_eq(ask(4, "root", CHANGE), 429);
}
END_TEST

START_TEST(changes_are_counted_apart)
{
    options.changes_max = 3;
    check_burst(3, 1, "ci", CHANGE);
    ck_assert_str_eq(said.text, "API1111 too many changes of the token ci; expected at most 3 a "
                                "second (api.changes_max)");
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_int_eq(ask(1, "ci", LOOK), PASSED);
    }
    ck_assert_int_eq(limited("changes"), 1);
    options.requests_max = 2; /* of both kinds */
    ck_assert_int_eq(ask(1, "root", LOOK), PASSED);
    ck_assert_int_eq(ask(1, "root", CHANGE), PASSED);
    ck_assert_int_eq(ask(1, "root", CHANGE), 429);
    ck_assert_ptr_nonnull(strstr(said.text, "too many requests of the token ops"));
}
END_TEST

/* Who may not is counted as well, before he is told so. */
START_TEST(refusals_count)
{
    options.changes_max = 2;
    ck_assert_int_eq(ask(1, "look", CHANGE), 403);
    ck_assert_int_eq(ask(1, "look", CHANGE), 403);
    ck_assert_int_eq(ask(1, "look", CHANGE), 429);
    ck_assert_int_eq(ask(1, NULL, CHANGE), 401);
    ck_assert_int_eq(ask(1, NULL, CHANGE), 401);
    ck_assert_int_eq(ask(1, NULL, CHANGE), 429);
}
END_TEST

START_TEST(a_reload_changes_the_limits)
{
    struct api_options other = options;

    options.requests_max = 2;
    check_burst(2, 1, "ci", LOOK);
    other.requests_max = 0;
    api_set_options(api, &other);
    ck_assert_int_eq(ask(1, "ci", LOOK), PASSED);
    other.requests_max = 1000;
    fake_env_advance(env, 500 * ENV_MS);
    check_burst(500, 1, "ci", LOOK); /* of a second's worth, what has passed of it */
    other.requests_max = 1;
    ck_assert_int_eq(ask(1, "ci", LOOK), 429);
    fake_env_advance(env, ENV_S);
    check_burst(1, 1, "ci", LOOK);
    other.requests_max = 0;
    other.failures_max = 5;
    fail_often(9, 5);
    ck_assert_int_eq(ask(9, "guess", CHANGE), 429);
    other.failures_max = 7;
    fail_often(9, 2);
    ck_assert_int_eq(ask(9, "guess", CHANGE), 429);
    other.failures_max = 2;
    fake_env_advance(env, 5 * ENV_S);
    ck_assert_int_eq(ask(9, "guess", CHANGE), 429);
    fake_env_advance(env, ENV_S);
    ck_assert_int_eq(ask(9, "guess", CHANGE), 401);
}
END_TEST

START_TEST(the_node_itself_is_not_held)
{
    static const struct api_reply reply = { on_whole, on_error };
    const struct api_request own = { .method = "GET", .path = "/v2/fns", .scheme = "http",
                                     .body = "", .peer = "", .trusted = true };

    options.requests_max = 1;
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_ptr_null(api_submit(api, &own, &reply, NULL));
        ck_assert_int_eq(said.status, PASSED);
    }
}
END_TEST

/* ---- guesses --------------------------------------------------------------------------------- */

START_TEST(guessing_is_slow)
{
    options.failures_max = 10;
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    ck_assert_str_eq(said.text, "API1112 too many wrong tokens from your address; expected at most "
                                "10, then one a second (api.failures_max)");
    ck_assert_str_eq(said.retry_after, "1");
    ck_assert_int_eq(ask(1, "root", CHANGE), 429); /* not looked at: a guess that is right */
    ck_assert_int_eq(ask(1, "guess", LOOK), 429);
    ck_assert_int_eq(limited("failures"), 3);
    for (uint32_t i = 0; i < 100; i++) {
        fake_env_advance(env, ENV_S);
        ck_assert_int_eq(ask(1, i % 2 ? "guess" : "other", CHANGE), 401);
        ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    }
    fake_env_advance(env, ENV_S);
    ck_assert_int_eq(ask(1, "root", CHANGE), PASSED); /* whoever is new waits a second */
}
END_TEST

/* A wrong token where none is needed is a guess all the same. */
START_TEST(guesses_at_reads_count)
{
    options.failures_max = 3;
    check_burst(3, 1, "guess", LOOK);
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
}
END_TEST

START_TEST(an_attacker_harms_his_address_alone)
{
    options.failures_max = 10;
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "root", CHANGE), 429);
    ck_assert_int_eq(ask(2, "root", CHANGE), PASSED);
    ck_assert_int_eq(ask(0, "root", CHANGE), PASSED);
    ck_assert_int_eq(ask(1, NULL, LOOK), PASSED); /* nothing is guessed without a token */
    ck_assert_int_eq(ask(1, NULL, CHANGE), 401);
    fail_often(2, 10);
    ck_assert_int_eq(ask(2, "guess", CHANGE), 429);
}
END_TEST

START_TEST(who_works_goes_on_beside_an_attacker)
{
    options.failures_max = 10;
    for (uint32_t i = 0; i < 1000; i++) { /* right tokens, and none, take no failures */
        ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED);
        ck_assert_int_eq(ask(1, NULL, CHANGE), 401);
    }
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED);
    ck_assert_int_eq(ask(1, "look", LOOK), 429); /* it was not seen here */
    fake_env_advance(env, 3599 * ENV_S);
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED); /* and is remembered for another hour */
    fake_env_advance(env, 3599 * ENV_S);
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED);
    fake_env_advance(env, 3600 * ENV_S);
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "ci", CHANGE), 429);
}
END_TEST

/* He is told 401, which he understands, and nobody learns anything by that. */
START_TEST(a_token_that_was_taken_away_is_wrong)
{
    options.failures_max = 2;
    ck_assert_int_eq(ask(1, "root", CHANGE), PASSED);
    options.tokens.n = 2;
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_int_eq(ask(1, "root", CHANGE), 401);
    }
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    fake_env_advance(env, ENV_S); /* the hundred cost no more than the two */
    ck_assert_int_eq(ask(1, "guess", CHANGE), 401);
}
END_TEST

/* ---- more addresses than the table holds ----------------------------------------------------- */

START_TEST(many_are_remembered)
{
    options.requests_max = 1;
    for (uint32_t i = 0; i < 256; i++) {
        ck_assert_int_eq(ask(i, NULL, LOOK), PASSED);
    }
    for (uint32_t i = 0; i < 256; i++) {
        ck_assert_int_eq(ask(i, NULL, LOOK), 429);
    }
}
END_TEST

START_TEST(many_addresses_lock_nobody_out)
{
    options.failures_max = 10;
    ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED);
    fail_often(1, 10);
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    for (uint32_t i = 0; i < STRANGERS; i++) { /* who fail less push nobody out who failed more */
        fail_often(1000 + i, 1);
    }
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    fake_env_advance(env, ENV_US);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        fail_often(1000000 + i, 10);
    }
    fail_often(1, 10); /* forgotten, which is to say full again */
    ck_assert_int_eq(ask(1, "guess", CHANGE), 429);
    ck_assert_int_eq(ask(1, "ci", CHANGE), PASSED); /* right tokens are not forgotten for that */
}
END_TEST

START_TEST(many_right_tokens_lock_nobody_out)
{
    options.failures_max = 10;
    options.changes_max = 3;
    for (uint32_t i = 0; i < STRANGERS; i++) {
        ck_assert_int_eq(ask(1000 + i, "look", LOOK), PASSED);
        fake_env_advance(env, 100 * ENV_MS);
    }
    check_burst(3, 1, "ci", CHANGE); /* buckets still work beside all that is remembered */
    check_burst(10, 1, "guess", LOOK);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("api_limit");
    TCase *t = tcase_create("api_limit");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nobody_is_held_without_a_limit);
    tcase_add_test(t, a_burst_and_then_a_rate);
    tcase_add_test(t, one_a_second_is_a_limit_too);
    tcase_add_test(t, tokens_and_addresses_are_apart);
    tcase_add_test(t, changes_are_counted_apart);
    tcase_add_test(t, refusals_count);
    tcase_add_test(t, a_reload_changes_the_limits);
    tcase_add_test(t, the_node_itself_is_not_held);
    tcase_add_test(t, guessing_is_slow);
    tcase_add_test(t, guesses_at_reads_count);
    tcase_add_test(t, an_attacker_harms_his_address_alone);
    tcase_add_test(t, who_works_goes_on_beside_an_attacker);
    tcase_add_test(t, a_token_that_was_taken_away_is_wrong);
    tcase_add_test(t, many_are_remembered);
    tcase_add_test(t, many_addresses_lock_nobody_out);
    tcase_add_test(t, many_right_tokens_lock_nobody_out);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
