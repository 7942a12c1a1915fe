/* The methods: all but two go straight to the inner driver. */
#include "wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One container: the inner driver's, and the changed task that it may look at until close. */
struct container {
    void *inner;
    struct fn_task task;
    struct fn_kv env[];
};

static const char *value_of(const struct env *e, const struct fn_kv *ext, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (strcmp(ext[i].key, e->conf->extension) == 0) {
            return ext[i].value;
        }
    }
    return NULL;
}

static int slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    const struct env *e = inst;
    const char *value = value_of(e, ext, n);
    int used = 0;
    int r;

    /* "" and "not there" are different values. */
    if (value) {
        used = snprintf(ret_key, cap, "%s=%zu:%s;", e->conf->variable, strlen(value), value);
    } else if (cap > 0) {
        ret_key[0] = '\0';
    }
    if (used < 0 || (size_t)used >= cap) {
        return FN_E_RANGE;
    }
    r = e->ops->slot_key ? e->ops->slot_key(e->inner, ext, n, ret_key + used, cap - (size_t)used)
                         : 0;
    return r;
}

static int prepare_image(void *inst, struct fn_op *op, const struct fn_task *task,
                         struct fn_error *reterr)
{
    const struct env *e = inst;

    return e->ops->prepare_image(e->inner, op, task, reterr);
}

static int make(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr)
{
    const struct env *e = inst;
    const char *value = value_of(e, task->extensions, task->n_extensions);
    struct container *c = calloc(1, sizeof(*c) + (task->n_env + 1) * sizeof(c->env[0]));
    size_t known = task->hdr.size < sizeof(c->task) ? task->hdr.size : sizeof(c->task);
    int r;

    if (!c) {
        return FN_E_EXHAUSTED;
    }
    memcpy(&c->task, task, known);
    c->task.hdr.size = (uint32_t)known;
    if (task->n_env > 0) {
        memcpy(c->env, task->env, task->n_env * sizeof(c->env[0]));
    }
    if (value) {
        c->env[c->task.n_env++] = (struct fn_kv){ e->conf->variable, value };
    }
    c->task.env = c->env;
    r = e->ops->create(e->inner, op, &c->task, &c->inner, reterr);
    if (r < 0) {
        free(c);
        return r;
    }
    *ret_ctr = c;
    return 0;
}

/* Without freeze in the inner driver, a container that is not frozen answers as one that is. */
#define FORWARD(slot)                                                                              \
    static int slot(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)             \
    {                                                                                              \
        const struct env *e = inst;                                                                \
        const struct container *c = ctr;                                                           \
                                                                                                   \
        return e->ops->slot ? e->ops->slot(e->inner, op, c->inner, reterr) : 0;                    \
    }

FORWARD(start)
FORWARD(freeze)
FORWARD(thaw)

static int close_container(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    const struct env *e = inst;
    int r = e->ops->close(e->inner, op, ((struct container *)ctr)->inner, reterr);

    if (r == 0) {
        free(ctr);
    }
    return r;
}

static int sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *reterr)
{
    const struct env *e = inst;

    return e->ops->sweep(e->inner, op, owner, instance, ret_removed, reterr);
}

static int probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                 struct fn_error *reterr)
{
    const struct env *e = inst;

    return e->ops->probe(e->inner, op, ret_version, cap, reterr);
}

static uint32_t uid(void *inst, void *ctr)
{
    const struct env *e = inst;

    return e->ops->uid(e->inner, ((struct container *)ctr)->inner);
}

static int usage(void *inst, struct fn_op *op, struct fn_usage *items, uint32_t n,
                 struct fn_error *reterr)
{
    const struct env *e = inst;

    return e->ops->usage ? e->ops->usage(e->inner, op, items, n, reterr) : 0;
}

const struct fn_driver_ops env_ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .slot_key = slot_key,
    .prepare_image = prepare_image,
    .create = make,
    .start = start,
    .freeze = freeze,
    .thaw = thaw,
    .close = close_container,
    .sweep = sweep,
    .probe = probe,
    .uid = uid,
    .usage = usage,
};
