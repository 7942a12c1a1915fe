/* One question at a time, for programs that wait for the answer. */
#include <http/fetch_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX (4u << 20)
#define URL_BYTES        4096

struct fetch_client {
    CURL *curl; /* keeps its connection */
    char *socket; /* NULL: TCP */
    char *base_url;
    char *token; /* NULL: none */
};

/* Paths of questions begin with a slash of their own. */
static char *copy_base(const char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    return strndup(url, len);
}

int fetch_client_create(const char *socket, const char *base_url, struct fetch_client **ret,
                        struct fn_error *reterr)
{
    struct fetch_client *c = calloc(1, sizeof(*c));

    if (c) {
        c->curl = curl_easy_init();
        c->socket = socket ? strdup(socket) : NULL;
        c->base_url = copy_base(base_url);
    }
    if (!c || !c->curl || !c->base_url || (socket && !c->socket)) {
        fetch_client_destroy(c);
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    *ret = c;
    return 0;
}

int fetch_client_set_token(struct fetch_client *c, const char *token)
{
    char *copy = strdup(token);

    free(c->token);
    c->token = copy;
    return copy ? 0 : FN_E_EXHAUSTED;
}

void fetch_client_destroy(struct fetch_client *c)
{
    if (c) {
        free(c->token);
        curl_easy_cleanup(c->curl);
        free(c->socket);
        free(c->base_url);
        free(c);
    }
}

static int no_answer(const struct fetch_client *c, CURLcode code, struct fn_error *reterr)
{
    return err_set(reterr, FN_E_UNAVAILABLE, "no node answers at %s: %s",
                   c->socket ? c->socket : c->base_url, curl_easy_strerror(code));
}

static size_t once_on_body(char *data, size_t size, size_t n, void *ud)
{
    return buf_add(ud, data, size * n) < 0 ? 0 : size * n;
}

static void once_prepare(struct fetch_client *c, const char *path)
{
    char url[URL_BYTES];

    snprintf(url, sizeof(url), "%s%s", c->base_url, path);
    curl_easy_reset(c->curl);
    if (c->socket) {
        curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, c->socket);
        curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
    }
    curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    fetch_leave_resolver(c->curl);
    if (c->token) {
        curl_easy_setopt(c->curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(c->curl, CURLOPT_XOAUTH2_BEARER, c->token);
    }
}

int fetch_client_ask(struct fetch_client *c, const char *method, const char *path,
                     const char *body, int64_t timeout_ms, int *ret_status, struct buf *ret_body,
                     struct fn_error *reterr)
{
    long status = 0;
    CURLcode code;

    buf_init(ret_body, ANSWER_BYTES_MAX);
    once_prepare(c, path);
    if (body) {
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
    }
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, once_on_body);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, ret_body);
    code = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OPERATION_TIMEDOUT) {
        return err_set(reterr, FN_E_DEADLINE, "the node at %s gave no answer within %lld ms",
                       c->socket ? c->socket : c->base_url, (long long)timeout_ms);
    }
    if (code != CURLE_OK) {
        return no_answer(c, code, reterr);
    }
    *ret_status = (int)status;
    return 0;
}

/* ---- unix sockets ---------------------------------------------------------------------------- */

#define ADMIN_URL "http://admin"

int fetch_unix(const char *socket, const char *method, const char *path, int64_t timeout_ms,
               int *ret_status, struct buf *ret_body, struct fn_error *reterr)
{
    struct fetch_client *c;
    int r = fetch_client_create(socket, ADMIN_URL, &c, reterr);

    buf_init(ret_body, ANSWER_BYTES_MAX);
    if (r == 0) {
        r = fetch_client_ask(c, method, path, NULL, timeout_ms, ret_status, ret_body, reterr);
        fetch_client_destroy(c);
    }
    return r;
}

struct reading {
    int (*data)(void *ud, const char *data, size_t len);
    void *ud;
    bool any;
};

static size_t once_on_piece(char *data, size_t size, size_t n, void *ud)
{
    struct reading *r = ud;

    r->any = true;
    return r->data(r->ud, data, size * n) < 0 ? 0 : size * n;
}

int fetch_unix_read(const char *socket, const char *path,
                    int (*data)(void *ud, const char *data, size_t len), void *ud,
                    struct fn_error *reterr)
{
    struct reading reading = { data, ud, false };
    struct fetch_client *c;
    CURLcode code;
    int r = fetch_client_create(socket, ADMIN_URL, &c, reterr);

    if (r < 0) {
        return r;
    }
    once_prepare(c, path);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, once_on_piece);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &reading);
    code = curl_easy_perform(c->curl);
    r = code == CURLE_OK || reading.any ? 0 : no_answer(c, code, reterr);
    fetch_client_destroy(c);
    return r;
}
