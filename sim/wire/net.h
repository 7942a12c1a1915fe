/* What the files of this folder know of the network. */
#ifndef FND_WIRE_NET_H
#define FND_WIRE_NET_H

#include "../world/world.h"

#include "kernel.h"

struct host *net_host(struct net *net, const struct node *n);
struct host *net_clients(struct net *net); /* the machine of all clients */
uint32_t net_ip_of_lb(uint32_t index);
struct net_identity *net_https(const struct net *net); /* NULL: clients come in the clear */
static inline bool net_is_https(const struct net *net)
{
    return net_https(net) != NULL;
}

#endif
