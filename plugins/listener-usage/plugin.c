/* listener/usage: a record of each call, in a file or by HTTP. */
#define FN_HOST_MINOR_MIN 1 /* after_worker() and fn.view */
#include "usage.h"

#include "fail.h"
#include "shipped.h"

#include <stdlib.h>

#define AGAIN_NS     1000000000LL /* between two tries when the last one failed */
#define TELL_NS      10000000000LL /* between two lines about records that were dropped */
#define REQUEST_MS   4000u /* below FN_LISTENER_TIME_S */

struct conf {
    const char *path;
    const char *url;
    const char *socket;
    int64_t rotate_bytes;
    int64_t keep;
    int64_t queue;
    uint32_t sync;
};

struct instance {
    const struct fn_host *host;
    const struct fn_view_if *view;
    const struct fn_op_if *op;
    const struct fn_http_if *http;
    const struct conf *conf;
    char stream[STREAM_BYTES];
    struct queue queue;
    uint32_t metric_written, metric_dropped, metric_failed, metric_waiting;

    /* the loop's */
    uint64_t seq; /* of the last call that ended */
    uint64_t dropped;
    int64_t told_ns;

    /* the worker's */
    struct file file;
    int64_t again_ns;
    char lines[BATCH_BYTES];
};

/* ---- on the loop ----------------------------------------------------------------------------- */

static void drop(struct instance *i)
{
    static const char text[] = "records of calls are dropped: the queue is full";
    int64_t now_ns = i->host->clock->now_ns(i->host);

    i->dropped++;
    i->host->metric->add(i->host, i->metric_dropped, 1);
    if (i->dropped == 1 || now_ns - i->told_ns >= TELL_NS) {
        i->told_ns = now_ns;
        i->host->log->write(i->host, FN_LOG_ERROR, text, sizeof(text) - 1);
    }
}

/* A listener that only hears may be left out for a while when it was slow; one that could refuse
 * never is, and no call may be missing. */
static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    (void)inst;
    (void)call;
    (void)reterr;
    return 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    struct instance *i = inst;
    struct record *r = record_make(i->view, call, end);

    i->seq++;
    if (r) {
        r->seq = i->seq;
        r->ended_wall_ns = i->host->clock->wall_ns(i->host);
    }
    if (!r || queue_add(&i->queue, r) < 0) {
        free(r);
        drop(i);
        return;
    }
    i->host->metric->add(i->host, i->metric_waiting, 1);
}

/* ---- on a worker ----------------------------------------------------------------------------- */

/* Lines of the oldest records; how many. */
static uint64_t fill(struct instance *i, size_t *ret_len)
{
    const struct record *r;
    uint64_t n = 0;

    *ret_len = 0;
    while (n < BATCH_RECORDS && *ret_len + LINE_BYTES_MAX <= sizeof(i->lines) &&
           (r = queue_at(&i->queue, n))) {
        *ret_len += record_print(r, i->stream, i->lines + *ret_len);
        n++;
    }
    return n;
}

static void took(struct instance *i, uint64_t n)
{
    queue_take(&i->queue, n);
    i->host->metric->add(i->host, i->metric_written, (int64_t)n);
    i->host->metric->add(i->host, i->metric_waiting, -(int64_t)n);
}

/* Who answers 2xx has taken all of them; without such an answer they come again. */
static int post(struct instance *i, struct fn_op *op, size_t len, struct fn_error *reterr)
{
    static const char *const headers[] = { "Content-Type: application/x-ndjson", NULL };
    const struct fn_http_request request = { .size = sizeof(request),
                                             .timeout_ms = REQUEST_MS,
                                             .method = "POST",
                                             .unix_path = i->conf->socket,
                                             .url = i->conf->url,
                                             .headers = headers,
                                             .body = i->lines,
                                             .body_len = len };
    struct fn_http_answer answer = { .size = sizeof(answer) };
    int r = i->http->exchange(i->host, op, &request, &answer, reterr);

    if (r < 0) {
        return r;
    }
    r = answer.status / 100 == 2
            ? 0
            : fail_platform(reterr, FN_E_UNAVAILABLE,
                            "url: got an answer with status %u; expected 2xx", answer.status);
    i->http->free_answer(&answer);
    return r;
}

/* The oldest records. 0: there were none, or they were written. */
static int write_batch(struct instance *i, struct fn_op *op, struct fn_error *reterr)
{
    uint64_t written = 0;
    size_t len;
    uint64_t n = fill(i, &len);
    int r = 0;

    if (n > 0 && i->conf->url) {
        r = post(i, op, len, reterr);
        written = r < 0 ? 0 : n;
    } else if (n > 0) {
        r = file_write(&i->file, i->lines, len, &written, reterr);
    }
    if (written > 0) {
        took(i, written);
    }
    return r;
}

static int may_go_on(const struct instance *i, const struct fn_op *op)
{
    return !i->op->cancelled(op) && i->host->clock->now_ns(i->host) < i->op->deadline_ns(op);
}

/* The records of all calls that have ended, of which this is one. */
static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    struct instance *i = inst;
    int r = 0;

    (void)call;
    (void)end;
    if (i->host->clock->now_ns(i->host) < i->again_ns) {
        return 0;
    }
    while (r == 0 && queue_waiting(&i->queue) > 0 && may_go_on(i, op)) {
        r = write_batch(i, op, reterr);
    }
    if (r < 0) {
        i->again_ns = i->host->clock->now_ns(i->host) + AGAIN_NS;
        i->host->metric->add(i->host, i->metric_failed, 1);
    }
    return r;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What is still there, and that there is no more. */
static void write_rest(struct instance *i)
{
    struct fn_error e = FN_ERROR_INIT;
    char line[LINE_BYTES_MAX];
    uint64_t lines;
    size_t len;
    int r = 0;

    while (!i->conf->url && r == 0 && queue_waiting(&i->queue) > 0) {
        r = write_batch(i, NULL, &e);
    }
    if (!i->conf->url && r == 0) {
        len = record_print_end(i->stream, i->seq + 1, i->host->clock->wall_ns(i->host), i->dropped,
                               line);
        file_write(&i->file, line, len, &lines, &e);
    }
}

static void tell_rest(struct instance *i)
{
    uint64_t n = queue_waiting(&i->queue);
    char text[128];
    int len;

    if (n > 0) {
        len = snprintf(text, sizeof(text), "%llu records of stream %s were not written",
                       (unsigned long long)n, i->stream);
        i->host->log->write(i->host, FN_LOG_ERROR, text, (size_t)len);
        i->host->metric->add(i->host, i->metric_dropped, (int64_t)n);
        i->host->metric->add(i->host, i->metric_waiting, -(int64_t)n);
    }
}

static void release(struct instance *i)
{
    file_close(&i->file);
    queue_finish(&i->queue);
    free(i);
}

static void destroy(void *inst)
{
    struct instance *i = inst;

    if (i) {
        write_rest(i);
        tell_rest(i);
        release(i);
    }
}

static int declare(struct instance *i)
{
    const struct {
        const char *name;
        uint32_t kind;
        uint32_t *id;
    } rows[] = {
        { "written", FN_METRIC_COUNTER, &i->metric_written },
        { "dropped", FN_METRIC_COUNTER, &i->metric_dropped },
        { "failed", FN_METRIC_COUNTER, &i->metric_failed },
        { "waiting", FN_METRIC_GAUGE, &i->metric_waiting },
    };
    int r = 0;

    for (size_t k = 0; r == 0 && k < sizeof(rows) / sizeof(rows[0]); k++) {
        r = i->host->metric->declare(i->host, rows[k].name, rows[k].kind, rows[k].id);
    }
    return r;
}

static int check(const struct conf *c, const struct fn_http_if *http, struct fn_error *reterr)
{
    if (!c->path == !c->url) {
        return fail_user(reterr, FN_E_INVALID, 0, "got %s; expected path or url",
                         c->path ? "path and url" : "neither path nor url");
    }
    if (c->path && c->path[0] != '/') {
        return fail_user(reterr, FN_E_INVALID, 0, "path: got \"%.80s\"; expected an absolute path",
                         c->path);
    }
    if (c->socket && (!c->url || c->socket[0] != '/')) {
        return fail_user(reterr, FN_E_INVALID, 0,
                         "socket: got \"%.80s\"; expected an absolute path, beside url", c->socket);
    }
    if (c->url && !http) {
        return fail_platform(reterr, FN_E_UNIMPLEMENTED, "url: this node has no fn.http");
    }
    return 0;
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct instance *i = calloc(1, sizeof(*i));
    int r;

    if (!i) {
        return FN_E_EXHAUSTED;
    }
    i->host = host;
    i->conf = conf;
    i->view = host->get(host, "fn.view", FN_VIEW_MAJOR);
    i->op = host->get(host, "fn.op", 1);
    i->http = host->get(host, "fn.http", 1);
    i->file = (struct file){ .path = i->conf->path,
                             .rotate_bytes = i->conf->rotate_bytes,
                             .keep = i->conf->keep,
                             .sync = (int)i->conf->sync,
                             .fd = -1 };
    snprintf(i->stream, sizeof(i->stream), "%016llx-%08llx",
             (unsigned long long)host->clock->wall_ns(host),
             (unsigned long long)host->rng->u64(host) & 0xffffffff);
    r = check(i->conf, i->http, reterr);
    r = r < 0 ? r : queue_init(&i->queue, (uint64_t)i->conf->queue);
    r = r < 0 ? r : declare(i);
    r = r < 0 || i->conf->url ? r : file_open(&i->file, reterr);
    if (r < 0) {
        release(i);
        return r;
    }
    *ret_inst = i;
    return 0;
}

/* ---- manifest -------------------------------------------------------------------------------- */

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
    .after_worker = after_worker,
};

static const struct fn_need needs[] = {
    { "fn.view", FN_VIEW_MAJOR, 0, 0 },
    { "fn.op", 1, 0, 0 },
    { "fn.http", 1, 0, FN_NEED_OPTIONAL },
    { NULL, 0, 0, 0 },
};

#define AT(field) .offset = offsetof(struct conf, field)
static const struct fn_opt opts[] = {
    { .key = "path", .doc = "File that a line is added to for each call (usage.md). This or url.",
      .min = 1, .max = 1024, .type = FN_OPT_STR, AT(path), .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "url", .doc = "Where lines are sent to by POST, as application/x-ndjson. An answer "
                           "with 2xx says that they have been taken.",
      .min = 1, .max = 1024, .type = FN_OPT_STR, AT(url), .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "socket", .doc = "Unix socket of the server that url names; when absent TCP.",
      .min = 1, .max = 107, .type = FN_OPT_STR, AT(socket), .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "rotate_size", .doc = "Size beyond which the file is renamed to <path>.1 and a new "
                                   "one begins.",
      .dflt = "64MiB", .min = BATCH_BYTES, .max = INT64_MAX, .type = FN_OPT_BYTES,
      AT(rotate_bytes) },
    { .key = "keep", .doc = "Renamed files that are kept; <path>.1 is the newest.",
      .dflt = "30", .min = 1, .max = KEEP_MAX, .type = FN_OPT_INT, AT(keep) },
    { .key = "queue", .doc = "Records that wait at most; what comes then is dropped and counted.",
      .dflt = "10000", .min = 1, .max = QUEUE_MAX, .type = FN_OPT_INT, AT(queue) },
    { .key = "sync", .doc = "Whether lines are on the disk, not only with the kernel, before they "
                            "count as written.",
      .dflt = "false", .type = FN_OPT_BOOL, AT(sync) },
    { .key = NULL },
};
#undef AT

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER,
    .name = "usage",
    .summary = "Writes a record of each call, for billing.",
    .kind_major = FN_LISTENER_MAJOR,
    .kind_minor = FN_LISTENER_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(listener_usage, "listener-usage", &factory)
