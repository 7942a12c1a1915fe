/* Identities: the certificates of one side of a connection, and whom it talks to.
 *
 * Counted, because connections outlive a renewal; a renewed identity is used by later handshakes,
 * connections live on. A peer is known by the names that its certificate proves: URI and DNS
 * alternative names, and the common name. Everything is [loop]. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Certificates as PEM texts; all NULL = plain text. With ca_pem a server demands a client
 * certificate that it signed. Of those only peers whose certificate has a name (URI, DNS, common
 * name) that matches one of the patterns may call, or be called; no pattern = all. */
struct net_tls {
    const char *cert_pem;
    const char *key_pem;
    const char *ca_pem;
    const char *crl_pem;     /* revocation lists of the authorities in ca_pem, or NULL */
    const char *server_name; /* client: expected in certificates instead of the address, or NULL */
    const char *const *peers;
    uint32_t n_peers;
};

struct net_identity;

/* tls: copied. FN_E_INVALID: a text is no certificate, no key, or they do not belong together. */
int net_identity_create(const struct net_tls *tls, struct net_identity **ret,
                        struct fn_error *reterr);
struct net_identity *net_identity_ref(struct net_identity *i);
void net_identity_unref(struct net_identity *i); /* NULL ok */
bool net_identity_is_shared(const struct net_identity *i); /* somebody else counts it, too */
/* FN_E_INVALID, FN_E_EXHAUSTED: the old one stays. */
int net_identity_renew(struct net_identity *i, const struct net_tls *tls, struct fn_error *reterr);
bool net_identity_is_plain(const struct net_identity *i); /* no certificates at all */
/* Whether a name is one of the peers' patterns; a star stands for any text without a slash. */
bool net_identity_has_peer(const struct net_identity *i, const char *name);

#endif
