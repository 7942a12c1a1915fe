/* Judges the Origin of a request against the configured list, and adds the headers that a
 * browser expects of the answer. */
#include <http/cors.h>

#include <base/buf.h>
#include <string.h>
#include <strings.h>

#define METHODS         "GET,POST,PUT,HEAD,DELETE"
#define MAX_AGE_S       "43200"
#define HEADERS_DEFAULT "Origin,Content-Length,Content-Type"

static size_t scheme_length(const char *origin)
{
    return strncmp(origin, "http://", 7) == 0    ? 7
           : strncmp(origin, "https://", 8) == 0 ? 8
                                                 : 0;
}

static bool all_origins(const struct cors *c)
{
    return strcmp(c->origins.items[0], "*") == 0;
}

int cors_origin_check(const char *origin, uint64_t index)
{
    return (index == 0 && strcmp(origin, "*") == 0) || scheme_length(origin) > 0 ? 0 : FN_E_INVALID;
}

static bool is_allowed(const struct cors *c, const char *origin)
{
    if (all_origins(c)) {
        return true;
    }
    for (uint64_t i = 0; i < c->origins.n; i++) {
        if (strcmp(c->origins.items[i], origin) == 0) {
            return true;
        }
    }
    return false;
}

enum cors_verdict cors_judge(const struct cors *c, const char *method, const char *host,
                             const struct headers *request, const char **ret_origin)
{
    const char *origin = c->origins.n ? headers_get(request, "Origin") : NULL;
    size_t scheme;

    *ret_origin = origin;
    if (!origin || !*origin) {
        return CORS_NONE;
    }
    scheme = scheme_length(origin);
    if (scheme > 0 && host && strcasecmp(origin + scheme, host) == 0) {
        return CORS_NONE;
    }
    if (!is_allowed(c, origin)) {
        return CORS_REFUSED;
    }
    return strcmp(method, "OPTIONS") == 0 ? CORS_PREFLIGHT : CORS_ALLOWED;
}

static int add_allowed_headers(const struct cors *c, struct headers *to)
{
    struct buf b = BUF_INIT(0);
    int r = c->headers.n ? 0 : buf_add_str(&b, HEADERS_DEFAULT);

    for (uint64_t i = 0; i < c->headers.n && r == 0; i++) {
        r = buf_printf(&b, "%s%s", i ? "," : "", c->headers.items[i]);
    }
    r = r < 0 ? r : headers_set(to, "Access-Control-Allow-Headers", buf_text(&b));
    buf_finish(&b);
    return r;
}

int cors_add(const struct cors *c, enum cors_verdict verdict, const char *origin,
             struct headers *to)
{
    bool all = all_origins(c);
    int r = headers_set(to, "Access-Control-Allow-Origin", all ? "*" : origin);

    if (r == 0 && !all) { /* a cache must not give one origin's answer to another */
        r = headers_add(to, "Vary", "Origin");
    }
    if (r < 0 || verdict != CORS_PREFLIGHT) {
        return r;
    }
    if (!all && (headers_add(to, "Vary", "Access-Control-Request-Method") < 0 ||
                 headers_add(to, "Vary", "Access-Control-Request-Headers") < 0)) {
        return FN_E_EXHAUSTED;
    }
    if (headers_set(to, "Access-Control-Allow-Methods", METHODS) < 0 ||
        headers_set(to, "Access-Control-Max-Age", MAX_AGE_S) < 0) {
        return FN_E_EXHAUSTED;
    }
    return add_allowed_headers(c, to);
}
