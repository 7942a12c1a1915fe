/* Ed25519 signatures beside plugin files: "<file>.sig" holds 64 bytes, or these in base64, over the
 * whole file, as `openssl pkeyutl -sign -rawin` writes them. */
#include <plugin/plugin_int.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIGNATURE_BYTES 64
#define SIGNATURE_BASE64 88
#define KEY_FILE_MAX 16384
#define SIG_FILE_MAX 1024

/* Up to `cap` bytes of a regular file; < 0 with errno. */
static ssize_t read_small(const char *path, char *ret, size_t cap, struct stat *ret_st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = -1;

    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, ret_st) == 0) {
        errno = EINVAL;
        n = S_ISREG(ret_st->st_mode) ? read(fd, ret, cap) : -1;
    }
    close(fd);
    return n;
}

/* Whoever can write a key can sign. */
static int load_key(const char *path, EVP_PKEY **ret, struct fn_error *reterr)
{
    char text[KEY_FILE_MAX];
    struct stat st;
    ssize_t n = read_small(path, text, sizeof(text), &st);
    const char *got;
    BIO *bio;

    if (n < 0) {
        return err_set(reterr, FN_E_INVALID, "PLG918 %s: key: %s", path, strerror(errno));
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return err_set(
            reterr, FN_E_INVALID,
            "PLG902 %s: key is writable by %s, got mode %04o; expected no write right for "
            "group and others",
            path, (st.st_mode & S_IWOTH) ? "everybody" : "group", (unsigned)(st.st_mode & 07777));
    }
    bio = BIO_new_mem_buf(text, (int)n);
    *ret = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    if (*ret && EVP_PKEY_id(*ret) == EVP_PKEY_ED25519) {
        return 0;
    }
    got = *ret ? EVP_PKEY_get0_type_name(*ret) : "no public key";
    return err_set(reterr, FN_E_INVALID,
                   "PLG918 %s: key, got %s; expected a PEM file with an Ed25519 public key", path,
                   got ? got : "another kind of key");
}

void plugin_keys_free(EVP_PKEY **keys, uint64_t n)
{
    for (uint64_t i = 0; keys && i < n; i++) {
        EVP_PKEY_free(keys[i]);
    }
    free(keys);
}

int plugin_keys_load(const struct fn_strlist *paths, EVP_PKEY ***ret, struct fn_error *reterr)
{
    EVP_PKEY **keys = calloc(paths->n + 1, sizeof(EVP_PKEY *));
    int r = keys ? 0 : err_set(reterr, FN_E_EXHAUSTED, "PLG918 no memory for keys");

    for (uint64_t i = 0; i < paths->n && r == 0; i++) {
        r = load_key(paths->items[i], &keys[i], reterr);
    }
    if (r < 0) {
        plugin_keys_free(keys, paths->n);
        return r;
    }
    *ret = keys;
    return 0;
}

/* Raw or base64; a line end behind either is forgiven. */
static bool sign_decode(const char *data, size_t len, unsigned char ret[SIGNATURE_BYTES])
{
    unsigned char out[SIGNATURE_BASE64];
    size_t n = len;

    if (len == SIGNATURE_BYTES) {
        memcpy(ret, data, SIGNATURE_BYTES);
        return true;
    }
    while (n > 0 && (data[n - 1] == '\n' || data[n - 1] == '\r')) {
        n--;
    }
    if (n != SIGNATURE_BASE64 ||
        EVP_DecodeBlock(out, (const unsigned char *)data, (int)n) != SIGNATURE_BYTES + 2) {
        return false;
    }
    memcpy(ret, out, SIGNATURE_BYTES);
    return true;
}

static bool verify(EVP_PKEY *key, const unsigned char sig[SIGNATURE_BYTES],
                   const void *data, size_t size)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(ctx, sig, SIGNATURE_BYTES, data, size) == 1;

    EVP_MD_CTX_free(ctx);
    return good;
}

/* Index of the key that made `sig`, or their number. */
static uint64_t find_key(const struct plugin_file *f, const unsigned char sig[SIGNATURE_BYTES])
{
    const struct plugin_host *h = f->host;
    uint64_t i = 0;

    while (i < h->policy.keys.n && !verify(h->keys[i], sig, f->bytes, f->size)) {
        i++;
    }
    return i;
}

static const char *key_words(const struct plugin_host *h, char *ret, size_t cap)
{
    const struct fn_strlist *keys = &h->policy.keys;

    if (keys->n == 1) {
        snprintf(ret, cap, "the key %s", keys->items[0]);
    } else {
        snprintf(ret, cap, "one of the %u keys of plugins.keys", (unsigned)keys->n);
    }
    return ret;
}

int plugin_signature_check(struct plugin_check *c, const struct plugin_file *f,
                           enum plugin_signed *ret, uint64_t *ret_key)
{
    unsigned char sig[SIGNATURE_BYTES];
    char name[4096 + 8];
    char data[SIG_FILE_MAX];
    char keys[300];
    struct stat st;
    ssize_t n;

    *ret = PLUGIN_UNCHECKED;
    if (c->host->policy.keys.n == 0) {
        return 0;
    }
    key_words(c->host, keys, sizeof(keys));
    snprintf(name, sizeof(name), "%s.sig", f->path);
    n = read_small(name, data, sizeof(data), &st);
    if (n < 0 && errno == ENOENT) {
        *ret = PLUGIN_UNSIGNED;
        return conf_same_text(c->host->policy.unsigned_files, "refuse")
                   ? plugin_problem(c, FN_E_PERMISSION, "PLG918",
                                    "is not signed, got no file %s; expected a signature by %s, or "
                                    "plugins.unsigned: allow",
                                    name, keys)
                   : 0;
    }
    if (n < 0) {
        return plugin_problem(c, FN_E_PERMISSION, "PLG918", "signature %s: %s", name,
                              strerror(errno));
    }
    if (!sign_decode(data, (size_t)n, sig)) {
        return plugin_problem(c, FN_E_PERMISSION, "PLG918",
                              "signature %s, got %zd bytes; expected 64 bytes, or these in base64",
                              name, n);
    }
    *ret_key = find_key(f, sig);
    if (*ret_key == c->host->policy.keys.n) {
        return plugin_problem(c, FN_E_PERMISSION, "PLG918",
                              "signature %s is not one of this file; expected one by %s", name,
                              keys);
    }
    *ret = PLUGIN_SIGNED;
    return 0;
}
