/* A placer that does nothing: what is left is the cost of calling it. */
#include <fn/placer.h>

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    (void)conf;
    (void)reterr;
    *ret_inst = (void *)(uintptr_t)host;
    return 0;
}

static void destroy(void *inst)
{
    (void)inst;
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    (void)inst;
    (void)ask;
    ret->verdict = FN_TRY;
    return 0;
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .decide = decide,
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "null",
    .summary = "The first runner, always.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "placer-null",
    .version = FND_VERSION,
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(placer_null, manifest)
