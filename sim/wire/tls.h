/* Certificates of simulated nodes: one authority, and one pair that all nodes show each other. */
#ifndef FND_WIRE_TLS_H
#define FND_WIRE_TLS_H

#include <net/tls.h>
#include <stdint.h>

/* What OpenSSL takes for chance comes from the seed from now on: a handshake has the same bytes
 * each time. The texts live as long as the process. */
struct net_tls tls_begin(uint64_t seed);

#endif
