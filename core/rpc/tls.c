#include <rpc/tls.h>

#include <base/log.h>
#include <fnmatch.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <rpc/rpc_int.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 256

struct texts {
    char *cert, *key, *ca, *server_name;
    char **peers;
    uint32_t n_peers;
};

struct identity {
    pthread_mutex_t lock;
    uint32_t refs; /* atomic */
    uint64_t generation;
    struct texts t;
};

/* ---- texts ----------------------------------------------------------------------------------- */

static void texts_finish(struct texts *t)
{
    if (t->key) {
        explicit_bzero(t->key, strlen(t->key));
    }
    free(t->cert);
    free(t->key);
    free(t->ca);
    free(t->server_name);
    for (uint32_t i = 0; i < t->n_peers; i++) {
        free(t->peers[i]);
    }
    free(t->peers);
    *t = (struct texts){0};
}

static bool copy(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

static int texts_copy(const struct rpc_tls *tls, struct texts *ret)
{
    struct texts t = {0};
    bool good = copy(tls->cert_pem, &t.cert) && copy(tls->key_pem, &t.key) &&
                copy(tls->ca_pem, &t.ca) && copy(tls->server_name, &t.server_name);

    t.peers = calloc(tls->n_peers + 1, sizeof(*t.peers));
    good = good && t.peers;
    for (uint32_t i = 0; good && i < tls->n_peers; i++) {
        good = copy(tls->peers[i], &t.peers[i]);
        t.n_peers = i + 1;
    }
    if (!good) {
        texts_finish(&t);
        return FN_E_EXHAUSTED;
    }
    *ret = t;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct identity *identity_create(const struct rpc_tls *tls)
{
    struct identity *i = calloc(1, sizeof(*i));

    if (i && texts_copy(tls, &i->t) < 0) {
        free(i);
        return NULL;
    }
    if (i) {
        pthread_mutex_init(&i->lock, NULL);
        i->refs = 1;
        i->generation = 1;
    }
    return i;
}

struct identity *identity_ref(struct identity *i)
{
    __atomic_fetch_add(&i->refs, 1, __ATOMIC_RELAXED);
    return i;
}

void identity_unref(struct identity *i)
{
    if (i && __atomic_sub_fetch(&i->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        texts_finish(&i->t);
        pthread_mutex_destroy(&i->lock);
        free(i);
    }
}

int identity_renew(struct identity *i, const struct rpc_tls *tls)
{
    struct texts fresh, old;
    int r = texts_copy(tls, &fresh);

    if (r < 0) {
        return r;
    }
    pthread_mutex_lock(&i->lock);
    old = i->t;
    i->t = fresh;
    i->generation++;
    pthread_mutex_unlock(&i->lock);
    texts_finish(&old);
    return 0;
}

uint64_t identity_generation(struct identity *i)
{
    uint64_t generation;

    pthread_mutex_lock(&i->lock);
    generation = i->generation;
    pthread_mutex_unlock(&i->lock);
    return generation;
}

bool identity_is_plain(struct identity *i)
{
    bool plain;

    pthread_mutex_lock(&i->lock);
    plain = !i->t.cert && !i->t.ca;
    pthread_mutex_unlock(&i->lock);
    return plain;
}

const char *identity_server_name(struct identity *i)
{
    return i->t.server_name;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A star stands for any text without a slash. */
static bool is_peer(struct identity *i, const char *name)
{
    bool found;

    pthread_mutex_lock(&i->lock);
    found = i->t.n_peers == 0;
    for (uint32_t k = 0; !found && k < i->t.n_peers; k++) {
        found = fnmatch(i->t.peers[k], name, FNM_PATHNAME | FNM_NOESCAPE) == 0;
    }
    pthread_mutex_unlock(&i->lock);
    return found;
}

/* A text without NUL inside: "good\0evil" is nobody's name. */
static bool take_text(const ASN1_STRING *s, char *ret, size_t cap)
{
    int len = s ? ASN1_STRING_length(s) : 0;

    if (len <= 0 || (size_t)len >= cap || memchr(ASN1_STRING_get0_data(s), '\0', (size_t)len)) {
        return false;
    }
    memcpy(ret, ASN1_STRING_get0_data(s), (size_t)len);
    ret[len] = '\0';
    return true;
}

static bool any_name(X509 *cert, struct identity *i)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    X509_NAME *subject = X509_get_subject_name(cert);
    int cn = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    char text[NAME_MAX_BYTES];
    bool found = false;

    for (int k = 0; !found && k < sk_GENERAL_NAME_num(names); k++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, k);

        found = (n->type == GEN_URI || n->type == GEN_DNS) &&
                take_text(n->d.ia5, text, sizeof(text)) && is_peer(i, text);
    }
    if (!found && cn >= 0) {
        found = take_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, cn)), text,
                          sizeof(text)) &&
                is_peer(i, text);
    }
    GENERAL_NAMES_free(names);
    return found;
}

/* ---- client ---------------------------------------------------------------------------------- */

static int verify_server(const char *target, const char *pem, void *ud)
{
    struct identity *i = ud;
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool good = cert && any_name(cert, i);

    if (!good) {
        log_warn("TLS805 a server's certificate names none of the peers that are allowed", "server",
                 target);
    }
    X509_free(cert);
    BIO_free(bio);
    return good ? 0 : 1;
}

static void forget(void *ud)
{
    identity_unref(ud);
}

grpc_channel_credentials *identity_client_credentials(struct identity *i)
{
    grpc_ssl_verify_peer_options verify = {verify_server, NULL, forget};
    grpc_ssl_pem_key_cert_pair pair;
    grpc_channel_credentials *creds;

    if (identity_is_plain(i)) {
        return grpc_insecure_credentials_create();
    }
    verify.verify_peer_callback_userdata = identity_ref(i);
    pthread_mutex_lock(&i->lock);
    pair = (grpc_ssl_pem_key_cert_pair){i->t.key, i->t.cert};
    creds = grpc_ssl_credentials_create_ex(i->t.ca, i->t.cert ? &pair : NULL, &verify, NULL);
    pthread_mutex_unlock(&i->lock);
    return creds;
}

/* ---- server ---------------------------------------------------------------------------------- */

/* [any] Before each handshake. */
static grpc_ssl_certificate_config_reload_status fetch(void *ud,
                                                       grpc_ssl_server_certificate_config **ret)
{
    struct identity_seen *seen = ud;
    struct identity *i = seen->identity;
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;

    pthread_mutex_lock(&i->lock);
    if (seen->generation != i->generation) {
        grpc_ssl_pem_key_cert_pair pair = {i->t.key, i->t.cert};

        *ret = grpc_ssl_server_certificate_config_create(i->t.ca, &pair, 1);
        status =
            *ret ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
        seen->generation = *ret ? i->generation : seen->generation;
    }
    pthread_mutex_unlock(&i->lock);
    return status;
}

grpc_server_credentials *identity_server_credentials(struct identity_seen *seen)
{
    bool mutual;

    if (identity_is_plain(seen->identity)) {
        return grpc_insecure_server_credentials_create();
    }
    mutual = seen->identity->t.ca != NULL;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            fetch, seen));
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool take_property(const grpc_auth_property *p, char *ret, size_t cap)
{
    if (p->value_length == 0 || p->value_length >= cap || memchr(p->value, '\0', p->value_length)) {
        return false;
    }
    memcpy(ret, p->value, p->value_length);
    ret[p->value_length] = '\0';
    return true;
}

static const grpc_auth_property *first_property(const grpc_auth_context *auth, const char *name)
{
    grpc_auth_property_iterator it = grpc_auth_context_find_properties_by_name(auth, name);

    return grpc_auth_property_iterator_next(&it);
}

bool identity_of_peer(grpc_call *call, char *ret, size_t cap)
{
    static const char *const names[] = {GRPC_PEER_URI_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME};
    grpc_auth_context *auth = grpc_call_auth_context(call);
    bool certified = auth && first_property(auth, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const grpc_auth_property *p;

    ret[0] = '\0';
    for (size_t k = 0; certified && !ret[0] && k < 2; k++) {
        p = first_property(auth, names[k]);
        if (p && !take_property(p, ret, cap)) {
            ret[0] = '\0';
            break; /* a name that cannot be told in full is nobody's */
        }
    }
    grpc_auth_context_release(auth);
    return certified;
}

bool identity_allows(struct identity *i, grpc_call *call, char *ret, size_t cap)
{
    static const char *const names[] = {GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME,
                                        GRPC_X509_CN_PROPERTY_NAME};
    grpc_auth_context *auth;
    const grpc_auth_property *p;
    bool found = i->t.n_peers == 0;
    char name[NAME_MAX_BYTES];

    ret[0] = '\0';
    if (found) {
        return true;
    }
    auth = grpc_call_auth_context(call);
    for (size_t k = 0; auth && !found && k < 3; k++) {
        grpc_auth_property_iterator it = grpc_auth_context_find_properties_by_name(auth, names[k]);

        while (!found && (p = grpc_auth_property_iterator_next(&it))) {
            found = take_property(p, name, sizeof(name)) && is_peer(i, name);
            if (!ret[0]) {
                take_property(p, ret, cap);
            }
        }
    }
    grpc_auth_context_release(auth);
    return found;
}
