/* Visitors: the connections of a port, counted in all and by address; a /64 of IPv6, which is what
 * one customer has, counts as one. Unix sockets have no address and one count. [loop] */
#ifndef NET_VISITORS_H
#define NET_VISITORS_H

#include <base/metric.h>
#include <net/network.h>

struct visitors;
struct visitor; /* one address */

/* open: the gauge of those that are there. NULL: out of memory. */
struct visitors *visitors_create(struct metric *open);
void visitors_unref(struct visitors *v); /* the port is closed; connections may be left. NULL ok */

/* One more connection of this address; NULL: out of memory. */
struct visitor *visitor_come(struct visitors *v, const struct sockaddr *addr);
void visitor_leave(struct visitor *p); /* NULL ok */

uint32_t visitors_n(const struct visitors *v);
uint32_t visitor_n(const struct visitor *p);
bool visitor_has_address(const struct visitor *p);
uint32_t *visitor_handshakes(struct visitor *p); /* the owner's to count */

#endif
