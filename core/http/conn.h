/* Connections of HTTP/1.1.
 *
 * A connection's states:
 *
 *   SHAKE -> HEAD -> BODY -> CALL -> FLUSH -> HEAD | LINGER | gone
 *
 *   SHAKE   under TLS: the handshake runs; whoever chooses HTTP/2 in it leaves for core/http/h2
 *   HEAD    waits for, or has part of, a request head; idle when `in` is empty
 *   BODY    the head was good, the body is being read; req exists, the handler does not know it yet
 *   CALL    the handler has the request; the answer may be streaming
 *   FLUSH   the answer is complete, its last bytes wait for the socket
 *   LINGER  nothing more will be read as a request; input is thrown away until the client closes,
 *           so that unread input does not turn our close into a reset that eats the answer
 *   DEAD    closed while one of our functions is still using it; freed when that one returns */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include <base/states.h>
#include <http/server_int.h>

#define PIPELINE_MAX   65536 /* bytes read ahead while a call runs */
#define CORK_BYTES     16384 /* smaller pieces of an answer wait for the end of the turn */

enum conn_state {
    CONN_SHAKE,
    CONN_HEAD,
    CONN_BODY,
    CONN_CALL,
    CONN_FLUSH,
    CONN_LINGER,
    CONN_DEAD,
    CONN_STATES_N
};
extern const struct states conn_states;

struct conn {
    struct net_io *io;
    struct http_server *s;
    TAILQ_ENTRY(conn) link;
    struct turn turn;
    struct visitor *peer_count; /* NULL for unix sockets */
    struct env_timer timer;
    struct env_task later;
    enum conn_state state;
    uint32_t busy;     /* our functions on the stack that use it after calling out */
    bool reading;      /* wants to read */
    bool stranger;     /* its certificate names no peer */
    bool broken;       /* a write failed */
    bool full;         /* the socket took less than it was given */
    bool eof;          /* the client sends nothing more */
    bool close;        /* after the running answer */
    bool linger;       /* ... and there may be unread input */
    bool fresh;        /* no request yet */
    uint32_t requests_n;
    int64_t deadline_ns; /* of the state; 0 = none */
    int64_t stall_ns;    /* of pending output; 0 = none pending */
    struct parse_seek seek;
    struct buf in;  /* read and not yet consumed */
    struct buf out; /* from out_off on: not yet written */
    size_t out_off;
    struct request *req;
    struct parse_framing framing;
    struct chunked chunked;
    uint64_t body_left;
    struct intake intake;
    uint64_t lingered_bytes;
};

/* server_conn.c */
/* Takes the descriptor; closes it when out of memory. */
void conn_create(struct http_server *s, int fd, const char *peer, struct visitor *peer_count);
void conn_begin(struct conn *c); /* waits for its first request */
/* Another protocol takes the stream and what is counted; c is gone. */
void conn_hand_over(struct conn *c, struct net_io **ret_io, struct visitor **ret_peer_count);
void conn_drain(struct conn *c);   /* nothing runs on it: closes now, or when no request comes */
void conn_gone(struct conn *c);    /* closes and tells the handler, if a request runs */
void conn_reset(struct conn *c);   /* the same, with RST */
void conn_answered(struct conn *c);       /* the answer is complete and in `out` */
void conn_put(struct conn *c, const void *data, size_t len);  /* into `out` */
void conn_push(struct conn *c, const void *a, size_t a_len, const void *b, size_t b_len);
void conn_refuse(struct conn *c, const struct refusal *r);
static inline size_t conn_pending(const struct conn *c)
{
    return c->out.len - c->out_off;
}
/* Everything is the kernel's. */
static inline bool conn_is_flushed(const struct conn *c)
{
    return conn_pending(c) == 0 && !c->full;
}

/* server_shake.c */
int conn_shake(struct conn *c); /* goes on with conn_begin(), or with conn_gone() */

/* conn_answer.c */
extern const struct answer_ops conn_answer_ops;

#endif
