/* Exchanges: one request, one whole answer, on the calling worker thread. */
#include <http/fetch_int.h>
#include <base/view.h>
#include <loop/loop.h>
#include <plugin/plugin.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define KEPT_CONNECTIONS_MAX 4

/* The answer while it grows. */
struct answer {
    struct buf body;
    bool too_long, no_memory;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_start(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- requests -------------------------------------------------------------------------------- */

void fetch_leave_resolver(CURL *easy)
{
#if CURL_AT_LEAST_VERSION(7, 87, 0)
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#else
    (void)easy;
#endif
}

CURLM *fetch_multi(void)
{
    CURLM *multi = curl_multi_init();

#if CURL_AT_LEAST_VERSION(8, 20, 0) /* from there on threads that resolve are the multi's */
    if (multi) {
        curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L);
    }
#endif
    return multi;
}

static bool has_control_bytes(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f) {
            return true;
        }
    }
    return false;
}

int fetch_check_request(const struct fn_http_request *rq, struct fn_error *reterr)
{
    struct sockaddr_un un;
    uint32_t n = 0;

    if (!rq || rq->size < sizeof(*rq) || !rq->method || !rq->url || !*rq->method) {
        return err_set(reterr, FN_E_INVALID, "fn.http: request without method or url");
    }
    if (strncmp(rq->url, "http://", 7) != 0 && strncmp(rq->url, "https://", 8) != 0) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.http: url, got \"%.80s\"; expected http:// or https://", rq->url);
    }
    if (has_control_bytes(rq->url) || strchr(rq->url, ' ') || has_control_bytes(rq->method)) {
        return err_set(reterr, FN_E_INVALID, "fn.http: url or method with control bytes or spaces");
    }
    if (rq->unix_path && strlen(rq->unix_path) >= sizeof(un.sun_path)) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.http: socket path of %zu bytes; expected at most %zu",
                       strlen(rq->unix_path), sizeof(un.sun_path) - 1);
    }
    for (const char *const *h = rq->headers; h && *h; h++) {
        if (++n > FN_HTTP_HEADERS_MAX || has_control_bytes(*h) || !strchr(*h, ':')) {
            return err_set(reterr, FN_E_INVALID,
                           "fn.http: header %u is not \"Name: value\" or beyond the limit of %u", n,
                           FN_HTTP_HEADERS_MAX);
        }
    }
    return fetch_tls_check(rq, reterr);
}

static bool has_header(const struct fn_http_request *rq, const char *name)
{
    size_t n = strlen(name);

    for (const char *const *h = rq->headers; h && *h; h++) {
        if (strncasecmp(*h, name, n) == 0 && (*h)[n] == ':') {
            return true;
        }
    }
    return false;
}

static int append(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);

    if (!more) {
        return FN_E_EXHAUSTED;
    }
    *list = more;
    return 0;
}

static int make_headers(const struct fn_http_request *rq, struct curl_slist **ret)
{
    /* libcurl waits a second for "100 Continue" and calls any body a form unless told otherwise. */
    int r = append(ret, "Expect:");

    if (r == 0 && !has_header(rq, "Content-Type")) {
        r = append(ret, "Content-Type:");
    }
    for (const char *const *h = rq->headers; r == 0 && h && *h; h++) {
        r = append(ret, *h);
    }
    return r;
}

int fetch_setup(CURL *easy, const struct fn_http_request *rq, struct curl_slist **ret_headers,
                struct fn_error *reterr)
{
    struct curl_slist *headers = NULL;

    if (make_headers(rq, &headers) < 0) {
        curl_slist_free_all(headers);
        return err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    }
    curl_easy_setopt(easy, CURLOPT_URL, rq->url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* "/a/../b" is not "/b" */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "fnd/" FND_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)FETCH_CONNECT_MS);
    fetch_leave_resolver(easy);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    fetch_tls_setup(easy, rq);
    if (rq->unix_path) {
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, rq->unix_path);
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
    if (strcmp(rq->method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (rq->body_len > 0 || strcmp(rq->method, "POST") == 0 ||
               strcmp(rq->method, "PUT") == 0) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)rq->body_len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, rq->body_len > 0 ? rq->body : "");
    }
    if (strcmp(rq->method, "GET") != 0 && strcmp(rq->method, "HEAD") != 0) {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, rq->method);
    }
    *ret_headers = headers;
    return 0;
}

/* ---- failures -------------------------------------------------------------------------------- */

static int connect_failure(CURL *easy, const struct fn_http_request *rq, struct fn_error *reterr)
{
    struct stat st;
    long os = 0;
    int r;

    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os);
    if (!rq->unix_path) {
        r = err_set(reterr, FN_E_UNAVAILABLE, "%.100s: cannot connect: %s", rq->url,
                    os ? strerror((int)os) : "no address");
    } else if (os == EACCES || os == EPERM) {
        r = err_set(reterr, FN_E_PERMISSION, "unix://%s: %s", rq->unix_path, strerror((int)os));
    } else if (os == ENOENT || os == ENOTDIR) {
        r = err_set(reterr, FN_E_NOT_FOUND, "unix://%s: %s", rq->unix_path, strerror((int)os));
    } else if (stat(rq->unix_path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        r = err_set(reterr, FN_E_PRECONDITION, "unix://%s: not a socket", rq->unix_path);
    } else {
        r = err_set(reterr, FN_E_UNAVAILABLE, "unix://%s: cannot connect: %s", rq->unix_path,
                    os ? strerror((int)os) : "unknown reason");
    }
    if (reterr) {
        reterr->flags |= FN_ERR_RETRY; /* no byte was sent */
    }
    return r;
}

int fetch_failure(CURL *easy, CURLcode code, const char *detail, const struct fn_http_request *rq,
                  struct fn_error *reterr)
{
    const char *why = detail && *detail ? detail : curl_easy_strerror(code);
    const char *where = rq->unix_path ? rq->unix_path : rq->url;
    int r = fetch_tls_failure(easy, code, why, rq, reterr);

    if (r < 0) {
        return r;
    }
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return connect_failure(easy, rq, reterr);
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(reterr, FN_E_DEADLINE, "%.100s: no complete answer in time", where);
    case CURLE_OUT_OF_MEMORY:
        return err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    case CURLE_URL_MALFORMAT:
        return err_set(reterr, FN_E_INVALID,
                       "fn.http: url, got \"%.80s\"; expected an absolute URL", rq->url);
    case CURLE_PARTIAL_FILE:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_RECV_ERROR:
        return err_set(reterr, FN_E_DATA_LOSS, "%.100s: answer is cut short or not HTTP: %.60s",
                       where, why);
    default:
        return err_set(reterr, FN_E_UNAVAILABLE, "%.100s: %.80s", where, why);
    }
}

/* ---- the exchange ---------------------------------------------------------------------------- */

static size_t fetch_on_body(char *data, size_t one, size_t n, void *ud)
{
    struct answer *a = ud;

    (void)one;
    a->too_long = n > a->body.limit - a->body.len;
    a->no_memory = !a->too_long && buf_add(&a->body, data, n) < 0;
    return a->too_long || a->no_memory ? 0 : n;
}

static void handle_destroy(struct fetch_handle *h)
{
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
    free(h);
}

static struct fetch_handle *handle_take(struct fetch *f)
{
    struct fetch_handle *h;

    pthread_mutex_lock(&f->lock);
    h = SLIST_FIRST(&f->idle);
    if (h) {
        SLIST_REMOVE_HEAD(&f->idle, link);
        f->idle_n--;
    }
    pthread_mutex_unlock(&f->lock);
    if (h) {
        return h;
    }
    h = calloc(1, sizeof(*h));
    if (!h) {
        return NULL;
    }
    h->easy = curl_easy_init();
    h->multi = fetch_multi();
    if (!h->easy || !h->multi) {
        handle_destroy(h);
        return NULL;
    }
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_CONNECTIONS_MAX);
    return h;
}

static void handle_give(struct fetch *f, struct fetch_handle *h)
{
    curl_easy_reset(h->easy);
    pthread_mutex_lock(&f->lock);
    if (f->idle_n < FETCH_HANDLES_KEPT) {
        SLIST_INSERT_HEAD(&f->idle, h, link);
        f->idle_n++;
        h = NULL;
    }
    pthread_mutex_unlock(&f->lock);
    if (h) {
        handle_destroy(h);
    }
}

/* Milliseconds that the transfer may take, rounded up; 0 = no limit, < 0 = over. */
static int64_t time_left_ms(struct fetch *f, struct fn_op *op, uint32_t timeout_ms)
{
    int64_t left_ms = timeout_ms ? (int64_t)timeout_ms : INT64_MAX;
    int64_t deadline_ns = op ? loop_op_if()->deadline_ns(op) : INT64_MAX;
    int64_t op_ms;

    if (deadline_ns != INT64_MAX) {
        op_ms = (deadline_ns - env_now_ns(f->env) + ENV_MS - 1) / ENV_MS;
        if (op_ms <= 0) {
            return -1;
        }
        left_ms = op_ms < left_ms ? op_ms : left_ms;
    }
    return left_ms == INT64_MAX ? 0 : left_ms;
}

static int perform(struct fetch_handle *h, struct fn_op *op, CURLcode *ret_code)
{
    int running = 1;
    int left;
    CURLMsg *msg;
    CURLMcode r;

    while (running) {
        r = curl_multi_perform(h->multi, &running);
        if (r == CURLM_OK && running) {
            r = curl_multi_poll(h->multi, NULL, 0, FETCH_POLL_MS, NULL);
        }
        if (r != CURLM_OK) {
            *ret_code = CURLE_OUT_OF_MEMORY;
            return 0;
        }
        if (running && op && loop_op_if()->cancelled(op)) {
            return FN_E_CANCELLED;
        }
    }
    msg = curl_multi_info_read(h->multi, &left);
    *ret_code = msg ? msg->data.result : CURLE_RECV_ERROR;
    return 0;
}

static int fetch_judge(struct fetch_handle *h, CURLcode code, struct answer *a,
                       const struct fn_http_request *rq, struct fn_http_answer *ret,
                       struct fn_error *reterr)
{
    long status = 0;

    if (a->too_long) {
        return err_set(reterr, FN_E_EXHAUSTED, "%.100s: answer is longer than %zu bytes",
                       rq->unix_path ? rq->unix_path : rq->url, a->body.limit);
    }
    if (a->no_memory || !buf_reserve(&a->body, 0)) { /* an empty one is the caller's to free, too */
        return err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    }
    if (code != CURLE_OK) {
        return fetch_failure(h->easy, code, h->detail, rq, reterr);
    }
    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    a->body.data[a->body.len] = '\0';
    ret->size = sizeof(*ret);
    ret->status = (uint32_t)status;
    ret->body = a->body.data;
    ret->body_len = a->body.len;
    a->body = BUF_INIT(0);
    return 0;
}

static int fetch_run(struct fetch *f, struct fetch_handle *h, struct fn_op *op,
                     const struct fn_http_request *rq, struct fn_http_answer *ret,
                     struct fn_error *reterr)
{
    struct answer a = { .body.limit = rq->answer_max ? rq->answer_max : FETCH_ANSWER_MAX };
    int64_t left_ms = time_left_ms(f, op, rq->timeout_ms);
    struct curl_slist *headers = NULL;
    CURLcode code = CURLE_OK;
    int r;

    if (left_ms < 0) {
        return err_set(reterr, FN_E_DEADLINE, "fn.http: the operation's deadline is over");
    }
    r = fetch_setup(h->easy, rq, &headers, reterr);
    if (r < 0) {
        return r;
    }
    h->detail[0] = '\0';
    curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->detail);
    curl_easy_setopt(h->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, fetch_on_body);
    curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, &a);
    if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK) {
        r = err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    } else {
        r = perform(h, op, &code);
        if (r == 0) {
            r = fetch_judge(h, code, &a, rq, ret, reterr);
        } else {
            err_set(reterr, r, "fn.http: cancelled");
        }
        curl_multi_remove_handle(h->multi, h->easy);
    }
    curl_slist_free_all(headers);
    buf_finish(&a.body);
    return r;
}

int fetch_ask(struct fetch *f, struct fn_op *op, const struct fn_http_request *rq,
              struct fn_http_answer *ret, uint32_t *ret_retry_after_s, struct fn_error *reterr)
{
    struct fetch_handle *h;
    curl_off_t retry_s = 0;
    int r = fetch_check_request(rq, reterr);

    if (r < 0) {
        return r;
    }
    h = handle_take(f);
    if (!h) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    }
    r = fetch_run(f, h, op, rq, ret, reterr);
    curl_easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &retry_s);
    if (ret_retry_after_s) {
        *ret_retry_after_s = retry_s > 0 && retry_s < UINT32_MAX ? (uint32_t)retry_s : 0;
    }
    handle_give(f, h);
    return r;
}

void fetch_free_answer(struct fn_http_answer *given)
{
    if (given) {
        free((void *)(uintptr_t)given->body);
        given->body = NULL;
        given->body_len = 0;
    }
}

/* Sizes in version 1.0 of fn.http. */
#define REQUEST_MIN   64
#define ANSWER_MIN    24
#define STREAM_CB_MIN 24

/* ---- the table ------------------------------------------------------------------------------- */

static struct fetch *of_host(const struct fn_host *host)
{
    return plugin_impl(host, "fn.http");
}

static int if_exchange(const struct fn_host *host, struct fn_op *op,
                       const struct fn_http_request *rq, struct fn_http_answer *ret,
                       struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.http.exchange");
    struct fetch *f = of_host(host);
    struct fn_http_request known;
    struct fn_http_answer got = { .size = sizeof(got) };
    int r = view_take(&known, sizeof(known), rq, REQUEST_MIN);
    int64_t begun_ns;

    if (r < 0 || view_can_give(ret, ANSWER_MIN) < 0) {
        return err_set(reterr, r < 0 ? r : FN_E_INVALID,
                       "fn.http: size of the %s is none that this host knows",
                       r < 0 ? "request" : "answer");
    }
    begun_ns = env_now_ns(f->env);
    r = fetch_ask(f, op, &known, &got, NULL, reterr);
    if (f->seen && r != FN_E_INVALID) {
        f->seen(&known, r, got.status, env_now_ns(f->env) - begun_ns);
    }
    if (r == 0) {
        view_give(ret, &got, sizeof(got));
    }
    return r;
}

static int if_stream_open(const struct fn_host *host, const struct fn_http_request *rq,
                          const struct fn_http_stream_cb *cb, void *ud, uint64_t *ret_id,
                          struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.http.stream_open");
    struct fn_http_request known;
    struct fn_http_stream_cb known_cb;
    int r = view_take(&known, sizeof(known), rq, REQUEST_MIN);

    if (r == 0) {
        r = view_take(&known_cb, sizeof(known_cb), cb, STREAM_CB_MIN);
    }
    if (r < 0) {
        return err_set(reterr, r, "fn.http: size of the request or of its callbacks is none that "
                       "this host knows");
    }
    return fetch_stream_open(of_host(host)->streams, host, &known, &known_cb, ud, ret_id, reterr);
}

static void if_stream_close(const struct fn_host *host, uint64_t id)
{
    PLUGIN_HOST_CALL("fn.http.stream_close");
    if (id) {
        fetch_stream_close(of_host(host)->streams, host, id);
    }
}

const struct fn_http_if *fetch_if(void)
{
    static const struct fn_http_if table = { FN_HDR(struct fn_http_if, FN_MAGIC_HTTP), if_exchange,
                                             fetch_free_answer, if_stream_open, if_stream_close };

    return &table;
}

void fetch_watch(struct fetch *f, void (*seen)(const struct fn_http_request *rq, int result,
                                               uint32_t status, int64_t took_ns))
{
    f->seen = seen;
}

void fetch_close_all(struct fetch *f, const struct fn_host *host)
{
    fetch_stream_close(f->streams, host, 0);
}

int fetch_create(struct env *env, struct fetch **ret, struct fn_error *reterr)
{
    struct fetch *f = calloc(1, sizeof(*f));
    int r;

    if (!f) {
        return err_set(reterr, FN_E_EXHAUSTED, "fetch: out of memory");
    }
    pthread_once(&curl_once, curl_start);
    f->env = env;
    SLIST_INIT(&f->idle);
    r = fetch_streams_create(env, &f->streams, reterr);
    if (r < 0) {
        free(f);
        return r;
    }
    pthread_mutex_init(&f->lock, NULL);
    *ret = f;
    return 0;
}

void fetch_destroy(struct fetch *f)
{
    struct fetch_handle *h;

    if (!f) {
        return;
    }
    fetch_streams_destroy(f->streams);
    while ((h = SLIST_FIRST(&f->idle))) {
        SLIST_REMOVE_HEAD(&f->idle, link);
        handle_destroy(h);
    }
    pthread_mutex_destroy(&f->lock);
    free(f);
}
