/* Reads the four files of an entry of tls: and checks what can be wrong with each and between
 * them, one sentence for each mistake. */
#include <tls/files.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WALL_S 1000000000LL

static int read_all(int fd, const char *path, size_t size, char **ret, struct fn_error *reterr)
{
    char *text = calloc(1, size + 1);
    size_t have = 0;
    ssize_t n = 1;

    while (text && have < size && n > 0) {
        n = read(fd, text + have, size - have);
        if (n < 0 && errno == EINTR) {
            n = 1;
            continue;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    if (!text || n < 0) {
        free(text);
        return err_set(reterr, FN_E_INVALID, "TLS800 %s: cannot be read: %s", path,
                       strerror(text ? errno : ENOMEM));
    }
    *ret = text;
    return 0;
}

/* What a file is for, and how its PEM block is called. */
struct role {
    const char *what;
    const char *block;
    bool secret;
};

static const struct role role_cert = { "a certificate", "CERTIFICATE-----", false };
static const struct role role_key = { "a private key", "PRIVATE KEY-----", true };
static const struct role role_ca = { "the certificates of authorities", "CERTIFICATE-----", false };
static const struct role role_crl = { "revocation lists", "X509 CRL-----", false };

/* "a certificate": the first block that somebody may have taken for another one. */
static const char *found_in(const char *text)
{
    static const char *const blocks[][2] = {
        { "PRIVATE KEY-----", "a private key" }, { "CERTIFICATE-----", "a certificate" },
        { "X509 CRL-----", "a revocation list" }, { "CERTIFICATE REQUEST-----", "a request" },
        { "PUBLIC KEY-----", "a public key" },
    };

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (strstr(text, blocks[i][0])) {
            return blocks[i][1];
        }
    }
    return strstr(text, "-----BEGIN ") ? "another PEM block" : "no PEM block";
}

/* A file of another kind first: cert and key taken for each other are not to be mended by chmod. */
static int files_judge(const char *path, const struct role *role, const char *text, mode_t mode,
                       struct fn_error *reterr)
{
    if (!strstr(text, role->block)) {
        return err_set(reterr, FN_E_INVALID, "TLS803 %s: got %s; expected %s", path,
                       found_in(text), role->what);
    }
    if (role->secret && (mode & 077)) {
        return err_set(reterr, FN_E_INVALID,
                       "TLS801 %s: mode lets others read it, got %04o; expected 0400 or 0600", path,
                       (unsigned)mode & 07777);
    }
    return 0;
}

static int files_read(const char *path, const struct role *role, char **ret,
                      struct fn_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0) {
        r = err_set(reterr, FN_E_INVALID, "TLS800 %s: %s; expected a file with %s", path,
                    strerror(errno), role->what);
    } else if (!S_ISREG(st.st_mode) || st.st_size > TLS_FILE_BYTES_MAX) {
        r = err_set(reterr, FN_E_INVALID, "TLS800 %s: expected a regular file of at most %d bytes",
                    path, TLS_FILE_BYTES_MAX);
    } else {
        r = read_all(fd, path, (size_t)st.st_size, ret, reterr);
        r = r == 0 ? files_judge(path, role, *ret, st.st_mode, reterr) : r;
    }
    if (fd >= 0) {
        close(fd);
    }
    return r;
}

static X509 *parse_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

static EVP_PKEY *parse_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return key;
}

static void print_date(const ASN1_TIME *t, char *ret, size_t cap)
{
    struct tm tm = { 0 };

    if (!ASN1_TIME_to_tm(t, &tm) || strftime(ret, cap, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        snprintf(ret, cap, "an unreadable date");
    }
}

static int check_dates(const char *path, X509 *cert, int64_t wall_ns, struct fn_error *reterr)
{
    time_t now = (time_t)(wall_ns / WALL_S);
    char date[32], now_text[32];
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(now_text, sizeof(now_text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (X509_cmp_time(X509_get0_notAfter(cert), &now) <= 0) {
        print_date(X509_get0_notAfter(cert), date, sizeof(date));
        return err_set(reterr, FN_E_INVALID,
                       "TLS804 %s: expired %s (now %s); expected a renewed certificate", path, date,
                       now_text);
    }
    if (X509_cmp_time(X509_get0_notBefore(cert), &now) > 0) {
        print_date(X509_get0_notBefore(cert), date, sizeof(date));
        return err_set(reterr, FN_E_INVALID,
                       "TLS804 %s: not valid before %s (now %s); expected a certificate that is "
                       "valid",
                       path, date, now_text);
    }
    return 0;
}

static int64_t time_left_ns(const ASN1_TIME *until, int64_t wall_ns)
{
    ASN1_TIME *from = ASN1_TIME_set(NULL, (time_t)(wall_ns / WALL_S));
    int days = 0, seconds = 0;

    if (from) {
        ASN1_TIME_diff(&days, &seconds, from, until);
        ASN1_TIME_free(from);
    }
    return ((int64_t)days * 86400 + seconds) * WALL_S;
}

static int check_pair(const char *cert_path, const char *key_path, struct tls_files *t,
                      int64_t wall_ns, struct fn_error *reterr)
{
    X509 *cert = parse_cert(t->cert_pem);
    EVP_PKEY *key = parse_key(t->key_pem);
    char subject[128];
    int r;

    if (!cert || !key) {
        r = err_set(reterr, FN_E_INVALID, "TLS803 %s: damaged, got no %s that can be read; expected a PEM file without "
                    "passphrase",
                    cert ? key_path : cert_path, cert ? "private key" : "certificate");
    } else if (X509_check_private_key(cert, key) != 1) {
        X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof(subject));
        r = err_set(reterr, FN_E_INVALID, "TLS802 %s: got the key of another certificate; expected that of %s (subject %s)",
                    key_path, cert_path, subject);
    } else {
        r = check_dates(cert_path, cert, wall_ns, reterr);
        t->not_after_ns =
            wall_ns + time_left_ns(X509_get0_notAfter(cert), wall_ns);
    }
    X509_free(cert);
    EVP_PKEY_free(key);
    return r;
}

/* ---- revocation lists ------------------------------------------------------------------------ */

static STACK_OF(X509) *parse_certs(const char *pem)
{
    STACK_OF(X509) *all = sk_X509_new_null();
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert;

    while (all && bio && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        if (!sk_X509_push(all, cert)) {
            X509_free(cert);
        }
    }
    BIO_free(bio);
    return all;
}

static X509 *issuer_of(const X509_CRL *list, STACK_OF(X509) *authorities)
{
    for (int i = 0; i < sk_X509_num(authorities); i++) {
        X509 *a = sk_X509_value(authorities, i);

        if (X509_NAME_cmp(X509_get_subject_name(a), X509_CRL_get_issuer(list)) == 0 &&
            X509_CRL_verify((X509_CRL *)(uintptr_t)list, X509_get0_pubkey(a)) == 1) {
            return a;
        }
    }
    return NULL;
}

/* A list that has ended, or one that nobody in ca signed although its name is there. Lists of
 * authorities that peers send along cannot be judged here. */
static int check_list(const char *path, X509_CRL *list, STACK_OF(X509) *authorities,
                      int64_t wall_ns, struct tls_files *t, struct fn_error *reterr)
{
    const ASN1_TIME *until = X509_CRL_get0_nextUpdate(list);
    time_t now = (time_t)(wall_ns / WALL_S);
    char issuer[128], date[32];
    bool known = false;

    X509_NAME_oneline(X509_CRL_get_issuer(list), issuer, sizeof(issuer));
    for (int i = 0; i < sk_X509_num(authorities); i++) {
        known = known || X509_NAME_cmp(X509_get_subject_name(sk_X509_value(authorities, i)),
                                       X509_CRL_get_issuer(list)) == 0;
    }
    if (known && !issuer_of(list, authorities)) {
        return err_set(reterr, FN_E_INVALID,
                       "TLS807 %s: the list of %s is not signed by the authority of that name in ca",
                       path, issuer);
    }
    if (until && X509_cmp_time(until, &now) <= 0) {
        print_date(until, date, sizeof(date));
        return err_set(reterr, FN_E_INVALID, "TLS807 %s: the list of %s ended %s", path, issuer,
                       date);
    }
    if (until) {
        int64_t end_ns = wall_ns + time_left_ns(until, wall_ns);

        if (t->crl_not_after_ns == 0 || end_ns < t->crl_not_after_ns) {
            t->crl_not_after_ns = end_ns;
        }
    }
    return 0;
}

static int check_missing(const char *path, STACK_OF(X509_CRL) *lists, STACK_OF(X509) *authorities,
                         struct fn_error *reterr)
{
    char name[128];

    for (int i = 0; i < sk_X509_num(authorities); i++) {
        X509 *a = sk_X509_value(authorities, i);
        bool found = false;

        for (int k = 0; !found && k < sk_X509_CRL_num(lists); k++) {
            found = issuer_of(sk_X509_CRL_value(lists, k), authorities) == a;
        }
        if (!found) {
            X509_NAME_oneline(X509_get_subject_name(a), name, sizeof(name));
            return err_set(reterr, FN_E_INVALID,
                           "TLS807 %s: no list of %s; expected one of each authority in ca", path,
                           name);
        }
    }
    return 0;
}

static int check_lists(const char *path, int64_t wall_ns, struct tls_files *t,
                       struct fn_error *reterr)
{
    STACK_OF(X509) *authorities = parse_certs(t->ca_pem);
    STACK_OF(X509_CRL) *lists = sk_X509_CRL_new_null();
    BIO *bio = BIO_new_mem_buf(t->crl_pem, -1);
    X509_CRL *list;
    int r = 0;

    while (lists && bio && r == 0 && (list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL))) {
        r = check_list(path, list, authorities, wall_ns, t, reterr);
        if (!sk_X509_CRL_push(lists, list)) {
            X509_CRL_free(list);
        }
    }
    r = r == 0 ? check_missing(path, lists, authorities, reterr) : r;
    BIO_free(bio);
    sk_X509_CRL_pop_free(lists, X509_CRL_free);
    sk_X509_pop_free(authorities, X509_free);
    return r;
}

/* ---- all of them ----------------------------------------------------------------------------- */

int tls_files_load(const struct tls_paths *paths, int64_t wall_ns, struct tls_files *ret,
                   struct fn_error *reterr)
{
    struct tls_files t = { 0 };
    int r = 0;

    if (!paths->cert != !paths->key) {
        return err_set(reterr, FN_E_INVALID,
                       "TLS806 %s: got a %s alone; expected cert and key together",
                       paths->cert ? paths->cert : paths->key,
                       paths->cert ? "certificate" : "key");
    }
    if (paths->cert) {
        r = files_read(paths->cert, &role_cert, &t.cert_pem, reterr);
        r = r == 0 ? files_read(paths->key, &role_key, &t.key_pem, reterr) : r;
        r = r == 0 ? check_pair(paths->cert, paths->key, &t, wall_ns, reterr) : r;
    }
    if (r == 0 && paths->ca) {
        r = files_read(paths->ca, &role_ca, &t.ca_pem, reterr);
    }
    if (r == 0 && paths->crl) {
        r = files_read(paths->crl, &role_crl, &t.crl_pem, reterr);
        r = r == 0 ? check_lists(paths->crl, wall_ns, &t, reterr) : r;
    }
    if (r < 0) {
        tls_files_finish(&t);
        return r;
    }
    *ret = t;
    return 0;
}

void tls_files_finish(struct tls_files *t)
{
    if (t->key_pem) {
        explicit_bzero(t->key_pem, strlen(t->key_pem));
    }
    free(t->cert_pem);
    free(t->key_pem);
    free(t->ca_pem);
    free(t->crl_pem);
    *t = (struct tls_files){ 0 };
}
