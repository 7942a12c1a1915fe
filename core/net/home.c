/* Takes the host out of a URL, resolves it, and compares each of its addresses with those of the
 * machine's interfaces and with ranges that are always local. */
#include <net/home.h>

#include <base/url.h>
#include <ifaddrs.h>
#include <net/network.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HOST_MAX 256 /* of DNS, with the end */

/* The host of a URL, without port, brackets and zone. */
static bool host_of(const char *text, char ret[HOST_MAX])
{
    struct url u;
    size_t len;

    if (!url_split(text, &u)) {
        return false;
    }
    if (*u.host == '[') {
        u.host++;
        u.host_len--;
        len = strcspn(u.host, "]%");
    } else {
        len = strcspn(u.host, ":");
    }
    len = len < u.host_len ? len : u.host_len;
    if (len == 0 || len >= HOST_MAX) {
        return false;
    }
    memcpy(ret, u.host, len);
    ret[len] = '\0';
    return true;
}

static bool is_always_home(const struct net_address *a)
{
    static const char *const texts[] = { "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16",
                                         "::/128",    "::1/128",     "fe80::/10" };
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

static bool is_home(const struct addrinfo *list)
{
    struct ifaddrs *interfaces = NULL;
    bool home = false;

    if (getifaddrs(&interfaces) < 0) {
        interfaces = NULL;
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

bool net_url_leads_home(const char *url)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list;
    char host[HOST_MAX];
    bool home;

    if (is_local_socket(url)) {
        return true;
    }
    if (!host_of(url, host) || getaddrinfo(host, NULL, &hints, &list) != 0) {
        return false;
    }
    home = is_home(list);
    freeaddrinfo(list);
    return home;
}
