/* The API on a fake clock over a real store: pages, URLs, clients that go away. What each route
 * answers is tests/e2e/lib/api-table.mjs. */
#include <api/api.h>

#include <check.h>
#include <fake_env.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fake_env *env;
static struct store *store;
static struct api *api;
static struct id_maker ids;
static struct api_options options;
static char dir[] = "/tmp/fnd-api-XXXXXX";
static char path[64];

/* ---- what was answered ----------------------------------------------------------------------- */

static struct {
    uint32_t n;
    int status;
    char body[65536];
    char location[256];
    char request_id[256];
} said;

static void on_whole(void *ud, int status, const struct headers *h, const void *body, size_t len)
{
    const char *location = h ? headers_get(h, "Location") : NULL;

    (void)ud;
    said.n++;
    said.status = status;
    ck_assert_uint_lt(len, sizeof(said.body));
    memcpy(said.body, len ? body : "", len);
    said.body[len] = '\0';
    snprintf(said.location, sizeof(said.location), "%s", location ? location : "");
    location = h ? headers_get(h, "Fn-Request-Id") : NULL;
    snprintf(said.request_id, sizeof(said.request_id), "%s", location ? location : "");
}

static void on_error(void *ud, int status, const struct headers *h, const char *text)
{
    on_whole(ud, status, h, text, strlen(text));
}

static const char *authorization; /* what requests carry */
static const char *request_id;

static struct api_call *submit(const char *method, const char *target, const char *body)
{
    static const struct api_reply reply = { on_whole, on_error };
    char copy[512];
    char *query;
    struct api_request rq = { .method = method, .path = copy, .scheme = "http", .host = "node:1",
                              .body = body, .body_len = strlen(body), .peer = "test",
                              .authorization = authorization, .request_id = request_id };

    snprintf(copy, sizeof(copy), "%s", target);
    query = strchr(copy, '?');
    if (query) {
        *query = '\0';
        rq.query = query + 1;
    }
    said.n = 0;
    return api_submit(api, &rq, &reply, NULL);
}

static int ask(const char *method, const char *target, const char *body)
{
    if (submit(method, target, body)) {
        ck_assert_uint_eq(said.n, 0);
        fake_env_work_all(env);
    }
    ck_assert_uint_eq(said.n, 1);
    return said.status;
}

/* The text of a member, as it stands in the answer. */
static const char *member(const char *name)
{
    static char text[2][512];
    static int turn;
    char key[64];
    const char *at;

    snprintf(key, sizeof(key), "\"%s\":\"", name);
    at = strstr(said.body, key);
    if (!at) {
        return "";
    }
    turn = !turn;
    snprintf(text[turn], sizeof(text[turn]), "%.*s", (int)strcspn(at + strlen(key), "\""),
             at + strlen(key));
    return text[turn];
}

static void setup(void)
{
    static const unsigned char ipv4[4] = { 192, 0, 2, 2 };
    struct api_deps deps;
    struct store_options where;
    char url[80];

    memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/fn.db", dir);
    snprintf(url, sizeof(url), "sqlite3://%s", path);
    where = (struct store_options){ url };
    env = fake_env_create();
    ck_assert_int_eq(store_open(&env->env, &where, &store, NULL), 0);
    id_maker_init(&ids, ipv4, 28180);
    options = (struct api_options){ .read_without_token = 1 };
    authorization = NULL;
    request_id = NULL;
    deps = (struct api_deps){ &env->env, store, &ids, &options };
    ck_assert_int_eq(api_create(&deps, &api, NULL), 0);
}

static void teardown(void)
{
    char file[80];

    api_destroy(api);
    store_close(store);
    fake_env_destroy(env);
    unlink(path);
    snprintf(file, sizeof(file), "%s-wal", path);
    unlink(file);
    snprintf(file, sizeof(file), "%s-shm", path);
    unlink(file);
    rmdir(dir);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(ids_sort_by_time)
{
    char first[64];

    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"a\"}"), 200);
    snprintf(first, sizeof(first), "%s", member("id"));
    ck_assert_str_eq(first, "01M7Y55GGNR00040KE2G000002");
    ck_assert_str_eq(member("created_at"), "2026-11-21T04:17:24.501Z");
    fake_env_advance(env, 5 * ENV_MS);
    env->wall += 5 * ENV_MS;
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"b\"}"), 200);
    ck_assert_int_gt(strcmp(member("id"), first), 0);
}
END_TEST

/* Every item once, in order, and a cursor as long as pages are full. */
START_TEST(pages_are_walked)
{
    char target[256];
    char app[64];
    char body[128];
    char cursor[128] = "";
    uint32_t seen = 0;

    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"a\"}"), 200);
    snprintf(app, sizeof(app), "%s", member("id"));
    for (int i = 0; i < 10; i++) {
        snprintf(body, sizeof(body), "{\"app_id\":\"%s\",\"name\":\"f%d\",\"image\":\"i\"}", app, 9 - i);
        ck_assert_int_eq(ask("POST", "/v2/fns", body), 200);
    }
    do {
        snprintf(target, sizeof(target), "/v2/fns?app_id=%s&per_page=4&cursor=%s", app, cursor);
        ck_assert_int_eq(ask("GET", target, ""), 200);
        snprintf(cursor, sizeof(cursor), "%s", member("next_cursor"));
        for (const char *at = said.body; (at = strstr(at, "\"name\":\"f")); at++) {
            ck_assert_int_eq(at[9], '0' + (int)seen++);
        }
    } while (*cursor);
    ck_assert_uint_eq(seen, 10);
}
END_TEST

START_TEST(urls_begin_where_they_are_told_to)
{
    char body[128];

    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"a\"}"), 200);
    snprintf(body, sizeof(body), "{\"app_id\":\"%s\",\"name\":\"f\",\"image\":\"i\"}", member("id"));
    ck_assert_int_eq(ask("POST", "/v2/fns", body), 200);
    snprintf(body, sizeof(body), "http://node:1/invoke/%s", member("id"));
    ck_assert_str_eq(member("fnproject.io/fn/invokeEndpoint"), body);
    snprintf(body, sizeof(body), "/v2/fns/%s", member("id"));
    options.public_url = "https://fn.example/";
    ck_assert_int_eq(ask("GET", body, ""), 200);
    ck_assert_ptr_nonnull(strstr(member("fnproject.io/fn/invokeEndpoint"), "https://fn.example/invoke/0"));
}
END_TEST

START_TEST(a_client_that_is_gone_hears_nothing)
{
    struct api_call *c = submit("POST", "/v2/apps", "{\"name\":\"a\"}");

    ck_assert_ptr_nonnull(c);
    api_call_gone(c);
    fake_env_work_all(env);
    ck_assert_uint_eq(said.n, 0);
    ck_assert_int_eq(ask("GET", "/v2/apps?name=a", ""), 200);
    ck_assert_ptr_nonnull(strstr(said.body, "\"name\":\"a\"")); /* it was done */
}
END_TEST

/* The client's, where it can stand in a log; else one of ours; in every kind of answer. */
START_TEST(requests_have_ids)
{
    static const struct {
        const char *method, *target, *body;
        int status;
    } kinds[] = {
        { "GET", "/v2/apps", "", 200 },       { "POST", "/v2/apps", "[", 400 },
        { "GET", "/v2/apps/x", "", 404 },     { "GET", "/v2/nothing", "", 404 },
        { "GET", "/v2/apps/", "", 301 },      { "GET", "/v2/fns/x/calls", "", 410 },
        { "GET", "/v2/runner/changes", "", 200 }, { "GET", "/v2/apps/%zz", "", 400 },
    };
    static const char *const not_taken[] = { "", "two words", "tab\there", "\x7f", "\xc3\xa4" };
    char text[sizeof(said.request_id)] = "";

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        request_id = "mine-7";
        ck_assert_int_eq(ask(kinds[i].method, kinds[i].target, kinds[i].body), kinds[i].status);
        ck_assert_str_eq(said.request_id, "mine-7");
    }
    for (size_t i = 0; i < sizeof(not_taken) / sizeof(not_taken[0]); i++) {
        request_id = not_taken[i];
        ask("GET", "/v2/apps", "");
        ck_assert_uint_eq(strlen(said.request_id), CALL_ID_LEN);
        ck_assert_str_ne(said.request_id, text); /* each its own */
        snprintf(text, sizeof(text), "%s", said.request_id);
    }
    memset(text, 'x', API_REQUEST_ID_BYTES);
    text[API_REQUEST_ID_BYTES] = '\0';
    request_id = text;
    ask("GET", "/v2/apps", "");
    ck_assert_str_eq(said.request_id, text);
    text[API_REQUEST_ID_BYTES] = 'x';
    text[API_REQUEST_ID_BYTES + 1] = '\0';
    ask("GET", "/v2/apps", "");
    ck_assert_uint_eq(strlen(said.request_id), CALL_ID_LEN);
}
END_TEST

START_TEST(a_slash_too_much_is_redirected)
{
    ck_assert_int_eq(ask("GET", "/v2/fns/?app_id=%20x", ""), 301);
    ck_assert_str_eq(said.location, "/v2/fns?app_id=%20x");
    ck_assert_int_eq(ask("PUT", "/v2/fns/a/", ""), 307);
    ck_assert_str_eq(said.location, "/v2/fns/a");
    ck_assert_int_eq(ask("DELETE", "/v2/fns/", ""), 404);
}
END_TEST

/* Bytes of queries and cursors are strangers'. */
START_TEST(odd_queries_are_survived)
{
    static const struct {
        const char *target;
        int status;
    } rows[] = {
        { "/v2/apps?", 200 },
        { "/v2/apps?name", 200 },
        { "/v2/apps?name=%zz", 200 },
        { "/v2/apps?name=%00", 200 },
        { "/v2/apps?&&&=&name=", 200 },
        { "/v2/apps?name=%c3%bc", 200 },
        { "/v2/apps?name=%ff", 400 },
        { "/v2/fns?app_id=%ed%a0%80", 400 },
        { "/v2/apps/%c3%bc", 404 },
        { "/v2/apps/%ff", 400 },
        { "/v2/runner/apps/a/triggerBySource/http//%c3", 400 },
        { "/v2/apps?per_page=99999999999999999999", 200 },
        { "/v2/apps?per_page=-1&per_page=2", 200 },
        { "/v2/apps?per_page=1x", 200 },
        { "/v2/apps?cursor=A", 400 },
        { "/v2/apps?cursor=AA==", 400 },
        { "/v2/apps?cursor=AA", 200 },
        { "/v2/apps?cursor=YWG", 200 }, /* the last digit has bits of no byte */
        { "/v2/apps?cursor=AAAA", 200 },
        { "/v2/apps?cursor=_w", 400 },
        { "/v2/apps?cursor=____", 400 },
        { "/v2/triggers?app_id=a&cursor=YQD_", 400 },
        { "/v2/triggers?app_id=a&cursor=YQDDvA", 200 },
        { "/v2/triggers?app_id=a&cursor=YQBi", 200 },
        { "/v2/triggers?app_id=%27%3B--&fn_id=%22", 200 },
        { "/v2/fns?app_id=", 400 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(ask("GET", rows[i].target, "") == rows[i].status, "%s: %d %s",
                      rows[i].target, said.status, said.body);
    }
}
END_TEST

/* Of the texts "look", "ci" and "root". */
static const char *const tokens[] = {
    "looker read 3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8",
    "ci deploy 1b158839f8aa339e89bb50b1603e90ec68e0fd5565fe10a7cb32729fddf7070a",
    "ops admin 4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2",
};

START_TEST(a_token_may_what_its_role_may)
{
    static const struct {
        const char *sent, *method, *target;
        int status, without; /* read_without_token false */
    } rows[] = {
        { NULL, "GET", "/v2/apps", 200, 401 },
        { NULL, "POST", "/v2/apps", 401, 401 },
        { NULL, "DELETE", "/v2/fns/x", 401, 401 },
        { "Bearer", "POST", "/v2/apps", 401, 401 },
        { "Bearer ", "POST", "/v2/apps", 401, 401 },
        { "Bearer rootx", "POST", "/v2/apps", 401, 401 },
        { "Basic root", "POST", "/v2/apps", 401, 401 },
        { "Bearer look", "GET", "/v2/apps", 200, 200 },
        { "Bearer look", "PUT", "/v2/fns/x", 403, 403 },
        { "Bearer ci", "GET", "/v2/apps", 200, 200 },
        { "Bearer ci", "PUT", "/v2/fns/x", 404, 404 },
        { "bearer ci", "DELETE", "/v2/triggers/x", 404, 404 },
        { "Bearer ci", "PUT", "/v2/apps/x", 404, 404 },
        { "Bearer ci", "POST", "/v2/apps", 403, 403 },
        { "Bearer ci", "DELETE", "/v2/apps/x", 403, 403 },
        { "Bearer root", "DELETE", "/v2/apps/x", 404, 404 },
        { "Bearer root", "POST", "/v2/apps", 400, 400 },
        { NULL, "GET", "/v2/nothing", 404, 404 },
    };

    options.tokens = (struct fn_strlist){ tokens, 3 };
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        options.read_without_token = i % 2 == 0;
        authorization = rows[i / 2].sent;
        ck_assert_msg(ask(rows[i / 2].method, rows[i / 2].target, "{}") ==
                          (i % 2 ? rows[i / 2].without : rows[i / 2].status),
                      "%zu %s %s: %d %s", i / 2, rows[i / 2].method, rows[i / 2].target,
                      said.status, said.body);
    }
}
END_TEST

/* ---- tokens that are bound to apps ----------------------------------------------------------- */

/* An app with a function and a trigger, made by a token for all. */
struct family {
    char app[32], fn[32], trigger[32];
};

static void make_family(const char *name, struct family *ret)
{
    char body[200];

    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
    ck_assert_int_eq(ask("POST", "/v2/apps", body), 200);
    snprintf(ret->app, sizeof(ret->app), "%s", member("id"));
    snprintf(body, sizeof(body), "{\"app_id\":\"%s\",\"name\":\"f\",\"image\":\"i\"}", ret->app);
    ck_assert_int_eq(ask("POST", "/v2/fns", body), 200);
    snprintf(ret->fn, sizeof(ret->fn), "%s", member("id"));
    snprintf(body, sizeof(body), "{\"app_id\":\"%s\",\"fn_id\":\"%s\",\"name\":\"t\",\"type\":\"http\","
             "\"source\":\"/s\"}", ret->app, ret->fn);
    ck_assert_int_eq(ask("POST", "/v2/triggers", body), 200);
    snprintf(ret->trigger, sizeof(ret->trigger), "%s", member("id"));
}

static const char *const bound[] = {
    "ops admin 4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2",
    "team admin 1b158839f8aa339e89bb50b1603e90ec68e0fd5565fe10a7cb32729fddf7070a shop shop-*",
};

static void bind_tokens(void)
{
    options.tokens = (struct fn_strlist){ bound, 2 };
    authorization = "Bearer root";
}

/* "%a", "%f" and "%t" of a text become ids of the family. */
static const char *with_ids(const char *text, const struct family *of, char ret[512])
{
    size_t n = 0;

    for (; *text; text++) {
        const char *id = *text != '%' ? NULL : *++text == 'a' ? of->app
                         : *text == 'f' ? of->fn : of->trigger;

        n += (size_t)(id ? snprintf(ret + n, 512 - n, "%s", id) : (ret[n] = *text, 1));
    }
    ret[n] = '\0';
    return ret;
}

/* What a token does not see is answered word for word as what is not there. */
START_TEST(what_is_not_seen_is_not_there)
{
    static const struct family none = { "none", "none", "none" };
    static const struct {
        const char *method, *target, *body;
    } rows[] = {
        { "GET", "/v2/apps/%a", "" },
        { "PUT", "/v2/apps/%a", "{\"name\":\"shop\",\"config\":{\"A\":\"1\"}}" },
        { "DELETE", "/v2/apps/%a", "" },
        { "GET", "/v2/fns?app_id=%a", "" },
        { "GET", "/v2/fns?app_id=%a&name=f", "" },
        { "POST", "/v2/fns", "{\"app_id\":\"%a\",\"name\":\"f\",\"image\":\"i\"}" },
        { "GET", "/v2/fns/%f", "" },
        { "PUT", "/v2/fns/%f", "{\"memory\":256}" },
        { "DELETE", "/v2/fns/%f", "" },
        { "GET", "/v2/triggers?app_id=%a", "" },
        { "GET", "/v2/triggers?app_id=%a&fn_id=%f&name=t", "" },
        { "POST", "/v2/triggers", "{\"app_id\":\"%a\",\"fn_id\":\"%f\",\"name\":\"t\","
                                  "\"type\":\"http\",\"source\":\"/s\"}" },
        { "GET", "/v2/triggers/%t", "" },
        { "PUT", "/v2/triggers/%t", "{\"source\":\"/u\"}" },
        { "DELETE", "/v2/triggers/%t", "" },
        { "GET", "/v2/runner/apps/%a/triggerBySource/http//s", "" },
    };
    struct family hidden;
    char target[512];
    char body[512];
    char said_then[1024];
    int status;

    bind_tokens();
    make_family("bank", &hidden);
    authorization = "Bearer ci";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        status = ask(rows[i].method, with_ids(rows[i].target, &none, target),
                     with_ids(rows[i].body, &none, body));
        snprintf(said_then, sizeof(said_then), "%.1000s", said.body);
        ask(rows[i].method, with_ids(rows[i].target, &hidden, target),
            with_ids(rows[i].body, &hidden, body));
        ck_assert_msg(status == said.status && strcmp(said_then, said.body) == 0, "%s %s: %d %s",
                      rows[i].method, target, said.status, said.body);
    }
    authorization = "Bearer root";
    ck_assert_int_eq(ask("GET", with_ids("/v2/triggers/%t", &hidden, target), ""), 200);
    ck_assert_str_eq(member("source"), "/s");
    ck_assert_int_eq(ask("GET", with_ids("/v2/fns/%f", &hidden, target), ""), 200);
    ck_assert_ptr_nonnull(strstr(said.body, "\"memory\":128"));
}
END_TEST

START_TEST(what_is_seen_can_be_used)
{
    struct family own, hidden;
    char target[512];
    char body[512];

    bind_tokens();
    make_family("bank", &hidden);
    authorization = "Bearer ci";
    make_family("shop-1", &own);
    make_family("shop", &own);
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"bank\"}"), 403);
    ck_assert_ptr_nonnull(strstr(said.body, "API1110 the token team "));
    ck_assert_int_eq(ask("POST", "/v2/apps", "{\"name\":\"shopper\"}"), 403);
    ck_assert_int_eq(ask("GET", "/v2/runner/changes", ""), 403);
    ck_assert_ptr_nonnull(strstr(said.body, "API1110 "));
    ck_assert_int_eq(ask("GET", with_ids("/v2/runner/apps/%a/triggerBySource/http//s", &own, target),
                         ""), 200);
    /* a trigger does not find out whether there is such a function */
    snprintf(body, sizeof(body), "{\"fn_id\":\"%s\"}", hidden.fn);
    ck_assert_int_eq(ask("PUT", with_ids("/v2/triggers/%t", &own, target), body), 404);
    ck_assert_str_eq(member("message"), "");
    ck_assert_str_eq(said.body, "Fn not found");
    ck_assert_int_eq(ask("PUT", with_ids("/v2/fns/%f", &own, target), "{\"memory\":256}"), 200);
    ck_assert_int_eq(ask("DELETE", with_ids("/v2/triggers/%t", &own, target), ""), 204);
    ck_assert_int_eq(ask("DELETE", with_ids("/v2/fns/%f", &own, target), ""), 204);
    ck_assert_int_eq(ask("DELETE", with_ids("/v2/apps/%a", &own, target), ""), 204);
}
END_TEST

/* Pages are full although most of what lies between is not seen, more than one portion of it. */
START_TEST(lists_leave_out_what_is_not_seen)
{
    char body[64];
    char target[256];
    char cursor[128] = "";
    uint32_t seen = 0;
    uint32_t pages = 0;

    bind_tokens();
    for (uint32_t i = 0; i < 2200; i++) {
        snprintf(body, sizeof(body), "{\"name\":\"%s%04u\"}", i < 1100 ? "hid" : "shop-", i);
        if (i < 1105 || i > 2195) {
            ck_assert_int_eq(ask("POST", "/v2/apps", body), 200);
        }
    }
    authorization = "Bearer ci";
    do {
        snprintf(target, sizeof(target), "/v2/apps?per_page=4&cursor=%s", cursor);
        ck_assert_int_eq(ask("GET", target, ""), 200);
        snprintf(cursor, sizeof(cursor), "%s", member("next_cursor"));
        ck_assert_ptr_null(strstr(said.body, "hid"));
        for (const char *at = said.body; (at = strstr(at, "\"name\":\"shop-")); at++) {
            seen++;
        }
        ck_assert_uint_eq(seen, ++pages < 3 ? 4 * pages : 9);
    } while (*cursor);
    ck_assert_uint_eq(pages, 3);
    ck_assert_int_eq(ask("GET", "/v2/apps?name=hid0001", ""), 200);
    ck_assert_str_eq(said.body, "{\"items\":[]}");
    ck_assert_int_eq(ask("GET", "/v2/apps?name=shop-1101", ""), 200);
    ck_assert_str_eq(member("name"), "shop-1101");
}
END_TEST

/* With read_without_token whoever sends none sees all; who sends one is held to it. */
START_TEST(a_token_that_need_not_be_there_still_binds)
{
    struct family hidden;
    char target[512];

    bind_tokens();
    make_family("bank", &hidden);
    with_ids("/v2/apps/%a", &hidden, target);
    authorization = "Bearer ci";
    ck_assert_int_eq(ask("GET", target, ""), 404);
    authorization = NULL;
    ck_assert_int_eq(ask("GET", target, ""), 200);
    options.read_without_token = 0;
    ck_assert_int_eq(ask("GET", target, ""), 401);
}
END_TEST

START_TEST(tokens_are_checked)
{
    static const char *const bad[] = { "", "ci", "ci deploy", "ci deploy 12", "ci owner 00",
                                       " deploy 00" };
    char text[128];
    struct fn_error e = ERR_INIT;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(api_check_token(bad[i], &e), FN_E_INVALID);
    }
    snprintf(text, sizeof(text), "%s0", tokens[0]);
    ck_assert_int_eq(api_check_token(text, &e), FN_E_INVALID);
    snprintf(text, sizeof(text), "%s", tokens[0]);
    text[strlen(text) - 1] = '\x12'; /* '2' with a bit less */
    ck_assert_int_eq(api_check_token(text, &e), FN_E_INVALID);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(api_check_token(tokens[i], &e), 0);
    }
    ck_assert_int_eq(api_check_token(bound[1], &e), 0);
    snprintf(text, sizeof(text), "%s shop/x", tokens[0]);
    ck_assert_int_eq(api_check_token(text, &e), FN_E_INVALID);
}
END_TEST

START_TEST(routes_have_names)
{
    ck_assert_str_eq(api_route_of("/v2/apps"), "/v2/apps");
    ck_assert_str_eq(api_route_of("/v2/apps/x"), "/v2/apps/:app_id");
    ck_assert_str_eq(api_route_of("/v2/fns/x/calls/y/log"), "/v2/fns/:fn_id/calls/:call_id/log");
    ck_assert_str_eq(api_route_of("/v2/runner/apps/x/triggerBySource/http//a/b"),
                     "/v2/runner/apps/:app_id/triggerBySource/:trigger_type/*trigger_source");
    ck_assert_str_eq(api_route_of("/v2/apps/"), "invalid");
    ck_assert_str_eq(api_route_of("/v2/nothing"), "invalid");
}
END_TEST

/* ---- what changed ---------------------------------------------------------------------------- */

static void on_change(void *ud, const char *id)
{
    (void)ud;
    api_changed(api, id);
}

/* "<target>?after=<where the last answer was>&wait_ms=1000" */
static const char *after(void)
{
    static char text[160];

    snprintf(text, sizeof(text), "/v2/runner/changes?after=%s&wait_ms=1000", member("cursor"));
    return text;
}

START_TEST(changes_are_told_to_those_who_wait)
{
    char told[256];
    char id[64];

    store_on_change(store, on_change, NULL);
    ck_assert_int_eq(ask("GET", "/v2/runner/changes?wait_ms=1000", ""), 200);
    ck_assert_ptr_nonnull(strstr(said.body, "\"all\":true"));
    ck_assert_ptr_nonnull(submit("GET", after(), ""));
    fake_env_advance(env, 999 * ENV_MS);
    ck_assert_uint_eq(said.n, 0);
    submit("POST", "/v2/apps", "{\"name\":\"a\"}");
    fake_env_work_all(env);
    ck_assert_uint_eq(said.n, 2); /* the client of the new app, then the watcher */
    snprintf(told, sizeof(told), "%.200s", said.body);
    ask("GET", "/v2/apps", "");
    snprintf(id, sizeof(id), "\"ids\":[\"%s\"]", member("id"));
    ck_assert_msg(strstr(told, id), "%s: %s", id, told);
}
END_TEST

START_TEST(who_waits_for_nothing_is_told_so)
{
    char place[64];

    ask("GET", "/v2/runner/changes", "");
    snprintf(place, sizeof(place), "%s", member("cursor"));
    ck_assert_ptr_nonnull(submit("GET", after(), ""));
    fake_env_advance(env, 1000 * ENV_MS);
    ck_assert_uint_eq(said.n, 1);
    ck_assert_str_eq(member("cursor"), place);
    ck_assert_ptr_nonnull(strstr(said.body, "\"ids\":[]"));
}
END_TEST

START_TEST(who_waits_may_go_and_is_let_go)
{
    struct api_call *c;

    ask("GET", "/v2/runner/changes", "");
    c = submit("GET", after(), "");
    api_call_gone(c);
    fake_env_advance(env, 2000 * ENV_MS);
    ck_assert_uint_eq(said.n, 0);
    ask("GET", "/v2/runner/changes", "");
    ck_assert_ptr_nonnull(submit("GET", after(), ""));
    api_end_watching(api);
    fake_env_settle(env);
    ck_assert_uint_eq(said.n, 1);
    ck_assert_int_eq(ask("GET", after(), ""), 200); /* at once */
}
END_TEST

START_TEST(who_missed_too_much_asks_for_everything)
{
    char first[160];

    ask("GET", "/v2/runner/changes", "");
    snprintf(first, sizeof(first), "%s", after());
    for (int i = 0; i < 1024; i++) {
        api_changed(api, "x");
    }
    ck_assert_int_eq(ask("GET", first, ""), 200);
    ck_assert_ptr_null(strstr(said.body, "\"all\""));
    api_changed(api, "y");
    ck_assert_int_eq(ask("GET", first, ""), 200);
    ck_assert_ptr_nonnull(strstr(said.body, "\"all\":true"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("api");
    TCase *t = tcase_create("api");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, ids_sort_by_time);
    tcase_add_test(t, pages_are_walked);
    tcase_add_test(t, urls_begin_where_they_are_told_to);
    tcase_add_test(t, a_client_that_is_gone_hears_nothing);
    tcase_add_test(t, requests_have_ids);
    tcase_add_test(t, a_slash_too_much_is_redirected);
    tcase_add_test(t, odd_queries_are_survived);
    tcase_add_test(t, a_token_may_what_its_role_may);
    tcase_add_test(t, what_is_not_seen_is_not_there);
    tcase_add_test(t, what_is_seen_can_be_used);
    tcase_add_test(t, lists_leave_out_what_is_not_seen);
    tcase_add_test(t, a_token_that_need_not_be_there_still_binds);
    tcase_add_test(t, tokens_are_checked);
    tcase_add_test(t, routes_have_names);
    tcase_add_test(t, changes_are_told_to_those_who_wait);
    tcase_add_test(t, who_waits_for_nothing_is_told_so);
    tcase_add_test(t, who_waits_may_go_and_is_let_go);
    tcase_add_test(t, who_missed_too_much_asks_for_everything);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
