/* One loop, a listener, both ends of a connection, for the tests of core/net.
 *
 * The test holds the loop; UNTIL() lends it to itself until something is true. */
#ifndef TEST_NET_RIG_H
#define TEST_NET_RIG_H

#include "certs.h"

#include <base/buf.h>
#include <check.h>
#include <net/io.h>

struct end {
    struct net_io *io;
    struct buf in;
    const char *out; /* to be written; borrowed */
    size_t out_len;
    bool manual; /* nothing is read by itself */
    bool stuck;  /* NET_AGAIN was seen while writing */
    bool eof;
    bool failed;
    char error[256];
    int readable_n;
};

struct rig {
    struct loop *loop;
    struct env *env;
    struct net_listener *listener;
    int64_t handshake_timeout_ms; /* set before rig_listen(); 0: 20 s */
    uint32_t handshakes_max;      /* 0: 4 */
    struct net_listen_config limits; /* of connections; the rest of it is not used */
    uint32_t accepted;
    char address[128];
    struct end client, server;
    struct net_dial *dial;
    bool dialled; /* done was told */
    char error[256];
};

extern struct rig rig;

void rig_start(void);
void rig_stop(void); /* closes what there is */
void rig_turn(void);

#define UNTIL(what)                                                                                \
    do {                                                                                           \
        int64_t end_ns_ = env_now_ns(rig.env) + 30 * ENV_S;                                        \
        while (!(what)) {                                                                          \
            ck_assert_msg(env_now_ns(rig.env) < end_ns_, "in vain: " #what);                       \
            rig_turn();                                                                            \
        }                                                                                          \
    } while (0)

void end_take(struct end *e, struct net_io *io);
void end_send(struct end *e, const void *data, size_t len); /* borrowed until it is out */
void end_close(struct end *e);

/* i NULL: plain; address NULL: 127.0.0.1, port 0. */
void rig_listen(const char *address, struct net_identity *i, const char *alpn);
void rig_dial(const char *address, struct net_identity *i, const char *name, const char *alpn,
              int64_t timeout_ms);
/* Dials the listener; both ends are there afterwards. */
void rig_connect(struct net_identity *i);
/* Dials and expects a failure at the client that contains `text`: of the handshake, or of the first
 * read, since a client of TLS 1.3 is done before the server has looked at its certificate. */
void rig_refused(struct net_identity *i, const char *name, const char *text);

struct net_identity *identity_of(const struct pair *p, const char *ca, const char *crl,
                                 const char *peer);

#endif
