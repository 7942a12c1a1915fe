/* Private to the API: its files share these. */
#ifndef API_API_INT_H
#define API_API_INT_H

#include <api/api.h>
#include <base/metric.h>
#include <fn/listener.h>

#define API_PARAMS_MAX 3u
#define CHANGES_KEPT   1024u /* whoever missed more asks for everything again */
#define WATCHERS_MAX   4096u /* load balancers that wait at a time */

#define TOKEN_HASH_BYTES   32u /* SHA-256 */
#define LIMIT_SECRET_BYTES 16u
#define LIMIT_SETS         256u /* with their entries 32 KiB: 2048 that ask at a time */
#define LIMIT_WAYS         8u
#define LIMIT_REASONS_N    3u

TAILQ_HEAD(api_calls, api_call);

/* The last changes, numbered from 1, of this process. */
struct changes {
    struct env *env;
    char process[CALL_ID_LEN + 1];
    uint64_t n; /* the newest one's number */
    char ids[CHANGES_KEPT][CALL_ID_LEN + 1];
    struct api_calls waiting; /* for the next one */
    uint32_t waiting_n;
    struct env_task tell; /* those who wait, of all that changed in one turn */
    bool draining;
};

struct limit_entry {
    uint64_t tag;     /* hash of whose it is, and of what it counts */
    int64_t until_ns; /* it says nothing from then on */
};

struct limits {
    unsigned char secret[LIMIT_SECRET_BYTES];
    struct limit_entry entries[LIMIT_SETS][LIMIT_WAYS];
    struct metric *refused[LIMIT_REASONS_N];
};

struct hooks; /* hooks.c: a line of changes in front of the listeners of one chain */

struct api {
    struct api_deps deps;
    const struct api_options *options;
    struct limits limits;
    struct changes changes;
    struct hooks *hooks;          /* for what begins now; NULL: nobody hears of it */
    LIST_HEAD(, hooks) all_hooks; /* and those before it, whose listeners have not heard of all */
    uint32_t heard; /* changes of all lines, from before_change() to after_change() */
    void (*idle)(void *ud);
    void *idle_ud;
    struct env_timer idle_timer;
};

/* A change's way past listeners. */
struct hook {
    struct hooks *line; /* NULL: none is interested */
    struct fn_change change;
    struct buf json;
    bool made;     /* the store has it: after_change() */
    bool given_up; /* the client was told so, while a listener still has it */
    int64_t due_ns;
    struct env_timer due;
    int result; /* of before_change() */
    struct fn_error error;
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
    const char *request_id; /* NULL: the node itself asks */
    const char *who;  /* the name of his token; NULL: none was asked for */
    bool gone;
    bool not_json; /* what is wrong with the body is a detail of "Invalid JSON" */
    uint64_t seen; /* of a watcher: the newest change that it knows */
    struct env_timer patience; /* of one that waits */
    TAILQ_ENTRY(api_call) link; /* of one that waits: for changes, or for listeners */
    struct hook hook;
    struct store_op op;
};

/* Each may what the one before it may. */
enum api_role { ROLE_READ, ROLE_DEPLOY, ROLE_ADMIN };

struct api_route {
    const char *method;
    const char *pattern; /* ":x" is a segment, "*x" all that is left, with its slash */
    enum api_role needs;
    const struct store_verb *verb; /* NULL: not for the store */
    /* NULL: gone for good, 410. 1: answered. */
    int (*ask)(struct api_call *c, struct fn_error *reterr);
    int (*tell)(struct api_call *c, struct buf *out); /* NULL: 204 without a body */
};

extern const struct api_route api_routes[]; /* routes.c; method NULL ends */

/* Whether a path is one of the pattern; params may be NULL. */
bool route_matches(const char *pattern, const char *path, struct arena *arena,
                   const char **ret_params);

/* token.c: whether who sent the request may. FN_E_* with 401, 403 or 429. */
int token_check(struct api_call *c, struct fn_error *reterr);
/* Behind it, of a token that is bound to apps: FN_E_PERMISSION with 403 for an app of another name
 * that is to be made, and for what is about all apps. */
int token_check_app(const struct api_call *c, const char *name, struct fn_error *reterr);
int token_check_all(const struct api_call *c, struct fn_error *reterr);

/* ---- how often (limit.c) --------------------------------------------------------------------- */

void limits_init(struct limits *l, struct env *env);
/* One more, of a token (its hash) or with NULL of the address. FN_E_EXHAUSTED with 429. */
int limit_request(struct api_call *c, const unsigned char *token, struct fn_error *reterr);
/* Before anybody looks whether a token is right: FN_E_EXHAUSTED with 429. Then what it was. */
int limit_guess(struct api_call *c, const unsigned char *token, struct fn_error *reterr);
void limit_guessed(struct api_call *c, const unsigned char *token, bool right);

/* ---- answers (answer.c) ---------------------------------------------------------------------- */

/* With the request's id; without memory for it the answer is still right. */
void api_call_headers(struct api_call *c, struct headers *h);
void api_call_reply(struct api_call *c); /* with what tell() of its route writes */
void api_call_reply_with(struct api_call *c, int status, const char *type, const void *body,
                         size_t len); /* type may be NULL */
void api_call_fail(struct api_call *c, int code, const struct fn_error *e); /* with an error */
void api_call_free(struct api_call *c); /* one that may be with listeners: hooks_end() */
void api_call_end(struct api_call *c);  /* the answer, if somebody is there, and its memory */

/* ---- listeners of changes (hooks.c) ---------------------------------------------------------- */

/* store_submit(), behind listeners where one wants to be asked. */
int hooks_submit(struct api_call *c, struct fn_error *reterr);
/* The change is made. True: listeners hear of it, the answer was given, and the call is theirs. */
bool hooks_tell(struct api_call *c);
void hooks_end(struct api_call *c); /* the call, which may be with them, is over: its memory too */

/* ---- what changed (changes.c) ---------------------------------------------------------------- */

void changes_init(struct changes *s, struct env *env, const struct id_maker *ids);
int ask_changes(struct api_call *c, struct fn_error *reterr);
int tell_changes(struct api_call *c, struct buf *out);
void changes_leave(struct api_call *c); /* it waits no more */
bool changes_has(const struct api_call *c); /* it waits */

/* ---- requests (ask.c) ------------------------------------------------------------------------ */

int ask_one(struct api_call *c, struct fn_error *reterr); /* whose id is in the path */
int ask_new(struct api_call *c, struct fn_error *reterr);
int ask_change(struct api_call *c, struct fn_error *reterr);
int ask_list(struct api_call *c, struct fn_error *reterr);
int ask_source(struct api_call *c, struct fn_error *reterr);

/* ---- answers (tell.c): 0 or FN_E_EXHAUSTED --------------------------------------------------- */

int tell_one(struct api_call *c, struct buf *out); /* with the URL where it is called */
int tell_plain(struct api_call *c, struct buf *out);
int tell_list(struct api_call *c, struct buf *out);

/* ---- pages of lists (page.c) ----------------------------------------------------------------- */

/* A value of the query, decoded, "" if there is none or it cannot be decoded. */
const char *query_get(struct arena *arena, const char *query, const char *name);
/* FN_E_INVALID with 400: a value that is no UTF-8. */
int query_check(struct arena *arena, const char *query, struct fn_error *reterr);
/* Reads per_page and cursor. FN_E_INVALID with 400. */
int page_read(struct api_call *c, struct fn_error *reterr);
/* The cursor behind an item; fn_id NULL: of what has a name alone. NULL: out of memory. */
const char *page_cursor(struct arena *arena, const char *name, const char *fn_id);

#endif
