/* The life of connections (life.c) and of their streams (stream.c), which is the same for each
 * transport. A connection is begun, ready, left or drained, and dead; it looks at its peer's
 * silence, and counts what a peer must not do too often.
 * A transport's connection begins with a struct rpc_conn and has what its library does differently
 * in a struct rpc_life_ops; a stream of it with a struct rpc_stream and a struct rpc_stream_ops.
 * Everything is [loop].
 *
 * A connection that ends (rpc_conn_break) does not touch its library or its owners at once: its
 * death is a task, which tells the owner, so that nobody begins calls on it, then the streams, and
 * frees. */
#ifndef RPC_LIFE_H
#define RPC_LIFE_H

#include <rpc/transport.h>
#include <sys/queue.h>

/* What a connection's timer is for: one thing at a time. */
enum life_timer {
    LIFE_SILENCE,   /* a preface, the answer to a ping, a look at how long the peer is silent */
    LIFE_CALLS_OUT, /* client: the owner is told at once */
    LIFE_DRAIN,     /* server: the client's answer to the first GOAWAY's ping */
    LIFE_PART,      /* server: the client's time to close, after the last stream and its output */
};

/* States: begun, ready, dead. Freed by death, which the loop runs, or by rpc_conn_close(). */
struct rpc_conn {
    const struct rpc_life_ops *ops;
    LIST_ENTRY(rpc_conn) entry;
    struct net_io *io;
    void (*io_close)(struct net_io *io);
    struct env *env;
    struct transport *transport;
    const struct rpc_conn_cb *cb; /* NULL: nobody listens */
    void *ud;
    bool server;
    bool ready;  /* the peer's settings came */
    bool going;  /* client: takes no more calls: GOAWAY came, or it has had as many as it may */
    bool left;   /* client: its owner let it go; it ends behind its last stream */
    bool draining, goaway_final; /* server: the first GOAWAY was sent; the one that refuses */
    uint32_t served_max; /* behind the latter: the highest stream that it does not refuse */
    bool calmed; /* its peer did too much: it ends */
    bool dead;   /* of no use: `death` is queued or runs */
    bool doomed; /* freed as soon as nobody is inside of it */
    bool pinged; /* a ping of ours is not answered */
    char *why;
    uint32_t entered; /* the library or an owner is on the stack: no freeing */
    LIST_HEAD(, rpc_stream) streams;
    uint32_t streams_n;
    struct env_task death;
    struct env_timer timer;
    enum life_timer timer_for;
    int64_t heard_ns;
    int64_t pinged_ns; /* client: its last ping; 0 = none */
    int64_t window_ns; /* start of the second that is counted */
    uint32_t controls, resets;
    bool said; /* HEADERS or DATA left since the peer's last ping that was free */
};

struct rpc_life_ops {
    struct rpc_stream *(*open)(struct rpc_conn *l, const struct rpc_call *call,
                               const struct rpc_stream_cb *cb, void *ud);
    bool (*is_full)(const struct rpc_conn *l);
    bool (*has_output)(const struct rpc_conn *l); /* made and not taken by the socket */
    void (*ping)(struct rpc_conn *l, bool asked); /* by the owner, or of its own */
    /* Server. First one that refuses nothing, and a ping; what the client sent before it read that
     * is still served, and its answer to the ping says that it has read it: life_drain_heard().
     * Then, `final`, the one that refuses what is above served_max, which it sets: a client takes
     * that for a proof, while more streams may come in before it is out. */
    void (*goaway)(struct rpc_conn *l, bool final);
    void (*free)(struct rpc_conn *l); /* everything, life_finish() too */
};

/* Whether a server still takes this stream of its client. */
static inline bool life_serves(const struct rpc_conn *l, uint32_t stream)
{
    return l->cb && (!l->goaway_final || stream <= l->served_max);
}

/* In zeroed memory, without a stream of core/net and a listener (cb) yet. */
void life_init(struct rpc_conn *l, const struct rpc_life_ops *ops, struct transport *t,
               bool server);
void life_finish(struct rpc_conn *l); /* closes the socket */
void life_end_all(struct transport *t); /* destroy() of it: connections end without callbacks */

/* Around whatever may call an owner; leaving frees it, if it was closed meanwhile. */
void life_enter(struct rpc_conn *l);
void life_leave(struct rpc_conn *l);

void life_idle(struct rpc_conn *l);        /* a stream has gone */
void life_heard(struct rpc_conn *l);       /* bytes came */
void life_settings(struct rpc_conn *l);    /* the peer's came */
void life_going(struct rpc_conn *l);       /* client: GOAWAY came */
void life_calls_out(struct rpc_conn *l);   /* client: it has had as many calls as it may */
void life_drain_heard(struct rpc_conn *l); /* the client has read the first GOAWAY */
/* One more of the peer's; whether it is the first one too many in a second. */
bool life_too_many_controls(struct rpc_conn *l);
/* The same for a PING. One for each time that something was said to the peer is free: gRPC for Go
 * measures the way with a ping as long as data comes, one a round trip (its BDP estimator). */
bool life_too_many_pings(struct rpc_conn *l);
bool life_too_many_resets(struct rpc_conn *l);

/* ---- streams (stream.c) ---------------------------------------------------------------------- */

struct rpc_stream_ops {
    void (*send)(struct rpc_stream *st); /* there is more to send, or the end */
    /* As long as it has a connection. */
    bool (*is_sent)(const struct rpc_stream *st);
    bool (*is_answered)(const struct rpc_stream *st); /* NULL: `answered` */
    /* The task, after a pause: hands over what was kept, and lets the peer send on. */
    void (*go_on)(struct rpc_stream *st);
    bool (*has_to_go_on)(const struct rpc_stream *st); /* there is something to do for it */
    /* The peer's side ended, and what is kept is no whole message. NULL: that cannot be. */
    bool (*has_rest)(const struct rpc_stream *st);
    void (*drop_kept)(struct rpc_stream *st); /* messages that were not handed over */
    void (*cancel)(struct rpc_stream *st, int status, const char *text);
    void (*over)(struct rpc_stream *st);     /* it is, and its owner not told yet */
    void (*late)(struct rpc_stream *st);     /* at its deadline, before it is over. NULL ok */
    void (*detach)(struct rpc_stream *st);   /* leaves its connection. NULL ok */
    bool (*is_used)(const struct rpc_stream *st); /* by the library. NULL: never */
    void (*finish)(struct rpc_stream *st); /* what else it has is freed. NULL ok */
};

/* In zeroed memory of malloc()'s, at its beginning. */
void stream_init(struct rpc_stream *st, const struct rpc_stream_ops *ops, struct rpc_conn *c);
void stream_enter(struct rpc_stream *st);
void stream_leave(struct rpc_stream *st); /* may free it */
void stream_set_deadline(struct rpc_stream *st, int64_t deadline_ns);
/* Whether its owner is to be handed messages. */
static inline bool stream_listens(const struct rpc_stream *st)
{
    return st->cb && !st->paused && !st->told && !(st->server && st->over);
}
/* Behind the messages: the peer's half-close and its end. */
void stream_deliver_ends(struct rpc_stream *st);
void stream_tell_end(struct rpc_stream *st);
/* The peer's end: trailers, a reset, the loss of the connection. The first one counts. */
void stream_over(struct rpc_stream *st, int status, const char *text, bool refused);
/* Our own verdict about a stream: one that the peer thinks is running is reset. What was kept is
 * dropped, so the verdict stands in place of an end of the peer's that its owner was not told. */
void stream_fail(struct rpc_stream *st, int status, const char *text);
/* Bytes that came and wait for its owner, or not any more. A stream that is dropped holds none. */
void stream_hold(struct rpc_stream *st, uint64_t bytes);
void stream_release(struct rpc_stream *st, uint64_t bytes);
/* As long as all streams hold too much for `bytes` more, one ends: of those whose owners read
 * nothing the one that holds most, else of all. It may be any, and another's owner is called. */
void stream_make_room(struct transport *t, uint64_t bytes);
void stream_forget(struct rpc_stream *st); /* the library does not know it any more */
void stream_orphan(struct rpc_stream *st, const char *why); /* its connection is gone */
void stream_drop(struct rpc_stream *st);                    /* the same, silently */

#endif
