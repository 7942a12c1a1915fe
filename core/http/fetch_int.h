/* Private to the fetch part of core/http. */
#ifndef HTTP_FETCH_INT_H
#define HTTP_FETCH_INT_H

#include <http/fetch.h>

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>

struct fetch_streams;

/* One easy handle inside a multi of its own: the multi holds the kept connections, and polling it
 * ourselves is what makes cancelling fast. */
struct fetch_handle {
    CURL *easy;
    CURLM *multi;
    SLIST_ENTRY(fetch_handle) link;
    char detail[CURL_ERROR_SIZE];
};

struct fetch {
    struct env *env;
    pthread_mutex_t lock; /* idle, idle_n */
    SLIST_HEAD(, fetch_handle) idle;
    uint32_t idle_n;
    struct fetch_streams *streams;
    void (*seen)(const struct fn_http_request *rq, int result, uint32_t status, int64_t took_ns);
};

int fetch_check_request(const struct fn_http_request *rq, struct fn_error *reterr);
/* Resolvers that do not answer are left behind: by itself libcurl waits for the thread that asks
 * one, half a minute on top of every limit, when a transfer is taken out. It ends by itself. */
void fetch_leave_resolver(CURL *easy);
CURLM *fetch_multi(void); /* NULL: no memory */
/* Options that exchanges and streams share. `rq` must outlive the transfer; the list goes to the
 * caller, who frees it after the transfer. */
int fetch_setup(CURL *easy, const struct fn_http_request *rq, struct curl_slist **ret_headers,
                struct fn_error *reterr);
/* One sentence for a transfer that brought no complete answer. */
int fetch_failure(CURL *easy, CURLcode code, const char *detail, const struct fn_http_request *rq,
                  struct fn_error *reterr);

/* fetch_tls.c: are the TLS files of a request what they must be; set them; and what a failed
 * transfer means, 0 = it is not about TLS. */
int fetch_tls_check(const struct fn_http_request *rq, struct fn_error *reterr);
void fetch_tls_setup(CURL *easy, const struct fn_http_request *rq);
int fetch_tls_failure(CURL *easy, CURLcode code, const char *why, const struct fn_http_request *rq,
                      struct fn_error *reterr);

int fetch_streams_create(struct env *env, struct fetch_streams **ret, struct fn_error *reterr);
void fetch_streams_destroy(struct fetch_streams *s);
int fetch_stream_open(struct fetch_streams *s, const struct fn_host *host,
                      const struct fn_http_request *rq, const struct fn_http_stream_cb *cb,
                      void *ud, uint64_t *ret_id, struct fn_error *reterr);
/* id 0: all streams of the host. */
void fetch_stream_close(struct fetch_streams *s, const struct fn_host *host, uint64_t id);

#endif
