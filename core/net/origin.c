/* By which interface a connection came: the kernel keeps that of the first packet, and tells it
 * where others than streams would read it with their data. */
#include <net/bind.h>

#include <errno.h>
#include <fnmatch.h>
#include <net/if.h>
#include <net/network.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define PKTOPTIONS_BYTES 256

static int index_in(char *options, socklen_t len)
{
    struct msghdr m = { .msg_control = options, .msg_controllen = len };

    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        struct in_pktinfo v4;
        struct in6_pktinfo v6;

        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            memcpy(&v4, CMSG_DATA(c), sizeof(v4));
            return v4.ipi_ifindex;
        }
        if (c->cmsg_level == IPPROTO_IPV6 &&
            (c->cmsg_type == IPV6_PKTINFO || c->cmsg_type == IPV6_2292PKTINFO)) {
            memcpy(&v6, CMSG_DATA(c), sizeof(v6));
            return (int)v6.ipi6_ifindex;
        }
    }
    return 0;
}

static int interface_of(int fd, int family)
{
    _Alignas(struct cmsghdr) char options[PKTOPTIONS_BYTES];
    socklen_t len = sizeof(options);
    bool v6 = family == AF_INET6;
    int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    int on = 1;

    if (setsockopt(fd, level, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, sizeof(on)) < 0 ||
        getsockopt(fd, level, v6 ? IPV6_2292PKTOPTIONS : IP_PKTOPTIONS, options, &len) < 0) {
        return 0;
    }
    return index_in(options, len);
}

/* It called itself; by an address of a bridge that shows as the bridge. */
static bool is_own(int fd, const struct sockaddr *peer)
{
    struct sockaddr_storage self = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof(self);
    struct net_address a = net_address_of(peer), b;

    if (getsockname(fd, (struct sockaddr *)&self, &len) < 0) {
        return false;
    }
    b = net_address_of((const struct sockaddr *)&self);
    return memcmp(&a, &b, sizeof(a)) == 0;
}

int net_interfaces_copy(const struct fn_strlist *from, struct fn_strlist *to)
{
    char **items = calloc(from->n + 1, sizeof(*items));

    *to = (struct fn_strlist){ .items = (const char *const *)items };
    for (; items && to->n < from->n; to->n++) {
        items[to->n] = strdup(from->items[to->n]);
        if (!items[to->n]) {
            net_interfaces_finish(to);
            return FN_E_EXHAUSTED;
        }
    }
    return items ? 0 : FN_E_EXHAUSTED;
}

void net_interfaces_finish(struct fn_strlist *list)
{
    for (uint64_t i = 0; i < list->n; i++) {
        free((char *)(uintptr_t)list->items[i]);
    }
    free((void *)(uintptr_t)list->items);
    *list = (struct fn_strlist){ .n = 0 };
}

bool net_came_by(int fd, const struct sockaddr *peer, const struct fn_strlist *interfaces)
{
    char name[IF_NAMESIZE];
    int index;

    if (interfaces->n == 0 || (peer->sa_family != AF_INET && peer->sa_family != AF_INET6)) {
        return false;
    }
    index = interface_of(fd, peer->sa_family);
    if (index == 0 || is_own(fd, peer)) {
        return false;
    }
    if (!if_indextoname((unsigned)index, name)) {
        return errno != ENXIO; /* it asks by a socket: without a descriptor nobody can say */
    }
    for (uint64_t i = 0; i < interfaces->n; i++) {
        if (fnmatch(interfaces->items[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}
