/* Routes and headers: /invoke/{fn_id}, /t/{app}[/source], and what passes in both directions,
 * which no caller or function can forge or break. */
#include <lb/lb_int.h>

#include <base/percent.h>
#include <ctype.h>
#include <model/header_rules.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX_INVOKE "/invoke/"
#define PREFIX_T      "/t/"
#define PREFIX_HEADER "Fn-Http-H-"

bool lb_owns_path(const char *path)
{
    return strncmp(path, PREFIX_INVOKE, strlen(PREFIX_INVOKE)) == 0 ||
           strncmp(path, PREFIX_T, strlen(PREFIX_T)) == 0;
}

static int not_found(const struct lb_request *rq, struct fn_error *reterr)
{
    return err_set_http(reterr, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "Path not found: %.16s %.128s",
                        rq->method, rq->path);
}

/* Whether a segment of a path is "." or "..": in the API node's URL it would name something that
 * nobody asked for, another app's trigger or another part of the API. */
static bool has_dot_segment(const char *s)
{
    while (*s) {
        size_t len = strcspn(s, "/");

        if ((len == 1 || len == 2) && strspn(s, ".") == len) {
            return true;
        }
        s += len + (s[len] == '/');
    }
    return false;
}

/* What ids and app names may look like, so that no odd text reaches the API node's URL. */
static bool is_plain(const char *s, size_t max)
{
    size_t len = strlen(s);

    return len > 0 && len <= max && header_value_is_clean(s) && !strchr(s, '/') &&
           !has_dot_segment(s);
}

/* "/invoke/{fn_id}/": answered as Go's router does, which names the path without the slash. */
static int match_slash(const struct lb_request *rq, struct route *ret, struct fn_error *reterr)
{
    const char *query = strchr(rq->target, '?');

    if (strcmp(rq->method, "POST") != 0) {
        return not_found(rq, reterr);
    }
    ret->location = arena_printf(rq->arena, "%.*s%s", (int)strlen(rq->path) - 1, rq->path,
                                 query ? query : "");
    return ret->location ? 0 : FN_E_EXHAUSTED; /* its text: route_match() */
}

static int match_invoke(const struct lb_request *rq, struct route *ret, struct fn_error *reterr)
{
    const char *rest = rq->path + strlen(PREFIX_INVOKE);
    const char *type = headers_get(rq->headers, "Fn-Invoke-Type");
    size_t len = strcspn(rest, "/");

    if (len > 0 && strcmp(rest + len, "/") == 0) {
        return match_slash(rq, ret, reterr);
    }
    if (len == 0 || rest[len]) {
        return not_found(rq, reterr);
    }
    if (strcmp(rq->method, "POST") != 0) {
        return err_set_http(reterr, FN_E_INVALID, 405, FN_BLAME_USER,
                            "Method not allowed: %.16s %.128s", rq->method, rq->path);
    }
    ret->fn_id = percent_decode(rq->arena, rest, strlen(rest), false);
    if (!ret->fn_id || !is_plain(ret->fn_id, ROUTE_ID_MAX)) {
        return err_set_http(reterr, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "Fn not found");
    }
    if (type && *type && strcmp(type, "sync") != 0 && strcmp(type, "detached") != 0) {
        return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER,
                            "FN202 invoke type, got \"%.32s\"; expected sync or detached", type);
    }
    ret->detached = type && strcmp(type, "detached") == 0;
    return 0;
}

static int match_trigger(const struct lb_request *rq, struct route *ret, struct fn_error *reterr)
{
    const char *app = rq->path + strlen(PREFIX_T);
    size_t len = strcspn(app, "/");

    if (len == 0) {
        return not_found(rq, reterr);
    }
    ret->is_trigger = true;
    ret->app = percent_decode(rq->arena, app, len, false);
    ret->source =
        app[len] ? percent_decode(rq->arena, app + len, strlen(app + len), false) : "/";
    if (!ret->app || !is_plain(ret->app, MODEL_NAME_MAX)) {
        return err_set_http(reterr, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "App not found");
    }
    if (!ret->source || !header_value_is_clean(ret->source) || has_dot_segment(ret->source)) {
        return err_set_http(reterr, FN_E_NOT_FOUND, 404, FN_BLAME_USER, "Trigger not found");
    }
    return 0;
}

int route_match(const struct lb_request *rq, struct route *ret, struct fn_error *reterr)
{
    bool is_invoke = strncmp(rq->path, PREFIX_INVOKE, strlen(PREFIX_INVOKE)) == 0;
    int r;

    *ret = (struct route){ 0 };
    r = is_invoke ? match_invoke(rq, ret, reterr) : match_trigger(rq, ret, reterr);
    if (r < 0 && rq->arena->failed) { /* what has no text may well be there */
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "out of memory");
    }
    return r;
}

/* ---- to the function ------------------------------------------------------------------------- */

/* Go Fn keeps Host apart from the headers; functions find it in Fn-Http-Request-Url. */
static int invoke_headers(const struct lb_request *rq, struct headers *to, uint32_t *ret_dropped)
{
    for (uint32_t i = 0; i < rq->headers->n; i++) {
        const struct header *h = &rq->headers->items[i];

        if (header_is_reserved(h->name)) {
            ++*ret_dropped;
        } else if (header_passes(h->name, h->value, HEADER_HOST) &&
                   headers_add_borrowed(to, h->name, h->value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

static int trigger_headers(const struct lb_request *rq, const char *url, struct headers *to)
{
    for (uint32_t i = 0; i < rq->headers->n; i++) {
        const struct header *h = &rq->headers->items[i];
        const char *name = h->name;

        if (!header_passes(name, h->value, HEADER_HOP_BY_HOP | HEADER_HOST)) {
            continue;
        }
        if (strcasecmp(name, "Content-Type") != 0) {
            name = arena_printf(to->arena, PREFIX_HEADER "%s", name);
        }
        if (headers_add_borrowed(to, name, h->value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    if (headers_add_borrowed(to, "Fn-Http-Method", rq->method) < 0 ||
        headers_add_borrowed(to, "Fn-Http-Request-Url", url) < 0 ||
        headers_add_borrowed(to, "Fn-Intent", "httprequest") < 0) {
        return FN_E_EXHAUSTED;
    }
    return 0;
}

int route_request_headers(const struct lb_request *rq, const struct route *route, const char *url,
                          struct headers *to, uint32_t *ret_dropped)
{
    *ret_dropped = 0;
    return route->is_trigger ? trigger_headers(rq, url, to) : invoke_headers(rq, to, ret_dropped);
}

/* ---- to the client --------------------------------------------------------------------------- */

static bool may_be_sent(const char *name, const char *value)
{
    return header_name_is_token(name) && header_value_is_clean(value) &&
           header_passes(name, value, HEADER_FRAMING | HEADER_HOP_BY_HOP | HEADER_BY_LB);
}

static int invoke_answer(const struct headers *from, struct headers *to)
{
    for (uint32_t i = 0; i < from->n; i++) {
        const struct header *h = &from->items[i];

        if (may_be_sent(h->name, h->value) && headers_add_borrowed(to, h->name, h->value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

/* A number outside 200..599, with a sign or not, cannot be sent; text that is no number is ignored,
 * as Go Fn does. */
static int trigger_status(const char *text, int *status, struct fn_error *reterr)
{
    char *end;
    long n;

    if (!text || isspace((unsigned char)text[0])) {
        return 0;
    }
    n = strtol(text, &end, 10);
    if (*end || end == text) {
        return 0;
    }
    if (n < 200 || n > 599) {
        return err_set_http(reterr, FN_E_INVALID, 502, FN_BLAME_USER,
                            "FN605 function's Fn-Http-Status, got \"%.16s\"; expected 200..599",
                            text);
    }
    *status = (int)n;
    return 0;
}

static int trigger_answer(const struct headers *from, struct headers *to)
{
    bool own_type = headers_get(from, PREFIX_HEADER "Content-Type") != NULL;
    size_t prefix = strlen(PREFIX_HEADER);

    for (uint32_t i = 0; i < from->n; i++) {
        const struct header *h = &from->items[i];
        const char *name = h->name;

        if (strncasecmp(name, PREFIX_HEADER, prefix) == 0) {
            name += prefix;
        } else if (own_type || strcasecmp(name, "Content-Type") != 0) {
            continue; /* a type for the client stands in place of the function's own */
        }
        if (may_be_sent(name, h->value) && headers_add_borrowed(to, name, h->value) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

int route_answer_headers(bool is_trigger, const struct headers *from, struct headers *to,
                         int *status, struct fn_error *reterr)
{
    int r = is_trigger ? trigger_answer(from, to) : invoke_answer(from, to);

    if (r < 0) {
        return err_set(reterr, r, "out of memory");
    }
    return is_trigger ? trigger_status(headers_get(from, "Fn-Http-Status"), status, reterr) : 0;
}
