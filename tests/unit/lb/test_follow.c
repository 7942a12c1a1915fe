/* Changes that the API node tells of: what a catalog asks for again, and a follower against a
 * scripted API node. */
#include "../lib/fake_env.h"
#include "suites.h"

#include <lb/follow.h>
#include <lb/lookups.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_NS (5 * ENV_S)
#define ASKED_MAX  64

static const unsigned char nobody[LOOKUPS_ADDRESS];
static struct fake_env *env;
static struct catalog *catalog;
static struct follow *follow;

/* ---- the API node ---------------------------------------------------------------------------- */

static struct {
    char path[256];
    void (*cb)(void *ud, uint32_t status, const char *body, size_t len, const struct fn_error *err);
    void *ud;
} asked[ASKED_MAX];
static int n_asked;

static int scripted_get(void *impl, const char *path,
                        void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                                   const struct fn_error *err),
                        void *ud)
{
    (void)impl;
    ck_assert_int_lt(n_asked, ASKED_MAX);
    snprintf(asked[n_asked].path, sizeof(asked[0].path), "%s", path);
    asked[n_asked].cb = cb;
    asked[n_asked++].ud = ud;
    return 0;
}

static const struct catalog_source source = { scripted_get, NULL };

static void say(int i, uint32_t status, const char *body)
{
    struct fn_error e = ERR_INIT;

    ck_assert_int_lt(i, n_asked);
    asked[i].cb(asked[i].ud, status, body, strlen(body), status ? NULL : &e);
}

/* ---- who asks the catalog -------------------------------------------------------------------- */

static int found, missing;

static void on_fn(void *ud, struct catalog_fn *given, const struct fn_error *err)
{
    (void)ud;
    (void)err;
    found += given != NULL;
    missing += given == NULL;
    catalog_fn_unref(given);
}

/* How many questions it took. */
static int find(const char *id)
{
    int before = n_asked;

    catalog_find(catalog, nobody, id, NULL, NULL, on_fn, NULL);
    return n_asked - before;
}

static void load(const char *id, const char *app)
{
    char text[128];

    ck_assert_int_eq(find(id), 1);
    snprintf(text, sizeof(text), "{\"id\":\"%s\",\"name\":\"f\",\"app_id\":\"%s\",\"image\":\"i\"}",
             id, app);
    say(n_asked - 1, 200, text);
    snprintf(text, sizeof(text), "{\"id\":\"%s\",\"name\":\"demo\"}", app);
    say(n_asked - 1, 200, text);
    ck_assert_int_eq(find(id), 0);
}

static void setup(void)
{
    const struct catalog_options o = { .ttl_ns = 3600 * ENV_S, .stale_ns = 3600 * ENV_S };

    n_asked = found = missing = 0;
    env = fake_env_create();
    ck_assert_int_eq(catalog_create(&env->env, &o, &source, &catalog, NULL), 0);
    ck_assert_int_eq(follow_create(&env->env, catalog, &follow, NULL), 0);
}

static void teardown(void)
{
    follow_destroy(follow);
    catalog_destroy(catalog);
    ck_assert_uint_eq(env->timers.n, 0);
    fake_env_destroy(env);
}

/* ---- the catalog ----------------------------------------------------------------------------- */

START_TEST(what_changed_is_asked_for_again_once)
{
    load("F", "A");
    load("G", "B");
    catalog_changed(catalog, "F");
    ck_assert_int_eq(find("G"), 0);
    load("F", "A");
    catalog_changed(catalog, "B");
    ck_assert_int_eq(find("F"), 0);
    load("G", "B");
    catalog_changed(catalog, "H");
    ck_assert_int_eq(find("F") + find("G"), 0);
}
END_TEST

START_TEST(a_load_that_runs_while_it_changes_is_not_the_last)
{
    ck_assert_int_eq(find("F"), 1);
    catalog_changed(catalog, "F");
    say(0, 200, "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"i\"}");
    say(1, 200, "{\"id\":\"A\",\"name\":\"demo\"}");
    ck_assert_int_eq(found, 1);
    load("F", "A");
}
END_TEST

START_TEST(whatever_changed_may_be_what_was_missing)
{
    ck_assert_int_eq(find("F"), 1);
    say(0, 404, "");
    ck_assert_int_eq(find("F"), 0);
    ck_assert_int_eq(missing, 2);
    catalog_changed(catalog, "F");
    load("F", "A");
}
END_TEST

START_TEST(too_many_changes_are_all)
{
    char id[16];

    load("F", "A");
    for (int i = 0; i < 5000; i++) {
        snprintf(id, sizeof(id), "x%d", i);
        catalog_changed(catalog, id);
    }
    load("F", "A");
    catalog_expire(catalog);
    load("F", "A");
}
END_TEST

/* ---- the follower ---------------------------------------------------------------------------- */

static void follow_begin(void)
{
    follow_set_source(follow, &source, TIMEOUT_NS);
    fake_env_advance(env, 0);
    ck_assert_str_eq(asked[n_asked - 1].path, "/v2/runner/changes?after=&wait_ms=2500");
}

START_TEST(it_goes_on_where_it_is)
{
    load("F", "A");
    follow_begin();
    say(n_asked - 1, 200, "{\"cursor\":\"P-3\",\"all\":true}");
    load("F", "A");
    fake_env_advance(env, 20 * ENV_MS);
    ck_assert_str_eq(asked[n_asked - 1].path, "/v2/runner/changes?after=P-3&wait_ms=2500");
    say(n_asked - 1, 200, "{\"cursor\":\"P-5\",\"ids\":[\"X\",\"F\"],\"later\":{\"a\":[1]}}");
    load("F", "A");
    fake_env_advance(env, 20 * ENV_MS);
    say(n_asked - 1, 200, "{\"cursor\":\"P-5\",\"ids\":[]}");
    ck_assert_int_eq(find("F"), 0);
    fake_env_advance(env, 20 * ENV_MS);
    ck_assert_str_eq(asked[n_asked - 1].path, "/v2/runner/changes?after=P-5&wait_ms=2500");
}
END_TEST

static const char *const nonsense[] = { "", "[]", "{", "{}", "<html>", "{\"ids\":[\"x\"]",
                                        "{\"ids\":[]}", "{\"cursor\":\"a b\",\"ids\":[]}",
                                        "{\"cursor\":7}", "{\"cursor\":\"P-4\",\"ids\":[1]}" };

START_TEST(what_it_does_not_understand_may_be_anything)
{
    load("F", "A");
    follow_begin();
    say(n_asked - 1, 200, nonsense[_i]);
    load("F", "A");
    fake_env_advance(env, ENV_S - ENV_MS); /* a gateway may say so for long */
    ck_assert_int_ne(strncmp(asked[n_asked - 1].path, "/v2/runner/changes?after=", 25), 0);
    fake_env_advance(env, ENV_MS);
    ck_assert_int_eq(strncmp(asked[n_asked - 1].path, "/v2/runner/changes?after=", 25), 0);
}
END_TEST

/* It keeps the last changes only: whoever asks about older ones hears where it is now. */
START_TEST(a_cursor_alone_means_all)
{
    load("F", "A");
    follow_begin();
    say(n_asked - 1, 200, "{\"cursor\":\"P-4\"}");
    load("F", "A");
    fake_env_advance(env, 20 * ENV_MS);
    ck_assert_int_eq(strncmp(asked[n_asked - 1].path, "/v2/runner/changes?after=P-4", 28), 0);
}
END_TEST

/* A call of F now and then, while questions are answered by processes in turn; how many questions
 * about changes there were, and of F in *ret_loads. */
static int answer_in_turn(int64_t for_ns, int processes_n, int *ret_loads)
{
    int64_t end_ns = env->now + for_ns;
    int answered = n_asked - 1, questions = 0;
    char text[64];

    *ret_loads = 0;
    for (; env->now < end_ns; fake_env_advance(env, 20 * ENV_MS)) {
        for (; answered < n_asked; answered++) {
            if (strstr(asked[answered].path, "/changes?")) {
                snprintf(text, sizeof(text), "{\"cursor\":\"P%d-1\",\"all\":true}",
                         questions++ % processes_n);
                say(answered, 200, text);
            } else if (strstr(asked[answered].path, "/v2/fns/")) {
                ++*ret_loads;
                say(answered, 200,
                    "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"i\"}");
            } else {
                say(answered, 200, "{\"id\":\"A\",\"name\":\"demo\"}");
            }
        }
        catalog_find(catalog, nobody, "F", NULL, NULL, on_fn, NULL);
    }
    return questions;
}

/* Several nodes behind one address: what is cached grows old by its time, as without a follower. */
START_TEST(nodes_that_answer_by_turns_are_asked_slowly)
{
    int loads;

    follow_begin();
    ck_assert_int_le(answer_in_turn(10 * ENV_S, 2 + _i, &loads), 10);
    ck_assert_int_le(loads, 3);
    n_asked = 0;
    fake_env_advance(env, 60 * ENV_S);
    ck_assert_int_eq(n_asked, 1);
    say(0, 200, "{\"cursor\":\"P0-2\",\"ids\":[\"F\"]}"); /* what they tell is heard */
    load("F", "A");
    fake_env_advance(env, 20 * ENV_MS);
    ck_assert_int_eq(strncmp(asked[n_asked - 1].path, "/v2/runner/changes?after=P0-2", 29), 0);
}
END_TEST

static const int64_t starts_apart_ns[] = { 10 * ENV_S, 3600 * ENV_S };

/* A node that was started again has missed everything, however often within a day. */
START_TEST(a_node_that_was_started_again_tells_all)
{
    char text[64];

    load("F", "A");
    follow_begin();
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof(text), "{\"cursor\":\"P%d-1\",\"all\":true}", i);
        say(n_asked - 1, 200, text);
        load("F", "A");
        fake_env_advance(env, 20 * ENV_MS);
        ck_assert_int_eq(strncmp(asked[n_asked - 1].path, "/v2/runner/changes?", 19), 0);
        fake_env_advance(env, starts_apart_ns[_i]);
    }
}
END_TEST

/* One that was started twice within seconds looks like several, until it answers again: values that
 * are kept for an hour would be old for an hour. */
START_TEST(a_node_that_was_started_twice_tells_all)
{
    follow_begin();
    say(n_asked - 1, 200, "{\"cursor\":\"P0-1\",\"all\":true}");
    fake_env_advance(env, 20 * ENV_MS);
    say(n_asked - 1, 200, "{\"cursor\":\"P1-1\",\"all\":true}");
    load("F", "A");
    fake_env_advance(env, 20 * ENV_MS);
    say(n_asked - 1, 200, "{\"cursor\":\"P2-1\",\"all\":true}");
    fake_env_advance(env, ENV_S);
    ck_assert_str_eq(asked[n_asked - 1].path, "/v2/runner/changes?after=P2-1&wait_ms=2500");
    say(n_asked - 1, 200, "{\"cursor\":\"P2-1\",\"ids\":[]}");
    load("F", "A");
    fake_env_advance(env, 20 * ENV_MS);
    say(n_asked - 1, 200, "{\"cursor\":\"P2-1\",\"ids\":[]}");
    ck_assert_int_eq(find("F"), 0);
}
END_TEST

/* Values that are not kept at all make it ask no faster. */
START_TEST(nodes_that_answer_by_turns_are_asked_slowly_without_a_cache)
{
    const struct catalog_options none = { .stale_ns = 3600 * ENV_S };
    int questions = 0;

    catalog_set_options(catalog, &none, &source);
    follow_begin();
    for (int i = 0; i < 100; i++) {
        char text[64];

        if (n_asked > questions) {
            snprintf(text, sizeof(text), "{\"cursor\":\"P%d-1\",\"all\":true}", n_asked % 2);
            questions = n_asked;
            say(questions - 1, 200, text);
        }
        fake_env_advance(env, 100 * ENV_MS);
    }
    ck_assert_int_le(questions, 13);
}
END_TEST

static const struct {
    uint32_t status;
    int64_t pause_ns;
} failures[] = { { 0, ENV_S }, { 503, ENV_S }, { 403, ENV_S }, { 404, 60 * ENV_S } };

START_TEST(a_node_that_does_not_answer_is_asked_again_later)
{
    int before;

    load("F", "A");
    follow_begin();
    before = n_asked;
    say(n_asked - 1, failures[_i].status, "{}");
    fake_env_advance(env, failures[_i].pause_ns - 1);
    ck_assert_int_eq(n_asked, before);
    fake_env_advance(env, 1);
    ck_assert_int_eq(n_asked, before + 1);
    ck_assert_int_eq(find("F"), 0);
}
END_TEST

START_TEST(another_source_is_asked_from_the_beginning)
{
    int old;

    load("F", "A");
    follow_begin();
    old = n_asked - 1;
    follow_begin();
    say(old, 200, "{\"cursor\":\"OLD-1\",\"all\":true}");
    ck_assert_int_eq(find("F"), 0);
    say(n_asked - 1, 200, "{\"cursor\":\"NEW-1\",\"ids\":[]}");
    follow_set_source(follow, NULL, 0);
    fake_env_advance(env, 100 * ENV_S);
    ck_assert_int_eq(n_asked, old + 2);
}
END_TEST

START_TEST(an_answer_may_come_after_its_end)
{
    follow_begin();
    follow_destroy(follow);
    follow = NULL;
    say(n_asked - 1, 200, "{\"cursor\":\"P-3\",\"all\":true}");
}
END_TEST

Suite *follow_suite(void)
{
    Suite *s = suite_create("lb follow");
    TCase *tc = tcase_create("follow");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_changed_is_asked_for_again_once);
    tcase_add_test(tc, a_load_that_runs_while_it_changes_is_not_the_last);
    tcase_add_test(tc, whatever_changed_may_be_what_was_missing);
    tcase_add_test(tc, too_many_changes_are_all);
    tcase_add_test(tc, it_goes_on_where_it_is);
    tcase_add_loop_test(tc, what_it_does_not_understand_may_be_anything, 0,
                        (int)(sizeof(nonsense) / sizeof(nonsense[0])));
    tcase_add_test(tc, a_cursor_alone_means_all);
    tcase_add_loop_test(tc, nodes_that_answer_by_turns_are_asked_slowly, 0, 3);
    tcase_add_loop_test(tc, a_node_that_was_started_again_tells_all, 0,
                        (int)(sizeof(starts_apart_ns) / sizeof(starts_apart_ns[0])));
    tcase_add_test(tc, a_node_that_was_started_twice_tells_all);
    tcase_add_test(tc, nodes_that_answer_by_turns_are_asked_slowly_without_a_cache);
    tcase_add_loop_test(tc, a_node_that_does_not_answer_is_asked_again_later, 0,
                        (int)(sizeof(failures) / sizeof(failures[0])));
    tcase_add_test(tc, another_source_is_asked_from_the_beginning);
    tcase_add_test(tc, an_answer_may_come_after_its_end);
    suite_add_tcase(s, tc);
    return s;
}
