/* Streams: long answers delivered piece by piece on one thread.
 *
 * States of a stream: PENDING (opened, the thread has not seen it) -> RUNNING (in the multi) ->
 * ended (out of the map, freed by the thread). Closing sets `closing`; only the thread takes a
 * stream out of the multi, and close waits on `changed` until the stream is out of the map, so that
 * no callback runs after close returned.
 *
 * `lock` protects the map, the pending list and the closing marks; the thread runs libcurl and the
 * callbacks outside of it. The multi and everything below "thread only" belong to the thread. */
#include <http/fetch_int.h>

#include <assert.h>
#include <base/arena.h>
#include <base/table.h>
#include <loop/thread.h>
#include <plugin/plugin.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MAX_MS 60000

struct stream {
    uint64_t id;
    UT_hash_handle hh;
    TAILQ_ENTRY(stream) link; /* pending */
    bool closing;
    /* set before the thread sees it: */
    const struct fn_host *host;
    struct fn_http_stream_cb cb;
    void *ud;
    struct fn_http_request rq; /* deep copy */
    struct arena arena;        /* of that */
    int64_t first_byte_ns; /* 0 = no limit */
    /* thread only: */
    struct fetch_streams *all;
    CURL *easy;
    struct curl_slist *list;
    TAILQ_ENTRY(stream) run_link;
    bool started; /* the answer's first header line is there */
    char detail[CURL_ERROR_SIZE];
};

TAILQ_HEAD(stream_list, stream);

struct fetch_streams {
    struct env *env;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct stream *map;
    struct stream_list pending;
    uint64_t last_id;
    bool stopping, has_thread;
    bool close_wanted;
    pthread_t thread;
    CURLM *multi;
    struct stream_list running; /* thread only */
};

static void stream_free(struct stream *s)
{
    if (s->easy) {
        curl_easy_cleanup(s->easy);
    }
    curl_slist_free_all(s->list);
    arena_finish(&s->arena);
    free(s);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static size_t on_header(char *data, size_t one, size_t n, void *ud)
{
    struct stream *s = ud;

    (void)data;
    s->started = true;
    return one * n;
}

static bool is_closing(struct stream *s)
{
    bool closing;

    pthread_mutex_lock(&s->all->lock);
    closing = s->closing;
    pthread_mutex_unlock(&s->all->lock);
    return closing;
}

static size_t fetch_stream_on_data(char *data, size_t one, size_t n, void *ud)
{
    struct stream *s = ud;
    struct plugin_crumb crumb;
    long status = 0;

    if (is_closing(s)) {
        return 0;
    }
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    plugin_enter(&crumb, plugin_of(s->host), PLUGIN_WORKER, "stream callback");
    s->cb.data(s->ud, (uint32_t)status, data, one * n);
    plugin_leave(&crumb);
    return one * n;
}

/* Takes the stream out of everything; reports its end unless it is being closed. */
static void stream_end(struct stream *s, const struct fn_error *err)
{
    struct fetch_streams *all = s->all;
    struct plugin_crumb crumb;
    long status = 0;

    if (s->easy) {
        curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
        curl_multi_remove_handle(all->multi, s->easy);
    }
    TAILQ_REMOVE(&all->running, s, run_link);
    if (!is_closing(s)) {
        plugin_enter(&crumb, plugin_of(s->host), PLUGIN_WORKER, "stream callback");
        s->cb.end(s->ud, (uint32_t)status, err);
        plugin_leave(&crumb);
    }
    pthread_mutex_lock(&all->lock);
    HASH_DEL(all->map, s);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    stream_free(s);
}

static void stream_start(struct stream *s)
{
    struct fn_error err = ERR_INIT;

    TAILQ_INSERT_TAIL(&s->all->running, s, run_link);
    s->easy = curl_easy_init();
    if (!s->easy) {
        err_set(&err, FN_E_EXHAUSTED, "fn.http: out of memory");
        stream_end(s, &err);
        return;
    }
    if (fetch_setup(s->easy, &s->rq, &s->list, &err) < 0) {
        stream_end(s, &err);
        return;
    }
    curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->detail);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, fetch_stream_on_data);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
    if (curl_multi_add_handle(s->all->multi, s->easy) != CURLM_OK) {
        err_set(&err, FN_E_EXHAUSTED, "fn.http: out of memory");
        stream_end(s, &err);
    }
}

static void take_messages(struct fetch_streams *all)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(all->multi, &left))) {
        struct fn_error err = ERR_INIT;
        CURLcode code = msg->data.result;
        struct stream *s = NULL;

        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        if (code != CURLE_OK) {
            fetch_failure(s->easy, code, s->detail, &s->rq, &err);
        }
        stream_end(s, code == CURLE_OK ? NULL : &err);
    }
}

/* Ends what is closing and what waited too long; returns how long the thread may sleep. */
static int sweep(struct fetch_streams *all, bool closing)
{
    int64_t now_ns = env_now_ns(all->env);
    int64_t next_ns = INT64_MAX;
    struct stream *s, *next;

    for (s = TAILQ_FIRST(&all->running); s; s = next) {
        struct fn_error err = ERR_INIT;

        next = TAILQ_NEXT(s, run_link);
        if (closing && is_closing(s)) {
            stream_end(s, NULL);
        } else if (s->started || s->first_byte_ns == 0) {
            continue;
        } else if (s->first_byte_ns <= now_ns) {
            err_set(&err, FN_E_DEADLINE, "%.100s: no answer in time",
                    s->rq.unix_path ? s->rq.unix_path : s->rq.url);
            stream_end(s, &err);
        } else if (s->first_byte_ns < next_ns) {
            next_ns = s->first_byte_ns;
        }
    }
    if (next_ns == INT64_MAX || next_ns - now_ns > POLL_MAX_MS * ENV_MS) {
        return POLL_MAX_MS;
    }
    return (int)((next_ns - now_ns + ENV_MS - 1) / ENV_MS);
}

static void *stream_thread(void *arg)
{
    struct fetch_streams *all = arg;
    struct stream_list fresh;
    struct stream *s;
    bool closing;
    int running, wait_ms;

    pthread_mutex_lock(&all->lock);
    while (!all->stopping) {
        TAILQ_INIT(&fresh);
        TAILQ_CONCAT(&fresh, &all->pending, link);
        closing = all->close_wanted;
        all->close_wanted = false;
        pthread_mutex_unlock(&all->lock);

        while ((s = TAILQ_FIRST(&fresh))) {
            TAILQ_REMOVE(&fresh, s, link);
            stream_start(s);
        }
        curl_multi_perform(all->multi, &running);
        take_messages(all);
        wait_ms = sweep(all, closing);
        curl_multi_poll(all->multi, NULL, 0, wait_ms, NULL);
        pthread_mutex_lock(&all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

static int fetch_stream_start_thread(struct fetch_streams *all)
{
    all->has_thread = loop_thread(&all->thread, stream_thread, all) == 0;
    return all->has_thread ? 0 : FN_E_EXHAUSTED;
}

/* ---- open and close -------------------------------------------------------------------------- */

static const char *copied(struct arena *a, const char *text)
{
    return text ? arena_strdup(a, text) : NULL;
}

/* false: no memory for it */
static bool request_copy(struct arena *a, const struct fn_http_request *rq,
                         struct fn_http_request *ret)
{
    const char **headers;
    size_t n = 0;

    while (rq->headers && rq->headers[n]) {
        n++;
    }
    headers = arena_alloc(a, (n + 1) * sizeof(*headers));
    for (size_t i = 0; headers && i < n; i++) {
        headers[i] = arena_strdup(a, rq->headers[i]);
    }
    *ret = (struct fn_http_request){ .size = sizeof(*ret),
                                     .method = copied(a, rq->method),
                                     .url = copied(a, rq->url),
                                     .unix_path = copied(a, rq->unix_path),
                                     .headers = headers,
                                     .body = arena_strndup(a, rq->body ? rq->body : "",
                                                           rq->body_len),
                                     .body_len = rq->body_len,
                                     .tls_ca = copied(a, rq->tls_ca),
                                     .tls_cert = copied(a, rq->tls_cert),
                                     .tls_key = copied(a, rq->tls_key) };
    return !a->failed;
}

static struct stream *stream_copy(const struct fn_http_request *rq)
{
    struct stream *s = calloc(1, sizeof(*s));

    if (s && !request_copy(&s->arena, rq, &s->rq)) {
        stream_free(s);
        return NULL;
    }
    return s;
}

static uint32_t open_of(const struct fetch_streams *all, const struct fn_host *host)
{
    uint32_t n = 0;

    for (const struct stream *s = all->map; s; s = s->hh.next) {
        n += s->host == host;
    }
    return n;
}

/* Under the lock. Nobody is counted as long as there is room for all. */
static int check_room(struct fetch_streams *all, const struct fn_host *host,
                      struct fn_error *reterr)
{
    uint32_t n = HASH_COUNT(all->map);

    if (n >= FETCH_STREAMS_OF_MAX && open_of(all, host) >= FETCH_STREAMS_OF_MAX) {
        return err_set(reterr, FN_E_EXHAUSTED,
                       "fn.http: streams of one instance, got %u; expected at most %u",
                       FETCH_STREAMS_OF_MAX + 1, FETCH_STREAMS_OF_MAX);
    }
    if (n >= FETCH_STREAMS_MAX || (!all->has_thread && fetch_stream_start_thread(all) < 0)) {
        return err_set(reterr, FN_E_EXHAUSTED,
                       "fn.http: %u streams are open, or no thread to be had", FETCH_STREAMS_MAX);
    }
    return 0;
}

int fetch_stream_open(struct fetch_streams *all, const struct fn_host *host,
                      const struct fn_http_request *rq, const struct fn_http_stream_cb *cb,
                      void *ud, uint64_t *ret_id, struct fn_error *reterr)
{
    struct stream *s;
    int r = fetch_check_request(rq, reterr);

    if (r < 0) {
        return r;
    }
    if (!cb || cb->hdr.size < sizeof(*cb) || !cb->data || !cb->end) {
        return err_set(reterr, FN_E_INVALID, "fn.http: stream without callbacks");
    }
    s = stream_copy(rq);
    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    }
    s->all = all;
    s->host = host;
    s->cb = *cb;
    s->ud = ud;
    s->first_byte_ns = rq->timeout_ms ? env_now_ns(all->env) + rq->timeout_ms * ENV_MS : 0;

    pthread_mutex_lock(&all->lock);
    r = check_room(all, host, reterr);
    if (r < 0) {
        pthread_mutex_unlock(&all->lock);
        stream_free(s);
        return r;
    }
    s->id = ++all->last_id;
    *ret_id = s->id;
    HASH_ADD(hh, all->map, id, sizeof(s->id), s);
    if (!table_has(s)) {
        pthread_mutex_unlock(&all->lock);
        stream_free(s);
        return err_set(reterr, FN_E_EXHAUSTED, "fn.http: out of memory");
    }
    TAILQ_INSERT_TAIL(&all->pending, s, link);
    pthread_mutex_unlock(&all->lock);
    curl_multi_wakeup(all->multi);
    return 0;
}

/* A stream that close still waits for; marks what it finds. */
static bool mark_closing(struct fetch_streams *all, const struct fn_host *host, uint64_t id)
{
    struct stream *s, *next;
    bool found = false;

    if (id) {
        HASH_FIND(hh, all->map, &id, sizeof(id), s);
        if (s && s->host == host) {
            s->closing = found = true;
        }
        return found;
    }
    HASH_ITER(hh, all->map, s, next) {
        if (s->host == host) {
            s->closing = found = true;
        }
    }
    return found;
}

void fetch_stream_close(struct fetch_streams *all, const struct fn_host *host, uint64_t id)
{
    pthread_mutex_lock(&all->lock);
    /* Broken by a plugin that closes a stream from inside its callback, which fn/host.h forbids. */
    assert(!all->has_thread || !pthread_equal(pthread_self(), all->thread));
    while (mark_closing(all, host, id)) {
        all->close_wanted = true;
        curl_multi_wakeup(all->multi);
        pthread_cond_wait(&all->changed, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
}

int fetch_streams_create(struct env *env, struct fetch_streams **ret, struct fn_error *reterr)
{
    struct fetch_streams *all = calloc(1, sizeof(*all));

    if (all) {
        all->multi = fetch_multi();
    }
    if (!all || !all->multi) {
        free(all);
        return err_set(reterr, FN_E_EXHAUSTED, "fetch: out of memory");
    }
    all->env = env;
    TAILQ_INIT(&all->pending);
    TAILQ_INIT(&all->running);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    *ret = all;
    return 0;
}

void fetch_streams_destroy(struct fetch_streams *all)
{
    struct stream *s, *next;

    if (!all) {
        return;
    }
    pthread_mutex_lock(&all->lock);
    all->stopping = true;
    pthread_mutex_unlock(&all->lock);
    if (all->has_thread) {
        curl_multi_wakeup(all->multi);
        pthread_join(all->thread, NULL);
    }
    HASH_ITER(hh, all->map, s, next) {
        HASH_DEL(all->map, s);
        if (s->easy) {
            curl_multi_remove_handle(all->multi, s->easy);
        }
        stream_free(s);
    }
    curl_multi_cleanup(all->multi);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}
