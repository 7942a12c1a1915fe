/* `fnd certs`: an authority with certificates of nodes for a trial, and certificates of further
 * nodes by an authority that is there. EC P-256, good for a year, or as long as their authority. */
#include <cli/cli.h>
#include <tls/files.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAYS_VALID 365
#define PATH_MAX_ 4096
#define NAME_BYTES_MAX 64
#define NAMES_MAX 32 /* of one certificate */
#define NAMES_BYTES_MAX 4096

/* A certificate that is asked for: "lb-2,lb-2.example,10.0.0.7". */
struct wanted {
    char name[NAME_BYTES_MAX + 1];
    char names[NAMES_BYTES_MAX]; /* alternative names as OpenSSL takes them */
};

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

/* A year, and no longer than its authority. */
static bool set_times(X509 *cert, const struct pair *by)
{
    ASN1_TIME *end = X509_getm_notAfter(cert);
    const ASN1_TIME *limit = by ? X509_get0_notAfter(by->cert) : NULL;

    return X509_gmtime_adj(X509_getm_notBefore(cert), -60) &&
           X509_gmtime_adj(end, DAYS_VALID * 24 * 3600L) &&
           (!limit || ASN1_TIME_compare(end, limit) <= 0 || X509_set1_notAfter(cert, limit));
}

static bool add_extensions(X509 *cert, const struct pair *by, const char *names)
{
    if (!by) {
        return add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
               add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    return add_extension(cert, by->cert, NID_basic_constraints, "CA:FALSE") &&
           add_extension(cert, by->cert, NID_subject_alt_name, names) &&
           add_extension(cert, by->cert, NID_ext_key_usage, "serverAuth,clientAuth");
}

/* A certificate for name, signed by `by` (NULL = itself, an authority). */
static bool issue(const char *name, const char *names, const struct pair *by, struct pair *ret)
{
    X509_NAME *subject;

    *ret = (struct pair){ X509_new(), EVP_EC_gen("P-256") };
    if (!ret->cert || !ret->key) {
        return false;
    }
    subject = X509_get_subject_name(ret->cert);
    return X509_set_version(ret->cert, 2) && set_serial(ret->cert) && set_times(ret->cert, by) &&
           X509_set_pubkey(ret->cert, ret->key) &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                                      -1, 0) &&
           X509_set_issuer_name(ret->cert, by ? X509_get_subject_name(by->cert) : subject) &&
           add_extensions(ret->cert, by, names) &&
           X509_sign(ret->cert, by ? by->key : ret->key, EVP_sha256()) > 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_address(const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* Letters, digits, - and dots: what needs no quotes in a file name, a URI and OpenSSL's syntax. */
static bool is_name(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= NAME_BYTES_MAX && isalnum((unsigned char)text[0]) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == len;
}

/* "NAME[,HOST...]"; the sentence is told when it is none. */
static bool parse_wanted(const char *operand, struct wanted *ret)
{
    char text[NAMES_MAX * (NAME_BYTES_MAX + 1)];
    char *rest = NULL;
    const char *word;
    uint32_t n = 0;
    int len = 0;

    if (snprintf(text, sizeof(text), "%s", operand) >= (int)sizeof(text)) {
        text[0] = '\0';
    }
    for (word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if ((n == 0 || !is_address(word)) && !is_name(word)) {
            break;
        }
        if (n++ == 0) {
            snprintf(ret->name, sizeof(ret->name), "%s", word);
            len = snprintf(ret->names, sizeof(ret->names),
                           "URI:spiffe://fnd/%s,DNS:%s,DNS:localhost,IP:127.0.0.1,IP:::1", word,
                           word);
        } else {
            len += snprintf(ret->names + len, sizeof(ret->names) - (size_t)len, ",%s:%s",
                            is_address(word) ? "IP" : "DNS", word);
        }
    }
    if (n == 0 || word) {
        fprintf(stderr,
                "fnd: certs, got \"%.64s\"; expected NAME or NAME,HOST,...: a name of 1 to %d "
                "letters, digits, - and dots, then names or addresses of its machine\n",
                operand, NAME_BYTES_MAX);
    }
    return n > 0 && !word;
}

/* ---- files ----------------------------------------------------------------------------------- */

static FILE *create(const char *dir, const char *name, const char *suffix, mode_t mode)
{
    char path[PATH_MAX_];
    int fd;

    snprintf(path, sizeof(path), "%s/%s%s", dir, name, suffix);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        fprintf(stderr, "fnd: %s: %s%s\n", path, strerror(errno),
                errno == EEXIST
                    ? "; expected a name that has none yet (certs issue adds to a folder)"
                    : "; expected a folder to write to");
        return NULL;
    }
    return fdopen(fd, "w");
}

static void certs_forget(const char *dir, const char *name, const char *suffix)
{
    char path[PATH_MAX_];

    snprintf(path, sizeof(path), "%s/%s%s", dir, name, suffix);
    unlink(path);
}

/* Both files or none; one that was there stays as it is. */
static bool save(const char *dir, const char *name, const struct pair *p)
{
    FILE *key = create(dir, name, ".key", 0600);
    FILE *cert = key ? create(dir, name, ".pem", 0644) : NULL;
    bool good = cert && PEM_write_X509(cert, p->cert) == 1 &&
                PEM_write_PrivateKey(key, p->key, NULL, NULL, 0, NULL, NULL) == 1;

    good = (!cert || fclose(cert) == 0) && good;
    good = (!key || fclose(key) == 0) && good;
    if (!good && cert) {
        certs_forget(dir, name, ".pem");
    }
    if (!good && key) {
        certs_forget(dir, name, ".key");
    }
    return good;
}

/* The authority of a folder: ca.pem and ca.key, checked as a node checks its own. */
static bool load_authority(const char *dir, struct pair *ret)
{
    char cert[PATH_MAX_], key[PATH_MAX_];
    struct tls_files files;
    struct fn_error e = ERR_INIT;
    BIO *cert_bio, *key_bio;

    snprintf(cert, sizeof(cert), "%s/ca.pem", dir);
    snprintf(key, sizeof(key), "%s/ca.key", dir);
    if (tls_files_load(&(struct tls_paths){ cert, key, NULL, NULL },
                       (int64_t)time(NULL) * 1000000000, &files, &e) < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
        return false;
    }
    cert_bio = BIO_new_mem_buf(files.cert_pem, -1);
    key_bio = BIO_new_mem_buf(files.key_pem, -1);
    ret->cert = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);
    ret->key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);
    BIO_free(cert_bio);
    BIO_free(key_bio);
    tls_files_finish(&files);
    if (!ret->cert || !ret->key || X509_check_ca(ret->cert) == 0) {
        fprintf(stderr, "fnd: %s: got the certificate of a node; expected that of an authority\n",
                cert);
        return false;
    }
    return true;
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool issue_and_save(const char *dir, const struct wanted *w, const struct pair *ca)
{
    struct pair node;
    bool good = issue(w->name, w->names, ca, &node) && save(dir, w->name, &node);

    pair_finish(&node);
    return good;
}

/* Who dials whom: load balancers dial runners and the manager, the manager dials runners. */
static void tell_demo(const char *dir)
{
    static const struct {
        const char *node, *name, *peers;
    } kinds[] = {
        { "runner", "runner-1", "\"spiffe://fnd/lb-*\", \"spiffe://fnd/npm-*\"" },
        { "load balancer", "lb-1", "\"spiffe://fnd/runner-*\", \"spiffe://fnd/npm-*\"" },
        { "node pool manager", "npm-1", "\"spiffe://fnd/lb-*\", \"spiffe://fnd/runner-*\"" },
    };

    printf("made in %s: ca, lb-1, runner-1, npm-1 (.pem and .key), good for %d days;\n"
           "for further nodes: fnd certs issue %s NAME\n",
           dir, DAYS_VALID, dir);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        printf("\nfn.yaml of a %s:\n\n"
               "tls:\n"
               "  node: { cert: %s/%s.pem, key: %s/%s.key, ca: %s/ca.pem,\n"
               "          peers: [%s] }\n"
               "grpc: { tls: node }\n",
               kinds[i].node, dir, kinds[i].name, dir, kinds[i].name, dir, kinds[i].peers);
    }
}

static int demo(const char *dir)
{
    static const char *const nodes[] = { "lb-1", "runner-1", "npm-1" };
    struct pair ca;
    struct wanted w;
    bool good;

    if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
        fprintf(stderr, "fnd: %s: %s; expected a folder that can be made\n", dir, strerror(errno));
        return EXIT_UNAVAILABLE;
    }
    good = issue("fnd demo authority", NULL, NULL, &ca) && save(dir, "ca", &ca);
    for (size_t i = 0; good && i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        good = parse_wanted(nodes[i], &w) && issue_and_save(dir, &w, &ca);
    }
    pair_finish(&ca);
    if (!good) {
        fprintf(stderr, "fnd: the certificates could not be made\n");
        return EXIT_UNAVAILABLE;
    }
    tell_demo(dir);
    return cli_written(EXIT_OK);
}

static int issue_all(const char *dir, int n, char **operands)
{
    struct pair ca = { NULL, NULL };
    struct wanted w;
    int r = EXIT_OK;

    for (int i = 0; i < n; i++) {
        if (!parse_wanted(operands[i], &w)) {
            return EXIT_USAGE;
        }
    }
    if (!load_authority(dir, &ca)) {
        r = EXIT_UNAVAILABLE;
    }
    for (int i = 0; i < n && r == EXIT_OK; i++) {
        if (parse_wanted(operands[i], &w) && issue_and_save(dir, &w, &ca)) {
            printf("made %s/%s.pem and .key: %s\n", dir, w.name, w.names);
        } else {
            fprintf(stderr, "fnd: no certificate was made for %s\n", w.name);
            r = EXIT_UNAVAILABLE;
        }
    }
    pair_finish(&ca);
    return cli_written(r);
}

int cli_certs(const struct cli_options *o)
{
    if (strcmp(o->argv[0], "demo") == 0 && o->argc == 2) {
        return demo(o->argv[1]);
    }
    if (strcmp(o->argv[0], "issue") == 0 && o->argc > 2) {
        return issue_all(o->argv[1], o->argc - 2, o->argv + 2);
    }
    fprintf(stderr,
            "fnd: certs, got \"%.64s\" with %d operands; expected demo DIRECTORY, or issue "
            "DIRECTORY NAME[,HOST...]...\n",
            o->argv[0], o->argc - 1);
    return EXIT_USAGE;
}
