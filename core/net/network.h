/* Networks: ranges of addresses in their usual text, 10.0.0.0/8 or fd00::/8. */
#ifndef NET_NETWORK_H
#define NET_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
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
/* What counts as one address for limits: a /64 of IPv6, which is what one customer has. */
struct net_address net_customer(struct net_address a);
/* "192.0.2.1", "2001:db8::1". cap >= INET6_ADDRSTRLEN */
void net_address_print(const struct net_address *a, char *ret, size_t cap);
/* Address with or without a length; FN_E_INVALID for anything else, and for bits behind the
 * length. */
int net_network_parse(const char *text, struct net_network *ret);
bool net_network_has(const struct net_network *n, const struct net_address *a);

#endif
