/* One question over a unix socket, for programs that wait for the answer. */
#include <http/fetch.h>

#include <curl/curl.h>
#include <stdio.h>

#define ANSWER_BYTES_MAX (4u << 20)

static size_t fetch_unix_on_body(char *data, size_t size, size_t n, void *ud)
{
    return buf_add(ud, data, size * n) < 0 ? 0 : size * n;
}

int fetch_unix(const char *socket, const char *method, const char *path, int64_t timeout_ms,
               int *ret_status, struct buf *ret_body, struct fn_error *reterr)
{
    CURL *curl = curl_easy_init();
    char url[1200];
    long status = 0;
    CURLcode c;

    if (!curl) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    snprintf(url, sizeof(url), "http://admin%s", path);
    buf_init(ret_body, ANSWER_BYTES_MAX);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
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
        return err_set(reterr, FN_E_UNAVAILABLE, "no node answers at %s: %s", socket,
                       curl_easy_strerror(c));
    }
    *ret_status = (int)status;
    return 0;
}
