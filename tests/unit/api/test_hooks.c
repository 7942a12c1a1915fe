/* Listeners of changes: who is asked and told what, and in which order; refusals, deadlines, the end
 * of a configuration and of a node. */
#include <api/api.h>

#include <check.h>
#include <fake_env.h>
#include <fake_plugin.h>
#include <override/chain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fake_env *env;
static struct store *store;
static struct api *api;
static struct id_maker ids;
static struct api_options options;
static char dir[] = "/tmp/fnd-hooks-XXXXXX";

/* ---- listeners ------------------------------------------------------------------------------- */

static struct plugin first, second, of_calls;
static struct plugin *listeners[] = { &first, &of_calls, &second };
static struct chain chain;
static int gone, idle;
static char heard[8192]; /* a line for each call */
static int64_t takes_ns;  /* one call of `first` */
static int answer;        /* of `second` */
static struct fn_error error;
static struct api_call *leaves; /* while it is asked about, its client goes */

static void note(const struct plugin *p, const char *method, const struct fn_change *ch)
{
    size_t at = strlen(heard);

    snprintf(heard + at, sizeof(heard) - at, "%s %s %u%u name=%s app=%s/%s who=%s id=%s rq=%s %s\n",
             p->name, method, ch->kind, ch->verb, ch->name, *ch->app_id ? "known" : "", ch->app_name,
             ch->who, *ch->id ? "known" : "", *ch->request_id ? "known" : "",
             ch->json ? ch->json : "NULL");
    ck_assert_uint_eq(ch->size, sizeof(*ch));
    ck_assert_uint_eq(ch->json_len, ch->json ? strlen(ch->json) : 0);
}

static int before_change(void *inst, struct fn_op *op, const struct fn_change *ch,
                         struct fn_error *reterr)
{
    struct plugin *p = inst;

    (void)op;
    note(p, "before", ch);
    if (p == &first) {
        env->now += takes_ns;
        if (leaves) {
            api_call_gone(leaves);
            leaves = NULL;
        }
        return 0;
    }
    *reterr = error;
    return answer;
}

static void after_change(void *inst, struct fn_op *op, const struct fn_change *ch)
{
    (void)op;
    note(inst, "after", ch);
}

static const struct fn_listener_ops both = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before_change = before_change,
    .after_change = after_change,
};
static const struct fn_listener_ops told_only = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .after_change = after_change,
};
static const struct fn_listener_ops none = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
};

static bool was_heard(const char *text)
{
    return strstr(heard, text) != NULL;
}

static void on_gone(struct chain *c)
{
    (void)c;
    gone++;
}

static void on_idle(void *ud)
{
    (void)ud;
    idle++;
}

/* ---- clients --------------------------------------------------------------------------------- */

static struct {
    uint32_t n;
    int status;
    char body[4096];
} said;

static void on_whole(void *ud, int status, const struct headers *h, const void *body, size_t len)
{
    (void)ud;
    (void)h;
    said.n++;
    said.status = status;
    ck_assert_uint_lt(len, sizeof(said.body));
    memcpy(said.body, len ? body : "", len);
    said.body[len] = '\0';
}

static void on_error(void *ud, int status, const struct headers *h, const char *text)
{
    on_whole(ud, status, h, text, strlen(text));
}

static const char *authorization;

static struct api_call *submit(const char *method, const char *target, const char *body)
{
    static const struct api_reply reply = { on_whole, on_error };
    struct api_request rq = { .method = method, .path = target, .scheme = "http", .host = "node:1",
                              .body = body, .body_len = strlen(body), .peer = "test",
                              .authorization = authorization };

    said.n = 0;
    return api_submit(api, &rq, &reply, NULL);
}

static int ask(const char *method, const char *target, const char *body)
{
    if (submit(method, target, body)) {
        fake_env_work_all(env);
    }
    ck_assert_uint_eq(said.n, 1);
    return said.status;
}

/* "<prefix>/<id of what was answered>" */
static const char *at(const char *prefix)
{
    static char text[96];
    const char *id = strstr(said.body, "\"id\":\"");

    ck_assert_ptr_nonnull(id);
    snprintf(text, sizeof(text), "%s/%.26s", prefix, id + strlen("\"id\":\""));
    return text;
}

static void setup(void)
{
    static const unsigned char ipv4[4] = { 192, 0, 2, 2 };
    struct store_options where;
    struct api_deps deps;
    char url[80];

    memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(url, sizeof(url), "sqlite3://%s/fn.db", dir);
    where = (struct store_options){ url };
    env = fake_env_create();
    ck_assert_int_eq(store_open(&env->env, &where, &store, NULL), 0);
    id_maker_init(&ids, ipv4, 28180);
    options = (struct api_options){ .read_without_token = 1 };
    deps = (struct api_deps){ &env->env, store, &ids, &options };
    ck_assert_int_eq(api_create(&deps, &api, NULL), 0);
    fake_plugin_init(&first, "first", &both, &first);
    fake_plugin_init(&second, "second", &both, &second);
    fake_plugin_init(&of_calls, "calls", &none, NULL);
    chain = (struct chain){ .listeners = listeners, .n_listeners = 3, .gone = on_gone };
    ck_assert_int_eq(api_set_chain(api, &chain), 0);
    authorization = NULL;
    error = (struct fn_error)FN_ERROR_INIT;
    heard[0] = '\0';
    answer = gone = idle = 0;
    takes_ns = 0;
    leaves = NULL;
}

static void teardown(void)
{
    static const char *const names[] = { "fn.db", "fn.db-wal", "fn.db-shm" };
    char file[80];

    api_destroy(api);
    ck_assert_int_eq(gone, 1);
    ck_assert_uint_eq(env->timers.n, 0);
    store_close(store);
    fake_env_destroy(env);
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
        unlink(file);
    }
    rmdir(dir);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(each_is_asked_and_told_in_its_order)
{
    const char *before = "first before 11 name=shop app=known/shop who= id=known rq=known {";
    const char *after = "first after 11 name=shop app=known/shop who= id=known rq=known {";

    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), 200);
    ck_assert_int_eq(strncmp(heard, before, strlen(before)), 0);
    ck_assert(was_heard("\nsecond before 11"));
    ck_assert(strstr(heard, "\nsecond before 11") < strstr(heard, after));
    ck_assert(strstr(heard, after) < strstr(heard, "\nsecond after 11"));
    ck_assert(was_heard("\"name\":\"shop\""));
    ck_assert_uint_eq(of_calls.calls, 0);
}
END_TEST

START_TEST(the_client_has_its_answer_before_listeners_are_told)
{
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"shop\"}"));
    ck_assert_int_eq(fake_env_work_one(env), 1);
    ck_assert(was_heard("second before"));
    ck_assert_uint_eq(said.n, 0);
    ck_assert_int_eq(fake_env_work_one(env), 1); /* the store */
    ck_assert_uint_eq(said.n, 1);
    ck_assert(!was_heard("after"));
    fake_env_work_all(env);
    ck_assert(was_heard("second after"));
}
END_TEST

START_TEST(what_each_kind_and_verb_is_told_with)
{
    char app[96], fn[96], trigger[96], body[256];

    ask("POST", "/v2/apps", "{\"name\":\"shop\"}");
    snprintf(app, sizeof(app), "%s", at("/v2/apps"));
    snprintf(body, sizeof(body), "{\"app_id\":\"%s\",\"name\":\"f\",\"image\":\"i\"}", app + 9);
    ck_assert_int_eq(ask("POST", "/v2/fns", body), 200);
    ck_assert(was_heard("first before 21 name=f app=known/ who= id=known rq=known {\"id\""));
    snprintf(fn, sizeof(fn), "%s", at("/v2/fns"));
    snprintf(body, sizeof(body),
             "{\"app_id\":\"%s\",\"fn_id\":\"%s\",\"name\":\"t\",\"type\":\"http\",\"source\":\"/s\"}",
             app + 9, fn + 8);
    ck_assert_int_eq(ask("POST", "/v2/triggers", body), 200);
    ck_assert(was_heard("first after 31 name=t app=known/shop who="));
    snprintf(trigger, sizeof(trigger), "%s", at("/v2/triggers"));

    heard[0] = '\0';
    ck_assert_int_eq(ask("PUT", fn, "{\"config\":{\"A\":\"1\"}}"), 200);
    ck_assert(was_heard("second before 22 name= app=/ who= id=known rq=known "
                        "{\"config\":{\"A\":\"1\"}}\n"));
    ck_assert(was_heard("second after 22 name=f app=known/"));
    ck_assert(was_heard("\"image\":\"i\""));
    ck_assert_int_eq(ask("DELETE", trigger, ""), 204);
    ck_assert(was_heard("first before 33 "));
    ck_assert(was_heard("first after 33 "));
    ck_assert_int_eq(ask("DELETE", app, ""), 204);
    ck_assert(was_heard("first before 13 name= app=known/ who= id=known rq=known NULL\n"));

    heard[0] = '\0';
    ck_assert_int_eq(ask("GET", "/v2/apps", ""), 200);
    ck_assert_str_eq(heard, "");
}
END_TEST

START_TEST(what_one_refuses_is_not_made)
{
    answer = FN_E_PERMISSION;
    error.http_status = 422;
    snprintf(error.msg, sizeof(error.msg), "not on Fridays");
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), 422);
    ck_assert_str_eq(said.body, "not on Fridays");
    ck_assert(!was_heard("after"));
    ck_assert_int_eq(ask("GET", "/v2/apps", ""), 200);
    ck_assert_str_eq(said.body, "{\"items\":[]}");
    listeners[0] = &second; /* who comes behind a refusal is not asked */
    listeners[2] = &first;
    heard[0] = '\0';
    ask("POST", "/v2/apps", "{\"name\":\"shop\"}");
    listeners[0] = &first;
    listeners[2] = &second;
    ck_assert(!was_heard("first"));
}
END_TEST

START_TEST(a_refusal_is_an_answer_of_the_api)
{
    static const struct {
        int answer, status, expected;
    } rows[] = {
        { FN_E_PERMISSION, 0, 403 }, { FN_E_INTERNAL, 0, 403 },   { FN_E_PERMISSION, 400, 400 },
        { FN_E_PERMISSION, 599, 599 }, { FN_E_PERMISSION, 302, 403 }, { FN_E_PERMISSION, 200, 403 },
        { FN_E_PERMISSION, 1000, 403 }, { 7, 0, 500 }, { -4711, 0, 500 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        answer = rows[i].answer;
        error = (struct fn_error){ .size = sizeof(error), .http_status = rows[i].status };
        ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), rows[i].expected);
        ck_assert_str_ne(said.body, "");
    }
    ck_assert_str_eq(said.body, "a plugin gave an answer that cannot be used");
    ck_assert_uint_ge(second.bad_answers, 2);
    answer = FN_E_DEADLINE; /* whom it asked was late, it is not */
    err_set(&error, answer, "the rules gave no answer within 500 ms");
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), 403);
    ck_assert_str_eq(said.body, "the rules gave no answer within 500 ms");
    error = (struct fn_error){ .size = sizeof(error) };
    answer = FN_E_PERMISSION;
    ask("POST", "/v2/apps", "{\"name\":\"shop\"}");
    ck_assert_str_eq(said.body, "API1113 the listener second refused the change");
}
END_TEST

START_TEST(what_the_store_refuses_is_not_told)
{
    ask("POST", "/v2/apps", "{\"name\":\"shop\"}");
    heard[0] = '\0';
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), 409);
    ck_assert(was_heard("before"));
    ck_assert(!was_heard("after"));
    heard[0] = '\0';
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"\"}"), 400);
    ck_assert_str_eq(heard, ""); /* what breaks a rule is nobody's question */
}
END_TEST

START_TEST(the_name_of_the_token_is_told)
{
    /* of "secret" */
    static const char *const tokens[] = {
        "ops admin 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    };

    options.tokens = (struct fn_strlist){ .items = tokens, .n = 1 };
    authorization = "Bearer secret";
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), 200);
    ck_assert(was_heard("first before 11 name=shop app=known/shop who=ops "));
    ck_assert(was_heard("first after 11 name=shop app=known/shop who=ops "));
    heard[0] = '\0';
    authorization = "Bearer other";
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop2\"}"), 401);
    ck_assert_str_eq(heard, "");
}
END_TEST

START_TEST(one_that_answers_too_late_refuses)
{
    takes_ns = 6 * ENV_S;
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shop\"}"), 503);
    ck_assert_str_eq(said.body,
                     "API1114 the listener first did not answer within 5 s; nothing was changed");
    ck_assert(!was_heard("second"));
    ck_assert_int_eq(ask("GET", "/v2/apps", ""), 200);
    ck_assert_str_eq(said.body, "{\"items\":[]}");
}
END_TEST

/* The worker does not come: neither the one that it has, nor what waits behind it, waits on. */
START_TEST(one_that_does_not_answer_is_given_up)
{
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"a\"}"));
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"b\"}"));
    fake_env_advance(env, 5 * ENV_S - 1);
    ck_assert_uint_eq(said.n, 0);
    fake_env_advance(env, 1);
    ck_assert_uint_eq(said.n, 1); /* the one that waited */
    ck_assert_int_eq(said.status, 503);
    fake_env_advance(env, 1 * ENV_S);
    ck_assert_uint_eq(said.n, 2);
    ck_assert_int_eq(said.status, 503);
    fake_env_work_all(env); /* it comes back after all */
    ck_assert_uint_eq(said.n, 2);
    ck_assert(!was_heard("after"));
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"a\"}"), 200);
}
END_TEST

START_TEST(who_goes_away_gets_what_was_asked_for)
{
    leaves = submit("POST", "/v2/apps", "{\"name\":\"a\"}");
    fake_env_work_all(env);
    ck_assert_uint_eq(said.n, 0);
    ck_assert(was_heard("second after"));
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"a\"}"), 409);
}
END_TEST

START_TEST(without_a_worker_it_is_tried_again)
{
    env->submit_fails = 1;
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"a\"}"));
    fake_env_work_all(env);
    ck_assert_uint_eq(said.n, 0);
    fake_env_advance(env, 100 * ENV_MS);
    fake_env_work_all(env);
    ck_assert_int_eq(said.status, 200);
}
END_TEST

START_TEST(only_so_many_are_let_in)
{
    char body[64];

    for (uint32_t i = 0; i < FN_CHANGES_MAX; i++) {
        snprintf(body, sizeof(body), "{\"name\":\"a%u\"}", i);
        ck_assert_ptr_nonnull(submit("POST", "/v2/apps", body));
    }
    ck_assert_ptr_null(submit("POST", "/v2/apps", "{\"name\":\"more\"}"));
    ck_assert_int_eq(said.status, 503);
    ck_assert_str_eq(said.body, "API1115 1024 changes are in front of listeners already");
    ck_assert_ptr_nonnull(submit("GET", "/v2/apps", "")); /* who reads is not in front of them */
    fake_env_work_all(env);
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"more\"}"), 200);
}
END_TEST

/* A change is told to those whom it was asked of; the next configuration does not wait for it. */
START_TEST(a_reload_has_listeners_of_its_own)
{
    struct plugin other;
    struct plugin *others[] = { &other };
    struct chain next = { .listeners = others, .n_listeners = 1 };

    fake_plugin_init(&other, "other", &both, &other);
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"a\"}"));
    ck_assert_int_eq(api_set_chain(api, &next), 0);
    ck_assert_int_eq(gone, 0);
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"b\"}"));
    ck_assert_uint_eq(env->n_work, 2); /* at the same time */
    fake_env_work_all(env);
    ck_assert_int_eq(gone, 1);
    ck_assert(was_heard("first after 11 name=a"));
    ck_assert(was_heard("other before 11 name=b"));
    ck_assert(was_heard("other after 11 name=b"));
    ck_assert(!was_heard("first before 11 name=b"));
    ck_assert_uint_eq(next.refs, 1);
    ck_assert_int_eq(api_set_chain(api, NULL), 0);
    ck_assert_uint_eq(next.refs, 0);
    heard[0] = '\0';
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"c\"}"), 200);
    ck_assert_str_eq(heard, "");
}
END_TEST

/* Carries out what the store has to do; what a listener has to do comes back, as if it hung. */
static struct env_work *work_of_the_store(void)
{
    struct env_work *hung = NULL;
    struct env_work *w;

    while ((w = TAILQ_FIRST(&env->work))) {
        if (w->lane != ENV_LANE_ENDS) {
            fake_env_work_one(env);
            continue;
        }
        ck_assert_ptr_null(hung);
        hung = w;
        TAILQ_REMOVE(&env->work, w, link);
        env->n_work--;
    }
    return hung;
}

/* A corrected listener takes the place of one that hangs. */
START_TEST(a_reload_has_room_of_its_own)
{
    struct plugin hangs, other;
    struct plugin *hanging[] = { &hangs };
    struct plugin *others[] = { &other };
    struct chain old = { .listeners = hanging, .n_listeners = 1 };
    struct chain next = { .listeners = others, .n_listeners = 1 };
    struct env_work *hung;
    char body[64];

    fake_plugin_init(&hangs, "hangs", &told_only, &hangs);
    fake_plugin_init(&other, "other", &told_only, &other);
    ck_assert_int_eq(api_set_chain(api, &old), 0);
    for (uint32_t i = 0; i < FN_CHANGES_MAX; i++) {
        snprintf(body, sizeof(body), "{\"name\":\"b%u\"}", i);
        ck_assert_ptr_nonnull(submit("POST", "/v2/apps", body));
    }
    hung = work_of_the_store();
    ck_assert_ptr_nonnull(hung);
    ck_assert_ptr_null(submit("POST", "/v2/apps", "{\"name\":\"more\"}"));
    ck_assert_int_eq(said.status, 503);
    ck_assert_int_eq(api_set_chain(api, &next), 0);
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"more\"}"), 200);
    ck_assert(was_heard("other after 11 name=more"));
    ck_assert(!was_heard("hangs after 11 name=b"));
    ck_assert_uint_eq(old.refs, 1);
    api_drain(api, on_idle, NULL); /* a node that ends waits for all lines */
    ck_assert_int_eq(idle, 0);
    TAILQ_INSERT_TAIL(&env->work, hung, link); /* it comes back after all */
    env->n_work++;
    fake_env_work_all(env);
    ck_assert_int_eq(idle, 1);
    ck_assert_uint_eq(old.refs, 0);
    ck_assert_int_eq(api_set_chain(api, NULL), 0);
}
END_TEST

START_TEST(a_node_ends_when_all_is_told)
{
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"a\"}"));
    api_drain(api, on_idle, NULL);
    ck_assert_int_eq(fake_env_work_one(env), 1);
    ck_assert_int_eq(fake_env_work_one(env), 1);
    ck_assert_int_eq(idle, 0);
    fake_env_work_all(env);
    ck_assert_int_eq(idle, 1);
    api_drain(api, on_idle, NULL); /* nothing is there: at once */
    ck_assert_int_eq(idle, 2);
}
END_TEST

START_TEST(a_node_that_ends_does_not_wait_for_ever)
{
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"a\"}"));
    fake_env_work_one(env);
    fake_env_work_one(env);
    ck_assert_ptr_nonnull(submit("POST", "/v2/apps", "{\"name\":\"b\"}"));
    api_drain(api, on_idle, NULL);
    fake_env_advance(env, 10 * ENV_S); /* after_change() of a has not come back */
    ck_assert_int_eq(idle, 0);
    ck_assert_int_eq(said.status, 503); /* of b */
    fake_env_advance(env, 1 * ENV_S);
    ck_assert_int_eq(idle, 1);
    fake_env_work_all(env);
    ck_assert_int_eq(idle, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hooks");
    TCase *t = tcase_create("hooks");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, each_is_asked_and_told_in_its_order);
    tcase_add_test(t, the_client_has_its_answer_before_listeners_are_told);
    tcase_add_test(t, what_each_kind_and_verb_is_told_with);
    tcase_add_test(t, what_one_refuses_is_not_made);
    tcase_add_test(t, a_refusal_is_an_answer_of_the_api);
    tcase_add_test(t, what_the_store_refuses_is_not_told);
    tcase_add_test(t, the_name_of_the_token_is_told);
    tcase_add_test(t, one_that_answers_too_late_refuses);
    tcase_add_test(t, one_that_does_not_answer_is_given_up);
    tcase_add_test(t, who_goes_away_gets_what_was_asked_for);
    tcase_add_test(t, without_a_worker_it_is_tried_again);
    tcase_add_test(t, only_so_many_are_let_in);
    tcase_add_test(t, a_reload_has_listeners_of_its_own);
    tcase_add_test(t, a_reload_has_room_of_its_own);
    tcase_add_test(t, a_node_ends_when_all_is_told);
    tcase_add_test(t, a_node_that_ends_does_not_wait_for_ever);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
