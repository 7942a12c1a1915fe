/* A client of HTTP/2 for the tests of core/http/h2: nghttp2's, over a pair of sockets whose other
 * end the server of client.h has adopted, as it would after a handshake. */
#ifndef TEST_HTTP_H2_CLIENT_H
#define TEST_HTTP_H2_CLIENT_H

#include "client.h"

#include <base/buf.h>
#include <nghttp2/nghttp2.h>

#define H2_STREAMS_MAX 600

struct h2_answer {
    int status;     /* 0: none yet */
    bool went_on;   /* 100 came */
    bool closed;
    uint32_t code;  /* with which it was closed */
    bool whole;     /* END_STREAM came */
    struct buf head, body; /* head: "name: value" lines, in order */
    const char *send; /* the request's body */
    size_t send_len;
    bool send_open;  /* the body does not end */
};

struct h2_client {
    int fd;
    nghttp2_session *session;
    struct buf out;       /* made and not sent, for those who cut it */
    bool hung_up;         /* the server's end was read */
    bool goaway;          /* an error, or an end without one */
    uint32_t goaway_code; /* of the last GOAWAY */
    int32_t goaway_last;
    bool slow;            /* gives no window back */
    struct h2_answer answers[H2_STREAMS_MAX]; /* by (id - 1) / 2 */
};

/* Prepares the server of server_start() for them. */
void h2_serve(void);
/* A connection from `address`, "10.0.0.1", or NULL: of nobody in particular. window: of each of its
 * streams; 0 = the usual one. */
void h2_open(struct h2_client *c, const char *address, uint32_t window);
void h2_close(struct h2_client *c);
/* When all are closed: waits until the server has counted everything out, and stops it. */
void h2_stop(void);

/* Pairs of names and values, ended by NULL; a body with NULL len -1: the head is not the end. The
 * id. Nothing is sent yet. */
int32_t h2_submit(struct h2_client *c, const char *const *fields, const char *body, ssize_t len);
int32_t h2_get(struct h2_client *c, const char *path);
/* The bytes that nghttp2 has for the server. */
void h2_make(struct h2_client *c);
void h2_send(struct h2_client *c); /* these */
/* Sends and reads until the stream is closed or the connection is. */
struct h2_answer *h2_await(struct h2_client *c, int32_t id);
void h2_await_goaway(struct h2_client *c); /* ... or the end */
void h2_await_end(struct h2_client *c);    /* the server hangs up */
/* The same for conversations that are not in the client's own books: reads frames, no answers. */
void h2_end_raw(struct h2_client *c);
/* One round: sends what there is, reads what comes. false: nothing came for 20 ms. */
bool h2_round(struct h2_client *c);
struct h2_answer *h2_answer_of(struct h2_client *c, int32_t id);
void h2_expect(struct h2_client *c, int32_t id, int status, const char *part);
/* A frame of one's own. */
void h2_frame(struct h2_client *c, int type, int flags, int32_t id, const void *payload,
              size_t len);

#endif
