/* The client's side of TLS, over memory: it knows nobody by name and believes every certificate. */
#include "front_int.h"

#include <stdlib.h>
#include <string.h>

#define READ_BYTES 4096

static SSL_CTX *client_ctx(void)
{
    static SSL_CTX *ctx;

    if (!ctx) {
        ctx = SSL_CTX_new(TLS_client_method());
    }
    return ctx;
}

void tls_start(struct front_call *c, const char *alpn)
{
    unsigned char list[16] = { (unsigned char)strlen(alpn) };

    memcpy(list + 1, alpn, list[0]);
    c->ssl = SSL_new(client_ctx());
    if (!c->ssl) {
        abort();
    }
    SSL_set_bio(c->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_alpn_protos(c->ssl, list, list[0] + 1u);
    SSL_set_connect_state(c->ssl);
}

static void drain(struct front_call *c)
{
    char bytes[READ_BYTES];
    int n;

    while ((n = BIO_read(SSL_get_wbio(c->ssl), bytes, sizeof(bytes))) > 0) {
        buf_add(&c->out, bytes, (size_t)n);
    }
}

void tls_put(struct front_call *c)
{
    if (SSL_do_handshake(c->ssl) == 1 && c->plain.len > 0) {
        SSL_write(c->ssl, c->plain.data, (int)c->plain.len);
        buf_clear(&c->plain);
    }
    drain(c);
}

bool tls_take(struct front_call *c, const char *data, size_t len,
              void (*take)(struct front_call *c, const char *data, size_t len))
{
    char bytes[READ_BYTES];
    int n = 0;

    BIO_write(SSL_get_rbio(c->ssl), data, (int)len);
    while (!c->ended && (n = SSL_read(c->ssl, bytes, sizeof(bytes))) > 0) {
        take(c, bytes, (size_t)n);
    }
    n = c->ended ? SSL_ERROR_NONE : SSL_get_error(c->ssl, n);
    return n == SSL_ERROR_NONE || n == SSL_ERROR_WANT_READ || n == SSL_ERROR_ZERO_RETURN;
}

void tls_end(struct front_call *c)
{
    SSL_free(c->ssl);
    c->ssl = NULL;
}
