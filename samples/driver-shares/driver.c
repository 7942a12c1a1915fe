/* driver/shares: wraps another driver, whose containers get the CPU shares that the extension
 * cpu-shares of their calls names (overrider/shares). Go Fn's example of a driver. */
#include <fn/driver.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conf {
    const char *inner;
};
struct wrap {
    const struct fn_driver_ops *ops; /* of the inner driver; optional slots may be NULL */
    void *inner;
};

/* One container: the inner driver's, and the changed task that it may look at until close. */
struct container {
    void *inner;
    struct fn_task task;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct fn_driver_if *driver = host->get(host, "fn.driver", 1);
    struct wrap *w = calloc(1, sizeof(*w));
    int r;
    if (!w) {
        return FN_E_EXHAUSTED;
    }
    r = driver->inner(host, ((const struct conf *)conf)->inner, &w->ops, &w->inner, reterr);
    *ret_inst = r < 0 ? *ret_inst : w;
    if (r < 0) {
        free(w);
    }
    return r;
}
static void destroy(void *inst)
{
    free(inst);
}
static uint64_t shares_of(const struct fn_kv *extensions, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(extensions[i].key, "cpu-shares") == 0) {
            return strtoull(extensions[i].value, NULL, 10);
        }
    }
    return 0;
}
static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    const struct wrap *w = inst;
    struct container *c = calloc(1, sizeof(*c));
    int r;
    if (!c) {
        return FN_E_EXHAUSTED;
    }
    memcpy(&c->task, task, task->hdr.size < sizeof(c->task) ? task->hdr.size : sizeof(c->task));
    c->task.hdr.size = sizeof(c->task); /* what an older host does not have is 0 */
    c->task.cpu_shares = shares_of(task->extensions, task->n_extensions);
    r = w->ops->create(w->inner, op, &c->task, &c->inner, reterr);
    if (r < 0) {
        free(c);
    } else {
        *ret_ctr = c;
    }
    return r;
}

/* The rest goes straight to the inner driver. What cannot freeze answers as frozen. */
#define S ((const struct wrap *)inst)
#define FORWARD(slot)                                                                              \
    static int slot(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)                  \
    {                                                                                              \
        void *inner = ((struct container *)ctr)->inner;                                            \
        return S->ops->slot ? S->ops->slot(S->inner, op, inner, e) : 0;                            \
    }
FORWARD(start)
FORWARD(freeze)
FORWARD(thaw)
static int drop(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    int r = S->ops->close(S->inner, op, ((struct container *)ctr)->inner, e);
    if (r == 0) { /* not before: on failure the host calls again with it */
        free(ctr);
    }
    return r;
}
/* Calls with different weights never share a container. */
static int slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    int len = snprintf(ret_key, cap, "shares=%llu;", (unsigned long long)shares_of(ext, n));
    if ((size_t)len >= cap || !S->ops->slot_key) {
        return (size_t)len >= cap ? FN_E_RANGE : 0;
    }
    return S->ops->slot_key(S->inner, ext, n, ret_key + len, cap - (size_t)len);
}
static int prepare_image(void *inst, struct fn_op *op, const struct fn_task *t, struct fn_error *e)
{
    return S->ops->prepare_image(S->inner, op, t, e);
}
static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *e)
{
    return S->ops->sweep(S->inner, op, owner, instance, ret_removed, e);
}
static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap, struct fn_error *e)
{
    return S->ops->probe(S->inner, op, ret_version, cap, e);
}
static uint32_t uid(void *inst, void *ctr)
{
    return S->ops->uid(S->inner, ((struct container *)ctr)->inner);
}

static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = slot_key, .prepare_image = prepare_image, .create = make, .start = start,
    .freeze = freeze, .thaw = thaw, .close = drop, .sweep = sweep, .probe = probe, .uid = uid,
};

static const struct fn_need needs[] = { { "fn.driver", 1, 0, 0 }, { NULL, 0, 0, 0 } };
static const struct fn_opt opts[] = {
    { .key = "inner", .doc = "Name of the driver that this one wraps.", .type = FN_OPT_STR,
      .min = 1, .max = 64, .offset = offsetof(struct conf, inner) },
    { .key = NULL },
};
static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER, .name = "shares", .summary = "Starts containers with CPU shares.",
    .kind_major = FN_DRIVER_MAJOR, .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct conf), .needs = needs, .opts = opts,
    .ops = &ops, .create = create, .destroy = destroy,
};
static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "driver-shares", .version = "1.0", .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG, .factories = factories,
};
FN_PLUGIN_DEFINE(driver_shares, manifest)
