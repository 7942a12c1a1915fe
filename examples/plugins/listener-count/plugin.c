/* listener/count: counts calls by how they ended, in the node's metrics. */
#include <fn/listener.h>

#include <stdlib.h>

struct count {
    const struct fn_host *host;
    uint32_t started;
    uint32_t ok;
    uint32_t failed;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct count *c = calloc(1, sizeof(*c));
    int r;

    (void)conf;
    (void)reterr;
    if (!c) {
        return FN_E_EXHAUSTED;
    }
    c->host = host;
    r = host->metric->declare(host, "started", FN_METRIC_COUNTER, &c->started);
    if (r == 0) {
        r = host->metric->declare(host, "ok", FN_METRIC_COUNTER, &c->ok);
    }
    if (r == 0) {
        r = host->metric->declare(host, "failed", FN_METRIC_COUNTER, &c->failed);
    }
    if (r < 0) {
        free(c);
        return r;
    }
    *ret_inst = c;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    const struct count *c = inst;

    (void)call;
    (void)reterr;
    c->host->metric->add(c->host, c->started, 1);
    return 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    const struct count *c = inst;

    (void)call;
    c->host->metric->add(c->host, end->code == 0 ? c->ok : c->failed, 1);
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER,
    .name = "count",
    .summary = "Counts calls by how they ended.",
    .kind_major = FN_LISTENER_MAJOR,
    .kind_minor = FN_LISTENER_MINOR,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "listener-count",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(listener_count, manifest)
