/* Bind: listening sockets, for net_listen() and for servers that accept by themselves. */
#ifndef NET_BIND_H
#define NET_BIND_H

#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* address: host:port, :port, [ipv6]:port, unix:/path. owner_only: a unix socket is made with mode
 * 0600. The socket listens and does not block. ret_unix_path: malloc'ed, to be removed; NULL for
 * TCP. [init] A host that is a name is looked up at once. FN_E_INVALID bad address,
 * FN_E_UNAVAILABLE "CFG707 ... is in use by pid ...". */
int net_bind(const char *address, bool owner_only, int *ret_fd, char **ret_unix_path,
             uint16_t *ret_port, struct fn_error *reterr);
/* Whether who connected to a unix socket is this user or root. The file's mode keeps others out
 * already; this holds also where somebody changed it. */
bool net_peer_is_owner(int fd);
/* Whether a peer on TCP came by one of these interfaces (names, with `*` as in a shell). This
 * machine itself did not, whichever of its addresses it used. True also where the kernel has no
 * descriptor to tell the name: what cannot be told is refused. */
bool net_came_by(int fd, const struct sockaddr *peer, const struct fn_strlist *interfaces);
int net_interfaces_copy(const struct fn_strlist *from, struct fn_strlist *to); /* FN_E_EXHAUSTED */
void net_interfaces_finish(struct fn_strlist *list);
/* The kernel gives the lowest free number: fd tells how many are in use at least. The last tenth is
 * for calls that run (links to runners, sockets of functions, files) and for the admin socket. */
bool net_is_of_last_tenth(int fd);
/* "10.0.0.7:51234", "[::1]:80" or "unix". */
void net_peer_text(const struct sockaddr *addr, char *ret, size_t cap);

#endif
