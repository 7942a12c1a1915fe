/* E15: driver "process", but for the first answers of each method. */
#define EVIL_NAME "e15"
#include "factory.h"
#include "turns.h"

#include <fn/driver.h>

enum { SLOT_KEY, PREPARE, CREATE, START, CLOSE, SWEEP, PROBE };

#define OPS(inst)   ((const struct fn_driver_ops *)((struct evil *)(inst))->ops)
#define INNER(inst) (((struct evil *)(inst))->inner)

static const struct fn_driver_if *driver_of(const struct fn_host *host)
{
    return host->get(host, "fn.driver", FN_DRIVER_MAJOR);
}

static int create_instance(const struct fn_host *host, const void *conf, void **ret_inst,
                           struct fn_error *reterr)
{
    int r = evil_turns_create(host, conf, ret_inst, reterr);
    const struct fn_driver_ops *ops;
    struct evil *e = *ret_inst;

    if (r == 0) {
        r = driver_of(host)->inner(host, "process", &ops, &e->inner, reterr);
        e->ops = ops;
    }
    if (r < 0) {
        free(e);
        *ret_inst = NULL;
    }
    return r;
}

static int slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    (void)ext;
    (void)n;
    ret_key[0] = '\0';
    switch (evil_turn(inst, SLOT_KEY)) {
    case 0:
        memset(ret_key, 'k', cap);
        return 0;
    case 1:
        return 3;
    default:
        return 0;
    }
}

static int prepare_image(void *inst, struct fn_op *op, const struct fn_task *t, struct fn_error *e)
{
    return evil_turn(inst, PREPARE) == 0 ? 3 : OPS(inst)->prepare_image(INNER(inst), op, t, e);
}

/* The number of the container, so that start() knows which handle is its own. */
static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    if (evil_turn(inst, CREATE) == 0) {
        evil_error(reterr);
        return -99;
    }
    __atomic_store_n(&((struct evil *)inst)->asked[EVIL_METHODS - 1], (uint32_t)task->handle,
                     __ATOMIC_RELAXED);
    return OPS(inst)->create(INNER(inst), op, task, ret_ctr, reterr);
}

static int start(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    const struct evil *e = inst;
    const uint64_t handle = __atomic_load_n(&e->asked[EVIL_METHODS - 1], __ATOMIC_RELAXED);
    const struct fn_exit unknown = { .size = sizeof(unknown), .reason = 77 };
    const struct fn_driver_if *driver = driver_of(e->host);
    int r = OPS(inst)->start(INNER(inst), op, ctr, reterr);

    switch (evil_turn(inst, START)) {
    case 0:
        driver->output(e->host, handle, 7, "x", 1);
        driver->output(e->host, handle, 1, NULL, 5);
        driver->output(e->host, handle, 2, "x", SIZE_MAX);
        driver->exited(e->host, handle, NULL);
        break;
    case 1:
        driver->exited(e->host, handle, &unknown);
        break;
    default:
        break;
    }
    return r;
}

static int drop(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    return evil_turn(inst, CLOSE) == 0 ? 8 : OPS(inst)->close(INNER(inst), op, ctr, e);
}

static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *e)
{
    if (evil_turn(inst, SWEEP) == 0) {
        return 9;
    }
    return OPS(inst)->sweep(INNER(inst), op, owner, instance, ret_removed, e);
}

static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap, struct fn_error *e)
{
    if (evil_turn(inst, PROBE) == 0) {
        memset(ret_version, 'v', cap);
        return 0;
    }
    return OPS(inst)->probe(INNER(inst), op, ret_version, cap, e);
}

static uint32_t uid(void *inst, void *ctr)
{
    return OPS(inst)->uid(INNER(inst), ctr);
}

static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = slot_key,
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
