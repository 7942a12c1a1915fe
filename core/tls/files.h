/* Tls: certificate files of a node, checked when it starts.
 *
 * A key that others can read, a key of another certificate, a file without PEM and a certificate
 * outside its dates are configuration errors, and so is a revocation list that cannot be believed:
 * it would refuse every peer. [init] */
#ifndef TLS_FILES_H
#define TLS_FILES_H

#include <base/err.h>
#include <stdint.h>

#define TLS_FILE_BYTES_MAX (256 * 1024)

/* PEM texts, NUL-terminated; NULL = not configured. */
struct tls_files {
    char *cert_pem;
    char *key_pem;
    char *ca_pem;
    char *crl_pem;
    int64_t not_after_ns;     /* of the certificate, wall clock */
    int64_t crl_not_after_ns; /* of the list that ends first; 0 = none */
};

/* Any may be NULL, cert and key only together, crl only with ca. */
struct tls_paths {
    const char *cert;
    const char *key;
    const char *ca;
    const char *crl;
};

/* Reads and checks the files. wall_ns is the time that certificates and lists are checked against.
 * FN_E_INVALID with the sentence in *reterr. */
int tls_files_load(const struct tls_paths *paths, int64_t wall_ns, struct tls_files *ret,
                   struct fn_error *reterr);
/* Wipes the key before it is freed. */
void tls_files_finish(struct tls_files *t);

#endif
