/* Identities: certificates of one side of a connection, and whom it talks to.
 *
 * Counted and locked, because handshakes run on gRPC's threads. Renewing one changes what later
 * handshakes use; connections live on. A peer is known by the names that its certificate proves:
 * URI and DNS alternative names, and the common name. */
#ifndef RPC_TLS_H
#define RPC_TLS_H

#include <grpc/grpc_security.h>
#include <rpc/rpc.h>

struct identity;

/* NULL: out of memory. tls: copied. */
struct identity *identity_create(const struct rpc_tls *tls);
struct identity *identity_ref(struct identity *i);
void identity_unref(struct identity *i); /* NULL ok */
/* FN_E_EXHAUSTED: the old one stays. */
int identity_renew(struct identity *i, const struct rpc_tls *tls);
/* Grows with each renewal. */
uint64_t identity_generation(struct identity *i);
bool identity_is_plain(struct identity *i); /* no certificates at all */
/* What is expected in a server's certificate instead of its address; NULL: the address. Borrowed
 * until the identity is renewed: for the loop only. */
const char *identity_server_name(struct identity *i);

grpc_channel_credentials *identity_client_credentials(struct identity *i);
/* `seen` lives as long as the server: the generation that it uses. */
struct identity_seen {
    struct identity *identity;
    uint64_t generation;
};
grpc_server_credentials *identity_server_credentials(struct identity_seen *seen);

/* Whether the peer of a call is one of the identity's peers; its name in ret ("" = none). Without a
 * list of peers everybody with a certificate is. */
bool identity_allows(struct identity *i, grpc_call *call, char *ret, size_t cap);
/* Whether the peer showed a certificate; ret: its first URI name, else its common name, "" when it
 * has neither. */
bool identity_of_peer(grpc_call *call, char *ret, size_t cap);

#endif
