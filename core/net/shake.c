/* Handshakes: a stream's first state under TLS, for dial and listen alike. */
#include <net/net_int.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shaking {
    struct net_io *io;
    struct env_timer timer;
    int64_t timeout_ms;
    void (*done)(void *ud, const char *error);
    void *ud;
};

static void shaking_cancel(struct net_io *io)
{
    env_timer_clear(io->env, &io->shaking->timer);
    free(io->shaking);
    io->shaking = NULL;
}

static void shake_finish(struct shaking *s, const char *error)
{
    struct net_io *io = s->io;
    void (*done)(void *ud, const char *error) = s->done;
    void *ud = s->ud;

    io->w.cb = io_event;
    io->alpn = NULL;
    loop_fd_set(io->loop, &io->w, 0);
    shaking_cancel(io);
    if (error) {
        io_break(io, "%s", error);
    }
    done(ud, error);
}

bool net_io_chose(const struct net_io *io, const char *alpn)
{
    const unsigned char *chosen = NULL;
    unsigned len = 0;

    if (io->ssl) {
        SSL_get0_alpn_selected(io->ssl, &chosen, &len);
    }
    return len == strlen(alpn) && memcmp(chosen, alpn, len) == 0;
}

/* ALPN is demanded where it is offered: a peer that did not choose speaks something else. */
static bool chose_alpn(const struct net_io *io)
{
    return !io->alpn || io->alpn_optional || net_io_chose(io, io->alpn);
}

static void shake_step(struct shaking *s)
{
    struct net_io *io = s->io;
    char text[NET_TEXT_BYTES];
    int r, e;

    ERR_clear_error();
    r = SSL_do_handshake(io->ssl);
    e = SSL_get_error(io->ssl, r);
    if (r == 1 && chose_alpn(io)) {
        shake_finish(s, NULL);
    } else if (r == 1) {
        snprintf(text, sizeof(text), "the peer does not speak \"%s\" (ALPN)", io->alpn);
        shake_finish(s, text);
    } else if (e == SSL_ERROR_WANT_READ) {
        loop_fd_set(io->loop, &io->w, LOOP_READ);
    } else if (e == SSL_ERROR_WANT_WRITE) {
        loop_fd_set(io->loop, &io->w, LOOP_WRITE);
    } else {
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST) {
            io->shake_failure = NET_SHAKE_PLAIN_HTTP;
        } else if ((io->eof || io->error_no) && SSL_get_verify_result(io->ssl) == X509_V_OK) {
            io->shake_failure = NET_SHAKE_HUNG_UP;
        }
        io_tls_reason(io, text, sizeof(text));
        if (io->shake_failure == NET_SHAKE_PLAIN_HTTP) {
            snprintf(text, sizeof(text), "an HTTP request without TLS");
        }
        shake_finish(s, text);
    }
}

static void shake_on_event(struct loop_fd *w, uint32_t events)
{
    struct net_io *io = container_of(w, struct net_io, w);

    (void)events;
    shake_step(io->shaking);
}

static void shake_on_timer(struct env_timer *t)
{
    struct shaking *s = container_of(t, struct shaking, timer);
    char text[NET_TEXT_BYTES];

    snprintf(text, sizeof(text), "the TLS handshake was not complete within %lld ms",
             (long long)s->timeout_ms);
    shake_finish(s, text);
}

/* Whom the certificate must name, and what a client asks for. */
static bool expect(struct net_io *io, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(io->ssl);
    unsigned char protocols[64];
    size_t len = io->alpn ? strlen(io->alpn) : 0;

    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) != 1 &&
        (X509_VERIFY_PARAM_set1_host(param, name, 0) != 1 ||
         SSL_set_tlsext_host_name(io->ssl, name) != 1)) {
        return false;
    }
    if (len == 0 || len >= sizeof(protocols)) {
        return len == 0;
    }
    protocols[0] = (unsigned char)len;
    memcpy(protocols + 1, io->alpn, len);
    return SSL_set_alpn_protos(io->ssl, protocols, (unsigned)len + 1) == 0;
}

static bool dress(struct net_io *io, const struct net_shake *shake, SSL_CTX *ctx)
{
    BIO *bio = BIO_new(shake->identity->bio);

    io->ssl = SSL_new(ctx);
    if (!bio || !io->ssl) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, io);
    BIO_set_init(bio, 1);
    SSL_set_bio(io->ssl, bio, bio);
    if (SSL_set_app_data(io->ssl, io) != 1) {
        return false;
    }
    io->alpn = shake->alpn;
    io->alpn_optional = shake->alpn_optional;
    if (!shake->name) {
        SSL_set_accept_state(io->ssl);
        return true;
    }
    SSL_set_connect_state(io->ssl);
    return expect(io, shake->name);
}

enum net_shake_failure net_io_shake_failure(const struct net_io *io)
{
    return io->shake_failure;
}

int net_io_shake(struct net_io *io, const struct net_shake *shake,
                 void (*done)(void *ud, const char *error), void *ud, struct fn_error *reterr)
{
    SSL_CTX *ctx = shake->name ? shake->identity->client : shake->identity->server;
    struct shaking *s;

    if (!ctx) {
        return err_set(reterr, FN_E_INVALID, "TLS: no certificate; expected cert_pem and key_pem");
    }
    s = calloc(1, sizeof(*s));
    io->identity = net_identity_ref(shake->identity);
    if (!s || !dress(io, shake, ctx)) {
        free(s);
        ERR_clear_error();
        return err_set(reterr, FN_E_EXHAUSTED, "TLS: out of memory");
    }
    *s = (struct shaking){ .io = io, .timeout_ms = shake->timeout_ms, .done = done, .ud = ud };
    s->timer.cb = shake_on_timer;
    io->shaking = s;
    io->shake_cancel = shaking_cancel;
    io->w.cb = shake_on_event;
    env_timer_set(io->env, &s->timer, env_now_ns(io->env) + shake->timeout_ms * ENV_MS);
    loop_fd_set(io->loop, &io->w, shake->name ? LOOP_WRITE : LOOP_READ);
    return 0;
}
