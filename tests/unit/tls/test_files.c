/* Certificate files: each mistake gets its sentence. */
#include "../net/certs.h"

#include <check.h>
#include <tls/files.h>

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOW_S  1800000000LL
#define NOW_NS (NOW_S * 1000000000LL)

static char dir[] = "/tmp/fnd-tls-XXXXXX";
static char cert[64], key[64], other_key[64], text[64];

static EVP_PKEY *write_key(const char *path)
{
    EVP_PKEY *k = EVP_EC_gen("P-256");
    FILE *f = fopen(path, "w");

    ck_assert(k && f);
    ck_assert_int_eq(PEM_write_PrivateKey(f, k, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    chmod(path, 0600);
    return k;
}

static void write_cert(EVP_PKEY *k, int64_t from_s, int64_t to_s)
{
    X509 *x = X509_new();
    FILE *f = fopen(cert, "w");

    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    ASN1_TIME_set(X509_getm_notBefore(x), from_s);
    ASN1_TIME_set(X509_getm_notAfter(x), to_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)"runner-1", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_set_pubkey(x, k);
    ck_assert_int_ne(X509_sign(x, k, EVP_sha256()), 0);
    ck_assert_int_eq(PEM_write_X509(f, x), 1);
    fclose(f);
    X509_free(x);
}

static void setup(void)
{
    EVP_PKEY *k, *other;
    FILE *f;

    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    snprintf(other_key, sizeof(other_key), "%s/other.pem", dir);
    snprintf(text, sizeof(text), "%s/text.pem", dir);
    k = write_key(key);
    other = write_key(other_key);
    write_cert(k, NOW_S - 1000, NOW_S + 1000);
    f = fopen(text, "w");
    fputs("no certificate\n", f);
    fclose(f);
    EVP_PKEY_free(k);
    EVP_PKEY_free(other);
}

static void teardown(void)
{
    unlink(cert);
    unlink(key);
    unlink(other_key);
    unlink(text);
    rmdir(dir);
}

static void expect_refusal(const char *c, const char *k, const char *ca, int64_t now_ns,
                           const char *sentence)
{
    struct tls_files t = { 0 };
    struct fn_error e = ERR_INIT;

    ck_assert_int_eq(tls_files_load(&(struct tls_paths){ c, k, ca, NULL }, now_ns, &t, &e),
                     FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, sentence), "got: %s", e.msg);
    ck_assert_ptr_null(t.key_pem);
}

START_TEST(sound_files_are_loaded)
{
    struct tls_files t;

    ck_assert_int_eq(tls_files_load(&(struct tls_paths){ cert, key, cert, NULL }, NOW_NS, &t, NULL),
                     0);
    ck_assert_ptr_nonnull(strstr(t.cert_pem, "BEGIN CERTIFICATE"));
    ck_assert_ptr_nonnull(strstr(t.key_pem, "PRIVATE KEY"));
    ck_assert_ptr_nonnull(t.ca_pem);
    tls_files_finish(&t);
    ck_assert_int_eq(tls_files_load(&(struct tls_paths){ 0 }, NOW_NS, &t, NULL), 0);
    ck_assert_ptr_null(t.cert_pem);
}
END_TEST

START_TEST(mistakes_are_refused)
{
    chmod(key, 0644);
    expect_refusal(cert, key, NULL, NOW_NS, 
                   "mode lets others read it, got 0644; expected 0400 or 0600");
    chmod(key, 0600);
    expect_refusal(cert, other_key, NULL, NOW_NS, "TLS802");
    expect_refusal(cert, other_key, NULL, NOW_NS, "CN=runner-1");
    expect_refusal(text, key, NULL, NOW_NS, "TLS803");
    expect_refusal(cert, key, text, NOW_NS, "TLS803");
    expect_refusal(key, key, NULL, NOW_NS, "got a private key; expected a certificate");
    /* Taken for each other: the mode of a certificate is nobody's mistake. */
    chmod(cert, 0644);
    expect_refusal(cert, cert, NULL, NOW_NS, "TLS803");
    expect_refusal(cert, cert, NULL, NOW_NS, "got a certificate; expected a private key");
    chmod(cert, 0600);
    expect_refusal(cert, NULL, NULL, NOW_NS, "got a certificate alone; expected cert and key");
    expect_refusal("/nowhere.pem", key, NULL, NOW_NS, "TLS800 /nowhere.pem: No such file");
    expect_refusal(dir, key, NULL, NOW_NS, "expected a regular file");
    expect_refusal(cert, key, NULL, (NOW_S + 2000) * 1000000000LL, "TLS804");
    expect_refusal(cert, key, NULL, (NOW_S + 2000) * 1000000000LL, "expired 2027-01-15T08:16:40Z");
    expect_refusal(cert, key, NULL, (NOW_S - 2000) * 1000000000LL, "TLS804");
    expect_refusal(cert, key, NULL, (NOW_S - 2000) * 1000000000LL, "not valid before");
}
END_TEST

static void write_texts(const char *path, const char *a, const char *b)
{
    FILE *f = fopen(path, "w");

    fputs(a, f);
    fputs(b, f);
    fclose(f);
}

/* Loads the lists a and b beside the authorities x and y. */
static int load_lists(const struct authority *x, const struct authority *y, const char *a,
                      const char *b, struct tls_files *ret, struct fn_error *e)
{
    write_texts(cert, x->pem, y ? y->pem : "");
    write_texts(text, a, b);
    return tls_files_load(&(struct tls_paths){ .ca = cert, .crl = text },
                          (int64_t)time(NULL) * 1000000000LL, ret, e);
}

START_TEST(revocation_lists_are_believed_only_whole_and_current)
{
    struct fn_error e = ERR_INIT;
    struct authority x, y, imposter;
    struct tls_files t = { 0 };
    char *list, *of_y, *ended, *forged;

    authority_make(&x, "first");
    authority_make(&y, "second");
    authority_make(&imposter, "first");
    list = list_make(&x, 7, 5);
    of_y = list_make(&y, -1, 3);
    ended = list_make(&x, -1, -1);
    forged = list_make(&imposter, -1, 5);
    ck_assert_msg(load_lists(&x, &y, list, of_y, &t, &e) == 0, "%s", e.msg);
    ck_assert_ptr_nonnull(strstr(t.crl_pem, "BEGIN X509 CRL"));
    ck_assert_int_eq((t.crl_not_after_ns / 1000000000LL - (int64_t)time(NULL) + 3600) / 86400, 3);
    tls_files_finish(&t);
    /* of an authority that is not there: for those that peers send along */
    ck_assert_int_eq(load_lists(&x, NULL, list, of_y, &t, &e), 0);
    tls_files_finish(&t);
    ck_assert_int_eq(load_lists(&x, &y, list, "", &t, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "TLS807") && strstr(e.msg, "no list of /CN=second"), "%s", e.msg);
    ck_assert_int_eq(load_lists(&x, NULL, ended, "", &t, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "TLS807") && strstr(e.msg, "the list of /CN=first ended 20"), "%s",
                  e.msg);
    ck_assert_int_eq(load_lists(&x, NULL, forged, "", &t, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "not signed by"), "%s", e.msg);
    ck_assert_int_eq(load_lists(&x, NULL, x.pem, "", &t, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "got a certificate; expected revocation lists"), "%s", e.msg);
    ck_assert_int_eq(load_lists(&x, NULL, "nothing", "", &t, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "TLS803"), "%s", e.msg);
    free(list);
    free(of_y);
    free(ended);
    free(forged);
    authority_free(&x);
    authority_free(&y);
    authority_free(&imposter);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tls");
    TCase *t = tcase_create("tls");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, sound_files_are_loaded);
    tcase_add_test(t, mistakes_are_refused);
    tcase_add_test(t, revocation_lists_are_believed_only_whole_and_current);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
