/* A control plane with many machines that are always there, for scripts/bench npm: machine i of all
 * is "127.a.b.c:port", so that one fake runner that listens everywhere answers for every one. */
#include <fn/cplane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_HOST 256u /* 127.0.1.0 */

struct conf {
    int64_t per_group;
    int64_t port;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    (void)host;
    (void)reterr;
    *ret_inst = (void *)(uintptr_t)conf;
    return 0;
}

static void destroy(void *inst)
{
    (void)inst;
}

/* Groups are named "g<number>". */
static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    const struct conf *c = inst;
    uint32_t first = FIRST_HOST + (uint32_t)(atoi(group + 1) * c->per_group);
    int r = 0;

    (void)op;
    (void)reterr;
    for (uint32_t i = 0; i < (uint32_t)c->per_group && r == 0; i++) {
        uint32_t h = first + i;
        char id[32], address[32];
        const struct fn_machine m = { sizeof(m), FN_MACHINE_READY, id, address, 4096, NULL };

        snprintf(id, sizeof(id), "machine-%u", h);
        snprintf(address, sizeof(address), "127.%u.%u.%u:%u", h >> 16 & 255, h >> 8 & 255, h & 255,
                 (unsigned)c->port);
        r = out->add(out->ud, &m);
    }
    return r;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)n;
    (void)request_id;
    (void)reterr;
    *ret_accepted = 0;
    return 0;
}

static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)machine_id;
    (void)reterr;
    return 0;
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list,
    .provision = provision,
    .remove = remove_machine,
};

static const struct fn_opt opts[] = {
    { .key = "per_group",
      .doc = "Machines of a group.",
      .dflt = "100",
      .min = 1,
      .max = 60000,
      .type = FN_OPT_INT,
      .offset = offsetof(struct conf, per_group) },
    { .key = "port",
      .doc = "gRPC port of all of them.",
      .min = 1,
      .max = 65535,
      .type = FN_OPT_INT,
      .offset = offsetof(struct conf, port) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "many",
    .summary = "Many machines on one address space of loopback.",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
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
    .name = "cp-many",
    .version = FND_VERSION,
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(cp_many, manifest)
