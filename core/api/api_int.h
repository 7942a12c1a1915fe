/* Private to the API: its files share these. */
#ifndef API_API_INT_H
#define API_API_INT_H

#include <api/api.h>

#define API_PARAMS_MAX 3u

struct api {
    struct api_deps deps;
    const struct api_options *options;
};

struct api_call {
    struct api *api;
    struct arena arena; /* it lives here; the store's while the operation is there */
    const struct api_route *route;
    const char *params[API_PARAMS_MAX]; /* of the path, decoded */
    const char *base;                   /* of the URLs that are made, without a slash behind */
    const struct api_request *rq;       /* while it is asked; NULL later */
    struct api_reply reply;
    void *ud;
    const char *peer; /* whose change it is, for the log */
    bool gone;
    bool not_json; /* what is wrong with the body is a detail of "Invalid JSON" */
    struct store_op op;
};

struct api_route {
    const char *method;
    const char *pattern; /* ":x" is a segment, "*x" all that is left, with its slash */
    const struct store_verb *verb; /* NULL: gone for good, 410 */
    int (*ask)(struct api_call *c, struct fn_error *reterr);
    int (*tell)(struct api_call *c, struct buf *out); /* NULL: 204 without a body */
};

extern const struct api_route api_routes[]; /* routes.c; method NULL ends */

/* Whether a path is one of the pattern; params may be NULL. */
bool route_matches(const char *pattern, const char *path, struct arena *arena,
                   const char **ret_params);

/* ---- requests (ask.c) ------------------------------------------------------------------------ */

int ask_app(struct api_call *c, struct fn_error *reterr); /* the one whose id is in the path */
int ask_fn(struct api_call *c, struct fn_error *reterr);
int ask_trigger(struct api_call *c, struct fn_error *reterr);
int ask_new_app(struct api_call *c, struct fn_error *reterr);
int ask_new_fn(struct api_call *c, struct fn_error *reterr);
int ask_new_trigger(struct api_call *c, struct fn_error *reterr);
int ask_app_change(struct api_call *c, struct fn_error *reterr);
int ask_fn_change(struct api_call *c, struct fn_error *reterr);
int ask_trigger_change(struct api_call *c, struct fn_error *reterr);
int ask_apps(struct api_call *c, struct fn_error *reterr); /* lists */
int ask_fns(struct api_call *c, struct fn_error *reterr);
int ask_triggers(struct api_call *c, struct fn_error *reterr);
int ask_source(struct api_call *c, struct fn_error *reterr);

/* ---- answers (tell.c): 0 or FN_E_EXHAUSTED --------------------------------------------------- */

int tell_app(struct api_call *c, struct buf *out);
int tell_fn(struct api_call *c, struct buf *out);      /* with the URL where it is called */
int tell_trigger(struct api_call *c, struct buf *out); /* the same */
int tell_plain_fn(struct api_call *c, struct buf *out);
int tell_plain_trigger(struct api_call *c, struct buf *out);
int tell_apps(struct api_call *c, struct buf *out);
int tell_fns(struct api_call *c, struct buf *out);
int tell_triggers(struct api_call *c, struct buf *out);

/* ---- pages of lists (page.c) ----------------------------------------------------------------- */

/* A value of the query, decoded, "" if there is none or it cannot be decoded. */
const char *query_get(struct arena *arena, const char *query, const char *name);
/* Reads per_page and cursor. FN_E_INVALID with 400. */
int page_read(struct api_call *c, struct fn_error *reterr);
/* The cursor behind an item; fn_id NULL: of what has a name alone. NULL: out of memory. */
const char *page_cursor(struct arena *arena, const char *name, const char *fn_id);

#endif
