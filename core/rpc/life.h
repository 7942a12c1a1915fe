/* The life of a connection, which is the same for each transport: it is begun, ready, left or
 * drained, and dead; it looks at its peer's silence, and counts what a peer must not do too often.
 * A transport's connection begins with a struct rpc_life and has what its library does differently
 * in a struct rpc_life_ops. Everything is [loop].
 *
 * A connection that ends (life_fail) does not touch its library or its owners at once: its death is
 * a task, which tells the owner, so that nobody begins calls on it, then the streams, and frees. */
#ifndef RPC_LIFE_H
#define RPC_LIFE_H

#include <rpc/transport.h>

/* What a connection's timer is for: one thing at a time. */
enum life_timer {
    LIFE_SILENCE,   /* a preface, the answer to a ping, a look at how long the peer is silent */
    LIFE_CALLS_OUT, /* client: the owner is told at once */
    LIFE_DRAIN,     /* server: the client's answer to the first GOAWAY's ping */
    LIFE_PART,      /* server: the client's time to close, after the last stream */
};

/* States: begun, ready, dead. Freed by death, which the loop runs, or by life_close(). */
struct rpc_life {
    struct rpc_conn base;
    const struct rpc_life_ops *ops;
    struct env *env;
    const struct rpc_limits *limits;
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
    void (*ping)(struct rpc_life *l);
    /* Server. First one that refuses nothing, and a ping; what the client sent before it read that
     * is still served, and its answer to the ping says that it has read it: life_drain_heard().
     * Then, `final`, the one that refuses what is above served_max, which it sets: a client takes
     * that for a proof, while more streams may come in before it is out. */
    void (*goaway)(struct rpc_life *l, bool final);
    void (*hang_up)(struct rpc_life *l); /* closes the socket */
    /* UNAVAILABLE and this text; why NULL: without a word. */
    void (*end_streams)(struct rpc_life *l, const char *why);
    void (*free)(struct rpc_life *l); /* everything, life_finish() too */
};

static inline struct rpc_life *life_of(const struct rpc_conn *c)
{
    return container_of(c, struct rpc_life, base);
}

/* Whether a server still takes this stream of its client. */
static inline bool life_serves(const struct rpc_life *l, uint32_t stream)
{
    return l->cb && (!l->goaway_final || stream <= l->served_max);
}

/* In zeroed memory, without a listener (cb) yet. */
void life_init(struct rpc_life *l, const struct rpc_life_ops *ops,
               const struct rpc_transport *transport, struct env *env,
               const struct rpc_limits *limits, bool server);
void life_finish(struct rpc_life *l);

/* Around whatever may call an owner. False: it was closed meanwhile and is freed. */
void life_enter(struct rpc_life *l);
bool life_leave(struct rpc_life *l);

void life_fail(struct rpc_life *l, const char *why);
void life_idle(struct rpc_life *l);        /* a stream has gone */
void life_heard(struct rpc_life *l);       /* bytes came */
void life_settings(struct rpc_life *l);    /* the peer's came */
void life_going(struct rpc_life *l);       /* client: GOAWAY came */
void life_calls_out(struct rpc_life *l);   /* client: it has had as many calls as it may */
void life_drain_heard(struct rpc_life *l); /* the client has read the first GOAWAY */
/* One more of the peer's; whether it is the first one too many in a second. */
bool life_too_many_controls(struct rpc_life *l);
/* The same for a PING. One for each time that something was said to the peer is free: gRPC for Go
 * measures the way with a ping as long as data comes, one a round trip (its BDP estimator). */
bool life_too_many_pings(struct rpc_life *l);
bool life_too_many_resets(struct rpc_life *l);

/* Slots of the table. */
bool life_takes_calls(const struct rpc_conn *c);
int64_t life_heard_ns(const struct rpc_conn *c);
void life_break(struct rpc_conn *c, const char *why);
void life_let_go(struct rpc_conn *c);
void life_drain(struct rpc_conn *c);
void life_close(struct rpc_conn *c);

#endif
