/* Certificates made by a test for itself: authorities, certificates that they signed, revocation
 * lists. Texts are malloc'ed PEM. */
#ifndef TEST_NET_CERTS_H
#define TEST_NET_CERTS_H

#include <openssl/x509.h>

struct authority {
    X509 *cert;
    EVP_PKEY *key;
    long serial;
    char *pem;
};

struct pair {
    char *cert, *key;
    long serial;
};

void authority_make(struct authority *a, const char *name);
void authority_free(struct authority *a);
/* san: "DNS:a,IP:127.0.0.1,URI:spiffe://x", or NULL; valid from..to, in days from now. */
struct pair pair_make(struct authority *a, const char *name, const char *san, int from, int to);
void pair_free(struct pair *p);
/* serial < 0: nothing is revoked; the list is current until `to` days from now. */
char *list_make(struct authority *a, long serial, int to);

#endif
