/* The life of a request: its route, its operation, its end.
 *
 * A call has an arena of its own, not the request's: when whoever asked goes away, the store still
 * reads there. */
#include <api/api_int.h>

#include <base/log.h>
#include <base/percent.h>
#include <base/utf8.h>
#include <stdlib.h>
#include <string.h>

/* ---- the store's answer ---------------------------------------------------------------------- */

/* Each change leaves a line, of which none may be missing: no gate. */
static void audit(struct api_call *c)
{
    const char *name = *store_name(&c->op);

    if (strcmp(c->route->method, "GET") != 0) {
        log_info("changed by the API", "method", c->route->method, "route", c->route->pattern, "id",
                 *store_id(&c->op), "name", *name ? name : NULL, "client", c->peer, "token", c->who,
                 "fn_request_id", c->request_id);
    }
}

static void on_stored(struct store_op *op)
{
    struct api_call *c = container_of(op, struct api_call, op);

    if (op->result == 0) {
        audit(c);
    }
    if (op->result == 0 && hooks_tell(c)) {
        return;
    }
    if (!c->gone && op->result < 0) {
        api_call_fail(c, op->result, &op->error);
    } else if (!c->gone) {
        api_call_reply(c);
    }
    hooks_end(c);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static const struct api_route *find_route(struct api_call *c, const char *method, const char *path,
                                          bool *ret_other_method)
{
    *ret_other_method = false;
    for (const struct api_route *r = api_routes; r->method; r++) {
        if (!route_matches(r->pattern, path, &c->arena, c->params)) {
            continue;
        }
        if (strcmp(r->method, method) == 0) {
            return r;
        }
        *ret_other_method = true;
    }
    return NULL;
}

/* The same path with the slash behind it that is too much or missing. */
static const char *other_path(struct api_call *c, const char *path)
{
    size_t len = strlen(path);

    return path[len - 1] == '/' ? arena_strndup(&c->arena, path, len - 1)
                                : arena_join(&c->arena, path, "/", (char *)NULL);
}

/* As Go Fn's router: where a slash is all that is wrong, the client is sent on. */
static bool redirect(struct api_call *c, const char *path)
{
    const struct api_request *rq = c->rq;
    const char *other = other_path(c, path);
    const char *location = other_path(c, rq->path);
    bool get = strcmp(rq->method, "GET") == 0;
    struct headers h;
    bool ignored;

    api_call_headers(c, &h);
    if (!other || !location || !find_route(c, rq->method, other, &ignored)) {
        return false;
    }
    location = rq->query ? arena_join(&c->arena, location, "?", rq->query, (char *)NULL) : location;
    if (!location || headers_add_borrowed(&h, "Location", location) < 0) {
        return false;
    }
    c->reply.whole(c->ud, get ? 301 : 307, &h, NULL, 0);
    return true;
}

static int no_route(const struct api_request *rq, bool other_method, struct fn_error *reterr)
{
    return err_set_http(reterr, other_method ? FN_E_INVALID : FN_E_NOT_FOUND,
                        other_method ? 405 : 404, FN_BLAME_USER, "%s: %.16s %.512s",
                        other_method ? "Method not allowed" : "Path not found", rq->method,
                        rq->path);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* "http://host:port" of what callers use. */
static const char *base_of(struct api_call *c)
{
    const char *url = c->api->options->public_url;
    size_t len = url ? strlen(url) : 0;

    if (url) {
        return arena_strndup(&c->arena, url, len - (len > 0 && url[len - 1] == '/'));
    }
    return arena_join(&c->arena, c->rq->scheme, "://", c->rq->host ? c->rq->host : "",
                      (char *)NULL);
}

static int check_body(const struct api_request *rq, struct fn_error *reterr)
{
    return rq->body_len <= API_BODY_MAX
               ? 0
               : err_set_http(reterr, FN_E_RANGE, 413, FN_BLAME_USER,
                              "Content-Length too large for this server, %zu > max %u",
                              rq->body_len, API_BODY_MAX);
}

static int ask_store(struct api_call *c, struct fn_error *reterr)
{
    struct api *a = c->api;
    int r = check_body(c->rq, reterr);

    c->base = base_of(c);
    c->peer = arena_strdup(&c->arena, c->rq->peer);
    c->op.verb = c->route->verb;
    c->op.request_id = c->request_id;
    c->op.arena = &c->arena;
    c->op.now_ns = env_wall_ns(a->deps.env);
    c->op.done = on_stored;
    if (r == 0 && (!c->base || !c->peer)) {
        r = err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory");
    }
    r = r < 0 ? r : c->route->ask(c, reterr);
    return r < 0 ? r : hooks_submit(c, reterr);
}

/* 1: answered, 0: asked, or < 0. */
static int call_begin(struct api_call *c, struct fn_error *reterr)
{
    const struct api_request *rq = c->rq;
    const char *path = percent_decode(&c->arena, rq->path, strlen(rq->path), false);
    bool other_method;
    int r;

    r = path && utf8_is_valid(path)
            ? query_check(&c->arena, rq->query, reterr)
            : err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER, "Path malformed");
    if (r < 0) {
        return r;
    }
    c->route = find_route(c, rq->method, path, &other_method);
    if (!c->route) {
        return redirect(c, path) ? 1 : no_route(rq, other_method, reterr);
    }
    if (!c->route->ask) {
        api_call_reply_with(c, 410, NULL, NULL, 0);
        return 1;
    }
    r = token_check(c, reterr);
    if (r < 0) {
        return r;
    }
    return c->route->verb ? ask_store(c, reterr) : c->route->ask(c, reterr);
}

static bool is_request_id(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return len > 0 && len <= API_REQUEST_ID_BYTES;
}

/* The client's, or one of ours. */
static const char *request_id_of(struct api *a, const struct api_request *rq, struct arena *arena)
{
    char id[CALL_ID_LEN + 1];

    if (is_request_id(rq->request_id)) {
        return arena_strdup(arena, rq->request_id);
    }
    id_make(a->deps.ids, env_wall_ns(a->deps.env), id);
    return arena_strdup(arena, id);
}

static struct api_call *request_open(struct api *a, const struct api_request *rq)
{
    struct arena arena;
    struct api_call *c;

    arena_init(&arena, 0);
    c = arena_alloc_owner(&arena, sizeof(*c), rq->body_len + 1024);
    if (c) {
        *c = (struct api_call){ .api = a, .arena = arena, .rq = rq };
        app_init(&c->op.app, &c->arena);
        fn_def_init(&c->op.fn, &c->arena);
        trigger_init(&c->op.trigger, &c->arena);
        c->request_id = rq->trusted ? NULL : request_id_of(a, rq, &c->arena);
    }
    return c;
}

struct api_call *api_submit(struct api *a, const struct api_request *rq,
                            const struct api_reply *reply, void *ud)
{
    struct api_call *c = request_open(a, rq);
    struct fn_error e = ERR_INIT;
    int r;

    if (!c) {
        reply->error(ud, 503, NULL, "API1101 out of memory");
        return NULL;
    }
    c->reply = *reply;
    c->ud = ud;
    r = call_begin(c, &e);
    c->rq = NULL;
    if (r == 0) {
        return c;
    }
    if (r < 0) {
        api_call_fail(c, r, &e);
    }
    hooks_end(c);
    return NULL;
}

void api_call_gone(struct api_call *c)
{
    c->gone = true;
    if (changes_has(c)) {
        changes_leave(c);
        api_call_free(c);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int api_create(const struct api_deps *deps, struct api **ret, struct fn_error *reterr)
{
    struct api *a = calloc(1, sizeof(*a));

    if (!a) {
        return err_set(reterr, FN_E_EXHAUSTED, "api: out of memory");
    }
    *a = (struct api){ .deps = *deps, .options = deps->options };
    limits_init(&a->limits, deps->env);
    LIST_INIT(&a->all_hooks);
    changes_init(&a->changes, deps->env, deps->ids);
    *ret = a;
    return 0;
}

void api_set_options(struct api *a, const struct api_options *options)
{
    a->options = options;
}

void api_destroy(struct api *a)
{
    if (a) {
        api_set_chain(a, NULL);
        env_timer_clear(a->deps.env, &a->idle_timer);
        free(a);
    }
}
