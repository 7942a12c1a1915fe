/* Networks: ranges of addresses in their usual text, 10.0.0.0/8 or fd00::/8. */
#ifndef NET_NETWORK_H
#define NET_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address of either family: IPv4 as ::ffff:a.b.c.d; all zero for unix sockets. */
struct net_address {
    unsigned char bytes[16];
};

struct net_network {
    struct net_address address;
    uint32_t bits;
};

struct net_address net_address_of(const struct sockaddr *addr);
bool net_address_is_v6(const struct net_address *a); /* and no IPv4 in it */
/* Address with or without a length; FN_E_INVALID for anything else, and for bits behind the
 * length. */
int net_network_parse(const char *text, struct net_network *ret);
bool net_network_has(const struct net_network *n, const struct net_address *a);

#endif
