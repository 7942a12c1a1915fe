/* H2: gRPC over HTTP/2 connections on the loop, the transport of this room. Everything is [loop].
 *
 * A connection (h2.c) is an nghttp2 session over a net_io. What is to be sent is gathered and
 * written once, at the end of the loop's turn, so that the frames of many streams share a system
 * call. A stream (h2_stream.c) carries gRPC messages in both directions.
 *
 * Callbacks come from the loop only, never from inside a function of this file that the same owner
 * called, none after the object was closed. Owners may close any object inside a callback. */
#ifndef RPC_H2_H
#define RPC_H2_H

#include <base/buf.h>
#include <base/env.h>
#include <base/err.h>
#include <model/grpc.h>
#include <net/io.h>

/* Receive windows. A stream's bounds what a paused one holds; the connection's only says how much
 * may be on its way. */
#define H2_STREAM_WINDOW_BYTES (1 << 20)
#define H2_CONN_WINDOW_BYTES   (16 << 20)
#define H2_HEADERS_MAX_BYTES   (32u << 10) /* header list of a call; larger ones are refused */
#define H2_HEADERS_BREAK_BYTES (256u << 10) /* a list of this size ends its connection */
#define H2_ANSWER_MS           5000 /* of a ping, and between connection and SETTINGS */
#define H2_PART_MS             1000 /* a drained client's time to close its side */
#define H2_PINGS_APART_MS      310000 /* of a client: Go's servers count those within 5 minutes */

/* Frames of a peer per second; more of them end its connection. */
#define H2_CONTROLS_MAX 5000  /* SETTINGS, PING, PRIORITY, empty DATA */
#define H2_RESETS_MAX   20000 /* RST_STREAM */

struct h2; /* what the connections of an rpc share */
struct h2_conn;
struct h2_stream;

struct h2_limits {
    uint32_t message_max_bytes;
    uint64_t memory_max_bytes; /* received and not yet taken, of all connections */
    uint32_t streams_max;      /* of a client's connection */
    int64_t client_silence_ms; /* a server pings a client after that; 0 = never */
    int64_t left_silence_ms;   /* the same of a client's connection that is left with calls on it */
    uint32_t calls_max;        /* of ours on one connection; 0 = as many as HTTP/2 has ids for */
};

int h2_create(struct env *env, const struct h2_limits *limits, struct h2 **ret);
/* Connections that are left end without callbacks. NULL ok. */
void h2_destroy(struct h2 *h);

/* ---- connections ----------------------------------------------------------------------------- */

/* What came in the headers of a request or an answer; texts that were cut or absent are "". */
struct h2_head {
    size_t bytes; /* of the whole list */
    bool too_big;
    bool is_post;
    bool is_grpc; /* content-type */
    bool encoded; /* grpc-encoding is not identity */
    int http_status;
    int grpc_status; /* -1: none */
    int64_t timeout_ns; /* 0: none */
    char path[128];
    char request_id[256];
    char message[512];
};

struct h2_conn_cb {
    void (*ready)(void *ud); /* client: the peer's settings came */
    void (*going)(void *ud); /* client: it takes no more calls; those that run may end */
    /* Server: a call. The owner that h2_stream_adopt() names hears more of it. */
    void (*request)(void *ud, struct h2_stream *st, const struct h2_head *head);
    /* The last one; the connection is gone, its streams are told next. why: borrowed. */
    void (*closed)(void *ud, const char *why);
};

/* Takes io over. authority NULL = a server's connection. NULL: out of memory, io is closed. */
struct h2_conn *h2_conn_create(struct h2 *h, struct net_io *io, const char *authority, bool tls,
                               const struct h2_conn_cb *cb, void *ud);
bool h2_conn_takes_calls(const struct h2_conn *c); /* client: ready and not going */
int64_t h2_conn_heard_ns(const struct h2_conn *c); /* when bytes last came */
/* Client: as many calls run as the peer lets in; another one would wait for the end of one. */
bool h2_conn_is_full(const struct h2_conn *c);
void h2_conn_ping(struct h2_conn *c); /* the answer counts as heard */
/* The connection is of no use: its streams end with UNAVAILABLE and this text, then closed(). */
void h2_conn_break(struct h2_conn *c, const char *why);
/* The owner lets it go: no callbacks; it is closed behind its last stream. Nobody probes it any
 * more, so it looks at the peer's silence itself. */
void h2_conn_leave(struct h2_conn *c);
/* Server: GOAWAY; closed() comes when the last stream has ended and the client has read it. */
void h2_conn_drain(struct h2_conn *c);
/* At once; neither its owner nor those of its streams hear of it. */
void h2_conn_close(struct h2_conn *c);

/* ---- streams --------------------------------------------------------------------------------- */

struct h2_stream_cb {
    /* One message; borrowed. Not while the stream is paused. */
    void (*message)(void *ud, const void *data, size_t len);
    /* Server: the peer will send no more; in order with the messages, so not while paused. May be
     * NULL. */
    void (*half_closed)(void *ud);
    /* What waits to be sent fell to the low mark. May be NULL. */
    void (*writable)(void *ud);
    /* The last one, exactly once, behind all messages that came; then the owner closes the stream.
     * Server: the peer went away. refused: the transport says that the call was not processed. */
    void (*ended)(void *ud, int status, const char *text, bool refused);
};

struct h2_call {
    const char *path;
    const char *request_id; /* NULL ok */
    int64_t deadline_ns;    /* 0 = none */
    size_t low_mark;
};

/* A call on a connection that takes calls. NULL: out of memory. */
struct h2_stream *h2_stream_open(struct h2_conn *c, const struct h2_call *call,
                                 const struct h2_stream_cb *cb, void *ud);
/* Server, inside request(). */
void h2_stream_adopt(struct h2_stream *st, const struct h2_stream_cb *cb, void *ud,
                     size_t low_mark);
/* Releases a stream; one that has not ended is cancelled. No callback after this. */
void h2_stream_close(struct h2_stream *st);

/* Where framed messages (wire.h) are appended; then h2_stream_wrote(). */
struct buf *h2_stream_out(struct h2_stream *st);
void h2_stream_wrote(struct h2_stream *st);
int h2_stream_send(struct h2_stream *st, const void *data, size_t len); /* frames; FN_E_EXHAUSTED */
size_t h2_stream_queued(const struct h2_stream *st); /* not given to the connection yet */
/* Everything appended so far is what h2_stream_is_sent() asks for. */
void h2_stream_mark(struct h2_stream *st);
/* Whether the last byte before the mark was given to the socket. */
bool h2_stream_is_sent(const struct h2_stream *st);
/* Client: headers came, and not as the end in place of an answer. */
bool h2_stream_is_answered(const struct h2_stream *st);
void h2_stream_half_close(struct h2_stream *st); /* client: nothing more is appended */
/* Server: ends the stream behind what is queued and releases it. */
void h2_stream_finish(struct h2_stream *st, int status, const char *text);
/* The same; what is queued is dropped. */
void h2_stream_abort(struct h2_stream *st, int status, const char *text);
/* The same with an HTTP status and nothing else; only before anything was sent. */
void h2_stream_refuse(struct h2_stream *st, const char *http_status);
void h2_stream_pause(struct h2_stream *st, bool paused);
int64_t h2_stream_deadline_ns(const struct h2_stream *st); /* 0 = none */
const struct net_io *h2_stream_io(const struct h2_stream *st); /* NULL: the connection is gone */

#endif
