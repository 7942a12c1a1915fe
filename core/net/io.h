/* Io: one connected byte stream that never blocks, plain or under TLS, and how it comes about:
 * dialled (dial.c), accepted (listen.c), or made of a socket that somebody else connected.
 * Everything is [loop]. */
#ifndef NET_IO_H
#define NET_IO_H

#include <base/metric.h>
#include <loop/loop.h>
#include <net/tls.h>
#include <sys/types.h>
#include <sys/uio.h>

/* What read and write answer besides a count. */
#define NET_AGAIN (-1) /* nothing now; ready() will be called */
#define NET_ERROR (-2) /* the stream is broken; net_io_error() says why */

struct net_io;

struct net_io_cb {
    /* The stream may be read or written again after NET_AGAIN. Level-triggered reading: called as
     * long as there is something to read and reading is on (net_io_want_read). Never called from
     * inside a function of this file. */
    void (*readable)(void *ud);
    void (*writable)(void *ud);
};

/* The owner of a new stream sets itself at once. Reading is on. */
void net_io_set(struct net_io *io, const struct net_io_cb *cb, void *ud);
/* Off: readable() is not called, the peer's window fills (back-pressure). A connection that hangs
 * up or breaks meanwhile is told all the same, by one readable(). */
void net_io_want_read(struct net_io *io, bool on);
/* > 0 bytes, 0 the peer ended its side, NET_AGAIN, NET_ERROR. Reading is off after 0 and
 * NET_ERROR. */
ssize_t net_io_read(struct net_io *io, void *buf, size_t cap);
/* > 0 bytes taken (may be fewer: the caller asks again until NET_AGAIN), NET_AGAIN (writable()
 * comes once), NET_ERROR. Under TLS the iovec is copied into records; what was reported as taken is
 * taken: up to one record waits here for the socket. With nothing to write (n 0) it answers whether
 * such a record waits: 0 none, else NET_AGAIN. Closing loses it, net_io_end() does not. What was
 * not reported as taken when NET_ERROR came has not left: the proof that a call never ran rests on
 * it. After NET_ERROR a stream without TLS can be read on: what the peer sent before it hung up is
 * there. */
ssize_t net_io_writev(struct net_io *io, const struct iovec *iov, int n);
/* Counters of the bytes that are read and taken from now on, without what TLS adds. */
void net_io_count(struct net_io *io, struct metric *received, struct metric *sent);
/* Ends our side once everything that was taken is out: TLS's close_notify, then FIN. */
void net_io_end(struct net_io *io);
const char *net_io_error(const struct net_io *io); /* one sentence; borrowed */
/* No callback after this. Sends TLS's close_notify if that is possible without waiting. NULL ok. */
void net_io_close(struct net_io *io);
/* The same with a reset and no close_notify: what was sent must not look whole. */
void net_io_reset(struct net_io *io);

/* "10.0.0.7:51234", "[::1]:80" or "unix"; borrowed. */
const char *net_io_peer(const struct net_io *io);
int net_io_fd(const struct net_io *io);
/* Whether the peer showed a certificate; ret: its first URI name, else its common name, "" when it
 * has neither or one that cannot be told in full. */
bool net_io_peer_identity(const struct net_io *io, char *ret, size_t cap);
/* Whether one of the names of the peer's certificate is allowed by the identity that the stream was
 * made with; without a list of peers every peer is. ret: the peer's first name, "" = none. */
bool net_io_peer_allowed(const struct net_io *io, char *ret, size_t cap);

/* ---- sockets that somebody else connected ---------------------------------------------------- */

/* Takes fd, which is connected and non-blocking; a failure closes it. FN_E_EXHAUSTED. */
int net_io_create(struct loop *loop, int fd, const char *peer, struct net_io **ret,
                  struct fn_error *reterr);

struct net_shake {
    struct net_identity *identity; /* ref taken; not plain */
    const char *name; /* of the server, expected in its certificate; NULL: we are the server */
    const char *alpn; /* as in net_dial, borrowed until done; NULL = none */
    bool alpn_optional; /* chosen where it is offered, and not demanded; a server may then have
                           several, "h2,http/1.1", the first that is offered is chosen */
    int64_t timeout_ms;
};
/* Shakes hands on a stream whose owner has not used it yet; done(ud, error) once, never from
 * inside. After an error, and to give up: net_io_close(). A client checks the names of the server
 * here (TLS805); which clients are allowed is the owner's question, net_io_peer_allowed().
 * FN_E_EXHAUSTED; FN_E_INVALID: the identity has no certificate for a server. */
int net_io_shake(struct net_io *io, const struct net_shake *shake,
                 void (*done)(void *ud, const char *error), void *ud, struct fn_error *reterr);
/* Whether the handshake agreed on this protocol. */
bool net_io_chose(const struct net_io *io, const char *alpn);
/* What a handshake that failed tells about the peer. */
enum net_shake_failure {
    NET_SHAKE_REFUSED,    /* one of the two does not want the other */
    NET_SHAKE_HUNG_UP,    /* it went away: a port scan, a health check */
    NET_SHAKE_PLAIN_HTTP, /* it sent an HTTP request without TLS */
};
enum net_shake_failure net_io_shake_failure(const struct net_io *io);

/* ---- dialling -------------------------------------------------------------------------------- */

struct net_dial;

/* Address: host:port, [ipv6]:port, unix:/path. Resolves (names: on a lane, never on the loop),
 * connects, shakes hands; done(ud, io, error) exactly once, never from inside: io given to the
 * owner or NULL with a sentence (borrowed). tls_name: expected in the certificate instead of
 * identity's server_name or the host; NULL ok. `alpn` ("h2") is offered and demanded under TLS;
 * NULL = none. FN_E_EXHAUSTED, FN_E_INVALID: nothing was started. */
struct net_dial_config {
    const char *address;
    struct net_identity *identity; /* ref taken; NULL or plain: no TLS */
    const char *tls_name;
    const char *alpn;
    int64_t timeout_ms; /* all of it together; > 0 */
};
int net_dial(struct loop *loop, const struct net_dial_config *config,
             void (*done)(void *ud, struct net_io *io, const char *error), void *ud,
             struct net_dial **ret, struct fn_error *reterr);
/* No callback; NULL ok. Not after done(). */
void net_dial_cancel(struct net_dial *d);

/* ---- listening ------------------------------------------------------------------------------- */

struct net_listener;

struct net_listen_config {
    const char *name;    /* of the port in metrics (port_counts.h), a literal */
    const char *address; /* host:port, :port, [ipv6]:port, unix:/path */
    struct net_identity *identity; /* ref taken; NULL or plain: no TLS */
    const char *alpn;              /* as in net_dial */
    int64_t handshake_timeout_ms;  /* TLS; > 0 */
    /* At a time. One address may hold a share (base/share.h), so that others find room; beyond it
     * connections are closed. When all are taken, the one that has been silent longest is cut; when
     * none is silent, more wait in the backlog, oldest first. */
    uint32_t handshakes_max;
    int64_t silence_timeout_ms; /* until the first byte of a handshake; 0 = as the handshake */
    uint32_t connections_max;   /* handshakes and those that were handed over; 0 = any number */
    uint32_t connections_per_ip_max; /* the same of one address; a /64 of IPv6 is one */
    const struct fn_strlist *refuse_interfaces; /* see net_came_by(); copied; NULL ok */
};
/* accepted(ud, io): handed to the owner, after the handshake. Whoever is turned away is closed
 * before a byte of it is read. Failed handshakes and refusals are logged (gated) and counted
 * in metrics. FN_E_INVALID bad address, FN_E_UNAVAILABLE "CFG707 ... is in use by pid ...". */
int net_listen(struct loop *loop, const struct net_listen_config *config,
               void (*accepted)(void *ud, struct net_io *io), void *ud, struct net_listener **ret,
               struct fn_error *reterr);
int net_listener_port(const struct net_listener *l); /* bound TCP port, 0 for a unix socket */
void net_listener_close(struct net_listener *l); /* NULL ok; unlinks a unix socket */

#endif
