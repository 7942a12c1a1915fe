#include <main/tls.h>

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

static int read_file(const char *path, bool secret, char **ret, struct fn_error *reterr)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r;

    if (fd < 0 || fstat(fd, &st) < 0) {
        r = err_set(reterr, FN_E_INVALID, "TLS800 %s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_size > TLS_FILE_BYTES_MAX) {
        r = err_set(reterr, FN_E_INVALID, "TLS800 %s: expected a regular file of at most %d bytes",
                    path, TLS_FILE_BYTES_MAX);
    } else if (secret && (st.st_mode & 077)) {
        r = err_set(reterr, FN_E_INVALID,
                    "TLS801 %s: mode %04o lets others read it; expected 0400 or 0600", path,
                    (unsigned)st.st_mode & 07777);
    } else {
        r = read_all(fd, path, (size_t)st.st_size, ret, reterr);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (r == 0 && !strstr(*ret, "-----BEGIN ")) {
        r = err_set(reterr, FN_E_INVALID, "TLS803 %s: no PEM block", path);
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
        return err_set(reterr, FN_E_INVALID, "TLS804 %s: expired %s (now %s)", path, date,
                       now_text);
    }
    if (X509_cmp_time(X509_get0_notBefore(cert), &now) > 0) {
        print_date(X509_get0_notBefore(cert), date, sizeof(date));
        return err_set(reterr, FN_E_INVALID, "TLS804 %s: not valid before %s (now %s)", path, date,
                       now_text);
    }
    return 0;
}

static int64_t left_ns(X509 *cert, int64_t wall_ns)
{
    time_t now = (time_t)(wall_ns / WALL_S);
    ASN1_TIME *from = ASN1_TIME_set(NULL, now);
    int days = 0, seconds = 0;

    if (from) {
        ASN1_TIME_diff(&days, &seconds, from, X509_get0_notAfter(cert));
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
        r = err_set(reterr, FN_E_INVALID, "TLS803 %s: no %s in it", cert ? key_path : cert_path,
                    cert ? "private key" : "certificate");
    } else if (X509_check_private_key(cert, key) != 1) {
        X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof(subject));
        r = err_set(reterr, FN_E_INVALID, "TLS802 %s: key does not belong to %s (subject %s)",
                    key_path, cert_path, subject);
    } else {
        r = check_dates(cert_path, cert, wall_ns, reterr);
        t->not_after_ns = wall_ns + left_ns(cert, wall_ns);
    }
    X509_free(cert);
    EVP_PKEY_free(key);
    return r;
}

int tls_files_load(const char *cert_path, const char *key_path, const char *ca_path,
                   int64_t wall_ns, struct tls_files *ret, struct fn_error *reterr)
{
    struct tls_files t = { 0 };
    int r = 0;

    if (!cert_path != !key_path) {
        return err_set(reterr, FN_E_INVALID, "TLS806 %s: certificate and key come only together",
                       cert_path ? cert_path : key_path);
    }
    if (cert_path) {
        r = read_file(cert_path, false, &t.cert_pem, reterr);
        r = r == 0 ? read_file(key_path, true, &t.key_pem, reterr) : r;
        r = r == 0 ? check_pair(cert_path, key_path, &t, wall_ns, reterr) : r;
    }
    if (r == 0 && ca_path) {
        r = read_file(ca_path, false, &t.ca_pem, reterr);
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
    *t = (struct tls_files){ 0 };
}
