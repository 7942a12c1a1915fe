/* Visitors: the connections of a port, counted in all and by address; a /64 of IPv6, which is what
 * one customer has, counts as one. Unix sockets have no address and one count. [loop] */
#ifndef NET_VISITORS_H
#define NET_VISITORS_H

#include <base/metric.h>
#include <base/table.h>
#include <net/network.h>

/* One address. */
struct visitor {
    UT_hash_handle hh;
    struct visitors *all;
    struct net_address address; /* key; all zero: none */
    uint32_t n;     /* connections, and what else the port counts as such */
    uint64_t holds; /* the port's own to count: handshakes, bytes */
    bool is_proxy;  /* the port's own: many clients, who are not told apart */
};

/* Zeroed: nobody came. */
struct visitors {
    struct visitor *table;
    uint32_t n;
    struct metric *open; /* gauge of those that are there, or NULL */
    bool closed;
};

/* In memory of its own, which outlives the port. NULL: out of memory. */
struct visitors *visitors_create(struct metric *open);
void visitors_unref(struct visitors *v); /* the port is closed; connections may be left. NULL ok */

/* One more connection of this address; NULL: out of memory. */
struct visitor *visitor_come(struct visitors *v, struct net_address address);
void visitor_leave(struct visitor *p); /* NULL ok */

#endif
