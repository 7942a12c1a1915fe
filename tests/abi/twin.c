/* Two plugins that carry the same names inside, each with its own copy of a "library", exported as a
 * careless build would: each must go on using its own. TWIN is the library's version. */
#include <fn/predictor.h>

__attribute__((visibility("default"))) uint64_t library_version(void);
__attribute__((visibility("default"))) const uint64_t library_number = TWIN;

uint64_t library_version(void)
{
    return library_number;
}

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

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    (void)inst;
    (void)state;
    (void)load;
    *ret_desired_mb = library_version();
    return 0;
}

static const struct fn_predictor_ops ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR), .predict = predict
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PREDICTOR,
    .name = TWIN == 1 ? "twin-one" : "twin-two",
    .summary = "Tells the version of its library.",
    .kind_major = FN_PREDICTOR_MAJOR,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "twin",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(twin, manifest)
