/* Fetch: the HTTP client of a node, libcurl behind "fn.http" and behind the API node's catalog.
 *
 * Exchanges block a worker; each takes a handle from a small pool, last used first, so that kept
 * connections stay warm. Streams (event and log feeds) share one thread of their own. Cancelling
 * an operation ends its exchange within FETCH_POLL_MS. */
#ifndef HTTP_FETCH_H
#define HTTP_FETCH_H

#include <base/buf.h>
#include <base/env.h>
#include <base/err.h>
#include <fn/host.h>

#define FETCH_POLL_MS         100
#define FETCH_ANSWER_MAX      (1024 * 1024) /* when a request names no limit */
#define FETCH_STREAMS_MAX     4096
#define FETCH_STREAMS_OF_MAX  (FETCH_STREAMS_MAX * 3 / 4) /* of one instance: others find room */
#define FETCH_HANDLES_KEPT    16
#define FETCH_CONNECT_MS      10000
#define FETCH_GET_TRIES_MAX   6             /* Go Fn's retry rule of the API client */
#define FETCH_GET_ANSWER_MAX  (4 * 1024 * 1024)

struct fetch;
struct fetch_get;

/* [init] env is borrowed. Starts the stream thread on the first stream. */
int fetch_create(struct env *env, struct fetch **ret, struct fn_error *reterr);
/* [init] NULL ok. No exchange and no fetch_get() may be under way; open streams end silently. */
void fetch_destroy(struct fetch *f);

/* Table for plugin_host_offer(h, "fn.http", 1, 1, fetch_if(), f). Its functions find f with
 * plugin_impl(). */
const struct fn_http_if *fetch_if(void);

/* [init] seen() is told of each exchange that a plugin had, on the worker that had it, several at a
 * time. result < 0 and status 0: no answer came. */
void fetch_watch(struct fetch *f, void (*seen)(const struct fn_http_request *rq, int result,
                                               uint32_t status, int64_t took_ns));

/* Closes every stream of an instance that is being destroyed. [init] */
void fetch_close_all(struct fetch *f, const struct fn_host *host);

/* [worker] The same exchange for the node itself; op may be NULL. *ret_retry_after_s (NULL ok):
 * what the answer says of when to come again, 0 = nothing. */
int fetch_ask(struct fetch *f, struct fn_op *op, const struct fn_http_request *rq,
              struct fn_http_answer *ret, uint32_t *ret_retry_after_s, struct fn_error *reterr);
void fetch_free_answer(struct fn_http_answer *given);

struct fetch_result {
    uint32_t status;           /* HTTP status; 0 = no complete answer came */
    const char *body;          /* borrowed, NUL-terminated; "" when there is none */
    size_t body_len;
    const struct fn_error *error; /* set when status is 0 */
};

/* GET base_url + path_and_query on the control lane. No answer and answers >= 500 are tried again,
 * up to FETCH_GET_TRIES_MAX requests with Go Fn's random waits, all within timeout_ms (1..). cb
 * runs on the loop exactly once after 0 was returned, never from inside this call. Returns
 * FN_E_INVALID for a base_url that is not http:// or https://, FN_E_EXHAUSTED when the lane is
 * full. [loop] Go Fn: api/agent/hybrid/client.go. */
int fetch_get(struct fetch *f, const char *base_url, const char *path_and_query,
              uint32_t timeout_ms, void (*cb)(void *ud, const struct fetch_result *borrowed),
              void *ud, struct fn_error *reterr);

/* [init] For programs that ask one question after the other, over one connection: to a server on a
 * unix socket (base_url names a host of no meaning then), or at "http://host:port", with or
 * without a slash behind it. */
struct fetch_client;
int fetch_client_create(const char *socket, const char *base_url, struct fetch_client **ret,
                        struct fn_error *reterr);
/* Questions carry this token from now on. 0 or FN_E_EXHAUSTED. */
int fetch_client_set_token(struct fetch_client *c, const char *token);
void fetch_client_destroy(struct fetch_client *c); /* NULL ok */
/* body NULL = none. The answer's body is the caller's to finish, also after an error. */
int fetch_client_ask(struct fetch_client *c, const char *method, const char *path,
                     const char *body, int64_t timeout_ms, int *ret_status, struct buf *ret_body,
                     struct fn_error *reterr);

/* [init] One question to a server on a unix socket; waits for the answer up to timeout_ms. The body
 * is the caller's to finish, also after an error. */
int fetch_unix(const char *socket, const char *method, const char *path, int64_t timeout_ms,
               int *ret_status, struct buf *ret_body, struct fn_error *reterr);
/* [init] GET of an answer that may go on for ever; data() gets it piece by piece and ends it by
 * < 0. 0: it has ended, whole or not. */
int fetch_unix_read(const char *socket, const char *path,
                    int (*data)(void *ud, const char *data, size_t len), void *ud,
                    struct fn_error *reterr);

#endif
