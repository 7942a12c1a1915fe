/* An overrider and a listener that say no, for the end-to-end tests.
 *
 * The overrider rejects calls with a header "Veto: <status>"; the listener refuses the function
 * whose id it was given. */
#include <fn/listener.h>
#include <fn/override.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conf {
    const char *fn_id;
};

struct veto {
    const struct fn_edit_if *edit; /* of the overrider */
    const struct conf *conf;       /* of the listener */
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct veto *v = calloc(1, sizeof(*v));

    (void)reterr;
    if (!v) {
        return FN_E_EXHAUSTED;
    }
    v->edit = host->get(host, "fn.edit", 1);
    v->conf = conf;
    *ret_inst = v;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct veto *v = inst;
    const char *status = v->edit->header(edit, "Veto");

    if (!status) {
        return FN_PASS;
    }
    (void)v->edit->set_extension(edit, "tag", "vetoed");
    reterr->http_status = atoi(status);
    reterr->blame = FN_BLAME_USER;
    (void)snprintf(reterr->msg, sizeof(reterr->msg), "vetoed with %s", status);
    return FN_E_PERMISSION;
}

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    const struct veto *v = inst;

    if (strcmp(call->fn_id, v->conf->fn_id) != 0) {
        return 0;
    }
    reterr->blame = FN_BLAME_USER;
    (void)snprintf(reterr->msg, sizeof(reterr->msg), "not on my watch");
    return FN_E_PERMISSION;
}

static const struct fn_override_ops override_ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
    .apply = apply,
};

static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
};

static const struct fn_need needs[] = {
    { .iface = "fn.edit", .major = 1 },
    { .iface = NULL },
};

static const struct fn_opt opts[] = {
    { .key = "fn_id", .doc = "Function that is refused.", .min = 1, .max = 64,
      .type = FN_OPT_STR, .offset = offsetof(struct conf, fn_id) },
    { .key = NULL },
};

static const struct fn_factory override_factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_OVERRIDER,
    .name = "veto",
    .summary = "Rejects calls with a header Veto.",
    .kind_major = FN_OVERRIDE_MAJOR,
    .kind_minor = FN_OVERRIDE_MINOR,
    .needs = needs,
    .ops = &override_ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory listener_factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER,
    .name = "veto",
    .summary = "Refuses a function.",
    .kind_major = FN_LISTENER_MAJOR,
    .kind_minor = FN_LISTENER_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &listener_ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &override_factory, &listener_factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "veto",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(veto, manifest)
