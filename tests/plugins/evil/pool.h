/* A pool of the runners of this node that is good unless told otherwise.
 *
 *   #define EVIL_PUBLISH f   int f(host, snap): instead of publishing one runner inside the node
 *   #define EVIL_ROUTE f     int f(inst, call, ret_group, cap)
 *
 * What file.h knows works too. */
#include "factory.h"

#include <fn/pool.h>

#include <stdio.h>
#include <stdlib.h>

struct evil_pool {
    const struct fn_host *host;
    const struct fn_snap_if *snap;
};

#ifndef EVIL_ROUTE
#define EVIL_ROUTE NULL
#endif

static int evil_pool_create(const struct fn_host *host, const void *conf, void **ret_inst,
                       struct fn_error *reterr)
{
    struct evil_pool *p = calloc(1, sizeof(*p));

    (void)conf;
    (void)reterr;
    if (!p) {
        return FN_E_EXHAUSTED;
    }
    p->host = host;
    p->snap = host->get(host, "fn.snap", 1);
    *ret_inst = p;
    return 0;
}

static __attribute__((unused)) int evil_publish(const struct fn_host *host,
                                                const struct fn_snap_if *snap)
{
    struct fn_runner r = { .id = 1, .address = EVIL_ADDRESS, .weight = 1 };
    struct fn_snap_builder *b;

    if (snap->begin(host, FN_GROUP_DEFAULT, &b) < 0) {
        return FN_E_EXHAUSTED;
    }
    (void)snap->add(b, &r, sizeof(r));
    return snap->publish(b);
}

static int evil_pool_start(void *inst, struct fn_error *reterr)
{
    struct evil_pool *p = inst;

    (void)reterr;
    (void)EVIL_PUBLISH(p->host, p->snap);
    return 0;
}

static void evil_pool_stop(void *inst, void (*done)(void *ud), void *ud)
{
    (void)inst;
    done(ud);
}

static const struct fn_pool_ops evil_pool_ops = {
    .hdr = FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
    .start = evil_pool_start,
    .route = EVIL_ROUTE,
    .stop = evil_pool_stop,
};

static const struct fn_need evil_pool_needs[] = { { .iface = "fn.snap", .major = 1 },
                                             { .iface = NULL } };

EVIL_FACTORY(evil_pool, FN_KIND_POOL, FN_POOL, evil_pool_needs, &evil_pool_ops, evil_pool_create,
             free);

#ifndef EVIL_PARTS
#define EVIL_FACTORIES &evil_pool
#include "file.h"
#endif
