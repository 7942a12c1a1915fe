/* driver/site: wraps another driver, whose containers get one more environment variable, and those
 * of one app a directory for reading. The inner driver has to allow it: allow_mounts. */
#include <fn/driver.h>

#include <stdlib.h>
#include <string.h>

struct conf {
    const char *inner, *variable, *value, *directory, *app;
};
struct site {
    const struct conf *conf;
    const struct fn_driver_ops *ops; /* of the inner driver; optional slots may be NULL */
    void *inner;
};

/* One container: the inner driver's, and the changed task that it may look at until close. */
struct container {
    void *inner;
    struct fn_task task;
    struct fn_mount mount;
    struct fn_kv env[];
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct fn_driver_if *driver = host->get(host, "fn.driver", 1);
    struct site *s = calloc(1, sizeof(*s));
    int r;
    if (!s) {
        return FN_E_EXHAUSTED;
    }
    s->conf = conf;
    r = driver->inner(host, s->conf->inner, &s->ops, &s->inner, reterr);
    if (r < 0) {
        free(s);
    } else {
        *ret_inst = s;
    }
    return r;
}

static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    const struct site *s = inst;
    struct container *c = calloc(1, sizeof(*c) + (task->n_env + 1) * sizeof(c->env[0]));
    size_t known = task->hdr.size < sizeof(c->task) ? task->hdr.size : sizeof(c->task);
    int r;

    if (!c) {
        return FN_E_EXHAUSTED;
    }
    memcpy(&c->task, task, known); /* a newer host's task is longer: hand on what we know */
    c->task.hdr.size = sizeof(c->task); /* what an older host does not have is 0 */
    if (task->n_env > 0) {
        memcpy(c->env, task->env, task->n_env * sizeof(c->env[0]));
    }
    c->env[c->task.n_env++] = (struct fn_kv){ s->conf->variable, s->conf->value };
    c->task.env = c->env;
    if (s->conf->directory && strcmp(task->app_id, s->conf->app) == 0) {
        c->mount = (struct fn_mount){ .source = s->conf->directory, .target = "/site",
                                      .type = FN_MOUNT_BIND, .flags = FN_MOUNT_READ_ONLY };
        c->task.mounts = &c->mount;
        c->task.n_mounts = 1;
    }
    r = s->ops->create(s->inner, op, &c->task, &c->inner, reterr);
    if (r < 0) {
        free(c);
    } else {
        *ret_ctr = c;
    }
    return r;
}

/* The rest goes straight to the inner driver. What cannot freeze answers as frozen. */
#define S ((const struct site *)inst)
#define INNER(ctr) ((struct container *)ctr)->inner
#define FORWARD(slot)                                                                              \
    static int slot(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)                  \
    {                                                                                              \
        return S->ops->slot ? S->ops->slot(S->inner, op, INNER(ctr), e) : 0;                       \
    }
FORWARD(start) FORWARD(freeze) FORWARD(thaw)
static int drop(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    int r = S->ops->close(S->inner, op, INNER(ctr), e);
    if (r == 0) { /* not before: on failure the host calls again with it */
        free(ctr);
    }
    return r;
}
static int slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    ret_key[0] = '\0';
    return S->ops->slot_key ? S->ops->slot_key(S->inner, ext, n, ret_key, cap) : 0;
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
    return S->ops->uid(S->inner, INNER(ctr));
}
static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = slot_key, .prepare_image = prepare_image, .create = make, .start = start,
    .freeze = freeze, .thaw = thaw, .close = drop, .sweep = sweep, .probe = probe, .uid = uid,
};
static const struct fn_need needs[] = { { "fn.driver", 1, 0, 0 }, { NULL, 0, 0, 0 } };
#define AT(field) .offset = offsetof(struct conf, field)
static const struct fn_opt opts[] = {
    { .key = "inner", .doc = "Wrapped driver.", .type = FN_OPT_STR, .max = 64, AT(inner) },
    { .key = "variable", .doc = "Variable.", .dflt = "FN_SITE", .type = FN_OPT_STR, AT(variable) },
    { .key = "value", .doc = "Its value.", .dflt = "", .type = FN_OPT_STR, AT(value) },
    { .key = "directory", .doc = "Directory that functions of `app` have at /site.",
      .type = FN_OPT_STR, AT(directory), .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "app", .doc = "Id of that app.", .dflt = "", .type = FN_OPT_STR, AT(app) },
    { .key = NULL },
};
static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER, .name = "site", .summary = "Adds a variable and a directory.",
    .kind_major = FN_DRIVER_MAJOR, .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct conf), .needs = needs, .opts = opts, .ops = &ops,
    .create = create, .destroy = free,
};
static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "driver-site", .version = "1.0", .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG, .factories = factories,
};
FN_PLUGIN_DEFINE(driver_site, manifest)
