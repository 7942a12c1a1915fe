/* Transport: gRPC over HTTP/2 connections on the loop, as a table. Everything is [loop].
 *
 * A transport is a struct rpc_transport and what stands behind it: nghttp2/ (built in) and core/
 * (gRPC C core, a shared object of its own, transport.c); life.h is what their connections and
 * streams share. Everything above this file is one copy and does not know which one it has.
 * docs/transport.md is for whoever writes a third.
 *
 * A connection carries gRPC streams over a stream of core/net that is connected already: TLS, names
 * of peers, dialling and listening are not a transport's business. What is to be sent is gathered
 * and written once, at the end of the loop's turn, so that many streams share a system call.
 *
 * Callbacks come from the loop only, never from inside a function that the same owner called, none
 * after the object was closed. Owners may close any object inside a callback.
 *
 * Proofs. At most once rests on two answers: rpc_stream_is_sent() and `refused` of ended(). A
 * transport that does not know must say "sent" and "not refused". What a peer writes into headers,
 * trailers or texts proves nothing; frames do. */
#ifndef RPC_TRANSPORT_H
#define RPC_TRANSPORT_H

#include <base/buf.h>
#include <base/env.h>
#include <base/err.h>
#include <model/grpc.h>
#include <net/io.h>

/* Receive windows. A stream's bounds what a paused one holds; the connection's only says how much
 * may be on its way. */
#define RPC_STREAM_WINDOW_BYTES (1 << 20)
#define RPC_CONN_WINDOW_BYTES   (16 << 20)
#define RPC_HEADERS_MAX_BYTES   (32u << 10) /* header list of a call; larger ones are refused */
#define RPC_HEADERS_BREAK_BYTES (256u << 10) /* a list of this size ends its connection */
#define RPC_PART_MS             1000 /* a drained client's time to close its side */
#define RPC_PINGS_APART_MS      310000 /* of a client: Go's servers count those within 5 minutes */
#define RPC_PREFIX_BYTES        5u /* of a gRPC message: compressed flag, length */

/* Frames of a peer per second; more of them end its connection. */
#define RPC_CONTROLS_MAX 5000  /* SETTINGS, PING, PRIORITY, empty DATA */
#define RPC_RESETS_MAX   20000 /* RST_STREAM */

/* What calls are ended with when rpc_limits' memory_max_bytes is reached. */
#define RPC_TOO_MUCH_HELD "too much memory is held by received messages"

struct rpc_limits {
    uint32_t message_max_bytes;
    uint64_t memory_max_bytes; /* received and not yet taken, of all connections: stream_hold() */
    uint32_t streams_max;      /* of a client's connection */
    int64_t client_silence_ms; /* a server pings a client after that; 0 = never */
    int64_t left_silence_ms;   /* the same of a client's connection that is left with calls on it */
    int64_t answer_ms;         /* of a ping, and between connection and SETTINGS */
    uint32_t calls_max;        /* of ours on one connection; 0 = as many as HTTP/2 has ids for */
};

/* What a transport's own objects begin with: what the connections of an rpc share, a connection
 * (life.h), a stream. */
struct transport {
    const struct rpc_transport *table;
    struct env *env;
    struct rpc_limits limits;
    LIST_HEAD(, rpc_conn) conns;
    LIST_HEAD(, rpc_stream) holders; /* of messages that came and were not taken */
    uint64_t held_bytes;             /* theirs */
};
struct rpc_conn;

/* Owned by its owner until rpc_stream_close() or the finishing functions (cb NULL), and by its
 * connection as long as conn is set; freed when neither has it. States: running; over (the end is
 * known; `told` once the owner knows). */
struct rpc_stream {
    const struct rpc_stream_ops *ops; /* life.h */
    struct env *env;
    struct rpc_conn *conn; /* NULL: gone */
    LIST_ENTRY(rpc_stream) entry;
    struct transport *transport;
    LIST_ENTRY(rpc_stream) holder; /* as long as held_bytes > 0 */
    uint64_t held_bytes;
    const struct rpc_stream_cb *cb;
    void *ud;
    struct env_task task;      /* goes on after a pause, tells writable */
    struct env_timer deadline; /* at_ns is its time */
    int64_t deadline_ns;
    uint32_t entered;
    bool server;
    bool paused, delivering;
    bool half, half_told; /* no more messages come */
    bool answered;        /* client: the peer's first headers came, not as the end */
    bool headers_out;     /* ours went */
    bool end_wanted;      /* our side ends behind what is queued */
    bool over, told, refused;
    bool was_sent;        /* answer of rpc_stream_is_sent() once the connection is gone */
    int status;           /* the peer's end */
    char *text;
    int end_status; /* server: our end */
    char *end_text;
    struct rpc_out {
        struct buf bytes; /* framed messages (wire.h) that wait to be sent, behind those taken */
        size_t taken;     /* of `bytes` */
        size_t promised;  /* of the rest, whose length the peer may know already */
        uint64_t total;   /* taken so far */
        uint64_t mark;    /* in total; 0 = none */
        size_t low_mark;
        bool was_full; /* writable is owed */
    } out;
};

/* What came in the headers of a request; texts that were cut or absent are "". */
struct rpc_head {
    char path[128];
    char request_id[256];
};

struct rpc_conn_cb {
    void (*ready)(void *ud); /* client: the peer's settings came */
    void (*going)(void *ud); /* client: it takes no more calls; those that run may end */
    /* Server: a call. The owner that rpc_stream_adopt() names hears more of it; it must adopt,
     * finish or abort it here. */
    void (*request)(void *ud, struct rpc_stream *st, const struct rpc_head *head);
    /* The last one; the connection is gone, its streams are told next. why: borrowed. */
    void (*closed)(void *ud, const char *why);
};

struct rpc_stream_cb {
    /* One message; borrowed. Not while the stream is paused. */
    void (*message)(void *ud, const void *data, size_t len);
    /* Server: the peer will send no more; in order with the messages, so not while paused. May be
     * NULL. */
    void (*half_closed)(void *ud);
    /* What waits to be sent fell to the low mark. May be NULL. */
    void (*writable)(void *ud);
    /* The last one, exactly once, behind all messages that came; then the owner closes the stream.
     * Server: the peer went away. refused: the transport proves that the call was not processed. */
    void (*ended)(void *ud, int status, const char *text, bool refused);
};

struct rpc_call {
    const char *path;
    const char *request_id; /* NULL ok */
    int64_t deadline_ns;    /* 0 = none */
    size_t low_mark;
};

/* What a transport may use of the node: its file sees no symbol of it. */
struct rpc_transport_host {
    uint32_t size;
    struct env *env;
    struct loop *loop;
    int (*fd_add)(struct loop *l, struct loop_fd *w, uint32_t events, struct fn_error *reterr);
    void (*fd_set)(struct loop *l, struct loop_fd *w, uint32_t events);
    void (*fd_remove)(struct loop *l, struct loop_fd *w);
    void (*io_set)(struct net_io *io, const struct net_io_cb *cb, void *ud);
    void (*io_want_read)(struct net_io *io, bool on);
    ssize_t (*io_read)(struct net_io *io, void *buf, size_t cap);
    ssize_t (*io_writev)(struct net_io *io, const struct iovec *iov, int n);
    const char *(*io_error)(const struct net_io *io);
    const char *(*io_peer)(const struct net_io *io);
    void (*io_close)(struct net_io *io);
    void (*log_calm)(const char *peer, const char *why);        /* a peer that does too much */
    void (*log_library)(uint32_t level, const char *text); /* [any] */
};

struct rpc_transport {
    uint32_t size;       /* of this table; must be the node's */
    const char *name;    /* as in fn.yaml */
    const char *library; /* "libnghttp2 1.52.0": for operators */
    const char *build;   /* RPC_TRANSPORT_BUILD; a file of another build is refused */

    /* host: borrowed until destroy(). FN_E_EXHAUSTED, FN_E_UNAVAILABLE. */
    int (*create)(const struct rpc_transport_host *host, const struct rpc_limits *limits,
                  struct transport **ret);
    /* Connections that are left end without callbacks. */
    void (*destroy)(struct transport *t);

    /* Takes io over. authority NULL = a server's connection. NULL: out of memory, io is closed. */
    struct rpc_conn *(*conn_create)(struct transport *t, struct net_io *io, const char *authority,
                                    bool tls, const struct rpc_conn_cb *cb, void *ud);
};

/* Both sides of the table are of one build; it is no interface for anybody else. */
#define RPC_TRANSPORT_BUILD FND_VERSION "/6"

extern const struct rpc_transport rpc_transport_nghttp2;

/* The entry of a file in build/transports: returns its table. */
#define RPC_TRANSPORT_ENTRY "fnd_transport"
typedef const struct rpc_transport *rpc_transport_entry_fn(void);

/* Whether a request id can be sent as a header. */
static inline bool rpc_is_printable(const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p < 0x20 || *p > 0x7e) {
            return false;
        }
    }
    return text[0] != '\0';
}

/* ---- a stream's `out`, for transports -------------------------------------------------------- */

/* Not given to the connection yet. */
static inline size_t rpc_stream_queued(const struct rpc_stream *st)
{
    return st->out.bytes.len - st->out.taken;
}

static inline const char *rpc_out_next(const struct rpc_stream *st)
{
    return st->out.bytes.data ? st->out.bytes.data + st->out.taken : "";
}

static inline void rpc_out_take(struct rpc_stream *st, size_t len)
{
    st->out.taken += len;
    st->out.total += len;
}

static inline bool rpc_out_is_marked(const struct rpc_stream *st)
{
    return st->out.mark > 0 && st->out.total >= st->out.mark;
}

/* Writable is owed, and may be told. */
static inline bool rpc_out_is_low(const struct rpc_stream *st)
{
    return st->out.was_full && rpc_stream_queued(st) <= st->out.low_mark;
}

/* ---- connections (life.c) -------------------------------------------------------------------- */

bool rpc_conn_takes_calls(const struct rpc_conn *c); /* client: ready and not going */
int64_t rpc_conn_heard_ns(const struct rpc_conn *c); /* when bytes last came */
/* Client: as many calls run as the peer lets in (SETTINGS_MAX_CONCURRENT_STREAMS); another one
 * would wait for the end of one, which must not happen inside of a transport. */
bool rpc_conn_is_full(const struct rpc_conn *c);
void rpc_conn_ping(struct rpc_conn *c); /* the answer counts as heard */
/* It is of no use: its streams end with UNAVAILABLE and this text, then closed(). */
void rpc_conn_break(struct rpc_conn *c, const char *why);
/* The owner lets it go: no callbacks; it is closed behind its last stream. Nobody probes it any
 * more, so it looks at the peer's silence itself (left_silence_ms). */
void rpc_conn_leave(struct rpc_conn *c);
/* Server: GOAWAY; closed() comes when the last stream has ended and the client has read it. */
void rpc_conn_drain(struct rpc_conn *c);
/* At once; neither its owner nor those of its streams hear of it. */
void rpc_conn_close(struct rpc_conn *c);

/* ---- streams (stream.c) ---------------------------------------------------------------------- */

/* A call on a connection that takes calls. NULL: out of memory. */
struct rpc_stream *rpc_stream_open(struct rpc_conn *c, const struct rpc_call *call,
                                   const struct rpc_stream_cb *cb, void *ud);
/* Server, inside request(). */
void rpc_stream_adopt(struct rpc_stream *st, const struct rpc_stream_cb *cb, void *ud,
                      size_t low_mark);
/* Releases a stream; one that has not ended is cancelled. No callback after this. */
void rpc_stream_close(struct rpc_stream *st);
void rpc_stream_wrote(struct rpc_stream *st); /* something was appended to `out` */
/* Whether the last byte before the mark may have been given to the socket. False is a proof. */
bool rpc_stream_is_sent(const struct rpc_stream *st);
/* Client: headers came, and not as the end in place of an answer. */
bool rpc_stream_is_answered(const struct rpc_stream *st);
void rpc_stream_half_close(struct rpc_stream *st); /* client: nothing more is appended */
/* Server: ends the stream behind what is queued and releases it. */
void rpc_stream_finish(struct rpc_stream *st, int status, const char *text);
/* The same; what is queued is dropped. */
void rpc_stream_abort(struct rpc_stream *st, int status, const char *text);
void rpc_stream_pause(struct rpc_stream *st, bool paused);
const struct net_io *rpc_stream_io(const struct rpc_stream *st); /* NULL: no connection */

static inline int64_t rpc_stream_deadline_ns(const struct rpc_stream *st)
{
    return st->deadline_ns; /* 0 = none */
}

/* Everything appended so far is what rpc_stream_is_sent() asks for. */
static inline void rpc_stream_mark(struct rpc_stream *st)
{
    st->out.mark = st->out.total + rpc_stream_queued(st);
}

/* Something waits: writable() is told when the connection has taken of it, and the low mark is
 * reached or was never passed. */
static inline void rpc_stream_want_writable(struct rpc_stream *st)
{
    st->out.was_full = true;
}

/* What the host table has, for a transport that is built in. */
void rpc_log_calm(const char *peer, const char *why);

/* Where framed messages are appended; then rpc_stream_wrote(). */
struct buf *rpc_stream_out(struct rpc_stream *st);
/* One message: its prefix and its bytes. FN_E_EXHAUSTED. */
int rpc_frame(struct buf *out, const void *data, size_t len);
int rpc_stream_send(struct rpc_stream *st, const void *data, size_t len);

#endif
