/* Server side of this room: listening and dispatch (server.c), Engage sessions (session.c),
 * StreamLogs (logs_server.c), all other methods (service.c). */
#ifndef RPC_SERVER_INT_H
#define RPC_SERVER_INT_H

#include <base/log.h>
#include <rpc/raw.h>
#include <rpc/rpc_int.h>

struct engage_session;
struct log_call;

/* A stream whose first message has yet to come, in order of arrival. */
struct server_wait {
    TAILQ_ENTRY(server_wait) link;
    int64_t since_ns;
    bool waits;
    void (*expired)(struct server_wait *w); /* it waits no more */
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
    bool cancelled;
    bool closed;
    void (*drained)(void *ud);
    void *drained_ud;
    struct env_task drained_task, cancel_task;
    struct env_timer cancel_timer;
    TAILQ_HEAD(, server_wait) waits;
    struct env_timer waits_timer;
    uint32_t refs; /* sessions, incoming calls, our own frames */
    LIST_HEAD(, server_conn) conns;
    LIST_HEAD(, engage_session) sessions;
    struct rpc_service runner;         /* RunnerProtocol's but for Engage; of cb */
    const struct rpc_service *service; /* methods beside these, or NULL */
    LIST_HEAD(, rpc_incoming) incoming;
    LIST_HEAD(, log_call) logs;
};

void server_ref(struct rpc_server *s);
void server_unref(struct rpc_server *s);

void server_wait_begin(struct rpc_server *s, struct server_wait *w,
                       void (*expired)(struct server_wait *w));
void server_wait_end(struct rpc_server *s, struct server_wait *w); /* also when it does not wait */

/* Takes the stream over. */
void session_begin(struct rpc_server *s, struct rpc_stream *st, const char *request_id);
void logs_begin(struct rpc_server *s, struct rpc_stream *st);
/* Takes the stream over if one of the service's methods has this path. */
bool incoming_begin(struct rpc_server *s, struct rpc_stream *st, const char *path,
                    const struct rpc_service *service);

/* Ends the calls of all owners: with a word to both sides, or silently. */
void sessions_cancel(struct rpc_server *s, const char *text);
void incoming_cancel(struct rpc_server *s, const char *text);
void logs_cancel(struct rpc_server *s, const char *text);
void sessions_forget(struct rpc_server *s);
void incoming_forget(struct rpc_server *s);
void logs_forget(struct rpc_server *s);

#endif
