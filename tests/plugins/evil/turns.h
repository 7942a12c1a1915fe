/* An instance that counts how often each of its methods was asked: what is wrong is wrong the first
 * times only, so that what comes after shows whether the host is still well. */
#ifndef EVIL_TURNS_H
#define EVIL_TURNS_H

#include <fn/host.h>

#include <stdlib.h>
#include <string.h>

#define EVIL_METHODS 16

struct evil {
    const struct fn_host *host;
    uint32_t asked[EVIL_METHODS];
    const void *ops; /* of what it wraps */
    void *inner;
};

/* How often that was asked before. [any] */
static __attribute__((unused)) uint32_t evil_turn(void *inst, unsigned method)
{
    struct evil *e = inst;

    return __atomic_fetch_add(&e->asked[method], 1, __ATOMIC_RELAXED);
}

static int evil_turns_create(const struct fn_host *host, const void *conf, void **ret_inst,
                             struct fn_error *reterr)
{
    struct evil *e = calloc(1, sizeof(*e));

    (void)conf;
    (void)reterr;
    if (!e) {
        return FN_E_EXHAUSTED;
    }
    e->host = host;
    *ret_inst = e;
    return 0;
}

/* Everything in it is wrong: four answers. */
static __attribute__((unused)) void evil_error(struct fn_error *reterr)
{
    reterr->http_status = 200;
    reterr->blame = 9;
    reterr->retry_after_ns = -1;
    memset(reterr->msg, 'x', sizeof(reterr->msg));
}

/* Three refusals that are none, with six wrong answers; then 0. */
static __attribute__((unused)) int evil_refuse(void *inst, unsigned method, struct fn_error *reterr)
{
    switch (evil_turn(inst, method)) {
    case 0:
        return 2;
    case 1:
        return -4711;
    case 2:
        evil_error(reterr);
        return FN_E_INVALID;
    default:
        return 0;
    }
}

#endif
