/* Addresses as people write them: host:port, [ipv6]:port, :port and unix:/path.
 *
 * The one reader of such texts: options, listeners, dialling and log destinations agree on what
 * they mean. Nothing is looked up here; names become numbers in core/net and core/loop. */
#ifndef BASE_ADDR_H
#define BASE_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDR_HOST_MAX 255 /* RFC 1035: a name has at most 253 characters */
#define ADDR_PORT_MAX 5   /* digits */

struct addr {
    const char *path; /* of a unix socket, absolute, borrowed from the text; NULL: TCP */
    char host[ADDR_HOST_MAX + 1]; /* without brackets; "" = every address of the machine */
    char port[ADDR_PORT_MAX + 1]; /* decimal digits, 0 .. 65535, as they were written */
};

/* [any] 0, or FN_E_INVALID for what is none of the four forms. */
int addr_parse(const char *text, struct addr *ret);

/* [any] The same for what names a server to its clients, as the header Host: host or host:port, no
 * path; without a port it is 80. */
int addr_parse_host(const char *text, struct addr *ret);

/* [any] The number of `port`; 0 for unix sockets. */
uint16_t addr_port(const struct addr *a);

/* [any] Is it every address of the machine: no host, 0.0.0.0 or [::]? */
bool addr_is_everywhere(const struct addr *a);

/* [any] Do only processes of this machine reach it: a unix socket, 127.0.0.0/8, [::1], localhost?
 */
bool addr_is_local(const struct addr *a);

/* [any] The host as it stands in front of ":port": IPv6 addresses in brackets. */
void addr_print_host(const struct addr *a, char ret[ADDR_HOST_MAX + 3]);

#endif
