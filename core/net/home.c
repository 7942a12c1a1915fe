/* Takes the host out of a URL, resolves it, and compares each of its addresses with those of the
 * machine's interfaces and with ranges that are always local. */
#include <net/home.h>

#include <base/err.h>
#include <base/url.h>
#include <ifaddrs.h>
#include <net/network.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HOST_MAX 256 /* of DNS, with the end */

/* The host of a URL, without port, brackets and zone: its length, 0 for none, HOST_MAX for none
 * that DNS has. */
static size_t host_of(struct url u, char ret[HOST_MAX])
{
    bool bracketed = *u.host == '[';
    size_t len;

    u.host += bracketed;
    u.host_len -= bracketed && u.host_len > 0;
    len = strcspn(u.host, bracketed ? "]%" : ":");
    len = len < u.host_len ? len : u.host_len;
    if (len >= HOST_MAX) {
        return HOST_MAX;
    }
    memcpy(ret, u.host, len);
    ret[len] = '\0';
    return len;
}

static bool is_always_home(const struct net_address *a)
{
    /* Behind the machine's: metadata of clouds, and IPv4 addresses in two of IPv6's forms. */
    static const char *const texts[] = {
        "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10",
        "100.100.100.200/32", "fd00:ec2::/32", "::/96", "64:ff9b::/96",
    };
    struct net_network n;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (net_network_parse(texts[i], &n) == 0 && net_network_has(&n, a)) {
            return true;
        }
    }
    return false;
}

static bool is_beside(const struct ifaddrs *i, const struct net_address *a)
{
    struct net_address own, mask;
    struct sockaddr_storage storage = { 0 };

    if (!i->ifa_addr || !i->ifa_netmask ||
        (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) {
        return false;
    }
    memcpy(&storage, i->ifa_netmask,
           i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                             : sizeof(struct sockaddr_in6));
    storage.ss_family = i->ifa_addr->sa_family; /* some kernels leave it out of masks */
    own = net_address_of(i->ifa_addr);
    mask = net_address_of((const struct sockaddr *)&storage);
    if (i->ifa_addr->sa_family == AF_INET) {
        memset(mask.bytes, 0xff, 12); /* they are ::ffff:a.b.c.d */
    }
    for (size_t b = 0; b < sizeof(own.bytes); b++) {
        if ((own.bytes[b] ^ a->bytes[b]) & mask.bytes[b]) {
            return false;
        }
    }
    return true;
}

static int is_home(const struct addrinfo *list)
{
    struct ifaddrs *interfaces;
    bool home = false;

    if (getifaddrs(&interfaces) < 0) {
        return FN_E_EXHAUSTED;
    }
    for (; list && !home; list = list->ai_next) {
        struct net_address a = net_address_of(list->ai_addr);

        home = is_always_home(&a);
        for (const struct ifaddrs *i = interfaces; i && !home; i = i->ifa_next) {
            home = is_beside(i, &a);
        }
    }
    freeifaddrs(interfaces);
    return home;
}

static bool is_local_socket(const char *url)
{
    return strncmp(url, "unix://", 7) == 0 || strncmp(url, "unixgram://", 11) == 0;
}

int net_url_leads_home(const char *url)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list;
    char host[HOST_MAX];
    struct url u;
    size_t len;
    int r;

    if (is_local_socket(url)) {
        return 1;
    }
    if (!url_split(url, &u)) {
        return 0;
    }
    len = host_of(u, host);
    if (len == 0) {
        return 1;
    }
    if (len == HOST_MAX || getaddrinfo(host, NULL, &hints, &list) != 0) {
        return 0;
    }
    r = is_home(list);
    freeaddrinfo(list);
    return r;
}
