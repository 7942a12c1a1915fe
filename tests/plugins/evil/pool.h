/* A pool of the runners of this node that is good unless told otherwise.
 *
 *   #define EVIL_PUBLISH f   int f(host, snap): instead of publishing one runner inside the node
 *   #define EVIL_ROUTE f     int f(inst, call, ret_group, cap)
 */
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

static int evil_create(const struct fn_host *host, const void *conf, void **ret_inst,
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

static int evil_start(void *inst, struct fn_error *reterr)
{
    struct evil_pool *p = inst;

    (void)reterr;
    (void)EVIL_PUBLISH(p->host, p->snap);
    return 0;
}

static void evil_stop(void *inst, void (*done)(void *ud), void *ud)
{
    (void)inst;
    done(ud);
}

static const struct fn_pool_ops evil_ops = {
    .hdr = FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
    .start = evil_start,
    .route = EVIL_ROUTE,
    .stop = evil_stop,
};

static const struct fn_need evil_needs[] = { { .iface = "fn.snap", .major = 1 },
                                             { .iface = NULL } };

static const struct fn_factory evil_factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_POOL,
    .name = EVIL_NAME,
    .summary = "Does one thing that no pool may do.",
    .kind_major = FN_POOL_MAJOR,
    .kind_minor = FN_POOL_MINOR,
    .needs = evil_needs,
    .ops = &evil_ops,
    .create = evil_create,
    .destroy = free,
};

static const struct fn_factory *const evil_factories[] = { &evil_factory, NULL };

static const struct fn_manifest evil_manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = EVIL_NAME,
    .version = "6.6.6",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = evil_factories,
};

FN_PLUGIN_DEFINE(evil, evil_manifest)
