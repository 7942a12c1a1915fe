/* gRPC C core as a transport: what its files share.
 *
 * C core is a codec on the loop's thread. Each connection has a pair of sockets; C core holds one
 * end (grpc_channel_create_from_fd, grpc_server_add_channel_from_fd), and pump.c carries the bytes
 * between the other and the stream of core/net, reading the borders of frames on the way (frames.h)
 * and putting in frames of our own: pings, GOAWAY, resets. So TLS, names, dialling, liveness,
 * limits and proofs are not C core's.
 *
 * core.c holds the completion queue and the turn: batches that streams want are begun, C core is
 * polled until it is quiet, what it made is carried out. conn.c has connections (life.h: what
 * is the same with every transport), call.c streams. */
#ifndef RPC_CORE_CORE_INT_H
#define RPC_CORE_CORE_INT_H

#include <base/table.h>
#include <grpc/grpc.h>
#include <rpc/core/frames.h>
#include <rpc/life.h>
#include <sys/queue.h>

#define CORE_READ_BYTES (64u << 10)

/* One batch or request that C core completes; embedded in what it belongs to. */
struct core_op {
    void (*done)(struct core_op *op, bool ok);
    bool busy;
};

struct core {
    struct transport base;
    const struct rpc_transport_host *host;
    grpc_completion_queue *cq;
    grpc_channel_credentials *channel_creds;
    grpc_server_credentials *server_creds;
    TAILQ_HEAD(, core_conn) dirty_conns;     /* C core may have made bytes for them */
    TAILQ_HEAD(, core_stream) dirty_streams; /* want batches */
    struct env_task turn;
    struct env_timer tick; /* what C core's own threads completed is looked for */
    uint32_t events; /* that wait for C core at its ends of pairs, at most */
    uint32_t busy_ops;
    /* Apart: C core's output is looked at from callbacks in the middle of a peer's input. */
    unsigned char in[CORE_READ_BYTES], out[CORE_READ_BYTES];
};

/* ---- core.c ---------------------------------------------------------------------------------- */

const struct rpc_transport *fnd_transport(void) __attribute__((visibility("default")));

/* There is something to do at the end of the loop's turn. */
void core_wake(struct core *t);
void core_dirty_conn(struct core_conn *c);
void core_dirty_stream(struct core_stream *st);
/* Begins a batch; false: C core refused it, and done() will not come. */
bool core_begin(struct core *t, struct core_op *op, grpc_call *call, const grpc_op *ops, size_t n);
void core_op_began(struct core *t, struct core_op *op);
/* Begins what streams want and polls until C core is quiet. */
void core_settle(struct core *t);

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* A server's half in C core; it lives until C core lets it go, which may be behind its conn. */
struct core_server {
    struct core *t;
    struct core_conn *conn; /* NULL: gone */
    grpc_server *server;
    struct core_op ask, stop;
    grpc_call *call; /* of the request that is asked for */
    grpc_call_details details;
    grpc_metadata_array metadata;
};

/* What is known of the message that comes in on a stream. */
struct core_prefix {
    UT_hash_handle hh;
    uint32_t stream;
    uint32_t have; /* bytes of the prefix */
    uint32_t left; /* bytes of the message */
    unsigned char bytes[RPC_PREFIX_BYTES];
};

/* Server: a stream that C core has not made a call of yet. */
struct core_arrival {
    TAILQ_ENTRY(core_arrival) link;
    uint32_t id;
    uint64_t fed_bytes, bad_from;
    uint32_t bad_bytes;
    bool bad_encoding;
    bool closed_in;
};

struct core_conn {
    struct rpc_conn life; /* first */
    struct core *t;
    TAILQ_ENTRY(core_conn) dirty_link;
    bool dirty;
    struct loop_fd near; /* our end of the pair; -1: closed */
    grpc_channel *channel;
    struct core_server *server;
    bool ended;  /* nothing more comes from the peer: what is there is read, then it dies */
    bool blocked; /* the socket is full */
    bool feeding; /* C core's pair is full */
    bool core_ended; /* C core has closed its end */
    bool judging;    /* a stream's message cannot be taken, or all hold too much */
    bool breaks;     /* client: the frame ends streams whose messages C core would drop */
    uint32_t peer_streams_max; /* SETTINGS_MAX_CONCURRENT_STREAMS */
    uint32_t calls_n;          /* client: of this connection so far */
    uint32_t last_stream;      /* server: highest id that came */
    bool ids_lost; /* client: a call ended before its id was seen: later ones may be another's */
    TAILQ_HEAD(, core_stream) unnamed; /* client: begun, HEADERS not seen; in their order */
    struct core_stream *named; /* by id */
    TAILQ_HEAD(, core_arrival) arrivals; /* server: in their order */
    struct core_prefix *prefixes;
    /* ---- pump.c ---- */
    struct frames in, out;
    struct buf to_core, to_peer; /* not written yet */
    struct buf inject; /* frames of our own to the peer, for the next border */
    /* Client: what the peer lets in, at most; what C core may have made is never more. */
    uint64_t window, stream_window;
    uint32_t window_told; /* of a stream, by the last settings */
    uint32_t settings_n;  /* the peer's; of these C core has acknowledged acks_n */
    uint32_t acks_n;
    bool window_lost;     /* a stream's may be larger than is known */
    uint64_t data_made;   /* DATA seen so far */
    uint32_t last_named;  /* highest id */
    uint64_t made;    /* bytes for the peer so far */
    uint64_t written; /* of these, given to the socket */
    uint32_t block_frames; /* CONTINUATION frames of the block that comes in */
};

#define core_conn_of(life_) container_of(life_, struct core_conn, life)

struct rpc_conn *core_conn_create(struct transport *t, struct net_io *io, const char *authority,
                                  bool tls, const struct rpc_conn_cb *cb, void *ud);

void conn_call_counted(struct core_conn *c);

/* ---- pump.c ---------------------------------------------------------------------------------- */

extern const struct net_io_cb pump_io_cb;

void pump_init(struct core_conn *c, bool server);
void pump_finish(struct core_conn *c);
void pump_near(struct loop_fd *w, uint32_t events);
/* Carries out what C core made. */
void pump_out(struct core_conn *c);
/* Reads what it made, whether it can be sent or not: what it would still send is known then. */
void pump_read_made(struct core_conn *c);
/* Client: no window lets C core have made more of the stream than was seen. */
bool pump_is_shut(const struct core_stream *st);
/* A frame of our own to the peer, at the next border. */
void pump_inject(struct core_conn *c, const void *frame, size_t len);
/* Server: the stream of the call that C core made next. C core makes calls in the order of their
 * HEADERS; what it refused by itself it has answered. A name that is missed costs limits, no
 * proof. */
void pump_name_arrival(struct core_conn *c, struct core_stream *st);

/* ---- call.c ---------------------------------------------------------------------------------- */

struct core_message {
    STAILQ_ENTRY(core_message) link;
    grpc_byte_buffer *bytes;
};

/* C core has it too, as long as operations are under way. */
struct core_stream {
    struct rpc_stream base; /* first */
    struct core *t;
    TAILQ_ENTRY(core_stream) unnamed_link, dirty_link;
    UT_hash_handle hh; /* of the connection's `named`, when id is set */
    uint32_t id;       /* 0: not known */
    bool unnamed, dirty;
    grpc_call *call;
    grpc_slice path; /* client */
    bool begun;         /* the first batch is given to C core */
    bool headers_asked; /* client: with the first message that is asked for */
    bool refused_seen;  /* a frame said that it was not processed */
    bool end_sent;
    bool closed_in;     /* END_STREAM or RST_STREAM came */
    uint64_t out_made;  /* bytes of `out`, seen in its DATA */
    uint64_t window;    /* that the peer has added to this stream's */
    uint64_t mark_made; /* the connection's `made` before C core had the bytes at the mark */
    uint64_t mark_wire; /* the same when they were seen; 0 = not yet */
    bool mark_given;
    bool read_on;       /* messages are asked for though it is paused */
    uint32_t bad_bytes; /* length of a message that is too long */
    bool bad_encoding;  /* one is compressed */
    uint64_t bad_from;  /* where such a message begins, in bytes that came */
    STAILQ_HEAD(, core_message) messages;
    uint64_t fed_bytes, taken_bytes; /* of messages and their prefixes, when the id is known */
    uint64_t read_bytes; /* the same of what C core has handed out */
    struct core_op send, recv, end;
    grpc_byte_buffer *incoming;
    grpc_metadata_array initial, trailing;
    grpc_metadata request_id;
    grpc_status_code code;
    grpc_slice details;
    int cancelled;
};

#define core_stream_of(base_) container_of(base_, struct core_stream, base)

struct rpc_stream *core_stream_open(struct rpc_conn *c, const struct rpc_call *call,
                                    const struct rpc_stream_cb *cb, void *ud);

/* A server's stream for a call that C core has accepted; takes the call over. NULL: no memory. */
struct core_stream *stream_accept(struct core_conn *c, grpc_call *call, gpr_timespec deadline);
void stream_begin(struct core_stream *st);   /* what it wants of C core, from core_settle() */
void stream_read_on(struct core_stream *st); /* asks for all messages, though it is paused */

#endif
