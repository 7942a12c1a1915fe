/* A placer that asks runners in the order of their list, a pool that is published by hand, an
 * API node whose answers the test gives, and clients that record theirs. */
#include "fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct fake_env *env;
struct fake_engage fe;
struct plugin placer, pool, other[4];
struct place *place;
struct lb *lb;
struct catalog *catalog;
struct lb_options lb_opts;
bool fixture_api;
unsigned char fixture_client[LOOKUPS_ADDRESS];
struct budget fixture_bodies;
struct api_request api[API_MAX];
int n_api;
static struct id_maker ids;
static struct trace_deps trace_deps;
static struct trace_options trace_options;
static struct tracer *tracer;

/* ---- plugins --------------------------------------------------------------------------------- */

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    uint32_t *next = ask->session;

    (void)inst;
    if (ask->why == FN_WHY_START || ask->why == FN_WHY_TIMER || ask->why == FN_WHY_WAKE) {
        *next = 0;
    }
    ret->verdict = *next < ask->snap->n ? FN_TRY : FN_WAIT;
    ret->index = (*next)++;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    return 0;
}

static const struct fn_placer_ops placer_ops = { FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER), 4,
                                                 0, decide, NULL, NULL, NULL };

static int pool_start(void *inst, struct fn_error *reterr)
{
    (void)inst;
    (void)reterr;
    return 0;
}

static void pool_stop(void *inst, void (*done)(void *ud), void *ud)
{
    (void)inst;
    done(ud);
}

static const struct fn_pool_ops pool_ops = { FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL), pool_start,
                                             NULL, NULL, pool_stop };

void publish(const char *const *addresses)
{
    ck_assert_int_eq(fake_plugin_publish(&pool, "default", addresses), 0);
}

/* ---- the API node ---------------------------------------------------------------------------- */

static int api_get(void *impl, const char *path,
                   void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                              const struct fn_error *err),
                   void *ud)
{
    (void)impl;
    ck_assert_int_lt(n_api, API_MAX);
    snprintf(api[n_api].path, sizeof(api[n_api].path), "%s", path);
    api[n_api].cb = cb;
    api[n_api].ud = ud;
    api[n_api++].answered = false;
    return 0;
}

void api_answer(int i, uint32_t status, const char *body)
{
    struct fn_error e = ERR_INIT;

    ck_assert_int_lt(i, n_api);
    ck_assert(!api[i].answered);
    api[i].answered = true;
    err_set(&e, FN_E_UNAVAILABLE, "connection refused");
    api[i].cb(api[i].ud, status, body, strlen(body), status ? NULL : &e);
}

/* ---- lb -------------------------------------------------------------------------------------- */

static void add_functions(void)
{
    static struct fn_kv app_config[] = { { "A", "app" }, { "B", "app" } };
    static struct fn_kv fn_config[] = { { "B", "fn" }, { "FN_TYPE", "mine" } };
    static struct fn_kv annotations[] = { { "k", "{\"a\":1}" } };
    static const struct trigger triggers[] = {
        { .id = "T1", .source = "/hello" },
        { .id = "T2", .source = "/" },
        { .id = "T3", .source = "/a b%" },
    };
    static const struct fn_def fn = { .id = FN_HELLO, .image = "fnd/hello:1", .mem_mb = 64,
                                      .timeout_s = 10, .idle_timeout_s = 30,
                                      .config = { .items = fn_config, .n = 2 },
                                      .annotations = { .items = annotations, .n = 1 } };
    static const struct app app = { .id = "APP", .name = "demo",
                                    .config = { .items = app_config, .n = 2 } };
    static const struct fn_def other_fn = { .id = FN_OTHER, .image = "fnd/hello:1", .mem_mb = 64,
                                            .timeout_s = 10, .idle_timeout_s = 30 };
    static const struct app other_app = { .id = "OTHER", .name = "other" };
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(catalog_add(catalog, &other_app, &other_fn, NULL, &e), 0);
    ck_assert_int_eq(catalog_add(catalog, &app, &fn, NULL, &e), 0);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(catalog_add(catalog, &app, &fn, &triggers[i], &e), 0);
        ck_assert_int_eq(catalog_add(catalog, &app, &fn, &triggers[i], &e), FN_E_EXISTS);
    }
    ck_assert_int_eq(catalog_add(catalog, &app, &fn, NULL, &e), FN_E_EXISTS);
}

void fixture_trace(const struct trace_deps *deps, const struct trace_options *o)
{
    trace_deps = *deps;
    trace_options = *o;
}

static void tracer_setup(struct lb_deps *ld)
{
    if (trace_options.endpoint) {
        trace_deps.env = &env->env;
        ck_assert_int_eq(tracer_create(&trace_deps, &tracer, NULL), 0);
        ck_assert_int_eq(tracer_set_options(tracer, &trace_options), 0);
        ld->tracer = tracer;
    }
}

const struct catalog_source fixture_source = { api_get, NULL };

void lb_setup(void)
{
    static const unsigned char ip[4] = { 10, 0, 0, 1 };
    struct catalog_options co = { .ttl_ns = 5 * ENV_S, .stale_ns = 60 * ENV_S, .entries_max = 10000 };
    struct place_deps pd = { .client = &fe.client,
                             .options = { 10 * ENV_MS, ENV_S, 20000 } };
    struct lb_deps ld = { .client = &fe.client, .ids = &ids, .options = lb_opts };
    struct fn_error e = ERR_INIT;

    env = fake_env_create();
    fake_engage_init(&fe);
    fake_plugin_reset();
    fake_plugin_init(&placer, "placer", &placer_ops, NULL);
    fake_plugin_init(&pool, "pool", &pool_ops, NULL);
    override_offer(NULL);
    n_api = 0;
    id_maker_init(&ids, ip, 8080);
    ck_assert_int_eq(
        catalog_create(&env->env, &co, fixture_api ? &fixture_source : NULL, &catalog, &e), 0);
    if (!fixture_api) {
        add_functions();
    }
    pd.env = ld.env = &env->env;
    ck_assert_int_eq(place_create(&pd, &place, &e), 0);
    ck_assert_int_eq(place_set_placer(place, &placer, NULL, NULL), 0);
    ck_assert_int_eq(place_start(place, &pool, &e), 0);
    ld.place = place;
    ld.catalog = catalog;
    tracer_setup(&ld);
    ck_assert_int_eq(lb_create(&ld, &lb, &e), 0);
}

void lb_teardown(void)
{
    struct lb_counts n;

    lb_count(lb, &n);
    ck_assert_uint_eq(n.in_flight, 0);
    ck_assert_uint_eq(fixture_bodies.used_bytes, 0);
    ck_assert_uint_eq(n.received, n.ok + n.failed + n.not_executed + n.unknown + n.aborted);
    lb_destroy(lb);
    place_destroy(place);
    catalog_destroy(catalog);
    fake_engage_finish(&fe);
    tracer_destroy(tracer);
    tracer = NULL;
    trace_options.endpoint = NULL;
    ck_assert_uint_eq(env->timers.n, 0);
    fake_env_destroy(env);
}

/* ---- the client ------------------------------------------------------------------------------ */

static void note_headers(struct client *c, int status, const struct headers *h)
{
    struct buf b = BUF_INIT(0);

    c->status = status;
    for (uint32_t i = 0; h && i < h->n; i++) {
        buf_printf(&b, "%s: %s\n", h->items[i].name, h->items[i].value);
    }
    ck_assert_ptr_null(c->heads);
    c->heads = strdup(buf_text(&b));
    buf_finish(&b);
}

static void over(struct client *c)
{
    ck_assert_int_eq(c->terminal, 0);
    c->terminal++;
    c->call = NULL;
    c->live = false;
    arena_finish(&c->arena);
}

static void on_whole(void *ud, int status, const struct headers *h, const void *data, size_t len)
{
    struct client *c = ud;

    ck_assert(!c->streamed);
    note_headers(c, status, h);
    buf_add(&c->body, data, len);
    over(c);
}

static void on_error(void *ud, int status, const struct headers *h, const char *text)
{
    struct client *c = ud;

    ck_assert(!c->streamed);
    ck_assert_int_ge(status, 400);
    note_headers(c, status, h);
    buf_add_str(&c->message, text);
    ck_assert_msg(text[0] != '\0', "an error without a text");
    over(c);
}

static void on_head(void *ud, int status, const struct headers *h, int64_t content_length)
{
    struct client *c = ud;

    ck_assert(!c->streamed && !c->terminal);
    note_headers(c, status, h);
    c->streamed = true;
    c->declared = content_length;
}

static int on_data(void *ud, const void *data, size_t len)
{
    struct client *c = ud;

    ck_assert(c->streamed && !c->terminal);
    buf_add(&c->body, data, len);
    if (c->full > 0) {
        c->full--;
        return 1;
    }
    return 0;
}

static void on_end(void *ud)
{
    struct client *c = ud;

    ck_assert(c->streamed);
    over(c);
}

static void on_cut(void *ud)
{
    struct client *c = ud;

    ck_assert(c->streamed);
    c->cut = true;
    over(c);
}

static const struct lb_reply reply = { on_whole, on_error, on_head, on_data, on_end, on_cut };

struct client *send_request(const char *method, const char *path, const char *text, ...)
{
    struct client *c = calloc(1, sizeof(*c));
    struct body *body = body_create(&fixture_bodies, 0);
    struct lb_request rq;
    struct lb_call *call;
    const char *target = path;
    const char *name;
    va_list ap;

    if (strncmp(target, "http://", 7) == 0) { /* as to a proxy */
        path = strchr(target + 7, '/');
    }
    c->live = true;
    c->declared = -2;
    arena_init(&c->arena, 0);
    headers_init(&c->headers, &c->arena);
    va_start(ap, text);
    while ((name = va_arg(ap, const char *))) {
        headers_add(&c->headers, name, va_arg(ap, const char *));
    }
    va_end(ap);
    body_append(body, text, strlen(text));
    rq = (struct lb_request){
        .arena = &c->arena,
        .method = arena_strdup(&c->arena, method),
        .path = arena_strndup(&c->arena, path, strcspn(path, "?")),
        .target = arena_strdup(&c->arena, target),
        .scheme = "http",
        .host = arena_strdup(&c->arena, "lb:8080"),
        .headers = &c->headers,
        .body = body,
        .peer = arena_strdup(&c->arena, "10.0.0.7:1"),
        .client = fixture_client,
    };
    call = lb_submit(lb, &rq, &reply, c);
    ck_assert(!call == (c->terminal == 1));
    c->call = call;
    body_unref(body);
    return c;
}

void client_gone(struct client *c)
{
    struct lb_call *call = c->call;

    ck_assert_ptr_nonnull(call);
    lb_call_gone(call);
    c->terminal++;
    c->call = NULL;
    c->live = false;
    arena_finish(&c->arena);
}

void client_free(struct client *c)
{
    ck_assert_int_eq(c->terminal, 1);
    ck_assert(!c->live);
    buf_finish(&c->body);
    buf_finish(&c->message);
    free(c->heads);
    free(c);
}

const char *answer_header(const struct client *c, const char *name)
{
    static char joined[1024];
    size_t len = strlen(name);
    const char *p = c->heads ? c->heads : "";
    const char *end;

    joined[0] = '\0';
    for (; *p; p = end + 1) {
        end = strchr(p, '\n');
        if (strncasecmp(p, name, len) == 0 && p[len] == ':') {
            snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%.*s",
                     joined[0] ? "|" : "", (int)(end - p - (long)len - 2), p + len + 2);
        }
    }
    return joined;
}

void expect_outcome(const struct client *c, const char *outcome)
{
    ck_assert_str_eq(answer_header(c, "Fn-Outcome"), outcome);
    ck_assert_uint_eq(strlen(answer_header(c, "Fn-Call-Id")), CALL_ID_LEN);
}

const char *body_text(struct client *c)
{
    return buf_text(&c->body);
}
