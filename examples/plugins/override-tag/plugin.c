/* overrider/tag: gives each call an extension, from a header of the request or a fixed value.
 *
 * Used at a load balancer, the extension travels with the call; the runner's driver decides what
 * to do with it (driver-env makes an environment variable of it). */
#include <fn/override.h>

#include <stdio.h>
#include <stdlib.h>

struct conf {
    const char *key;
    const char *header; /* may be NULL */
    const char *value;  /* may be NULL */
};

struct tag {
    const struct fn_edit_if *edit;
    const struct conf *conf; /* lives as long as the instance */
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct tag *t;

    if (!c->header && !c->value) {
        if (reterr) {
            snprintf(reterr->msg, sizeof(reterr->msg),
                     "got neither header nor value; expected one");
        }
        return FN_E_INVALID;
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return FN_E_EXHAUSTED;
    }
    t->edit = host->get(host, "fn.edit", 1); /* there, because needs[] lists it */
    t->conf = c;
    *ret_inst = t;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct tag *t = inst;
    const char *value = t->conf->header ? t->edit->header(edit, t->conf->header) : NULL;
    int r;

    if (!value) {
        value = t->conf->value;
    }
    if (!value) {
        return FN_PASS;
    }
    r = t->edit->set_extension(edit, t->conf->key, value);
    if (r < 0 && reterr) {
        snprintf(reterr->msg, sizeof(reterr->msg), "extension %s was not taken", t->conf->key);
    }
    return r < 0 ? r : FN_CHANGED;
}

static const struct fn_override_ops ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
    .apply = apply,
};

static const struct fn_need needs[] = {
    { .iface = "fn.edit", .major = 1 },
    { .iface = NULL },
};

static const struct fn_opt opts[] = {
    { .key = "key",
      .doc = "Name of the extension (metadata of the call) that is set.",
      .dflt = "tag",
      .min = 1,
      .max = 64,
      .type = FN_OPT_STR, .offset = offsetof(struct conf, key) },
    { .key = "header", .doc = "Request header whose value becomes the extension's. When absent, or "
                              "if a request lacks it: `value`.",
      .min = 1, .max = 128, .type = FN_OPT_STR, .offset = offsetof(struct conf, header),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "value", .doc = "Value of the extension for calls without that header. When absent: "
                             "they get no extension.", .min = 1, .max = 1024,
      .type = FN_OPT_STR, .offset = offsetof(struct conf, value), .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_OVERRIDER,
    .name = "tag",
    .summary = "Adds an extension to each call.",
    .kind_major = FN_OVERRIDE_MAJOR,
    .kind_minor = FN_OVERRIDE_MINOR,
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
    .name = "override-tag",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(override_tag, manifest)
