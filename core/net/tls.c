/* Makes OpenSSL contexts from PEM texts (chain, key, authorities, revocation lists), and
 * compares the names in a peer's certificate with the patterns that are allowed. */
#include <net/net_int.h>

#include <base/log.h>
#include <fnmatch.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define SECURITY_LEVEL 2 /* 112 bits: no RSA of 1024 bits, no SHA-1 */
#define CIPHERS_TLS12  "ECDHE+AESGCM:ECDHE+CHACHA20" /* what HTTP/2 allows */

/* ---- PEM ------------------------------------------------------------------------------------- */

/* A key with a passphrase is refused, not asked about on a terminal. */
static int no_passphrase(char *buf, int size, int writing, void *ud)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)ud;
    return -1;
}

static int tls_fail(struct fn_error *reterr, const char *what)
{
    ERR_clear_error();
    return err_set(reterr, FN_E_INVALID, "TLS: %s", what);
}

static int use_chain(SSL_CTX *ctx, BIO *bio, struct fn_error *reterr)
{
    X509 *cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
    bool good = cert && SSL_CTX_use_certificate(ctx, cert) == 1;

    X509_free(cert);
    if (!good) {
        return tls_fail(reterr,
                        "the certificate is none, or too weak; expected PEM, RSA of 2048 bits "
                        "or more, or a curve, and no SHA-1");
    }
    while ((cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
        good = SSL_CTX_add1_chain_cert(ctx, cert) == 1;
        X509_free(cert);
        if (!good) {
            return tls_fail(reterr, "an intermediate certificate is too weak");
        }
    }
    ERR_clear_error(); /* the end of the text counts as an error */
    return 0;
}

static int use_pair(SSL_CTX *ctx, const struct net_tls *tls, struct fn_error *reterr)
{
    BIO *cert = BIO_new_mem_buf(tls->cert_pem, -1);
    BIO *text = tls->key_pem ? BIO_new_mem_buf(tls->key_pem, -1) : NULL;
    EVP_PKEY *key = text ? PEM_read_bio_PrivateKey(text, NULL, no_passphrase, NULL) : NULL;
    int r = cert ? use_chain(ctx, cert, reterr) : tls_fail(reterr, "out of memory");

    if (r == 0 && !key) {
        r = tls_fail(reterr, "the key is none; expected PEM without a passphrase");
    } else if (r == 0 &&
               (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)) {
        r = tls_fail(reterr, "the key does not belong to the certificate");
    }
    EVP_PKEY_free(key);
    BIO_free(text);
    BIO_free(cert);
    return r;
}

static int trust(SSL_CTX *ctx, const char *pem, bool server, struct fn_error *reterr)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    bool good = bio != NULL;
    uint32_t n = 0;
    X509 *cert;

    while (good && (cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
        good = X509_STORE_add_cert(store, cert) == 1 &&
               (!server || SSL_CTX_add_client_CA(ctx, cert) == 1);
        X509_free(cert);
        n++;
    }
    BIO_free(bio);
    if (!good || n == 0) {
        return tls_fail(reterr, "the authority is no certificate; expected PEM");
    }
    ERR_clear_error();
    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
    return 0;
}

/* Each authority of a chain must have a current list: who cannot be checked is refused. */
static int use_lists(SSL_CTX *ctx, const char *pem, struct fn_error *reterr)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    bool good = bio != NULL;
    uint32_t n = 0;
    X509_CRL *crl;

    while (good && (crl = PEM_read_bio_X509_CRL(bio, NULL, no_passphrase, NULL))) {
        good = X509_STORE_add_crl(store, crl) == 1;
        X509_CRL_free(crl);
        n++;
    }
    BIO_free(bio);
    if (!good || n == 0) {
        return tls_fail(reterr, "the revocation list is none; expected PEM");
    }
    ERR_clear_error();
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return 0;
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* A server that the authority knows but that is none of the peers is refused in the handshake. */
static int verify_server(X509_STORE_CTX *chain, void *ud)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct net_io *io = SSL_get_app_data(ssl);
    char name[NET_NAME_BYTES];
    int r = X509_verify_cert(chain);

    (void)ud;
    if (r > 0 && !identity_names_peer(io->identity, X509_STORE_CTX_get0_cert(chain), name,
                                      sizeof(name))) {
        log_stranger(FN_LOG_WARN,
                     "TLS805 a server's certificate names none of the peers that are allowed",
                     "server", io->peer, "name", name);
        X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
        r = 0;
    }
    return r;
}

/* Where the protocol stands in what the client offers; NULL: nowhere. */
static const unsigned char *find_alpn(const char *name, size_t len, const unsigned char *offered,
                                      unsigned offered_len)
{
    for (unsigned i = 0; i < offered_len; i += 1u + offered[i]) {
        if (offered[i] == len && memcmp(offered + i + 1, name, len) == 0) {
            return offered + i + 1;
        }
    }
    return NULL;
}

/* The first of the protocols that the stream wants which the client offers. */
static int choose_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                       const unsigned char *offered, unsigned offered_len, void *ud)
{
    const struct net_io *io = SSL_get_app_data(ssl);
    size_t len;

    (void)ud;
    if (!io->alpn) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    for (const char *name = io->alpn; *name; name += len + (name[len] == ',')) {
        len = strcspn(name, ",");
        *ret = find_alpn(name, len, offered, offered_len);
        if (*ret) {
            *ret_len = (unsigned char)len;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return io->alpn_optional ? SSL_TLSEXT_ERR_NOACK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Sessions are not resumed: each connection shows its certificate to what is in force now. */
static SSL_CTX *make_bare(bool server)
{
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

    if (!ctx) {
        return NULL;
    }
    SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ctx, CIPHERS_TLS12) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

static int tls_make(const struct net_tls *tls, bool server, SSL_CTX **ret, struct fn_error *reterr)
{
    SSL_CTX *ctx = make_bare(server);
    int r = 0;

    if (!ctx) {
        ERR_clear_error();
        return err_set(reterr, FN_E_EXHAUSTED, "TLS: out of memory");
    }
    if (tls->cert_pem) {
        r = use_pair(ctx, tls, reterr);
    }
    if (r == 0 && tls->ca_pem) {
        r = trust(ctx, tls->ca_pem, server, reterr);
    } else if (r == 0 && !server) {
        SSL_CTX_set_default_verify_paths(ctx);
    }
    if (r == 0 && tls->crl_pem) {
        r = use_lists(ctx, tls->crl_pem, reterr);
    }
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    if (server) {
        SSL_CTX_set_verify(
            ctx, tls->ca_pem ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
            NULL);
        SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
    } else {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(ctx, verify_server, NULL);
    }
    *ret = ctx;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void empty(struct net_identity *i)
{
    SSL_CTX_free(i->client);
    SSL_CTX_free(i->server);
    free(i->server_name);
    for (uint32_t k = 0; k < i->n_peers; k++) {
        free(i->peers[k]);
    }
    free(i->peers);
}

static int tls_fill(const struct net_tls *tls, struct net_identity *i, struct fn_error *reterr)
{
    bool good = true;
    int r = 0;

    if (tls->cert_pem || tls->ca_pem) {
        r = tls_make(tls, false, &i->client, reterr);
    }
    if (r == 0 && tls->cert_pem) {
        r = tls_make(tls, true, &i->server, reterr);
    }
    if (r == 0 && tls->server_name) {
        i->server_name = strdup(tls->server_name);
        good = i->server_name != NULL;
    }
    if (r == 0 && tls->n_peers > 0) {
        i->peers = calloc(tls->n_peers, sizeof(*i->peers));
        good = good && i->peers;
        for (uint32_t k = 0; good && k < tls->n_peers; k++) {
            i->peers[k] = strdup(tls->peers[k]);
            good = i->peers[k] != NULL;
            i->n_peers = k + 1;
        }
    }
    if (r == 0 && !good) {
        r = err_set(reterr, FN_E_EXHAUSTED, "TLS: out of memory");
    }
    if (r < 0) {
        empty(i);
    }
    return r;
}

int net_identity_create(const struct net_tls *tls, struct net_identity **ret,
                        struct fn_error *reterr)
{
    struct net_identity *i = calloc(1, sizeof(*i));
    int r;

    if (!i) {
        return err_set(reterr, FN_E_EXHAUSTED, "TLS: out of memory");
    }
    r = tls_fill(tls, i, reterr);
    if (r < 0) {
        free(i);
        return r;
    }
    i->bio = i->client ? io_bio_method() : NULL;
    if (i->client && !i->bio) {
        empty(i);
        free(i);
        return err_set(reterr, FN_E_EXHAUSTED, "TLS: out of memory");
    }
    i->refs = 1;
    *ret = i;
    return 0;
}

struct net_identity *net_identity_ref(struct net_identity *i)
{
    i->refs++;
    return i;
}

void net_identity_unref(struct net_identity *i)
{
    if (i && --i->refs == 0) {
        empty(i);
        BIO_meth_free(i->bio);
        free(i);
    }
}

bool net_identity_is_shared(const struct net_identity *i)
{
    return i->refs > 1;
}

int net_identity_renew(struct net_identity *i, const struct net_tls *tls, struct fn_error *reterr)
{
    struct net_identity fresh = { 0 };
    struct net_identity old = *i;
    int r;

    if (!(tls->cert_pem || tls->ca_pem) != net_identity_is_plain(i)) {
        return err_set(reterr, FN_E_INVALID, "TLS: plain text stays plain text, and TLS stays TLS");
    }
    r = tls_fill(tls, &fresh, reterr);
    if (r < 0) {
        return r;
    }
    fresh.refs = i->refs;
    fresh.bio = i->bio;
    *i = fresh;
    empty(&old);
    return 0;
}

bool net_identity_is_plain(const struct net_identity *i)
{
    return !i->client;
}

/* ---- names ----------------------------------------------------------------------------------- */

bool net_identity_has_peer(const struct net_identity *i, const char *name)
{
    bool found = i->n_peers == 0;

    for (uint32_t k = 0; !found && k < i->n_peers; k++) {
        found = fnmatch(i->peers[k], name, FNM_PATHNAME | FNM_NOESCAPE) == 0;
    }
    return found;
}

/* A text without NUL inside: "good\0evil" is nobody's name. Nor is one of wide characters, whose
 * bytes may read as another. */
static bool take_text(const ASN1_STRING *s, char *ret, size_t cap)
{
    int len = s ? ASN1_STRING_length(s) : 0;
    int type = s ? ASN1_STRING_type(s) : 0;

    if (type == V_ASN1_BMPSTRING || type == V_ASN1_UNIVERSALSTRING || len <= 0 ||
        (size_t)len >= cap || memchr(ASN1_STRING_get0_data(s), '\0', (size_t)len)) {
        return false;
    }
    memcpy(ret, ASN1_STRING_get0_data(s), (size_t)len);
    ret[len] = '\0';
    return true;
}

static const ASN1_STRING *common_name(X509 *cert)
{
    X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    return at < 0 ? NULL : X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
}

/* The first name goes into ret, if it is still empty. */
static bool is_peer(const struct net_identity *i, const ASN1_STRING *name, char *ret, size_t cap)
{
    char text[NET_NAME_BYTES];

    if (!take_text(name, text, sizeof(text))) {
        return false;
    }
    if (!*ret) {
        take_text(name, ret, cap);
    }
    return net_identity_has_peer(i, text);
}

bool identity_names_peer(const struct net_identity *i, X509 *cert, char *ret, size_t cap)
{
    static const int kinds[] = { GEN_URI, GEN_DNS };
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = i->n_peers == 0;

    *ret = '\0';
    for (size_t kind = 0; kind < 2; kind++) {
        for (int k = 0; k < sk_GENERAL_NAME_num(names); k++) {
            const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, k);

            if (n->type == kinds[kind] && is_peer(i, n->d.ia5, ret, cap)) {
                found = true;
            }
        }
    }
    if (is_peer(i, common_name(cert), ret, cap)) {
        found = true;
    }
    GENERAL_NAMES_free(names);
    return found;
}

void cert_name(X509 *cert, char *ret, size_t cap)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    const ASN1_STRING *first = NULL;

    for (int k = 0; !first && k < sk_GENERAL_NAME_num(names); k++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, k);

        first = n->type == GEN_URI ? n->d.ia5 : NULL;
    }
    /* a first name that cannot be told in full is nobody's; the next one does not stand in */
    if (!take_text(first ? first : common_name(cert), ret, cap)) {
        *ret = '\0';
    }
    GENERAL_NAMES_free(names);
}

bool net_io_peer_identity(const struct net_io *io, char *ret, size_t cap)
{
    X509 *cert = io->ssl ? SSL_get0_peer_certificate(io->ssl) : NULL;

    *ret = '\0';
    if (cert) {
        cert_name(cert, ret, cap);
    }
    return cert != NULL;
}

bool net_io_peer_allowed(const struct net_io *io, char *ret, size_t cap)
{
    X509 *cert = io->ssl ? SSL_get0_peer_certificate(io->ssl) : NULL;

    *ret = '\0';
    return cert ? identity_names_peer(io->identity, cert, ret, cap)
                : !io->identity || io->identity->n_peers == 0;
}
