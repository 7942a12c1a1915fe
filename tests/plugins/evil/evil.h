/* A placer that is good unless told otherwise: an evil plugin defines what it does wrong and
 * includes this file last.
 *
 *   #define EVIL_NAME "e07"        name of its factory, required
 *   #define EVIL_CREATE f          int f(host, conf, ret_inst, reterr)
 *   #define EVIL_DECIDE f          int f(inst, ask, answer)
 *   #define EVIL_OBSERVE f         void f(inst, result)
 *   #define EVIL_INDEX f           int f(inst, snap, ret_index)
 *   #define EVIL_DESTROY f         void f(inst)
 *   #define EVIL_SESSION_SIZE n
 *
 * What file.h knows works too. */
#ifndef EVIL_H
#define EVIL_H

#include "factory.h"

#include <fn/placer.h>

#ifndef EVIL_CREATE
#define EVIL_CREATE evil_create
#endif
#ifndef EVIL_DECIDE
#define EVIL_DECIDE evil_decide
#endif
#ifndef EVIL_DESTROY
#define EVIL_DESTROY evil_destroy
#endif
#ifndef EVIL_OBSERVE
#define EVIL_OBSERVE NULL
#endif
#ifndef EVIL_KIND
#define EVIL_KIND FN_KIND_PLACER
#endif
#ifndef EVIL_INDEX
#define EVIL_INDEX NULL
#define EVIL_INDEX_FREE NULL
#else
#define EVIL_INDEX_FREE evil_index_free
#endif
#ifndef EVIL_SESSION_SIZE
#define EVIL_SESSION_SIZE 0
#endif

static __attribute__((unused)) int evil_create(const struct fn_host *host, const void *conf,
                                               void **ret_inst, struct fn_error *reterr)
{
    (void)conf;
    (void)reterr;
    *ret_inst = (void *)(uintptr_t)host; /* not NULL, and useful to those who keep it */
    return 0;
}

static __attribute__((unused)) void evil_destroy(void *inst)
{
    (void)inst;
}

/* The first runner, once in a round; then it waits. */
static __attribute__((unused)) int evil_decide(void *inst, const struct fn_ask *ask,
                                               struct fn_answer *ret)
{
    (void)inst;
    if (ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE && ask->snap->n > 0) {
        ret->verdict = FN_TRY;
        ret->index = 0;
        return 0;
    }
    ret->verdict = FN_WAIT;
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    ret->wait_ns = 100000000;
    return 0;
}

static __attribute__((unused)) void evil_index_free(void *inst, void *index)
{
    (void)inst;
    (void)index;
}

static const struct fn_placer_ops evil_placer_ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = EVIL_SESSION_SIZE,
    .decide = EVIL_DECIDE,
    .observe = EVIL_OBSERVE,
    .index_build = EVIL_INDEX,
    .index_free = EVIL_INDEX_FREE,
};

EVIL_FACTORY(evil_placer, EVIL_KIND, FN_PLACER, NULL, &evil_placer_ops, EVIL_CREATE, EVIL_DESTROY);

#ifndef EVIL_PARTS
#define EVIL_FACTORIES &evil_placer
#include "file.h"
#endif

#endif
