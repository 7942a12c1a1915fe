/* listener/usage: a record of each call, in a file or by HTTP. */
#define FN_HOST_MINOR_MIN 1 /* after_worker() and fn.view */
#include "usage.h"

#include "fail.h"
#include "shipped.h"

#include <stdlib.h>

#define TELL_NS 10000000000LL /* between two lines about records that were dropped */

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

/* ---- life ------------------------------------------------------------------------------------ */

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
        usage_finish(i);
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
    .after_worker = usage_write,
};

static const struct fn_need needs[] = {
    { "fn.view", FN_VIEW_MAJOR, 0, 0 },
    { "fn.op", 1, 0, 0 },
    { "fn.http", 1, 1, FN_NEED_OPTIONAL },
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
