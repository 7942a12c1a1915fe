/* driver/env: wraps another driver and gives its containers one more environment variable, whose
 * value is an extension of the call. Calls with different values never share a container. */
#include "wrap.h"

#include <stdlib.h>

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct fn_driver_if *driver = host->get(host, "fn.driver", 1);
    struct env *e = calloc(1, sizeof(*e));
    int r;

    if (!e) {
        return FN_E_EXHAUSTED;
    }
    e->conf = conf;
    r = driver->inner(host, e->conf->inner, &e->ops, &e->inner, reterr);
    if (r < 0) {
        free(e);
        return r;
    }
    *ret_inst = e;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static const struct fn_need needs[] = { { "fn.driver", 1, 0, 0 }, { NULL, 0, 0, 0 } };

static const struct fn_opt opts[] = {
    { .key = "inner", .doc = "Name of the driver that this one wraps. It must be above this one "
                             "in the list.", .min = 1, .max = 64,
      .type = FN_OPT_STR, .offset = offsetof(struct conf, inner) },
    { .key = "extension", .doc = "Name of the call's extension (metadata that overriders set) "
                                 "whose value is passed on.", .dflt = "tag",
      .min = 1, .max = 64, .type = FN_OPT_STR, .offset = offsetof(struct conf, extension) },
    { .key = "variable", .doc = "Name of the environment variable that gets the "
                                "value.", .dflt = "FN_TAG",
      .min = 1, .max = 64, .type = FN_OPT_STR, .offset = offsetof(struct conf, variable) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER,
    .name = "env",
    .summary = "Wraps a driver; an extension of the call becomes an environment variable.",
    .kind_major = FN_DRIVER_MAJOR,
    .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &env_ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "driver-env",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(driver_env, manifest)
