/* What the files of the network share: connections (net.c) and the exchanges on them
 * (net_engage.c). */
#ifndef FND_SIM_NET_INT_H
#define FND_SIM_NET_INT_H

#include "world.h"

#include <base/arena.h>

enum frame_kind {
    FRAME_TRY, /* to the runner */
    FRAME_BODY,
    FRAME_CANCEL,
    FRAME_WINDOW,
    FRAME_PING,
    FRAME_START, /* to the load balancer */
    FRAME_DATA,
    FRAME_FINISHED,
    FRAME_END,
    FRAME_REFUSED,
    FRAME_PONG,
    FRAME_CLOSE, /* the sender's side of the connection is gone */
};

struct stream;
struct conn;

struct frame {
    TAILQ_ENTRY(frame) link;
    enum frame_kind kind;
    struct stream *stream; /* NULL: of the connection */
    bool given;            /* the socket has taken it */
    bool eof;
    int status; /* FRAME_END: of gRPC */
    int64_t at_ns;
    union {
        struct engage_start start;
        struct engage_finished finished;
    };
    const char *text;
    size_t len;
    char data[];
};
TAILQ_HEAD(frames, frame);

/* One direction of a connection. What the socket has taken arrives, in order, sooner or later; what
 * waits behind it is lost with the connection. */
struct pipe {
    struct conn *conn;
    bool to_runner;
    struct frames frames;
    struct env_timer timer; /* of the receiving node */
    int64_t last_ns;        /* when the last one given arrives */
    uint64_t given_bytes;   /* not arrived */
    bool closed;            /* takes nothing more */
    bool is_void;           /* packets vanish */
    uint32_t break_in;      /* so many frames from now; 0 = never */
};

struct conn {
    LIST_ENTRY(conn) entry;
    struct net *net;
    struct engage_link *link; /* NULL: closed, or lost */
    struct lb_node *lb;
    struct runner_node *runner;
    bool lb_open, runner_open; /* its side is not gone */
    bool broken; /* both sides will notice */
    uint32_t busy; /* depth of our own frames that still use it */
    struct pipe to_runner, to_lb;
    struct env_timer lb_probe, runner_probe;
    int64_t lb_heard_ns, runner_heard_ns;
    LIST_HEAD(, stream) streams;
    uint32_t streams_n; /* of attempts that have not ended */
};

struct net_client {
    struct engage_client client; /* first */
    struct net *net;
    struct lb_node *lb;
    LIST_HEAD(, engage_link) links;
    LIST_HEAD(, stream) unsent; /* attempts without a connection */
};

struct engage_link {
    LIST_ENTRY(engage_link) entry;
    struct net_client *of;
    uint32_t runner; /* RUNNERS_MAX: nobody has this address */
    const struct engage_link_cb *cb;
    void *ud;
    struct env_timer dial;
    int64_t pause_ns;
    struct conn *conn; /* NULL = down */
};

struct net {
    struct world *w;
    struct sim_rng rng;
    LIST_HEAD(, conn) conns;
    struct runner_node *listening[RUNNERS_MAX];
    int64_t to_until_ns[LBS_MAX][RUNNERS_MAX];   /* nothing passes before */
    int64_t from_until_ns[LBS_MAX][RUNNERS_MAX];
    int64_t slow_ns[LBS_MAX][RUNNERS_MAX];
    int64_t slow_until_ns[LBS_MAX][RUNNERS_MAX];
    uint32_t refuse[RUNNERS_MAX];
};

/* ---- net.c --------------------------------------------------------------------------------- */

struct frame *frame_new(struct stream *st, enum frame_kind kind, const void *data, size_t len);
/* Given away; lost where the pipe takes nothing. */
void pipe_send(struct pipe *p, struct frame *f);
/* Frames of this stream that no socket has taken. */
void pipe_forget(struct pipe *p, const struct stream *st);
/* An attempt has ended or a stream is gone: closed and freed if nobody needs it any more. */
void conn_maybe_end(struct conn *c);

/* ---- net_engage.c -------------------------------------------------------------------------- */

/* Takes the frame. */
void stream_arrived(struct conn *c, struct frame *f);
/* The socket has taken it. */
void stream_given(struct stream *st, const struct frame *f);
void frame_free(struct frame *f);
/* The side of the connection is gone: its halves of all streams end. */
void streams_lose_lb(struct conn *c, const char *why);
void streams_lose_runner(struct conn *c);
void streams_check_times(struct conn *c);
void net_client_fill(struct engage_client *client);

#endif
