/* Fetch over TLS: what a request's files mean, and one sentence for each way in which a handshake
 * ends. */
#include <http/fetch_int.h>

#include <string.h>

/* Kept connections have the identity of the files that they began with. */
#define TLS_CONNECTION_MAX_S 600L

int fetch_tls_check(const struct fn_http_request *rq, struct fn_error *reterr)
{
    bool files = rq->tls_ca || rq->tls_cert || rq->tls_key;

    if (!rq->tls_cert != !rq->tls_key) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.http: tls_cert and tls_key, got one; expected both or neither");
    }
    if (files && strncmp(rq->url, "https://", 8) != 0) {
        return err_set(reterr, FN_E_INVALID, "fn.http: TLS files for \"%.80s\"; expected https://",
                       rq->url);
    }
    return 0;
}

void fetch_tls_setup(CURL *easy, const struct fn_http_request *rq)
{
    if (rq->tls_ca) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, rq->tls_ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH,
                         NULL); /* that file, and not the system's beside it */
        curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    }
    if (rq->tls_cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, rq->tls_cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, rq->tls_key);
    }
    if (rq->tls_ca || rq->tls_cert) {
        curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
        curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, TLS_CONNECTION_MAX_S);
    }
}

/* OpenSSL's "error:0A00041B:SSL routines::tlsv1 alert unknown ca" ends with what is of use. */
static const char *reason_in(const char *why)
{
    for (const char *next; (next = strstr(why, "::")) != NULL;) {
        why = next + 2;
    }
    return why;
}

static int not_trusted(const char *why, const struct fn_http_request *rq, struct fn_error *reterr)
{
    return err_set(reterr, FN_E_UNAVAILABLE,
                   "%.60s: its certificate is not trusted by %.60s: %.60s", rq->url,
                   rq->tls_ca ? rq->tls_ca : "the system's authorities", why);
}

static int not_verified(const char *why, const struct fn_http_request *rq, struct fn_error *reterr)
{
    if (!strstr(why, "subject name")) {
        return not_trusted(why, rq, reterr);
    }
    return err_set(reterr, FN_E_UNAVAILABLE,
                   "%.80s: its certificate does not have that name: %.80s", rq->url, why);
}

static int not_connected(const char *why, const struct fn_http_request *rq, struct fn_error *reterr)
{
    if (strstr(why, "wrong version number") || strstr(why, "packet length")) {
        return err_set(reterr, FN_E_UNAVAILABLE, "%.100s: nobody speaks TLS there", rq->url);
    }
    if (strstr(why, "asn1 encoding routines")) { /* an authority of that name, with another key */
        return not_trusted("signature failure", rq, reterr);
    }
    return err_set(reterr, FN_E_UNAVAILABLE, "%.80s: no TLS connection: %.80s", rq->url,
                   reason_in(why));
}

/* With TLS 1.3 a server says after the handshake that it does not want this client, if it says so:
 * some close, which is a reset where the request was not read. */
static int not_accepted(CURL *easy, const char *why, const struct fn_http_request *rq,
                        struct fn_error *reterr)
{
    long head_bytes = 0;

    if (strstr(why, "alert")) {
        return err_set(reterr, FN_E_UNAVAILABLE,
                       "%.80s: does not accept this node's certificate: %.60s", rq->url,
                       reason_in(why));
    }
    curl_easy_getinfo(easy, CURLINFO_HEADER_SIZE, &head_bytes);
    if (!rq->tls_cert || head_bytes > 0) {
        return 0;
    }
    return err_set(reterr, FN_E_UNAVAILABLE,
                   "%.80s: ended the connection without a word; does it accept %.60s?", rq->url,
                   rq->tls_cert);
}

int fetch_tls_failure(CURL *easy, CURLcode code, const char *why, const struct fn_http_request *rq,
                      struct fn_error *reterr)
{
    switch (code) {
    case CURLE_SSL_CACERT_BADFILE:
        return err_set(reterr, FN_E_PRECONDITION,
                       "%.100s: expected a readable file of certificates (PEM)",
                       rq->tls_ca ? rq->tls_ca : "the system's authorities");
    case CURLE_SSL_CERTPROBLEM:
        return err_set(reterr, FN_E_PRECONDITION,
                       "%.60s, %.60s: expected a certificate and its key (PEM): %.60s",
                       rq->tls_cert ? rq->tls_cert : "", rq->tls_key ? rq->tls_key : "", why);
    case CURLE_PEER_FAILED_VERIFICATION:
        return not_verified(why, rq, reterr);
    case CURLE_SSL_CONNECT_ERROR:
        return not_connected(why, rq, reterr);
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
        return not_accepted(easy, why, rq, reterr);
    default:
        return 0;
    }
}
