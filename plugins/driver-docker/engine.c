/* Engine calls through fn.http, behind a breaker.
 *
 * The breaker opens when a call ran out of time and nothing was answered since it began, or when
 * BREAKER_CALLS calls are out and nothing was answered for BREAKER_STUCK_NS: a hung engine must
 * not collect the threads of a lane. An engine that answers others meanwhile, if only the runner's
 * probes, does not hang: one container's start waits for what only that container asked for, such
 * as a log server. While open, one call per BREAKER_OPEN_NS is let through to see whether the
 * engine is back. */
#include "docker.h"
#include "fail.h"
#include "say_line.h"

#include <stdlib.h>

int64_t engine_now_ns(const struct docker *d)
{
    return d->host->clock->now_ns(d->host);
}

void engine_log(struct docker *d, uint32_t level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(d->host, level, fmt, ap);
    va_end(ap);
}

/* ---- breaker --------------------------------------------------------------------------------- */

static bool breaker_enter(struct docker *d, const struct engine_call *c)
{
    struct breaker *b = &d->breaker;
    int64_t now_ns = engine_now_ns(d);
    bool ok = true;

    pthread_mutex_lock(&d->lock);
    if (b->inflight == 0) {
        b->progress_ns = now_ns;
    }
    if (b->inflight >= BREAKER_CALLS && now_ns - b->progress_ns > BREAKER_STUCK_NS && !b->tripped) {
        b->tripped = true;
        b->open_until_ns = now_ns + BREAKER_OPEN_NS;
    }
    if (b->tripped && !c->probing) {
        ok = now_ns >= b->open_until_ns && b->inflight < BREAKER_CALLS;
        if (ok) {
            b->open_until_ns = now_ns + BREAKER_OPEN_NS;
        }
    }
    b->inflight += ok && !c->slow;
    pthread_mutex_unlock(&d->lock);
    return ok;
}

static void breaker_leave(struct docker *d, const struct engine_call *c, int64_t begun_ns, int r)
{
    struct breaker *b = &d->breaker;
    int64_t now_ns = engine_now_ns(d);

    pthread_mutex_lock(&d->lock);
    b->inflight -= !c->slow;
    if (r == 0) {
        b->progress_ns = now_ns;
        b->tripped = false;
    } else if (r == FN_E_DEADLINE && !c->slow && b->progress_ns <= begun_ns) {
        b->tripped = true;
        b->open_until_ns = now_ns + BREAKER_OPEN_NS;
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- calls ----------------------------------------------------------------------------------- */

int engine_call(struct docker *d, struct fn_op *op, const struct engine_call *c,
                struct fn_http_answer *ret, struct fn_error *reterr)
{
    char url[4096];
    char type[64];
    const char *headers[3] = { NULL };
    struct fn_http_request rq = { .size = sizeof(rq), .timeout_ms = c->timeout_ms,
                                  .method = c->method, .headers = headers, .url = url,
                                  .body = c->body, .body_len = c->body_len,
                                  .answer_max = c->answer_max };
    int64_t begun_ns;
    int n = 0;
    int r;

    if (snprintf(url, sizeof(url), "%s%s", d->base, c->path) >= (int)sizeof(url)) {
        return fail_platform(reterr, FN_E_INVALID, "engine request of more than %zu bytes",
                             sizeof(url));
    }
    rq.unix_path = *d->unix_path ? d->unix_path : NULL;
    engine_request_tls(d, &rq);
    if (c->body) {
        snprintf(type, sizeof(type), "Content-Type: %s", c->type ? c->type : "application/json");
        headers[n++] = type;
    }
    headers[n] = c->header;
    if (!breaker_enter(d, c)) {
        fail_platform(reterr, FN_E_UNAVAILABLE,
                      "the container engine does not answer; tried again every %d s",
                      (int)(BREAKER_OPEN_NS / SECOND_NS));
        return fail_retry(reterr, FN_E_UNAVAILABLE);
    }
    ret->size = sizeof(*ret);
    begun_ns = engine_now_ns(d);
    r = d->http->exchange(d->host, op, &rq, ret, reterr);
    breaker_leave(d, c, begun_ns, r);
    return r < 0 ? fail_retry(reterr, r) : 0;
}

int engine_stream(struct docker *d, const char *method, const char *path, uint32_t timeout_ms,
                  const struct fn_http_stream_cb *cb, void *ud, uint64_t *ret_id,
                  struct fn_error *reterr)
{
    char url[4096];
    struct fn_http_request rq = { .size = sizeof(rq), .timeout_ms = timeout_ms, .method = method,
                                  .url = url };

    if (snprintf(url, sizeof(url), "%s%s", d->base, path) >= (int)sizeof(url)) {
        return fail_platform(reterr, FN_E_INVALID, "engine request of more than %zu bytes",
                             sizeof(url));
    }
    rq.unix_path = *d->unix_path ? d->unix_path : NULL;
    engine_request_tls(d, &rq);
    return d->http->stream_open(d->host, &rq, cb, ud, ret_id, reterr);
}

/* 409 means that another removal runs: the host asks again. */
int engine_remove(struct docker *d, struct fn_op *op, const char *name, uint32_t *ret_status,
                  struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct engine_call c = { .method = "DELETE", .timeout_ms = CHANGE_TIMEOUT_MS };
    char path[160];
    int r;

    snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", name);
    c.path = path;
    r = engine_call(d, op, &c, &a, reterr);
    if (r == 0 && a.status != 204 && a.status != 200 && a.status != 404) {
        r = api_failure("remove", a.status, a.body, a.body_len, reterr);
    }
    if (ret_status) {
        *ret_status = a.status;
    }
    d->http->free_answer(&a);
    return r;
}
