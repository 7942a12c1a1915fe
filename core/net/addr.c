/* Addresses of sockets, and their text. */
#include <net/net_int.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

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

int net_unix_addr(const char *path, struct sockaddr_storage *ret, socklen_t *ret_len)
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
