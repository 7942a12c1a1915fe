/* Private to core/net.
 *
 *   bio.c    a stream's socket as OpenSSL sees it
 *   tls.c    identities: contexts of OpenSSL, names of peers
 *   io.c     one stream: reading, writing, ending
 *   shake.c  a stream's TLS handshake
 *   dial.c   from an address to a stream
 *   listen.c from a port to streams
 *   bind.c   listening sockets
 *   inherit.c  listening sockets that a service manager holds
 *   addr.c   addresses as text
 *   visitors.c  connections of a port, by address
 *   port_counts.c  what comes to a port, for operators
 *   network.c ranges of addresses
 *   home.c   whether a URL leads to this machine
 *   origin.c by which interface a connection came
 *
 * A stream's ways to be told about: events of its socket, and the task `later` for what epoll does
 * not know: bytes that OpenSSL has read ahead, and a socket that hung up and is not watched. */
#ifndef NET_NET_INT_H
#define NET_NET_INT_H

#include <base/addr.h>
#include <net/bind.h>
#include <net/io.h>
#include <net/visitors.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#define NET_PEER_BYTES 64
#define NET_NAME_BYTES 256  /* longer names are nobody's */
#define NET_TEXT_BYTES 256  /* one sentence */
#define NET_STAGE_MAX  16384 /* one record */

/* PEM texts are not kept: the contexts hold what was read from them. */
struct net_identity {
    uint32_t refs;
    BIO_METHOD *bio; /* how OpenSSL reads and writes a stream's socket */
    SSL_CTX *client; /* NULL: plain text */
    SSL_CTX *server; /* NULL: no certificate to show */
    char *server_name;
    char **peers;
    uint32_t n_peers;
};

struct shaking;

struct net_io {
    struct loop_fd w;
    struct loop *loop;
    struct env *env;
    const struct net_io_cb *cb;
    void *ud;
    struct net_identity *identity; /* NULL: plain */
    SSL *ssl;
    struct shaking *shaking; /* NULL but during the handshake */
    void (*shake_cancel)(struct net_io *io); /* ends that without done() */
    const char *alpn; /* during the handshake */
    bool alpn_optional;
    char *stage; /* a record that OpenSSL wants to see again; NULL = none */
    size_t stage_len;
    struct env_task later;
    bool *gone; /* of the function that is calling out: set when the stream was closed meanwhile */
    struct metric *received, *sent; /* NULL: nobody counts */
    struct visitor *visitor; /* counted until the stream is closed; NULL: dialled */
    char *error;
    int error_no; /* of the socket, while OpenSSL reports it */
    bool heard;             /* a byte came under TLS */
    bool reading;           /* the owner wants to read */
    bool waits_write;       /* the owner was told NET_AGAIN */
    bool drained;           /* OpenSSL has nothing more without the socket */
    bool read_wants_write;  /* TLS has something to say before it can read */
    bool write_wants_read;  /* and the other way round */
    bool eof;               /* the socket ended */
    bool ended;             /* the owner knows that the peer's side ended */
    bool broken;
    enum net_shake_failure shake_failure;
    bool hung;   /* the socket hung up while reading was off: not watched any more */
    bool ending; /* our side ends once the stage is empty */
    char peer[NET_PEER_BYTES];
};

/* tls.c */
/* Whether one of the certificate's names is a peer; ret: its first name (URI, DNS, common name), ""
 * = none that can be told in full. */
bool identity_names_peer(const struct net_identity *i, X509 *cert, char *ret, size_t cap);
/* See net_io_peer_identity(). */
void cert_name(X509 *cert, char *ret, size_t cap);

/* bio.c */
BIO_METHOD *io_bio_method(void); /* NULL: out of memory */

/* io.c */
int io_break(struct net_io *io, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* OpenSSL's reason for a failed operation, as text for people. */
void io_tls_reason(struct net_io *io, char *ret, size_t cap);
void io_event(struct loop_fd *w, uint32_t events);

/* addr.c */
/* FN_E_INVALID: empty or too long. */
int net_unix_addr(const char *path, struct sockaddr_storage *ret, socklen_t *ret_len);

#endif
