/* Api: Fn's management API, version 2, over the store.
 *
 * A request becomes one operation of the store (ask.c), its result the answer (tell.c); what routes
 * there are, and what each asks and tells, is one table (routes.c). No sockets, no database.
 * [loop] Go Fn: api/server. */
#ifndef API_API_H
#define API_API_H

#include <base/env.h>
#include <base/headers.h>
#include <model/ids.h>
#include <stdbool.h>
#include <fn/abi.h>
#include <store/store.h>

#define API_BODY_MAX (1u << 20) /* bytes of JSON; an app's or a function's configuration is in it */

/* A client's name for its request, or ours: in the answer, and in what the log says about it. */
#define API_REQUEST_ID       "Fn-Request-Id"
#define API_REQUEST_ID_BYTES 128u /* one that is longer, or not printable, is not taken */
/* Of the answer: what a page of another origin may read, where it may ask at all. */
#define API_EXPOSED_HEADERS API_REQUEST_ID ", Retry-After"

#define API_ADDRESS_BYTES 16u

struct api;
struct api_call;
struct chain;

/* `api:`; see options.c for defaults and limits. */
struct api_options {
    const char *public_url; /* where functions are called, without a path; NULL: where the API is */
    struct fn_strlist clients; /* networks whose clients may use it; n 0 = all */
    struct fn_strlist tokens;  /* see api_check_token(); n 0 = nobody is asked for one */
    uint32_t read_without_token;
    uint32_t requests_max, changes_max; /* a second, of a token or an address; 0 = no limit */
    uint32_t failures_max; /* wrong tokens of an address, then one a second; 0 = no limit */
};
extern const struct opt_table api_opt_table;

struct api_deps {
    struct env *env;
    struct store *store;
    struct id_maker *ids;
    const struct api_options *options; /* borrowed until api_set_options() */
};

/* Texts are borrowed until the answer. */
struct api_request {
    const char *method;
    const char *path;  /* not decoded */
    const char *query; /* or NULL */
    const char *scheme, *host;
    const void *body;
    size_t body_len;
    const char *peer;  /* for the log */
    const unsigned char *client; /* API_ADDRESS_BYTES: whom limits of one address hold; NULL or all
                                    zero: those of whom no address is known, as one */
    const char *authorization; /* headers, or NULL */
    const char *request_id;    /* API_REQUEST_ID */
    bool trusted;              /* the node itself asks */
};

struct api_reply {
    /* h NULL = none; everything is borrowed until it returns. */
    void (*whole)(void *ud, int status, const struct headers *h, const void *body, size_t len);
    void (*error)(void *ud, int status, const struct headers *h, const char *text);
};

/* [init] */
int api_create(const struct api_deps *deps, struct api **ret, struct fn_error *reterr);
void api_set_options(struct api *a, const struct api_options *options);
void api_destroy(struct api *a); /* no call is left; NULL ok */

/* "<name> <role> <sha256>", perhaps with patterns of names of apps behind it. FN_E_INVALID with the
 * rule. [any] */
int api_check_token(const char *text, struct fn_error *reterr);
/* Entry i has a name and a hash of its own among those before it. FN_E_INVALID with a sentence. */
int api_check_twin(const struct fn_strlist *texts, uint64_t i, struct fn_error *reterr);

bool api_owns_path(const char *path);
/* The route as Go Fn names it in metrics, or "invalid". */
const char *api_route_of(const char *path);

/* Answers once, perhaps from inside: then NULL is returned. */
struct api_call *api_submit(struct api *a, const struct api_request *rq,
                            const struct api_reply *reply, void *ud);
/* Whoever asked is not there any more; what he asked for is done all the same. */
void api_call_gone(struct api_call *c);

/* The store has changed an app, a function or a trigger (NULL: any of them): those who wait for
 * that are told. */
void api_changed(struct api *a, const char *id);
/* Nobody waits for changes any more. */
void api_end_watching(struct api *a);

/* Whose listeners hear of changes that begin from now on; NULL: nobody's. Counted, until they have
 * heard of those that began with it. FN_E_EXHAUSTED: it stays as it was. */
int api_set_chain(struct api *a, struct chain *chain);
/* idle() when no listener has to hear of a change, perhaps from inside; what a slow one has not
 * heard of in FN_LISTENER_DRAIN_S is left out. Once; no change comes any more. */
void api_drain(struct api *a, void (*idle)(void *ud), void *ud);

#endif
