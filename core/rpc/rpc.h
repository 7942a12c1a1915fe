/* Rpc: gRPC behind the tables of model/engage.h, on the loop's own thread.
 *
 * HTTP/2 is a transport's (transport.h), sockets and TLS are core/net's, the rest is ours.
 *
 * Liveness. A link that has heard nothing for probe_interval asks its peer with a small call to
 * a method that does not exist; any answer counts as life, none within probe_timeout drops the
 * connection and ends its attempts without proof. HTTP/2 pings are not used for that, because a Go
 * runner closes the connection after the third ping within five minutes without data of its own;
 * but a peer that lets no further call in is pinged, and so, every five minutes, is one that has
 * said GOAWAY and still runs calls. */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <base/err.h>
#include <base/walk.h>
#include <loop/loop.h>
#include <model/engage.h>
#include <net/tls.h>

struct rpc;
struct rpc_server;
struct rpc_transport;

/* The transport of this name: built in ("nghttp2") or the file grpc-<name>.so of the folder, which
 * is loaded for good. FN_E_NOT_FOUND, FN_E_UNAVAILABLE (RUN420), FN_E_INVALID (RUN421), or what
 * plugin_path_trusted() says. [init] */
int rpc_transport_find(const char *folder, const char *name, const struct rpc_transport **ret,
                       struct fn_error *reterr);

/* "libnghttp2 1.52.0": for operators. */
const char *rpc_transport_library(const struct rpc *r);

/* Part of `grpc:`, but for those marked *, which the wiring or rpc_config_fix() sets; see options.c
 * for defaults and limits. */
struct rpc_config {
    const struct rpc_transport *transport; /* * NULL: nghttp2 */
    uint32_t message_max_bytes;   /* received message, 1024..2^31-1 */
    uint64_t memory_max_bytes;    /* * received and not yet handed over; at least 16 MiB */
    uint32_t streams_max;         /* concurrent streams per connection of a server, 1..2^31-1 */
    int64_t reconnect_first_ns;   /* back-off after the first failed dial */
    int64_t reconnect_max_ns;     /* back-off never grows beyond, before jitter of 20 % */
    int64_t connect_timeout_ns;   /* one dial, with handshakes */
    int64_t probe_interval_ns;    /* silence after which a link is probed; 0 = never */
    int64_t probe_timeout_ns;     /* no answer for that long = dead */
    int64_t status_interval_ns;   /* a link's owner is told of its runner's health; 0 = never */
    int64_t client_silence_ns;    /* a server pings a client after that; 0 = never */
    int64_t answer_ns;            /* * of a peer to a ping, and to a connection */
    int64_t first_message_ns;     /* * a stream of a server that brings none ends */
    int64_t ack_ns;               /* * a stream of logs whose reader asks for none ends */
    uint32_t connections_max;     /* at a server's port; 0 = any number */
    uint32_t connections_per_ip_max;
    struct fn_strlist refuse_interfaces; /* of a server's port; borrowed until the server is open */
    int64_t end_timeout_ns;       /* * between CallFinished and the end of its stream */
    uint32_t calls_max;           /* * on one connection before another is dialled; 0 = 2^30 */
    uint32_t send_queue_bytes;    /* of one session; more makes send_data() say full */
    struct net_tls tls;        /* * of its connections to others; copied */
    struct net_tls tls_server; /* * of its port */
};

/* Where the gRPC port is, and what its connections and those to others are made of. */
struct rpc_port {
    const char *listen;
    const char *transport; /* "nghttp2" or "core" */
    const char *tls; /* name of an entry of tls:, NULL = plain text */
    const char *server_tls; /* the same for one end; NULL = tls */
    const char *client_tls;
};
extern const struct opt_table rpc_opt_table, rpc_port_table;

void rpc_config_fix(struct rpc_config *c);
struct rpc_config rpc_config_default(void); /* all of it; no interface is refused */
#define RPC_CONFIG_INIT rpc_config_default()

/* [init] FN_E_INVALID: a limit or a certificate. */
int rpc_create(struct loop *loop, const struct rpc_config *config, struct rpc **ret,
               struct fn_error *reterr);
/* [init] Outside of the loop. Ends everything that is left without callbacks. */
void rpc_destroy(struct rpc *r);
/* [loop] Renewed certificates of its connections to others, and of its port: later handshakes use
 * them, connections live on. Plain text stays plain text. FN_E_INVALID, FN_E_EXHAUSTED: that side
 * stays as it was. */
int rpc_renew_client(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr);
int rpc_renew_server(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr);

/* ---- client --------------------------------------------------------------------------------- */

/* Addresses: host:port, [ipv6]:port, unix:/path. */
struct engage_client *rpc_client(struct rpc *r);

struct rpc_status_result {
    int grpc_status; /* 0: the fields below are valid */
    const char *text;
    int32_t active;
    bool failed;
    uint64_t received;
    uint64_t handled;
    int32_t error_code;
    const char *error_text; /* "" if none */
};

/* [loop] Asks a runner for its status; cb is called exactly once, unless the rpc is destroyed
 * first, never from inside. deadline_ns must not be 0. 0, FN_E_EXHAUSTED. */
int rpc_status(struct engage_link *link, int64_t deadline_ns,
               void (*cb)(void *ud, const struct rpc_status_result *), void *ud);

/* [loop] The peers of this node's links, one after the other; walk_end() when done. Texts are
 * borrowed until the loop goes on. */
struct rpc_peer_row {
    const char *address;
    const char *state;     /* of peer_states */
    const char *waits_for;
    const char *why;       /* it is down, or its status fails; NULL: neither */
    const char *labels;    /* of the runner; NULL: none */
    int64_t age_ns;        /* of its state */
};
void rpc_walk_peers(struct rpc *r, struct walk *w);
bool rpc_walk_next_peer(struct rpc *r, struct walk *w, struct rpc_peer_row *ret); /* false: none */

/* ---- server --------------------------------------------------------------------------------- */

struct engage_server *rpc_server_table(void);

/* [loop or init] Listens on address (host:port, :port, [ipv6]:port, unix:/path) and serves
 * RunnerProtocol; cb NULL: only what rpc_server_serve() adds. FN_E_INVALID: bad address or
 * certificates; FN_E_EXISTS: the address is in use. */
int rpc_server_open(struct rpc *r, const char *address, const struct engage_server_cb *cb,
                    void *ud, struct rpc_server **ret, struct fn_error *reterr);
/* The bound TCP port, 0 for a unix socket. */
int rpc_server_port(const struct rpc_server *s);
/* [loop] Stops listening, tells the peers to go away (GOAWAY), lets running calls finish; then
 * done(ud), never from inside. Once. */
void rpc_server_drain(struct rpc_server *s, void (*done)(void *ud), void *ud);
/* [loop] Cancels, closes and frees without any further callback. */
void rpc_server_close(struct rpc_server *s);

#endif
