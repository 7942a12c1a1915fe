/* listener/count: counts calls by how they ended, and changes of apps, functions and triggers, in
 * the node's metrics; refuses apps whose names are not as the operator wants them. */
#include <fn/listener.h>

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

struct conf {
    const char *names_must_match;
};

static const struct fn_opt opts[] = {
    { .key = "names_must_match",
      .doc = "Pattern of the shell for names of apps, such as team-*; others are refused. It has "
             "an effect at a node with the API.",
      .dflt = "*",
      .min = 1,
      .max = 255,
      .type = FN_OPT_STR,
      .offset = offsetof(struct conf, names_must_match) },
    { .key = NULL },
};

struct count {
    const struct fn_host *host;
    const struct conf *conf;
    uint32_t changes;
    uint32_t started;
    uint32_t ok;
    uint32_t failed;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct count *c = calloc(1, sizeof(*c));
    int r;

    (void)reterr;
    if (!c) {
        return FN_E_EXHAUSTED;
    }
    c->host = host;
    c->conf = conf;
    r = host->metric->declare(host, "started", FN_METRIC_COUNTER, &c->started);
    if (r == 0) {
        r = host->metric->declare(host, "ok", FN_METRIC_COUNTER, &c->ok);
    }
    if (r == 0) {
        r = host->metric->declare(host, "failed", FN_METRIC_COUNTER, &c->failed);
    }
    if (r == 0) {
        r = host->metric->declare(host, "changes", FN_METRIC_COUNTER, &c->changes);
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

/* An app keeps its name for life, so that its creation alone is looked at. */
static int before_change(void *inst, struct fn_op *op, const struct fn_change *change,
                         struct fn_error *reterr)
{
    const struct count *c = inst;

    (void)op;
    if (change->kind != FN_CHANGE_APP || change->verb != FN_CHANGE_CREATE ||
        fnmatch(c->conf->names_must_match, change->name, 0) == 0) {
        return 0;
    }
    if (reterr) {
        reterr->http_status = 422;
        reterr->blame = FN_BLAME_USER;
        snprintf(reterr->msg, sizeof(reterr->msg), "name, got \"%.64s\"; expected one like %.64s",
                 change->name, c->conf->names_must_match);
    }
    return FN_E_PERMISSION;
}

static void after_change(void *inst, struct fn_op *op, const struct fn_change *change)
{
    const struct count *c = inst;

    (void)op;
    (void)change;
    c->host->metric->add(c->host, c->changes, 1);
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
    .before_change = before_change,
    .after_change = after_change,
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER,
    .name = "count",
    .summary = "Counts calls and changes, and looks after names of apps.",
    .kind_major = FN_LISTENER_MAJOR,
    .kind_minor = FN_LISTENER_MINOR,
    .conf_size = sizeof(struct conf),
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
    .name = "listener-count",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(listener_count, manifest)
