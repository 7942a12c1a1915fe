/* Addresses as text. */
#include <net/net_int.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

int addr_split(const char *text, char *host, size_t host_cap, char *port, size_t port_cap)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    char *end;
    unsigned long n;

    if (!colon || len >= host_cap || strlen(colon + 1) >= port_cap) {
        return FN_E_INVALID;
    }
    n = strtoul(colon + 1, &end, 10);
    if (!isdigit((unsigned char)colon[1]) || *end || n > 65535) {
        return FN_E_INVALID;
    }
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return FN_E_INVALID;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    snprintf(port, port_cap, "%s", colon + 1);
    return 0;
}

void net_peer_text(const struct sockaddr *addr, char *ret, size_t cap)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const void *)addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&a->sin6_addr);

        inet_ntop(mapped ? AF_INET : AF_INET6, a->sin6_addr.s6_addr + (mapped ? 12 : 0), host,
                  sizeof(host));
        snprintf(ret, cap, mapped ? "%s:%u" : "[%s]:%u", host, ntohs(a->sin6_port));
    } else if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const void *)addr;

        inet_ntop(AF_INET, &a->sin_addr, host, sizeof(host));
        snprintf(ret, cap, "%s:%u", host, ntohs(a->sin_port));
    } else {
        snprintf(ret, cap, "unix");
    }
}

int addr_unix(const char *path, struct sockaddr_storage *ret, socklen_t *ret_len)
{
    struct sockaddr_un *un = (void *)ret;
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(un->sun_path)) {
        return FN_E_INVALID;
    }
    *un = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(un->sun_path, path, len + 1);
    *ret_len = sizeof(*un);
    return 0;
}
