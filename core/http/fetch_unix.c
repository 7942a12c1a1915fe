/* One question over a unix socket, for programs that wait for the answer. */
#include <http/fetch.h>

#include <curl/curl.h>
#include <stdio.h>

#define ANSWER_BYTES_MAX (4u << 20)

static size_t fetch_unix_on_body(char *data, size_t size, size_t n, void *ud)
{
    return buf_add(ud, data, size * n) < 0 ? 0 : size * n;
}

/* NULL: no memory. */
static CURL *fetch_unix_begin(const char *socket, const char *path)
{
    CURL *curl = curl_easy_init();
    char url[1200];

    if (curl) {
        snprintf(url, sizeof(url), "http://admin%s", path);
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    }
    return curl;
}

static int no_answer(const char *socket, CURLcode c, struct fn_error *reterr)
{
    return err_set(reterr, FN_E_UNAVAILABLE, "no node answers at %s: %s", socket,
                   curl_easy_strerror(c));
}

int fetch_unix(const char *socket, const char *method, const char *path, int64_t timeout_ms,
               int *ret_status, struct buf *ret_body, struct fn_error *reterr)
{
    CURL *curl = fetch_unix_begin(socket, path);
    long status = 0;
    CURLcode c;

    buf_init(ret_body, ANSWER_BYTES_MAX);
    if (!curl) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fetch_unix_on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_body);
    c = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    if (c == CURLE_OPERATION_TIMEDOUT) {
        return err_set(reterr, FN_E_DEADLINE, "the node at %s gave no answer within %lld ms",
                       socket, (long long)timeout_ms);
    }
    if (c != CURLE_OK) {
        return no_answer(socket, c, reterr);
    }
    *ret_status = (int)status;
    return 0;
}

struct reading {
    int (*data)(void *ud, const char *data, size_t len);
    void *ud;
    bool any;
};

static size_t fetch_unix_on_piece(char *data, size_t size, size_t n, void *ud)
{
    struct reading *r = ud;

    r->any = true;
    return r->data(r->ud, data, size * n) < 0 ? 0 : size * n;
}

int fetch_unix_read(const char *socket, const char *path,
                    int (*data)(void *ud, const char *data, size_t len), void *ud,
                    struct fn_error *reterr)
{
    CURL *curl = fetch_unix_begin(socket, path);
    struct reading r = { data, ud, false };
    CURLcode c;

    if (!curl) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fetch_unix_on_piece);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &r);
    c = curl_easy_perform(curl);
    curl_easy_cleanup(curl);
    return c == CURLE_OK || r.any ? 0 : no_answer(socket, c, reterr);
}
