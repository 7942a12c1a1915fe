/* What the files of this room share. Everything is [loop] unless said otherwise. */
#ifndef RPC_RPC_INT_H
#define RPC_RPC_INT_H

#include <base/env.h>
#include <base/log.h>
#include <base/states.h>
#include <rpc/transport.h>
#include <rpc/rpc.h>
#include <rpc/wire.h>

#define RPC_METHOD_ENGAGE    "/RunnerProtocol/Engage"
#define RPC_METHOD_STATUS    "/RunnerProtocol/Status"
#define RPC_METHOD_STATUS2   "/RunnerProtocol/Status2"
#define RPC_METHOD_CONFIGURE "/RunnerProtocol/ConfigureRunner"
#define RPC_METHOD_LOGS      "/RunnerProtocol/StreamLogs"
#define RPC_METHOD_PROBE     "/fnd.Link/Probe"

struct rpc {
    struct engage_client client; /* first: the client is the rpc */
    struct loop *loop;
    struct env *env;
    struct rpc_config config; /* without the texts of tls */
    struct net_identity *identity, *server_identity;
    struct rpc_transport_host host; /* what the transport may use */
    struct transport *transport;
    struct scratch in;  /* what a callback reads */
    struct scratch out; /* what it may encode meanwhile */
    LIST_HEAD(, engage_link) links;
    struct walks walks; /* over links */
    LIST_HEAD(, rpc_server) servers;
    LIST_HEAD(, rpc_channel) channels;
    LIST_HEAD(, rpc_raw) raws;
    LIST_HEAD(, unary) unaries;
    LIST_HEAD(, engage_reader) readers;
    struct log_gate peers_gate; /* lines about peers that come and go */
};

/* Takes io over. authority NULL = a server's connection. NULL: out of memory, io is closed. */
static inline struct rpc_conn *rpc_conn_create(struct rpc *r, struct net_io *io,
                                               const char *authority, bool tls,
                                               const struct rpc_conn_cb *cb, void *ud)
{
    return r->transport->table->conn_create(r->transport, io, authority, tls, cb, ud);
}

void rpc_transport_host_init(struct rpc_transport_host *host, struct loop *loop);
void rpc_client_init(struct rpc *r);
void rpc_client_close_all(struct rpc *r);
void unary_close_all(struct rpc *r);
void readers_close_all(struct rpc *r);

#endif
