/* E27: driver "process", but start() of a function with HANG in its configuration never returns.
 * E30, UID_CRASHES: uid() crashes. */
#ifndef EVIL_NAME
#define EVIL_NAME "e27"
#endif
#include "factory.h"

#include <fn/driver.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANGS_N 16

struct evil {
    const struct fn_driver_ops *ops;
    void *inner;
    void *hangs[HANGS_N]; /* containers, the oldest ones are forgotten */
    unsigned last;
};

static int create_instance(const struct fn_host *host, const void *conf, void **ret_inst,
                           struct fn_error *reterr)
{
    const struct fn_driver_if *driver = host->get(host, "fn.driver", FN_DRIVER_MAJOR);
    struct evil *e = calloc(1, sizeof(*e));
    int r = e ? driver->inner(host, "process", &e->ops, &e->inner, reterr) : FN_E_EXHAUSTED;

    (void)conf;
    if (r < 0) {
        free(e);
        return r;
    }
    *ret_inst = e;
    return 0;
}

static int prepare_image(void *inst, struct fn_op *op, const struct fn_task *t, struct fn_error *e)
{
    const struct evil *v = inst;

    return v->ops->prepare_image(v->inner, op, t, e);
}

static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    struct evil *v = inst;
    int r = v->ops->create(v->inner, op, task, ret_ctr, reterr);

    for (uint32_t i = 0; r == 0 && i < task->n_env; i++) {
        if (strcmp(task->env[i].key, "HANG") == 0) {
            unsigned at = __atomic_add_fetch(&v->last, 1, __ATOMIC_RELAXED) % HANGS_N;

            __atomic_store_n(&v->hangs[at], *ret_ctr, __ATOMIC_RELAXED);
        }
    }
    return r;
}

static int start(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    struct evil *v = inst;

    for (unsigned i = 0; i < HANGS_N; i++) {
        while (__atomic_load_n(&v->hangs[i], __ATOMIC_RELAXED) == ctr) {
            (void)pause();
        }
    }
    return v->ops->start(v->inner, op, ctr, reterr);
}

static int drop(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    const struct evil *v = inst;

    return v->ops->close(v->inner, op, ctr, e);
}

static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *e)
{
    const struct evil *v = inst;

    return v->ops->sweep(v->inner, op, owner, instance, ret_removed, e);
}

static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap, struct fn_error *e)
{
    const struct evil *v = inst;

    return v->ops->probe(v->inner, op, ret_version, cap, e);
}

static uint32_t uid(void *inst, void *ctr)
{
    const struct evil *v = inst;
#ifdef UID_CRASHES
    volatile int *volatile nowhere = NULL;

    *nowhere = 1;
#endif
    return v->ops->uid(v->inner, ctr);
}

static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .prepare_image = prepare_image,
    .create = make,
    .start = start,
    .close = drop,
    .sweep = sweep,
    .probe = probe,
    .uid = uid,
};
static const struct fn_need needs[] = { { .iface = "fn.driver", .major = 1 }, { .iface = NULL } };
EVIL_FACTORY(evil, FN_KIND_DRIVER, FN_DRIVER, needs, &ops, create_instance, free);

#define EVIL_FACTORIES &evil
#include "file.h"
