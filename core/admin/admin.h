/* Admin: the operator's socket of a node, and the client side that the command line uses.
 *
 * HTTP/1.1 over a unix socket with mode 0600; peers must be the node's user or root, by the
 * credentials that the kernel gives. Parts of a node register routes; a handler answers with one of
 * the admin_answer calls, at once or later. Nothing here is reachable over the network: whoever
 * brings requests from elsewhere (core/page) has asked who sends them. [loop] unless marked. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include <base/buf.h>
#include <http/server.h>

#define ADMIN_PATH_MAX 107u /* sun_path without its end */
#define ADMIN_PAGE_DEFAULT "127.0.0.1:0"

struct admin_options {
    const char *socket; /* absolute path, "off", NULL = admin_socket_path() */
    const char *page;   /* address of the operator's page, "off" */
    const char *page_tls; /* name of an entry of tls: for it, NULL = plain HTTP */
};
extern const struct opt_table admin_opt_table; /* `admin:`, options.c */

/* Where the socket of a node with these options is. `port`: the bound one, used where `listen`,
 * that of HTTP, says 0. FN_E_NOT_FOUND: admin.socket is off. FN_E_RANGE: the name is too long.
 * [any] */
int admin_socket_path(const struct admin_options *o, const char *listen, uint16_t port,
                      char ret[ADMIN_PATH_MAX + 1], struct fn_error *reterr);

/* ---- the node's side ------------------------------------------------------------------------- */

struct admin;
struct json_t;

struct admin_request {
    const char *method;
    const char *path;  /* without query */
    const char *rest;  /* of the path, behind the route's prefix */
    const char *query; /* or NULL */
    const char *by;    /* who asks, when not over the socket; else NULL */
    struct body *body;
    struct arena *arena; /* lives until the answer */
    struct http_request *http;
};

/* Must lead to exactly one admin_answer call. */
typedef void (*admin_handler)(void *ud, struct admin_request *rq);

/* Makes the folder of a default path (0700), takes over a dead node's socket and listens. path
 * NULL: requests come by admin_take() alone.
 * FN_E_UNAVAILABLE: another node listens there. FN_E_PERMISSION: others may write to the folder. */
int admin_create(struct loop *loop, const char *path, struct admin **ret, struct fn_error *reterr);
/* Requests that were not answered end; nobody may answer them after this. NULL ok. */
void admin_destroy(struct admin *a);
/* The longest prefix wins. method and prefix are literals: "/status" is that path alone, "/why/"
 * all that begins so. At most ADMIN_ROUTES_MAX. */
#define ADMIN_ROUTES_MAX 32u
void admin_route(struct admin *a, const char *method, const char *prefix, admin_handler handler,
                 void *ud);

/* A request that came over another port, from somebody who may ask: its path here, and a word for
 * the log, both of the request's memory. Answered as the socket's are. */
void admin_take(struct admin *a, struct http_request *http, const char *path, const char *by);

/* Each ends the request. JSON texts get a newline. */
void admin_answer_json(struct admin_request *rq, int status, const char *json);
void admin_answer(struct admin_request *rq, int status, struct json_t *given); /* jansson's */
/* {"message": text} */
void admin_refuse(struct admin_request *rq, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A long answer in parts. part() says 1: go on when more() comes. When the client leaves or the
 * node stops, gone() comes and nothing may follow. rq lives until end() or cut() is called or
 * gone() has returned. */
struct admin_stream {
    void (*more)(struct admin_stream *s);
    void (*gone)(struct admin_stream *s);
};
void admin_stream_begin(struct admin_request *rq, struct admin_stream *s);
int admin_stream_part(struct admin_request *rq, const void *data, size_t len);
void admin_stream_end(struct admin_request *rq);
void admin_stream_cut(struct admin_request *rq); /* it must not look whole */

/* ---- the command line's side ----------------------------------------------------------------- */

/* One question to a node. [init], blocks up to timeout_ms. 0 and the answer's status and body; else
 * FN_E_UNAVAILABLE "no node answers at ...", FN_E_PERMISSION, FN_E_DEADLINE. */
int admin_call(const char *socket, const char *method, const char *path, int64_t timeout_ms,
               int *ret_status, struct buf *ret_body, struct fn_error *reterr);
/* GET of an answer that may go on for ever, also one that says no: data() gets it piece by piece
 * and ends it by < 0. [init], blocks. 0 when it has ended; else as above. */
int admin_read(const char *socket, const char *path,
               int (*data)(void *ud, const char *data, size_t len), void *ud,
               struct fn_error *reterr);

#endif
