/* Addresses of runners' gRPC ports, as operators write them. Pure. */
#ifndef PLUGINS_ADDRESS_H
#define PLUGINS_ADDRESS_H

#include <stdlib.h>
#include <string.h>

static inline const char *port_fault(const char *port)
{
    size_t n = strspn(port, "0123456789");
    long v;

    if (n == 0 || n > 5 || port[n] != '\0') {
        return "a port 1..65535 after the last colon";
    }
    v = strtol(port, NULL, 10);
    return v >= 1 && v <= 65535 ? NULL : "a port 1..65535 after the last colon";
}

static inline const char *host_fault(const char *host, size_t len)
{
    static const char v6[] = "0123456789abcdefABCDEF:.";
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    if (len == 0) {
        return "a host before the port";
    }
    if (host[0] == '[') {
        return len > 3 && host[len - 1] == ']' && strspn(host + 1, v6) == len - 2 &&
                       memchr(host, ':', len)
                   ? NULL
                   : "an IPv6 address between [ and ]";
    }
    if (memchr(host, ':', len)) {
        return "[ and ] around an IPv6 address";
    }
    return len <= 253 && strspn(host, name) == len ? NULL : "a host name or an IP address";
}

/* What is missing, or NULL: "host:port", "[v6]:port" or "unix:/path". */
static inline const char *address_fault(const char *a)
{
    const char *colon;
    const char *fault;

    if (strncmp(a, "unix:", 5) == 0) {
        return a[5] == '/' && strlen(a + 5) < 108 ? NULL
                                                   : "an absolute path of less than 108 bytes";
    }
    if (strstr(a, "://")) {
        return "host:port without a scheme";
    }
    colon = strrchr(a, ':');
    if (!colon) {
        return "host:port";
    }
    fault = host_fault(a, (size_t)(colon - a));
    return fault ? fault : port_fault(colon + 1);
}

#endif
