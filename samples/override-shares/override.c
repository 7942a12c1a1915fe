/* overrider/shares: calls of one app get the extension cpu-shares, which travels with the call to
 * its runner, where driver/shares makes a weight of it. Go Fn's example of an overrider. */
#include <fn/override.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conf {
    const char *app;
    int64_t shares;
};
struct shares {
    const struct fn_edit_if *edit;
    const struct conf *conf;
    char text[24]; /* the shares */
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                       struct fn_error *reterr)
{
    struct shares *o = calloc(1, sizeof(*o));

    (void)reterr;
    if (!o) {
        return FN_E_EXHAUSTED;
    }
    o->conf = conf;
    o->edit = host->get(host, "fn.edit", 1);
    snprintf(o->text, sizeof(o->text), "%lld", (long long)o->conf->shares);
    *ret_inst = o;
    return 0;
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct shares *o = inst;
    int r;

    (void)reterr;
    if (strcmp(o->edit->text(edit, FN_TEXT_APP_NAME), o->conf->app) != 0) {
        return FN_PASS;
    }
    r = o->edit->set_extension(edit, "cpu-shares", o->text);
    return r < 0 ? r : FN_CHANGED;
}

static const struct fn_override_ops ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE), .apply = apply,
};

static void destroy(void *inst)
{
    free(inst);
}

static const struct fn_need needs[] = { { "fn.edit", 1, 0, 0 }, { NULL, 0, 0, 0 } };
static const struct fn_opt opts[] = {
    { .key = "app", .doc = "Name of the app.", .type = FN_OPT_STR, .min = 1, .max = 255,
      .offset = offsetof(struct conf, app) },
    { .key = "shares", .doc = "CPU shares of its functions.", .dflt = "512", .type = FN_OPT_INT,
      .min = 2, .max = 262144, .offset = offsetof(struct conf, shares) },
    { .key = NULL },
};
static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_OVERRIDER, .name = "shares", .summary = "Gives calls of one app CPU shares.",
    .kind_major = FN_OVERRIDE_MAJOR, .kind_minor = FN_OVERRIDE_MINOR,
    .conf_size = sizeof(struct conf), .needs = needs, .opts = opts,
    .ops = &ops, .create = create, .destroy = destroy,
};
static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "override-shares", .version = "1.0", .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG, .factories = factories,
};
FN_PLUGIN_DEFINE(override_shares, manifest)
