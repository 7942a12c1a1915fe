/* The API node's getter: one GET with Go Fn's retry rule, on the control lane. */
#include <http/fetch_int.h>
#include <loop/loop.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_BYTES_MAX 8192
#define WAIT_MIN_MS   25
#define WAIT_FIRST_MS 50

/* Lives from fetch_get() until done() called back. run() and the loop never touch it at once. */
struct fetch_get {
    struct env_work work;
    struct fetch *fetch;
    void (*cb)(void *ud, const struct fetch_result *borrowed);
    void *ud;
    int r;
    struct fn_http_answer answer;
    struct fn_error err;
    uint64_t chance[FETCH_GET_TRIES_MAX];
    char url[];
};

/* The n-th wait lies in 25 ms .. 25 ms + 50 ms * 2^n. */
static int64_t wait_ns(const struct fetch_get *g, int attempt)
{
    uint64_t span_ms = (uint64_t)WAIT_FIRST_MS << attempt;

    return (int64_t)(WAIT_MIN_MS + g->chance[attempt] % (span_ms + 1)) * ENV_MS;
}

static void get_run(struct env_work *w, struct fn_op *op)
{
    struct fetch_get *g = container_of(w, struct fetch_get, work);
    static const char *const headers[] = { "Accept: application/json", NULL };
    struct fn_http_request rq = { .size = sizeof(rq), .method = "GET", .url = g->url,
                                  .headers = headers, .answer_max = FETCH_GET_ANSWER_MAX };
    struct env *env = g->fetch->env;

    for (int attempt = 0;; attempt++) {
        fetch_free_answer(&g->answer);
        g->err = ERR_INIT;
        g->r = fetch_ask(g->fetch, op, &rq, &g->answer, NULL, &g->err);
        if ((g->r == 0 && g->answer.status < 500) || g->r == FN_E_CANCELLED ||
            g->r == FN_E_INVALID || g->r == FN_E_EXHAUSTED ||
            attempt + 1 == FETCH_GET_TRIES_MAX) {
            return;
        }
        if (loop_op_if()->sleep_until(op, env_now_ns(env) + wait_ns(g, attempt)) != 0) {
            break;
        }
    }
    if (loop_op_if()->cancelled(op)) {
        fetch_free_answer(&g->answer);
        g->r = err_set(&g->err, FN_E_CANCELLED, "%.100s: cancelled", g->url);
    }
}

static void get_done(struct env_work *w)
{
    struct fetch_get *g = container_of(w, struct fetch_get, work);
    struct fetch_result result = { .body = "" };

    if (g->r == 0) {
        result.status = g->answer.status;
        result.body = g->answer.body;
        result.body_len = g->answer.body_len;
    } else {
        result.error = &g->err;
    }
    g->cb(g->ud, &result);
    fetch_free_answer(&g->answer);
    free(g);
}

int fetch_get(struct fetch *f, const char *base_url, const char *path_and_query,
              uint32_t timeout_ms, void (*cb)(void *ud, const struct fetch_result *borrowed),
              void *ud, struct fn_error *reterr)
{
    size_t base_len = strlen(base_url);
    size_t path_len = strlen(path_and_query);
    struct fetch_get *g;
    int r;

    if (strncmp(base_url, "http://", 7) != 0 && strncmp(base_url, "https://", 8) != 0) {
        return err_set(reterr, FN_E_INVALID,
                       "API address, got \"%.80s\"; expected http://host:port or https://host:port",
                       base_url);
    }
    if (base_len + path_len + 1 > URL_BYTES_MAX) {
        return err_set(reterr, FN_E_INVALID, "API request of %zu bytes; expected at most %d",
                       base_len + path_len, URL_BYTES_MAX);
    }
    g = calloc(1, sizeof(*g) + base_len + path_len + 1);
    if (!g) {
        return err_set(reterr, FN_E_EXHAUSTED, "fetch: out of memory");
    }
    while (base_len > 0 && base_url[base_len - 1] == '/') {
        base_len--;
    }
    memcpy(g->url, base_url, base_len);
    memcpy(g->url + base_len, path_and_query, path_len + 1);
    for (int i = 0; i < FETCH_GET_TRIES_MAX; i++) {
        g->chance[i] = env_random_u64(f->env);
    }
    g->fetch = f;
    g->cb = cb;
    g->ud = ud;
    g->work.run = get_run;
    g->work.done = get_done;
    g->work.lane = ENV_LANE_CONTROL;
    g->work.owner = "the API node";
    g->work.deadline_ns = env_now_ns(f->env) + timeout_ms * ENV_MS;
    r = env_submit(f->env, &g->work);
    if (r < 0) {
        free(g);
        return err_set(reterr, r, "fetch: too many requests to the API node wait already");
    }
    return 0;
}
