/* A listener whose create() needs a socket, as one that speaks to a service would. */
#include <fn/listener.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)host;
    (void)conf;
    if (fd < 0) {
        reterr->code = FN_E_UNAVAILABLE;
        (void)snprintf(reterr->msg, sizeof(reterr->msg), "no socket");
        return FN_E_UNAVAILABLE;
    }
    close(fd);
    *ret_inst = malloc(1);
    return *ret_inst ? 0 : FN_E_EXHAUSTED;
}

static void destroy(void *inst)
{
    free(inst);
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    (void)inst;
    (void)call;
    (void)end;
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .after = after,
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_LISTENER,
    .name = "dials",
    .summary = "Needs a socket to be made.",
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
    .name = "dials",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(dials, manifest)
