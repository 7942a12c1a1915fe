/* `fnd certs demo`: an authority and certificates of nodes, for trials. EC P-256, good for a
 * year. */
#include <main/cli.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAYS_VALID 365
#define PATH_MAX_ 4096

struct pair {
    X509 *cert;
    EVP_PKEY *key;
};

static void pair_finish(struct pair *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool good;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    good = e && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

static bool set_serial(X509 *cert)
{
    BIGNUM *n = BN_new();
    bool good = n && BN_rand(n, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));

    BN_free(n);
    return good;
}

/* A certificate for name, signed by `by` (NULL = itself, an authority). */
static bool issue(const char *name, const struct pair *by, struct pair *ret)
{
    X509_NAME *subject;
    char names[512];
    bool good;

    *ret = (struct pair){ X509_new(), EVP_EC_gen("P-256") };
    if (!ret->cert || !ret->key) {
        return false;
    }
    subject = X509_get_subject_name(ret->cert);
    good = X509_set_version(ret->cert, 2) && set_serial(ret->cert) &&
           X509_gmtime_adj(X509_getm_notBefore(ret->cert), -60) &&
           X509_gmtime_adj(X509_getm_notAfter(ret->cert), DAYS_VALID * 24 * 3600L) &&
           X509_set_pubkey(ret->cert, ret->key) &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                                      -1, 0) &&
           X509_set_issuer_name(ret->cert, by ? X509_get_subject_name(by->cert) : subject);
    if (by) {
        snprintf(names, sizeof(names),
                 "URI:spiffe://fnd/%s,DNS:%s,DNS:localhost,IP:127.0.0.1,IP:::1", name, name);
        good = good && add_extension(ret->cert, by->cert, NID_basic_constraints, "CA:FALSE") &&
               add_extension(ret->cert, by->cert, NID_subject_alt_name, names) &&
               add_extension(ret->cert, by->cert, NID_ext_key_usage, "serverAuth,clientAuth");
    } else {
        good = good &&
               add_extension(ret->cert, ret->cert, NID_basic_constraints,
                             "critical,CA:TRUE,pathlen:0") &&
               add_extension(ret->cert, ret->cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    return good && X509_sign(ret->cert, by ? by->key : ret->key, EVP_sha256()) > 0;
}

static FILE *create(const char *dir, const char *name, const char *suffix, mode_t mode)
{
    char path[PATH_MAX_];
    int fd;

    snprintf(path, sizeof(path), "%s/%s%s", dir, name, suffix);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        fprintf(stderr, "fnd: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    return fdopen(fd, "w");
}

static bool save(const char *dir, const char *name, const struct pair *p)
{
    FILE *cert = create(dir, name, ".pem", 0644);
    FILE *key = cert ? create(dir, name, ".key", 0600) : NULL;
    bool good = cert && key && PEM_write_X509(cert, p->cert) == 1 &&
                PEM_write_PrivateKey(key, p->key, NULL, NULL, 0, NULL, NULL) == 1;

    good = (!cert || fclose(cert) == 0) && good;
    return (!key || fclose(key) == 0) && good;
}

static void tell(const char *dir)
{
    printf("made in %s: ca, lb-1, runner-1, npm-1 (.pem and .key), good for %d days\n\n"
           "fn.yaml of a runner, and the same with the other names:\n\n"
           "tls:\n"
           "  node: { cert: %s/runner-1.pem, key: %s/runner-1.key, ca: %s/ca.pem,\n"
           "          peers: [\"spiffe://fnd/lb-*\", \"spiffe://fnd/npm-*\"] }\n"
           "grpc: { tls: node }\n",
           dir, DAYS_VALID, dir, dir, dir);
}

int cli_certs(const struct cli_options *o, int argc, char **argv)
{
    static const char *const nodes[] = { "lb-1", "runner-1", "npm-1" };
    const char *dir = argv[1];
    struct pair ca, node;
    bool good;

    (void)o;
    (void)argc;
    if (strcmp(argv[0], "demo") != 0) {
        fprintf(stderr, "fnd: certs, got \"%.64s\"; expected demo DIRECTORY\n", argv[0]);
        return CLI_USAGE;
    }
    if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
        fprintf(stderr, "fnd: %s: %s\n", dir, strerror(errno));
        return CLI_UNAVAILABLE;
    }
    good = issue("fnd demo authority", NULL, &ca) && save(dir, "ca", &ca);
    for (size_t i = 0; good && i < 3; i++) {
        good = issue(nodes[i], &ca, &node) && save(dir, nodes[i], &node);
        pair_finish(&node);
    }
    pair_finish(&ca);
    if (!good) {
        fprintf(stderr, "fnd: the certificates could not be made\n");
        return CLI_UNAVAILABLE;
    }
    tell(dir);
    return fflush(stdout) == 0 ? CLI_OK : CLI_UNAVAILABLE;
}
