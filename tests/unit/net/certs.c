/* X509 objects of OpenSSL, signed on the spot; whatever fails ends the program with its name. */
#include "certs.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY 86400L

/* Also programs that are no tests of Check make certificates. */
static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "certs: %s\n", what);
        abort();
    }
}

static char *text_of(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    char *text = calloc(1, (size_t)len + 1);

    memcpy(text, data, (size_t)len);
    BIO_free(bio);
    return text;
}

static char *cert_text(X509 *cert)
{
    BIO *bio = BIO_new(BIO_s_mem());

    PEM_write_bio_X509(bio, cert);
    return text_of(bio);
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    must(e, value);
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

/* issuer NULL: signed by itself. */
static X509 *make(const char *name, const char *san, const struct authority *issuer, EVP_PKEY *key,
                  long serial, int from, int to)
{
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), from * DAY);
    X509_gmtime_adj(X509_getm_notAfter(cert), to * DAY);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
                               0);
    X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
    X509_set_pubkey(cert, key);
    if (!issuer) {
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
    }
    if (san) {
        add_extension(cert, cert, NID_subject_alt_name, san);
    }
    must(X509_sign(cert, issuer ? issuer->key : key, EVP_sha256()) > 0, name);
    return cert;
}

void authority_make(struct authority *a, const char *name)
{
    a->key = EVP_EC_gen("P-256");
    a->cert = make(name, NULL, NULL, a->key, 1, -1, 10);
    a->serial = 1;
    a->pem = cert_text(a->cert);
}

void authority_free(struct authority *a)
{
    X509_free(a->cert);
    EVP_PKEY_free(a->key);
    free(a->pem);
}

struct pair pair_make(struct authority *a, const char *name, const char *san, int from, int to)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = make(name, san, a, key, ++a->serial, from, to);
    BIO *bio = BIO_new(BIO_s_mem());
    struct pair p;

    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    p = (struct pair){ cert_text(cert), text_of(bio), a->serial };
    X509_free(cert);
    EVP_PKEY_free(key);
    return p;
}

void pair_free(struct pair *p)
{
    free(p->cert);
    free(p->key);
}

char *list_make(struct authority *a, long serial, int to)
{
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *time = ASN1_TIME_new();
    BIO *bio = BIO_new(BIO_s_mem());
    X509_REVOKED *r;
    ASN1_INTEGER *n;

    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(a->cert));
    X509_gmtime_adj(time, -2 * DAY);
    X509_CRL_set1_lastUpdate(list, time);
    if (serial >= 0) {
        r = X509_REVOKED_new();
        n = ASN1_INTEGER_new();
        ASN1_INTEGER_set(n, serial);
        X509_REVOKED_set_serialNumber(r, n);
        X509_REVOKED_set_revocationDate(r, time);
        X509_CRL_add0_revoked(list, r);
        ASN1_INTEGER_free(n);
    }
    X509_gmtime_adj(time, to * DAY);
    X509_CRL_set1_nextUpdate(list, time);
    X509_CRL_sort(list);
    must(X509_CRL_sign(list, a->key, EVP_sha256()) > 0, "a list cannot be signed");
    PEM_write_bio_X509_CRL(bio, list);
    X509_CRL_free(list);
    ASN1_TIME_free(time);
    return text_of(bio);
}
