/* A listener that takes its time over each end of a call and before each change, for the end-to-end tests: asleep as it
 * should be, or deaf to its deadline and to being cancelled. */
#include <fn/listener.h>

#include <stdlib.h>
#include <time.h>

struct conf {
    int64_t time_ns;
    uint32_t deaf;
};

struct late {
    const struct fn_host *host;
    const struct fn_op_if *op;
    const struct conf *conf;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct late *l = calloc(1, sizeof(*l));

    (void)reterr;
    if (!l) {
        return FN_E_EXHAUSTED;
    }
    l->host = host;
    l->op = host->get(host, "fn.op", 1);
    l->conf = conf;
    *ret_inst = l;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int take_time(const struct late *l, struct fn_op *op)
{
    const struct timespec ts = { l->conf->time_ns / 1000000000, l->conf->time_ns % 1000000000 };

    if (l->conf->deaf) {
        nanosleep(&ts, NULL);
        return 0;
    }
    return l->op->sleep_until(op, l->host->clock->now_ns(l->host) + l->conf->time_ns);
}

static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    (void)call;
    (void)end;
    (void)reterr;
    return take_time(inst, op);
}

static int before_change(void *inst, struct fn_op *op, const struct fn_change *change,
                         struct fn_error *reterr)
{
    (void)change;
    (void)reterr;
    return take_time(inst, op);
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .after_worker = after_worker,
    .before_change = before_change,
};

static const struct fn_need needs[] = { { "fn.op", 1, 0, 0 }, { NULL, 0, 0, 0 } };

static const struct fn_opt opts[] = {
    { .key = "time", .doc = "What it takes for one end.", .dflt = "2s", .type = FN_OPT_DURATION,
      .max = INT64_MAX, .offset = offsetof(struct conf, time_ns) },
    { .key = "deaf", .doc = "It listens to nobody.", .dflt = "false", .type = FN_OPT_BOOL,
      .offset = offsetof(struct conf, deaf) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER,
    .name = "late",
    .summary = "Takes its time.",
    .kind_major = FN_LISTENER_MAJOR,
    .kind_minor = FN_LISTENER_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "late",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(late, manifest)
