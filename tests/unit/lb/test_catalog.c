/* The catalog against a scripted API node: paths, single flight, age, stale values, not found. */
#include "fixture.h"
#include "../lib/poor.h"
#include "suites.h"

#include <model/call.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FN_JSON                                                                                    \
    "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"i\",\"memory\":64,\"timeout\":5,"   \
    "\"config\":null,\"annotations\":{\"fnproject.io/fn/invokeEndpoint\":\"http:\\/\\/x\"}}"
#define APP_JSON "{\"id\":\"A\",\"name\":\"demo\",\"config\":{\"X\":\"y\"}}"

static const unsigned char nobody[LOOKUPS_ADDRESS];

static void setup(void)
{
    memset(fixture_client, 0, sizeof(fixture_client));
    lb_opts = (struct lb_options){ .placement_timeout_ns = ENV_S,
                                    .execution_headroom_ns = 360 * ENV_S,
                                    .response_buffer_bytes = 65536 };
    fixture_api = true;
    lb_setup();
    PUBLISH("r1:1");
}

static void teardown(void)
{
    for (int i = 0; i < n_api; i++) {
        ck_assert(api[i].answered);
    }
    /* The catalog sweeps for as long as it lives. */
    catalog_destroy(catalog);
    catalog = NULL;
    lb_teardown();
}

static struct client *invoke(const char *id)
{
    char path[600];

    snprintf(path, sizeof(path), "/invoke/%s", id);
    return send_request("POST", path, "", NULL);
}

static void done(struct client *c)
{
    if (!c->terminal) {
        client_gone(c);
    }
    client_free(c);
}

/* Loads F and ends the call. */
static void load(void)
{
    struct client *c = invoke("F");
    int i = n_api - 1;

    api_answer(i, 200, FN_JSON);
    api_answer(i + 1, 200, APP_JSON);
    ck_assert_uint_eq(fe.attempts_open, 1);
    done(c);
}

START_TEST(two_requests_then_none)
{
    struct client *c = invoke("F");
    struct client *second = invoke("F");
    struct engage_attempt *a;
    struct arena arena;
    struct call m;

    ck_assert_int_eq(n_api, 1);
    ck_assert_str_eq(api[0].path, "/v2/fns/F");
    api_answer(0, 200, FN_JSON);
    ck_assert_int_eq(n_api, 2);
    ck_assert_str_eq(api[1].path, "/v2/apps/A");
    api_answer(1, 200, APP_JSON);
    ck_assert_uint_eq(fe.attempts_open, 2);
    a = fake_engage_last(&fe);
    arena_init(&arena, 0);
    call_init(&m, &arena);
    ck_assert_int_eq(call_from_json(&m, a->json, strlen(a->json), NULL), 0);
    ck_assert_str_eq(m.app_name, "demo");
    ck_assert_str_eq(kvs_get(&m.config, "X"), "y");
    ck_assert_str_eq(kvs_get(&m.annotations, "fnproject.io/fn/invokeEndpoint"), "\"http:\\/\\/x\"");
    ck_assert_int_eq(m.idle_timeout_s, 30);
    arena_finish(&arena);
    done(c);
    done(second);
    done(invoke("F"));
    ck_assert_int_eq(n_api, 2);
}
END_TEST

START_TEST(trigger_path)
{
    struct client *c = send_request("GET", "/t/my%20app/p/q%3fr%25", "", NULL);

    ck_assert_str_eq(api[0].path, "/v2/apps?name=my%20app");
    api_answer(0, 200, "{\"items\":[" APP_JSON "]}");
    ck_assert_str_eq(api[1].path, "/v2/runner/apps/A/triggerBySource/http//p/q%3Fr%25");
    api_answer(1, 200, "{\"id\":\"T\",\"app_id\":\"A\",\"fn_id\":\"F\",\"source\":\"/p/q?r%\"}");
    ck_assert_str_eq(api[2].path, "/v2/fns/F");
    api_answer(2, 200, FN_JSON);
    ck_assert_uint_eq(fe.attempts_open, 1);
    ck_assert_ptr_nonnull(strstr(fake_engage_last(&fe)->json, "\"trigger_id\":\"T\""));
    done(c);
}
END_TEST

/* Beneath "/v2/runner/apps/A/triggerBySource/http/" dots would climb to another app's trigger. */
START_TEST(dots_do_not_reach_the_api_node)
{
    static const char *const paths[] = { "/t/demo/../../x", "/t/demo/%2e%2e/x", "/t/demo/a/..",
                                         "/t/demo/.", "/t/%2e%2e/x", "/t/./x" };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct client *c = send_request("GET", paths[i], "", NULL);

        ck_assert_msg(c->status == 404, "%s: %d", paths[i], c->status);
        done(c);
    }
    done(invoke(".."));
    ck_assert_int_eq(n_api, 0);
    done(send_request("GET", "/t/.../..a", "", NULL));
    ck_assert_str_eq(api[0].path, "/v2/apps?name=...");
    api_answer(0, 200, "{\"items\":[]}");
}
END_TEST

START_TEST(no_function_gets_the_config_of_another_app)
{
    static const char *const triggers[] = {
        "{\"id\":\"T\",\"app_id\":\"B\",\"fn_id\":\"F\",\"source\":\"/x\"}",
        "{\"id\":\"T\",\"app_id\":\"C\",\"fn_id\":\"F\",\"source\":\"/x\"}",
    };
    struct client *c;

    for (int i = 0; i < 2; i++) { /* the function's app is A */
        c = send_request("GET", i ? "/t/c/x" : "/t/b/x", "", NULL);
        api_answer(n_api - 1, 200, "{\"items\":[{\"id\":\"B\",\"name\":\"b\"}]}");
        api_answer(n_api - 1, 200, triggers[i]);
        api_answer(n_api - 1, 200, FN_JSON);
        ck_assert_int_eq(c->status, 503);
        done(c);
    }
    c = invoke("F");
    api_answer(n_api - 1, 200, FN_JSON);
    api_answer(n_api - 1, 200, "{\"id\":\"B\",\"name\":\"b\"}");
    ck_assert_int_eq(c->status, 503);
    done(c);
    ck_assert_uint_eq(fe.attempts_made, 0);
}
END_TEST

START_TEST(refreshed_after_five_seconds)
{
    struct client *c;

    load();
    fake_env_advance(env, 3900 * ENV_MS);
    done(invoke("F"));
    ck_assert_int_eq(n_api, 2);
    fake_env_advance(env, 1200 * ENV_MS);
    c = invoke("F");
    ck_assert_int_eq(n_api, 3);
    api_answer(2, 404, "{\"message\":\"Fn not found\"}");
    ck_assert_int_eq(c->status, 404);
    done(c);
}
END_TEST

/* The last good value is used while the API node is down, up to its age limit. */
START_TEST(stale_while_down)
{
    struct client *c;

    load();
    fake_env_advance(env, 6 * ENV_S);
    c = invoke("F");
    api_answer(2, 0, "");
    ck_assert_uint_eq(fe.attempts_open, 1);
    done(c);
    fake_env_advance(env, 2 * ENV_S);
    c = invoke("F"); /* asks again without making this one wait */
    ck_assert_uint_eq(fe.attempts_open, 1);
    ck_assert_int_eq(n_api, 4);
    api_answer(3, 503, "{}");
    done(c);
    fake_env_advance(env, 70 * ENV_S);
    c = invoke("F");
    api_answer(n_api - 1, 0, "");
    ck_assert_int_eq(c->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB306"));
    expect_outcome(c, "not-executed");
    done(c);
}
END_TEST

/* The old version served the next call at once, however long ago the API node had failed. */
START_TEST(whoever_tells_of_a_change_is_not_down)
{
    struct client *c;

    load();
    fake_env_advance(env, 6 * ENV_S);
    c = invoke("F");
    api_answer(2, 0, "");
    ck_assert_uint_eq(fe.attempts_open, 1);
    done(c);
    fake_env_advance(env, 10 * ENV_S);
    catalog_changed(catalog, "F");
    c = invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 0);
    api_answer(3, 200, "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"new\"}");
    api_answer(4, 200, APP_JSON);
    ck_assert_ptr_nonnull(strstr(fake_engage_last(&fe)->json, "\"image\":\"new\""));
    done(c);
    fake_env_advance(env, 6 * ENV_S);
    catalog_changed(catalog, "F");
    c = invoke("F");
    api_answer(5, 0, ""); /* it is down again: nobody waits twice for it */
    ck_assert_uint_eq(fe.attempts_open, 1);
    done(c);
    fake_env_advance(env, 2 * ENV_S);
    c = invoke("F");
    ck_assert_uint_eq(fe.attempts_open, 1);
    api_answer(6, 0, "");
    done(c);
}
END_TEST

/* The API node is up: what it says now cannot be used, and what it said before is not so any more. */
START_TEST(a_definition_that_cannot_be_used_replaces_the_old_one)
{
    struct client *c;

    load();
    fake_env_advance(env, 6 * ENV_S);
    c = invoke("F");
    api_answer(2, 200, "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"new\",\"memory\":9000}");
    api_answer(3, 200, APP_JSON);
    ck_assert_int_eq(c->status, 503);
    ck_assert_ptr_nonnull(strstr(buf_text(&c->message), "LB306"));
    done(c);
}
END_TEST

/* Its own link among them; the rules of clients are not those of an API node. */
START_TEST(annotations_of_an_api_node_are_its_own)
{
    struct buf json = BUF_INIT(0);
    struct client *c = invoke("F");

    buf_printf(&json, "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"i\",\"annotations\":{");
    for (int i = 0; i <= 100; i++) {
        buf_printf(&json, "%s\"k%d\":\"%0600d\"", i ? "," : "", i, 0);
    }
    buf_printf(&json, "}}");
    api_answer(0, 200, buf_text(&json));
    api_answer(1, 200, APP_JSON);
    ck_assert_uint_eq(fe.attempts_open, 1);
    done(c);
    buf_finish(&json);
}
END_TEST

START_TEST(cold_and_down)
{
    struct client *c = invoke("F");

    api_answer(0, 0, "");
    ck_assert_int_eq(c->status, 503);
    ck_assert_str_eq(buf_text(&c->message), "LB306 the API node cannot be reached");
    ck_assert_str_ne(answer_header(c, "Retry-After"), "");
    done(c);
}
END_TEST

START_TEST(broken_answers)
{
    static const char *const bodies[] = { "", "<html>", "[]", "{\"memory\":\"x\"}", "{}",
                                          "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\"}" };
    struct client *c;

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        c = invoke("F");
        api_answer(n_api - 1, 200, bodies[i]);
        if (!c->terminal) {
            api_answer(n_api - 1, 200, APP_JSON);
        }
        ck_assert_msg(c->status == 503, "%s: %d", bodies[i], c->status);
        ck_assert_str_eq(buf_text(&c->message), "LB306 what the API node says of this function is "
                                                "malformed or beyond a limit");
        done(c);
    }
}
END_TEST

START_TEST(not_found_each)
{
    struct client *c = send_request("GET", "/t/nope/x", "", NULL);

    api_answer(0, 200, "{\"items\":[]}");
    ck_assert_int_eq(c->status, 404);
    ck_assert_str_eq(buf_text(&c->message), "App not found");
    done(c);
    c = send_request("GET", "/t/demo/x", "", NULL);
    api_answer(1, 200, "{\"items\":[" APP_JSON "]}");
    api_answer(2, 404, "{\"message\":\"Trigger not found\"}");
    ck_assert_int_eq(c->status, 404);
    ck_assert_str_eq(buf_text(&c->message), "Trigger not found");
    done(c);
    c = invoke("nope");
    api_answer(3, 404, "{\"message\":\"Fn not found\"}");
    ck_assert_str_eq(buf_text(&c->message), "Fn not found");
    done(c);
    done(invoke("nope"));
    ck_assert_int_eq(n_api, 4);
    fake_env_advance(env, 1100 * ENV_MS);
    c = invoke("nope");
    ck_assert_int_eq(n_api, 5);
    api_answer(4, 404, "");
    done(c);
}
END_TEST

START_TEST(client_goes_while_asking)
{
    struct client *c = invoke("F");
    struct client *stays = invoke("F");

    client_gone(c);
    client_free(c);
    api_answer(0, 200, FN_JSON);
    api_answer(1, 200, APP_JSON);
    ck_assert_uint_eq(fe.attempts_open, 1);
    done(stays);
}
END_TEST

/* A call keeps the function it began with. */
START_TEST(changed_meanwhile)
{
    struct engage_attempt *a;
    struct client *c;
    struct client *next;

    load();
    c = invoke("F");
    a = fake_engage_last(&fe);
    fake_env_advance(env, 6 * ENV_S);
    next = invoke("F");
    api_answer(2, 200, "{\"id\":\"F\",\"name\":\"f\",\"app_id\":\"A\",\"image\":\"new\"}");
    api_answer(3, 200, APP_JSON);
    ck_assert_ptr_nonnull(strstr(fake_engage_last(&fe)->json, "\"image\":\"new\""));
    ck_assert_ptr_nonnull(strstr(a->json, "\"image\":\"i\""));
    fake_attempt_end(a, 14, ENGAGE_PROOF_NOT_SENT, true);
    ck_assert_int_eq(c->status, 503); /* the placement deadline has passed */
    done(next);
    done(c);
}
END_TEST

static struct catalog *of_file(const char *id, const char *image)
{
    const struct catalog_options o = { .ttl_ns = ENV_S, .stale_ns = ENV_S, .entries_max = 100 };
    const struct trigger trigger = { .id = "t", .source = "/x" };
    const struct fn_def fn = { .id = id, .image = image, .mem_mb = 64, .timeout_s = 5,
                               .idle_timeout_s = 5 };
    const struct app app = { .id = "A", .name = "demo" };
    struct fn_error e = ERR_INIT;
    struct catalog *c = NULL;

    ck_assert_int_eq(catalog_create(&env->env, &o, NULL, &c, &e), 0);
    if (id) {
        ck_assert_int_eq(catalog_add(c, &app, &fn, NULL, &e), 0);
        ck_assert_int_eq(catalog_add(c, &app, &fn, &trigger, &e), 0);
    }
    return c;
}

static void reload(struct catalog *given)
{
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(catalog_admit(catalog, given, &e), 0);
    catalog_replace(catalog, given);
}

static void expect_image(struct engage_attempt *a, const char *image)
{
    char text[64];

    snprintf(text, sizeof(text), "\"image\":\"%s\"", image);
    ck_assert_ptr_nonnull(strstr(a->json, text));
}

/* A reload: other functions of fn.yaml; what the API node told stays. */
START_TEST(replaced)
{
    struct engage_attempt *a;
    struct client *c;
    struct client *next;

    load();
    reload(of_file("G", "one"));
    c = invoke("G");
    a = fake_engage_last(&fe);
    expect_image(a, "one");
    reload(of_file("G", "two"));
    done(invoke("F"));
    ck_assert_int_eq(n_api, 2); /* F is still known */
    expect_image(a, "one");
    next = send_request("GET", "/t/demo/x", "", NULL);
    expect_image(fake_engage_last(&fe), "two");
    done(next);
    done(c);
    reload(of_file(NULL, NULL));
    c = invoke("G"); /* the API node may know it */
    ck_assert_int_eq(n_api, 3);
    api_answer(2, 404, "");
    ck_assert_int_eq(c->status, 404);
    done(c);
}
END_TEST

/* Without memory for one of its functions a reload is refused, and nothing of it is left. */
START_TEST(replaced_without_memory)
{
    struct fn_error e = ERR_INIT;
    bool hit = true;
    struct client *c;

    reload(of_file("G", "one"));
    for (unsigned n = 1; hit; n++) {
        struct catalog *given = of_file("H", "two");
        int r;

        poor_begin(n);
        r = catalog_admit(catalog, given, &e);
        hit = poor_end();
        ck_assert_int_eq(r, hit ? FN_E_EXHAUSTED : 0);
        if (hit) {
            catalog_destroy(given);
            c = invoke("G");
            expect_image(fake_engage_last(&fe), "one");
            done(c);
        } else {
            catalog_replace(catalog, given);
        }
        ck_assert_uint_lt(n, 100);
    }
    c = invoke("H");
    expect_image(fake_engage_last(&fe), "two");
    done(c);
    reload(of_file("G", "three"));
    c = invoke("G");
    expect_image(fake_engage_last(&fe), "three");
    done(c);
}
END_TEST

/* What was admitted and is not used is gone: the API node is asked for it. */
START_TEST(admitted_and_dismissed)
{
    struct catalog *given = of_file("F", "file");
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(catalog_admit(catalog, given, &e), 0);
    catalog_dismiss(catalog, given);
    catalog_destroy(given);
    load();
}
END_TEST

/* fn.yaml defines what is being loaded: those who wait get it, the API node's answer is not used. */
START_TEST(replaced_while_it_loads)
{
    struct client *waits = invoke("F");
    struct client *c;

    reload(of_file("F", "file"));
    c = invoke("F");
    expect_image(fake_engage_last(&fe), "file");
    done(c);
    reload(of_file(NULL, NULL));
    reload(of_file("F", "again"));
    api_answer(0, 200, FN_JSON);
    api_answer(1, 200, APP_JSON);
    expect_image(fake_engage_last(&fe), "again");
    done(waits);
    done(invoke("F"));
    ck_assert_int_eq(n_api, 2);
}
END_TEST

START_TEST(the_api_node_is_taken_away)
{
    const struct catalog_options o = { .ttl_ns = 5 * ENV_S, .stale_ns = 60 * ENV_S, .entries_max = 100 };
    struct client *c;

    load();
    catalog_set_options(catalog, &o, NULL);
    done(invoke("F"));
    fake_env_advance(env, 6 * ENV_S);
    c = invoke("F");
    ck_assert_int_eq(c->status, 404);
    done(c);
    c = invoke("H");
    ck_assert_int_eq(c->status, 404);
    done(c);
    ck_assert_int_eq(n_api, 2);
}
END_TEST

/* ---- callbacks that come back ---------------------------------------------------------------- */

struct asker {
    struct catalog *c;
    const char *then; /* asked for once from inside the callback; NULL = nothing */
    struct catalog_query *cancels;
    struct catalog_query *query;
    int answers;
    int code; /* of the last answer, 0 = a function */
    struct fn_error err; /* the same */
};

static void on_fn(void *ud, struct catalog_fn *given, const struct fn_error *err)
{
    struct asker *a = ud;
    const char *then = a->then;

    a->answers++;
    a->query = NULL;
    a->then = NULL;
    if (a->cancels) {
        catalog_cancel(a->cancels);
    }
    if (then) {
        a->query = catalog_find(a->c, nobody, then, NULL, NULL, on_fn, a);
    }
    a->code = given ? 0 : err->code;
    a->err = given ? ERR_INIT : *err;
    catalog_fn_unref(given);
}

static int get_from_fixture(void *impl, const char *path,
                            void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                                       const struct fn_error *err),
                            void *ud)
{
    (void)impl;
    ck_assert_int_lt(n_api, 64);
    snprintf(api[n_api].path, sizeof(api[n_api].path), "%s", path);
    api[n_api].cb = cb;
    api[n_api].ud = ud;
    api[n_api++].answered = false;
    return 0;
}

static struct catalog *small_catalog(uint32_t entries_max)
{
    static const struct catalog_source source = { get_from_fixture, NULL };
    const struct catalog_options o = { .ttl_ns = 5 * ENV_S, .stale_ns = 60 * ENV_S, .entries_max = entries_max };
    struct fn_error e = ERR_INIT;
    struct catalog *c = NULL;

    ck_assert_int_eq(catalog_create(&env->env, &o, &source, &c, &e), 0);
    return c;
}

/* Asking again from inside an error answer waits for the next load; it does not turn for ever. */
START_TEST(asks_again_from_the_answer)
{
    struct asker a = { .c = small_catalog(10), .then = "F" };
    struct asker b = { .c = a.c };

    a.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &a);
    b.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &b);
    api_answer(0, 0, "");
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(b.answers, 1);
    ck_assert_ptr_nonnull(a.query);
    ck_assert_int_eq(n_api, 2);
    api_answer(1, 200, FN_JSON);
    api_answer(2, 200, APP_JSON);
    ck_assert_int_eq(a.answers, 2);
    ck_assert_int_eq(a.code, 0);
    catalog_destroy(a.c);
}
END_TEST

/* A full catalog drops old entries: not the one whose callers are being answered. */
START_TEST(full_while_answering)
{
    struct asker a = { .c = small_catalog(1), .then = "G" };
    struct asker b = { .c = a.c };

    a.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &a);
    b.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &b);
    fake_env_advance(env, ENV_S);
    api_answer(0, 0, "");
    ck_assert_int_eq(a.answers, 2); /* the second: no room, told at once */
    ck_assert_int_eq(b.answers, 1);
    ck_assert_int_eq(b.code, FN_E_UNAVAILABLE);
    catalog_destroy(a.c);
}
END_TEST

static const struct {
    const char *id;
    bool has_api;
    int code; /* with memory */
} asked[3] = {
    { "G", false, 0 },
    { "G", true, 0 },
    { "H", true, FN_E_NOT_FOUND },
};

/* G is of fn.yaml and is asked for the first time: without memory nobody is told that it is not
 * there, nor that there are too many. */
START_TEST(asked_without_memory)
{
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        struct catalog *given = of_file("G", "one");
        struct asker a = { .c = small_catalog(10) };
        struct fn_error e = ERR_INIT;

        ck_assert_int_eq(catalog_admit(a.c, given, &e), 0);
        catalog_replace(a.c, given);
        if (!asked[_i].has_api) {
            catalog_set_options(a.c, &(struct catalog_options){ 0 }, NULL);
        }
        poor_begin(n);
        a.query = catalog_find(a.c, nobody, asked[_i].id, NULL, NULL, on_fn, &a);
        hit = poor_end();
        if (hit && a.answers > 0) {
            ck_assert_int_eq(err_http_status(&a.err), 503);
            ck_assert_msg(!strstr(a.err.msg, "LB312"), "%u: %s", n, a.err.msg);
        }
        if (n_api > 0 && !api[n_api - 1].answered) {
            api_answer(n_api - 1, 404, "");
        }
        ck_assert_int_eq(a.answers, 1);
        ck_assert(hit || a.code == asked[_i].code);
        catalog_destroy(a.c);
        ck_assert_uint_lt(n, 20);
    }
}
END_TEST

START_TEST(replaced_or_cancelled_while_answering)
{
    struct asker a = { .c = small_catalog(10) };
    struct asker b = { .c = a.c };
    struct asker last = { .c = a.c };

    a.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &a);
    b.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &b);
    last.query = catalog_find(a.c, nobody, "F", NULL, NULL, on_fn, &last);
    a.cancels = last.query;
    b.then = "F"; /* waits behind one who was cancelled as the last of the list */
    api_answer(0, 503, "{}");
    ck_assert_int_eq(a.answers, 1);
    ck_assert_int_eq(b.answers, 1);
    ck_assert_int_eq(last.answers, 0);
    api_answer(1, 404, "");
    ck_assert_int_eq(b.code, FN_E_NOT_FOUND);
    catalog_destroy(a.c);
}
END_TEST

Suite *catalog_suite(void)
{
    const TTest *const tests[] = {
        two_requests_then_none, trigger_path, dots_do_not_reach_the_api_node,
        no_function_gets_the_config_of_another_app, refreshed_after_five_seconds, stale_while_down,
        whoever_tells_of_a_change_is_not_down, a_definition_that_cannot_be_used_replaces_the_old_one,
        annotations_of_an_api_node_are_its_own, cold_and_down, broken_answers, not_found_each, client_goes_while_asking, changed_meanwhile,
        replaced, replaced_without_memory, admitted_and_dismissed,
        replaced_while_it_loads, the_api_node_is_taken_away,
        asks_again_from_the_answer, full_while_answering, replaced_or_cancelled_while_answering,
    };
    Suite *s = suite_create("lb catalog");
    TCase *tc = tcase_create("catalog");

    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    tcase_add_loop_test(tc, asked_without_memory, 0, 3);
    suite_add_tcase(s, tc);
    return s;
}
