/* HTTP server: strict parsing under limits, bodies buffered under a budget, answers streamed.
 *
 * One struct http_request per request, owned by the server; the handler gets it when the whole body
 * is there and answers with the http_answer_* calls. Refusals of bad requests, time limits and
 * connection counts are the server's business. Everything is [loop]. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <base/body.h>
#include <base/headers.h>
#include <base/log.h>
#include <loop/loop.h>
#include <net/network.h>
#include <net/tls.h>

struct http_server;
struct http_request;
struct http_protocol;

/* Part of `http:`; see options.c for defaults and bounds. */
struct http_limits {
    int64_t header_bytes_max;      /* FN_MAX_REQUEST_HEADER_SIZE */
    int64_t headers_max;
    int64_t request_line_max;
    int64_t body_bytes_max;        /* FN_MAX_REQUEST_SIZE; 0 = none */
    int64_t header_timeout_ns;     /* FN_REQUEST_HEADER_READ_TIMEOUT, absolute */
    int64_t body_timeout_ns;       /* FN_REQUEST_BODY_READ_TIMEOUT, absolute */
    int64_t body_rate_min;         /* bytes per second after 10 s */
    int64_t write_stall_ns;        /* FN_RESPONSE_WRITE_TIMEOUT, without progress */
    int64_t idle_timeout_ns;       /* FN_HTTP_IDLE_TIMEOUT */
    int64_t connections_max;
    int64_t connections_per_ip_max; /* of IPv6 a /64 is one */
    struct fn_strlist proxies; /* networks that are not held to it; borrowed by
                                  http_server_set_limits() while that runs */
    const char *client_from; /* "connection", or the header in which they name their client;
                                borrowed the same way; NULL = connection */
    int64_t requests_per_connection_max;
    int64_t out_bytes_high;        /* answer bytes buffered per request before on_writable is
                                      needed */
    bool h2;                       /* HTTP/2 for clients that offer it */
    int64_t h2_streams_max;        /* requests at a time on a connection of HTTP/2 */
};

/* Where the node's HTTP port is. */
struct http_port {
    const char *listen; /* "host:port", "[::]:port", ":port", "unix:/path" */
    const char *tls; /* name of an entry of tls:, NULL = plain HTTP */
};
extern const struct opt_table http_limits_table, http_port_table;

struct http_server_config {
    const char *name;   /* of the port in metrics (net/port_counts.h), a literal */
    const char *listen; /* "host:port", "[::]:port", ":port", "unix:/path" */
    struct http_limits limits;
    struct budget *bodies; /* borrowed; memory of all bodies */
    bool owner_only; /* "unix:" only: mode 0600, and peers are this user or root (SO_PEERCRED) */
    struct net_identity *identity; /* ref taken; NULL or plain: HTTP, else HTTPS */
    const struct http_protocol *h2; /* of core/http/h2; NULL: HTTP/1.1 alone */
    struct fn_strlist refuse_interfaces; /* see net_came_by(); copied */
    /* A complete request. The handler sets req->ud and req callbacks, answers now or later. */
    void (*on_request)(void *ud, struct http_request *req);
    void *ud;
};

/* What the handler may read and set. */
struct http_request {
    bool h2;             /* it came by HTTP/2 */
    const char *method;  /* "GET" */
    const char *target;  /* as sent, "/t/app/x?q=1" */
    const char *path;    /* without query, not decoded */
    const char *query;   /* without '?', or NULL */
    const char *host;    /* Host header */
    struct headers headers; /* names as sent, in canonical form */
    struct body *body;   /* never NULL; borrowed until the answer ends: body_ref() to keep it */
    struct arena *arena; /* the request's; freed after the answer ended */
    char peer[64];       /* "10.0.0.7:51234" */
    struct net_address client; /* whom limits per address hold; all zero: nobody in particular */
    int64_t received_ns; /* header block complete */
    /* set by the handler: */
    void *ud;
    void (*on_gone)(struct http_request *req);     /* client went away; answer calls do nothing */
    void (*on_writable)(struct http_request *req); /* after http_answer_data() returned 1 */
};

int http_server_create(struct loop *loop, const struct http_server_config *config,
                       struct http_server **ret, struct fn_error *reterr);
/* For what begins from now on; open connections stay, also beyond a lower number. */
void http_server_set_limits(struct http_server *s, const struct http_limits *limits);
/* Stops accepting; running connections end with "Connection: close". A request may be on its way on
 * an idle one: it is closed when none came within grace_ns, at once when that is 0. */
void http_server_drain(struct http_server *s, int64_t grace_ns);
/* Draining: no connection can bring a request that is to be served. */
bool http_server_is_calm(const struct http_server *s);
/* Connections still open. */
uint32_t http_server_connections(const struct http_server *s);
void http_server_destroy(struct http_server *s); /* closes everything at once; NULL ok */
/* The port that was bound (for listen on port 0). */
uint16_t http_server_port(const struct http_server *s);

/* The complete answer in one call. Content-Type etc. are in h (NULL = none); Content-Length, Date
 * and Connection are added. */
void http_answer(struct http_request *req, int status, const struct headers *h, const void *body,
                 size_t len);
/* {"message": text}, in Fn's shape with a trailing newline. */
void http_answer_error(struct http_request *req, int status, const struct headers *h,
                       const char *text);
/* Streamed: head (content_length < 0 = chunked), data, end. 1 from data = wait for on_writable. */
void http_answer_head(struct http_request *req, int status, const struct headers *h,
                      int64_t content_length);
int http_answer_data(struct http_request *req, const void *data, size_t len);
void http_answer_end(struct http_request *req);
/* The answer cannot be completed: cuts the connection so that it never looks whole. */
void http_answer_abort(struct http_request *req);

#endif
