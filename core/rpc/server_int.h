/* Server side of this room: listening and unary methods (server.c), Engage sessions (session.c). */
#ifndef RPC_SERVER_INT_H
#define RPC_SERVER_INT_H

#include <base/log.h>
#include <rpc/rpc_int.h>

/* States: open, draining (GOAWAY sent, sessions finish), closed (no callbacks). Freed when gRPC has
 * given back the shutdown tag, every request tag and every call. */
struct rpc_server {
    struct rpc *rpc;
    LIST_ENTRY(rpc_server) entry;
    grpc_server *server;
    const struct engage_server_cb *cb;
    void *ud;
    int port;
    struct identity_seen seen;
    struct log_gate stranger_gate;
    struct rpc_tag down_tag;
    bool draining;
    bool cancelled;
    bool down; /* shutdown has completed */
    bool closed;
    void (*drained)(void *ud);
    void *drained_ud;
    uint32_t refs; /* request tags and calls that are out */
    LIST_HEAD(, engage_session) sessions;
    const struct rpc_service *service; /* methods beside RunnerProtocol's, or NULL */
    LIST_HEAD(, rpc_incoming) incoming;
};

void server_ref(struct rpc_server *s);
void server_unref(struct rpc_server *s);

/* Takes over call and payload (may be NULL). */
void session_begin(struct rpc_server *s, grpc_call *call, grpc_byte_buffer *payload,
                   const char *request_id, int64_t deadline_ns);
/* service.c: takes over the call if the server has such a method. */
bool incoming_begin(struct rpc_server *s, grpc_call *call, const char *path);
void incoming_forget(struct rpc_server *s);

/* Tells every session's owner that the peer is gone and forgets the owner. */
void sessions_forget(struct rpc_server *s);

#endif
