/* A driver over an engine's HTTP, with the events that it watches. Each M(n) makes one mistake
 * of mutants.txt. */
#include <fn/driver.h>

#include "mutant.h"

struct driver {
    const struct fn_host *host;
    const struct fn_op_if *op;
    const struct fn_http_if *http;
    const struct fn_driver_if *driver;
    const struct fn_task *kept;
    uint32_t keys;
    uint64_t events;
};

struct container {
    const struct fn_task *task;
};

static void on_end(void *ud, uint32_t status, const struct fn_error *err)
{
    (void)ud;
    (void)status;
    (void)err;
}

/* The engine's events, for as long as the instance lives. */
static int watch(struct driver *d, struct fn_error *reterr)
{
    static const struct fn_http_stream_cb cb = {.hdr = FN_HDR(struct fn_http_stream_cb, 0),
                                                .end = on_end};
    const struct fn_http_request q = {
        .size = sizeof(q), .method = "GET", .url = "http://localhost/events"};

    return d->http->stream_open(d->host, &q, &cb, d, &d->events, reterr);
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct driver *d = calloc(1, sizeof(*d));

    (void)conf;
    if (!d) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    d->host = host;
    d->op = host->get(host, "fn.op", 1);
    d->http = host->get(host, "fn.http", 1);
    d->driver = host->get(host, "fn.driver", 1);
    if (watch(d, reterr) < 0) {
        free(d);
        return FN_E_EXHAUSTED;
    }
    *ret_inst = d;
    return 0;
}

static void destroy(void *inst)
{
    struct driver *d = inst;

    if (d && !M(16)) {
        d->http->stream_close(d->host, d->events);
    }
    free(inst);
}

static int ask(struct driver *d, struct fn_op *op, const char *url, struct fn_error *reterr)
{
    const struct fn_http_request q = {.size = sizeof(q), .method = "POST", .url = url};
    struct fn_http_answer a = {.size = sizeof(a)};
    struct fn_error said = FN_ERROR_INIT;
    int r;

    if (M(17)) {
        return 0;
    }
    do {
        r = d->http->exchange(d->host, op, &q, &a, &said);
    } while (M(11) && r < 0);
    if (r < 0) {
        return M(12) ? r : fail(reterr, r, said.msg);
    }
    r = a.status == 200 ? 0 : FN_E_UNAVAILABLE;
    if (!M(9)) {
        d->http->free_answer(&a);
    }
    return r < 0 && !M(12) ? fail(reterr, r, "the engine refused") : r;
}

static int slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    struct driver *d = inst;
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        size_t len = strlen(ext[i].value);

        if (at + len + 1 > cap && !M(3)) {
            return M(13) ? -99 : FN_E_RANGE;
        }
        memcpy(ret_key + at, ext[i].value, len);
        at += len;
    }
    ret_key[at] = '\0';
    if (M(18)) {
        d->http->stream_close(d->host, d->events);
    }
    if (M(4) && cap > 100) {
        snprintf(ret_key, cap, "%u", d->keys++);
    }
    return 0;
}

static int prepare_image(void *inst, struct fn_op *op, const struct fn_task *task,
                         struct fn_error *reterr)
{
    (void)task;
    return ask(inst, op, "http://localhost/pull", reterr);
}

static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    struct driver *d = inst;
    const struct fn_exit what = {.size = sizeof(what), .reason = FN_EXIT_CODE};
    struct container *c = calloc(1, sizeof(*c));
    int r;

    if (!c) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    c->task = task;
    if (M(2)) {
        *ret_ctr = c;
    }
    r = ask(d, op, "http://localhost/create", reterr);
    if (r < 0) {
        free(c);
        return r;
    }
    if (M(6)) {
        d->driver->exited(d->host, task->handle, &what);
    }
    *ret_ctr = c;
    return 0;
}

static int start(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    struct driver *d = inst;
    const struct fn_exit what = {.size = sizeof(what), .reason = M(14) ? 9 : FN_EXIT_CODE};
    int r = ask(d, op, "http://localhost/start", reterr);

    if (r == 0) {
        d->driver->exited(d->host, ((struct container *)ctr)->task->handle, &what);
        if (M(15)) {
            d->driver->exited(d->host, ((struct container *)ctr)->task->handle, &what);
        }
    }
    return r;
}

static int close_container(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    struct driver *d = inst;
    int r = ask(d, op, "http://localhost/remove", reterr);

    if (r < 0 || M(1)) {
        return r < 0 ? r : fail(reterr, FN_E_UNAVAILABLE, "never");
    }
    d->kept = ((struct container *)ctr)->task;
    if (!M(5)) {
        free(ctr);
    }
    return 0;
}

static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *reterr)
{
    struct driver *d = inst;
    int r = ask(d, op, "http://localhost/sweep", reterr);

    (void)owner;
    (void)instance;
    if (r == 0 && M(10) && d->kept && !d->kept->id) {
        abort();
    }
    if (r == 0 && !M(7)) {
        *ret_removed = 0;
    }
    return r;
}

static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                 struct fn_error *reterr)
{
    int r = ask(inst, op, "http://localhost/version", reterr);

    if (r == 0 && M(8)) {
        memset(ret_version, '1', cap);
    } else if (r == 0) {
        snprintf(ret_version, cap, "1.0");
    }
    return r;
}

static uint32_t uid(void *inst, void *ctr)
{
    (void)inst;
    (void)ctr;
    return UINT32_MAX;
}

static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = slot_key,
    .prepare_image = prepare_image,
    .create = make,
    .start = start,
    .close = close_container,
    .sweep = sweep,
    .probe = probe,
    .uid = uid,
};

static const struct fn_need needs[] = {
    {"fn.op", 1, 0, 0},
    {"fn.http", 1, 0, 0},
    {"fn.driver", 1, 0, 0},
    {NULL, 0, 0, 0},
};

MUTANT_PLUGIN(mutant, FN_KIND_DRIVER, DRIVER, 0, NULL, needs, ops)
