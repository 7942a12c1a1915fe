/* Who is meant by "app/function" or by an id.
 *
 * Load balancers know: fn.yaml names both, else the API node is asked, another one or this one,
 * first for the app, then for its function. A runner knows ids alone, and takes whatever it is
 * given. */
#include <node/logs.h>
#include <node/node.h>

#include <jansson.h>
#include <lb/lookups.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES 1024
#define ID_CHARS       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-"

typedef void name_done(void *ud, const char *fn_id, const struct fn_error *err);

struct log_name {
    struct node *node;
    name_done *done; /* NULL: cancelled */
    void *ud;
    struct catalog_query *query; /* of an id */
    bool asking;                 /* the API node: it answers, also when nobody wants to know */
    bool has_app;
    bool inside; /* log_name_find() has not returned */
    bool told;
    char app[LOG_NAME_MAX + 1];
    char app_id[LOG_NAME_MAX + 1];
    char fn[LOG_NAME_MAX + 1];
};

static void name_end(struct log_name *q)
{
    if (!q->inside && !q->asking && !q->query) {
        free(q);
    }
}

static void name_tell(struct log_name *q, const char *fn_id, const struct fn_error *err)
{
    q->told = true;
    if (q->done) {
        q->done(q->ud, fn_id, err);
    }
}

static void name_refuse(struct log_name *q, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void name_refuse(struct log_name *q, int code, const char *fmt, ...)
{
    struct fn_error err = ERR_INIT;
    char text[FN_ERROR_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(&err, code, "%s", text);
    name_tell(q, NULL, &err);
}

/* ---- at the API node ------------------------------------------------------------------------- */

static void name_ask(struct log_name *q);

/* The id of the first of {"items": [...]}; NULL: there is none. */
static const char *first_id(const json_t *root)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(root, "items"), 0), "id"));
}

static void name_take(struct log_name *q, const char *id)
{
    if (!id || strlen(id) > LOG_NAME_MAX) {
        name_refuse(q, FN_E_NOT_FOUND, "no %s %.255s%s%.255s: the API node knows none",
                    q->has_app ? "function" : "app", q->app, q->has_app ? "/" : "",
                    q->has_app ? q->fn : "");
    } else if (q->has_app) {
        name_tell(q, id, NULL);
    } else {
        q->has_app = true;
        snprintf(q->app_id, sizeof(q->app_id), "%s", id);
        name_ask(q);
    }
}

static void name_on_answer(void *ud, uint32_t status, const char *body, size_t len,
                           const struct fn_error *err)
{
    struct log_name *q = ud;
    json_t *root = status == 200 ? json_loadb(body, len, 0, NULL) : NULL;

    q->asking = false;
    if (!q->done) {
        q->told = true;
    } else if (root) {
        name_take(q, first_id(root));
    } else {
        name_refuse(q, FN_E_UNAVAILABLE, "the API node cannot say which function this is: %.200s",
                    err ? err->msg : "its answer is no list");
    }
    json_decref(root);
    name_end(q);
}

static void name_ask(struct log_name *q)
{
    char path[PATH_MAX_BYTES];

    if (q->has_app) {
        snprintf(path, sizeof(path), "/v2/fns?app_id=%s&name=%s", q->app_id, q->fn);
    } else {
        snprintf(path, sizeof(path), "/v2/apps?name=%s", q->app);
    }
    q->asking = q->node->api.get(q->node->api.impl, path, name_on_answer, q) == 0;
    if (!q->asking) {
        name_refuse(q, FN_E_EXHAUSTED, "too much is asked of the API node; try again");
    }
}

/* ---- by name --------------------------------------------------------------------------------- */

static const struct fn_def *in_file(const struct config *c, const char *app, const char *fn)
{
    for (uint32_t i = 0; i < c->n_apps; i++) {
        const struct config_app *a = &c->apps[i];

        for (uint32_t k = 0; strcmp(a->app.name, app) == 0 && k < a->n_fns; k++) {
            if (strcmp(a->fns[k].fn.name, fn) == 0) {
                return &a->fns[k].fn;
            }
        }
    }
    return NULL;
}

static void find_name(struct log_name *q)
{
    const struct config *c = q->node->config;
    const struct fn_def *fn = in_file(c, q->app, q->fn);

    if (!q->node->lb) {
        name_refuse(q, FN_E_INVALID,
                    "this %s node knows functions by id alone: ask a load balancer for %.200s/%.200s, "
                    "or give the function's id",
                    c->type->word, q->app, q->fn);
    } else if (fn) {
        name_tell(q, fn->id, NULL);
    } else if (c->catalog->api_url || q->node->management) {
        name_ask(q);
    } else {
        name_refuse(q, FN_E_NOT_FOUND, "no function %.200s/%.200s in this node's fn.yaml", q->app,
                    q->fn);
    }
}

/* ---- by id ----------------------------------------------------------------------------------- */

static void name_on_found(void *ud, struct catalog_fn *given, const struct fn_error *err)
{
    struct log_name *q = ud;

    q->query = NULL;
    if (given) {
        name_tell(q, q->fn, NULL);
    } else {
        name_refuse(q, err->code, "function %.255s: %.200s", q->fn, err->msg);
    }
    catalog_fn_unref(given);
    name_end(q);
}

static void find_id(struct log_name *q)
{
    static const unsigned char nobody[LOOKUPS_ADDRESS];

    if (q->node->catalog) {
        q->query = catalog_find(q->node->catalog, nobody, q->fn, NULL, NULL, name_on_found, q);
    } else {
        name_tell(q, q->fn, NULL);
    }
}

/* ---- the question ---------------------------------------------------------------------------- */

static bool is_name(const char *text, size_t len)
{
    return len > 0 && len <= LOG_NAME_MAX && strspn(text, ID_CHARS) >= len;
}

static void name_begin(struct log_name *q, const char *what)
{
    const char *slash = strchr(what, '/');
    const char *fn = slash ? slash + 1 : what;

    if (!is_name(fn, strlen(fn)) || (slash && !is_name(what, (size_t)(slash - what)))) {
        name_refuse(q, FN_E_INVALID,
                    "function, got \"%.100s\"; expected APP/FUNCTION or the function's id", what);
        return;
    }
    snprintf(q->fn, sizeof(q->fn), "%s", fn);
    if (slash) {
        snprintf(q->app, sizeof(q->app), "%.*s", (int)(slash - what), what);
        find_name(q);
    } else {
        find_id(q);
    }
}

struct log_name *log_name_find(struct node *n, const char *what, name_done *done, void *ud)
{
    struct log_name *q = calloc(1, sizeof(*q));
    struct fn_error err = ERR_INIT;

    if (!q) {
        err_set(&err, FN_E_EXHAUSTED, "out of memory");
        done(ud, NULL, &err);
        return NULL;
    }
    *q = (struct log_name){ .node = n, .done = done, .ud = ud, .inside = true };
    name_begin(q, what);
    q->inside = false;
    if (q->told) {
        name_end(q);
        return NULL;
    }
    return q;
}

void log_name_cancel(struct log_name *q)
{
    if (!q) {
        return;
    }
    q->done = NULL;
    if (q->query) {
        catalog_cancel(q->query);
        q->query = NULL;
    }
    name_end(q);
}
