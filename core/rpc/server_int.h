/* Server side of this room: listening and dispatch (server.c), Engage sessions (session.c),
 * StreamLogs (logs_server.c), all other methods (service.c), and what these three have in common
 * (server_call.c). */
#ifndef RPC_SERVER_INT_H
#define RPC_SERVER_INT_H

#include <base/log.h>
#include <rpc/raw.h>
#include <rpc/rpc_int.h>

/* Begins each object that stands for a call of a peer; the stream's ud. Freed when its stream is
 * over and none of our own frames is on it. */
struct server_call {
    const struct server_call_kind *kind;
    struct rpc_server *server;
    LIST_ENTRY(server_call) entry;
    struct rpc_stream *stream; /* NULL: over */
    TAILQ_ENTRY(server_call) waiting; /* for its first message, in order of arrival */
    int64_t since_ns;
    bool waits;
    bool owed; /* its owner has yet to hear of the end: not freed before */
    uint32_t entered;
};

struct server_call_kind {
    const struct rpc_stream_cb *stream_cb;
    void (*expired)(struct server_call *c); /* no first message came in time: ends it */
    void (*gone)(struct server_call *c);    /* its owner, if it has one, is told that it is over */
    void (*forget)(struct server_call *c);  /* it has none any more, who is not told */
    void (*free)(struct server_call *c);
};

/* A client's connection. */
struct server_conn {
    LIST_ENTRY(server_conn) entry;
    struct rpc_server *server;
    struct rpc_conn *conn;
};

/* States: open, draining (GOAWAY sent, calls finish), closed (no callbacks). Freed when it is
 * closed and no call of it is on the stack. */
struct rpc_server {
    struct rpc *rpc;
    LIST_ENTRY(rpc_server) entry;
    struct net_listener *listener;
    const struct engage_server_cb *cb;
    void *ud;
    int port;
    struct log_gate stranger_gate;
    bool draining;
    bool closed;
    void (*drained)(void *ud);
    void *drained_ud;
    struct env_task drained_task;
    TAILQ_HEAD(, server_call) waits;
    struct env_timer waits_timer;
    uint32_t refs; /* sessions, incoming calls, our own frames */
    LIST_HEAD(, server_conn) conns;
    LIST_HEAD(, server_call) calls;
    struct rpc_service runner;         /* RunnerProtocol's but for Engage; of cb */
    const struct rpc_service *service; /* methods beside these, or NULL */
};

void server_ref(struct rpc_server *s);
void server_unref(struct rpc_server *s);

void server_on_waits_timer(struct env_timer *t);

/* c: zeroed in front. Takes the stream over. */
void server_call_begin(struct server_call *c, const struct server_call_kind *kind,
                       struct rpc_server *s, struct rpc_stream *st, size_t low_mark);
void server_call_heard(struct server_call *c); /* its first message came, or none is waited for */
void server_call_enter(struct server_call *c);
void server_call_leave(struct server_call *c); /* may free it */
/* The stream, if it is not over, ends behind what was sent; at once. */
void server_call_finish(struct server_call *c, int status, const char *text);
void server_call_abort(struct server_call *c, int status, const char *text);
/* The slot ended() of each kind. */
void server_call_on_ended(void *ud, int status, const char *text, bool refused);
/* Ends the calls of all owners, silently. */
void server_calls_forget(struct rpc_server *s);

/* Takes the stream over. */
void session_begin(struct rpc_server *s, struct rpc_stream *st, const char *request_id);
void logs_begin(struct rpc_server *s, struct rpc_stream *st);
/* Takes the stream over if one of the service's methods has this path. */
bool incoming_begin(struct rpc_server *s, struct rpc_stream *st, const char *path,
                    const struct rpc_service *service);

#endif
