/* The algorithm is looked up once, and its context serves every hash: each begins by setting the
 * key again. */
#include "sip.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>

struct sip {
    EVP_MAC_CTX *ctx;
    unsigned char key[16];
};

static void put64(unsigned char *out, uint64_t v)
{
    int i;

    for (i = 0; i < 8; i++) {
        out[i] = (unsigned char)(v >> (8 * i));
    }
}

struct sip *sip_create(uint64_t k0, uint64_t k1)
{
    struct sip *s = calloc(1, sizeof(*s));
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    size_t size = 8;
    OSSL_PARAM params[] = { OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                            OSSL_PARAM_construct_end() };

    if (s && mac) {
        put64(s->key, k0);
        put64(s->key + 8, k1);
        s->ctx = EVP_MAC_CTX_new(mac);
    }
    EVP_MAC_free(mac); /* the context holds its own reference */
    if (!s || !s->ctx || !EVP_MAC_init(s->ctx, s->key, sizeof(s->key), params)) {
        sip_destroy(s);
        return NULL;
    }
    return s;
}

void sip_destroy(struct sip *s)
{
    if (s) {
        EVP_MAC_CTX_free(s->ctx);
        free(s);
    }
}

int sip_hash(struct sip *s, const void *data, size_t len, uint64_t *ret)
{
    unsigned char out[8];
    size_t got = 0;
    uint64_t v = 0;
    int i;

    /* A new key is what resets a context; without one OpenSSL 3.0 goes on where it was. */
    if (!EVP_MAC_init(s->ctx, s->key, sizeof(s->key), NULL) ||
        !EVP_MAC_update(s->ctx, data, len) || !EVP_MAC_final(s->ctx, out, &got, sizeof(out)) ||
        got != sizeof(out)) {
        return -1;
    }
    for (i = 7; i >= 0; i--) {
        v = v << 8 | out[i];
    }
    *ret = v;
    return 0;
}
