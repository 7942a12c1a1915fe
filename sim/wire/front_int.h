/* A connection of a client, and the request on it: in the clear or under TLS (front_tls.c), by
 * HTTP/1.1 (front_h1.c) or HTTP/2 (front_h2.c). What a protocol has to say goes into `plain`. */
#ifndef FND_WIRE_FRONT_INT_H
#define FND_WIRE_FRONT_INT_H

#include "../world/front.h"

#include <base/buf.h>
#include <http_parser.h>
#include <loop/loop.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#define OUTCOME_BYTES 32
#define TOLD_BYTES    100 /* of an answer that cannot be read */

struct front_call {
    LIST_ENTRY(front_call) entry;
    struct front *front;
    struct loop_fd w;
    struct env_timer patience;
    const struct front_cb *cb; /* NULL: it is kept, and has no request */
    uint32_t seq;
    void *ud;
    struct buf plain; /* of the protocol, for TLS or the socket */
    struct buf out;   /* for the socket */
    size_t sent;      /* of it */
    SSL *ssl;         /* NULL: in the clear */
    nghttp2_session *h2; /* NULL: HTTP/1.1 */
    bool met;   /* whom it has dialled is who answers */
    bool stray; /* bytes came that nobody has asked for */
    bool headed, paused;
    bool ended; /* by the answer's last byte, or the stream's end */
    enum front_end how;
    bool keep;
    char outcome[OUTCOME_BYTES];
    /* HTTP/1.1 */
    http_parser parser;
    char name[OUTCOME_BYTES];
    bool in_outcome; /* the value of a header is being read */
    /* HTTP/2 */
    struct buf body;
    size_t body_sent;
    int32_t stream;
    int status;
    bool whole;
};

struct node *front_node(const struct front_call *c);
/* The head is there; a piece of the body. */
void front_head(struct front_call *c, int status);
void front_body(struct front_call *c, int status, const char *data, size_t len);
/* The answer of this request is none. */
void front_garbage(struct front_call *c, const char *why, const char *data, size_t len);

/* ---- front_h1.c, front_h2.c ------------------------------------------------------------------ */

void h1_ask(struct front_call *c, const struct front_request *rq);
void h1_take(struct front_call *c, const char *data, size_t len);

void h2_begin(struct front_call *c); /* of a connection */
void h2_ask(struct front_call *c, const struct front_request *rq);
void h2_take(struct front_call *c, const char *data, size_t len);
void h2_cancel(struct front_call *c);
void h2_end(struct front_call *c); /* its connection is gone */

/* ---- front_tls.c ----------------------------------------------------------------------------- */

void tls_start(struct front_call *c, const char *alpn); /* "h2" or "http/1.1" */
/* What `plain` has goes into `out`, as soon as hands are shaken. */
void tls_put(struct front_call *c);
/* Bytes of the socket; take() gets those that were in them. False: they are no TLS. */
bool tls_take(struct front_call *c, const char *data, size_t len,
              void (*take)(struct front_call *c, const char *data, size_t len));
void tls_end(struct front_call *c);

#endif
