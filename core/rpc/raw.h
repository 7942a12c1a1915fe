/* Raw: gRPC calls whose messages this room does not look into; what "fn.rpc" and the node pool
 * manager stand on.
 *
 * A call sends one message and gets any number: a unary call is a stream of one. Everything is
 * [loop]; callbacks are never made from inside the function that started the call, and none comes
 * after the object was closed. */
#ifndef RPC_RAW_H
#define RPC_RAW_H

#include <rpc/rpc.h>

/* ---- client ---------------------------------------------------------------------------------- */

struct rpc_channel;
struct rpc_raw; /* one call */

struct rpc_raw_cb {
    void (*message)(void *ud, const void *data, size_t len);  /* borrowed */
    void (*end)(void *ud, int grpc_status, const char *text); /* exactly once; the call is gone */
};

/* Dials at the first call and again whenever the connection broke. identity: NULL = that of the
 * rpc; ref taken, so that a renewed one is for the next handshake. tls_name: the name expected in
 * the certificate, NULL = the address's host. */
int rpc_channel_open(struct rpc *r, const char *address, struct net_identity *identity,
                     const char *tls_name, struct rpc_channel **ret, struct fn_error *reterr);
/* Its calls end without callbacks. NULL ok. */
void rpc_channel_close(struct rpc_channel *ch);

/* deadline_ns 0 = none. The message is copied. */
int rpc_raw_start(struct rpc_channel *ch, const char *method, const void *message, size_t len,
                  int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
                  struct fn_error *reterr);
/* Ends it without callbacks; the peer sees it cancelled. */
void rpc_raw_close(struct rpc_raw *c);

/* ---- server ---------------------------------------------------------------------------------- */

struct rpc_incoming; /* one call of a peer */

#define RPC_QUEUE_MAX 16 /* messages of one stream that wait to be sent */

struct rpc_method {
    const char *path; /* "/NodePoolScaler/AdvertiseCapacity"; NULL ends */
    /* The peer's message, borrowed; NULL when there was none. Answer now or later. */
    void (*called)(void *ud, struct rpc_incoming *in, const void *data, size_t len);
};

struct rpc_service {
    const struct rpc_method *methods;
    /* The peer ended a call that was not answered; `in` is gone. */
    void (*gone)(void *ud, struct rpc_incoming *in);
    void *ud;
    /* There is room again, of which rpc_incoming_has_room() said that there is none. NULL ok. */
    void (*room)(void *ud, struct rpc_incoming *in);
};

/* Methods beside RunnerProtocol's; borrowed, for the life of the server. Once. */
void rpc_server_serve(struct rpc_server *s, const struct rpc_service *service);

/* Whether one more message may wait to be sent. False: RPC_QUEUE_MAX do; room() follows, unless the
 * call ends before. */
bool rpc_incoming_has_room(struct rpc_incoming *in);
/* FN_E_EXHAUSTED: there is no room, or no memory. */
int rpc_incoming_send(struct rpc_incoming *in, const void *data, size_t len);
/* The call is over and `in` gone for its owner. status: enum grpc_status; text may be NULL. */
void rpc_incoming_end(struct rpc_incoming *in, int status, const char *text);
/* The owner's own pointer. */
void rpc_incoming_set(struct rpc_incoming *in, void *owner);
void *rpc_incoming_get(const struct rpc_incoming *in);
const char *rpc_incoming_path(const struct rpc_incoming *in); /* of its method */
/* The name that the peer's certificate proves: its first URI SAN, else its common name; "" when it
 * has neither, which is nobody's name. False on a connection without a certificate of the peer. */
bool rpc_incoming_identity(const struct rpc_incoming *in, char *ret, size_t cap);

#endif
