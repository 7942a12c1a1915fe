/* Addresses as text. */
#include <base/addr.h>

#include <arpa/inet.h>
#include <base/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIX_PREFIX "unix:"
#define PORT_LAST 65535

/* "host", "[ipv6]" or nothing. */
static int parse_host(const char *text, size_t len, char ret[ADDR_HOST_MAX + 1])
{
    bool brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';

    if (brackets) {
        text++;
        len -= 2;
    }
    /* Brackets are IPv6's alone: "[unix]:4" would be printed as "unix:4", which is none. */
    if (brackets != (memchr(text, ':', len) != NULL) || len > ADDR_HOST_MAX) {
        return FN_E_INVALID;
    }
    memcpy(ret, text, len);
    ret[len] = '\0';
    return ret[strcspn(ret, " /[]")] ? FN_E_INVALID : 0;
}

static int parse_port(const char *text, char ret[ADDR_PORT_MAX + 1])
{
    size_t len = strlen(text);

    if (len == 0 || len > ADDR_PORT_MAX || strspn(text, "0123456789") != len ||
        strtoul(text, NULL, 10) > PORT_LAST) {
        return FN_E_INVALID;
    }
    memcpy(ret, text, len + 1);
    return 0;
}

int addr_parse(const char *text, struct addr *ret)
{
    const char *colon = strrchr(text, ':');

    *ret = (struct addr){ 0 };
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        ret->path = text + strlen(UNIX_PREFIX);
        return ret->path[0] == '/' && ret->path[1] ? 0 : FN_E_INVALID;
    }
    if (!colon || parse_port(colon + 1, ret->port) < 0) {
        return FN_E_INVALID;
    }
    return parse_host(text, (size_t)(colon - text), ret->host);
}

int addr_parse_host(const char *text, struct addr *ret)
{
    char with_port[ADDR_HOST_MAX + 16];
    int r = addr_parse(text, ret);

    if (r < 0 && strlen(text) <= ADDR_HOST_MAX) {
        snprintf(with_port, sizeof(with_port), "%s:80", text);
        r = addr_parse(with_port, ret);
    }
    return r == 0 && ret->path ? FN_E_INVALID : r;
}

uint16_t addr_port(const struct addr *a)
{
    return (uint16_t)strtoul(a->port, NULL, 10);
}

bool addr_is_everywhere(const struct addr *a)
{
    return !a->path && (!*a->host || strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0);
}

/* A number alone: 127.example is a name, and leads wherever its owner likes. */
static bool is_loopback_number(const char *host)
{
    unsigned char ip[4];

    return inet_pton(AF_INET, host, ip) == 1 && ip[0] == 127;
}

bool addr_is_local(const struct addr *a)
{
    return a->path || is_loopback_number(a->host) || strcmp(a->host, "::1") == 0 ||
           strcmp(a->host, "localhost") == 0;
}

void addr_print_host(const struct addr *a, char ret[ADDR_HOST_MAX + 3])
{
    snprintf(ret, ADDR_HOST_MAX + 3, strchr(a->host, ':') ? "[%s]" : "%s", a->host);
}
