/* Addresses and masks as 16 bytes, IPv4 mapped into IPv6, compared bit by bit. */
#include <net/network.h>

#include <arpa/inet.h>
#include <fn/abi.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define BITS    128u
#define V4_BITS 96u /* in front of an IPv4 address */

static const unsigned char v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

struct net_address net_address_of(const struct sockaddr *addr)
{
    struct net_address a = { { 0 } };

    if (addr->sa_family == AF_INET6) {
        memcpy(a.bytes, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, 16);
    } else if (addr->sa_family == AF_INET) {
        memcpy(a.bytes, v4_prefix, sizeof(v4_prefix));
        memcpy(a.bytes + 12, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
    }
    return a;
}

struct net_address net_customer(struct net_address a)
{
    if (memcmp(a.bytes, v4_prefix, sizeof(v4_prefix)) != 0) {
        memset(a.bytes + 8, 0, 8);
    }
    return a;
}

void net_address_print(const struct net_address *a, char *ret, size_t cap)
{
    bool v4 = memcmp(a->bytes, v4_prefix, sizeof(v4_prefix)) == 0;

    inet_ntop(v4 ? AF_INET : AF_INET6, a->bytes + (v4 ? 12 : 0), ret, (socklen_t)cap);
}

static bool bit(const struct net_address *a, uint32_t i)
{
    return a->bytes[i / 8] >> (7 - i % 8) & 1;
}

/* The number behind '/': all of `max` when there is none; -1 = no such number. */
static int64_t parse_bits(const char *slash, uint32_t max)
{
    char *end;
    unsigned long n;

    if (!slash) {
        return max;
    }
    if (slash[1] < '0' || slash[1] > '9') {
        return -1;
    }
    n = strtoul(slash + 1, &end, 10);
    return *end || n > max ? -1 : (int64_t)n;
}

int net_network_parse(const char *text, struct net_network *ret)
{
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    bool v6 = memchr(text, ':', len) != NULL;
    char host[INET6_ADDRSTRLEN] = "";
    int64_t bits = parse_bits(slash, v6 ? BITS : BITS - V4_BITS);

    if (bits < 0 || len >= sizeof(host)) {
        return FN_E_INVALID;
    }
    memcpy(host, text, len);
    memcpy(ret->address.bytes, v4_prefix, sizeof(v4_prefix));
    ret->bits = (uint32_t)bits + (v6 ? 0 : V4_BITS);
    if (inet_pton(v6 ? AF_INET6 : AF_INET, host, ret->address.bytes + (v6 ? 0 : 12)) != 1) {
        return FN_E_INVALID;
    }
    for (uint32_t i = ret->bits; i < BITS; i++) {
        if (bit(&ret->address, i)) {
            return FN_E_INVALID;
        }
    }
    return 0;
}

bool net_network_has(const struct net_network *n, const struct net_address *a)
{
    uint32_t bytes = n->bits / 8;

    if (memcmp(n->address.bytes, a->bytes, bytes) != 0) {
        return false;
    }
    for (uint32_t i = bytes * 8; i < n->bits; i++) {
        if (bit(&n->address, i) != bit(a, i)) {
            return false;
        }
    }
    return true;
}
