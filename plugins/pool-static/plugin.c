/* pool/static: a fixed list. Go Fn: api/runnerpool/static_pool.go in the agent. */
#include "hash.h"
#include "list.h"
#include "shipped.h"
#include "stopping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conf {
    struct fn_strlist runners;
};

struct pool {
    const struct fn_host *host;
    const struct fn_snap_if *snap;
    struct list list;
    struct stopping stopping;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct pool *p;
    int r;

    p = calloc(1, sizeof(*p));
    if (!p) {
        return FN_E_EXHAUSTED;
    }
    r = list_init(&p->list, &c->runners, reterr);
    if (r < 0) {
        free(p);
        return r;
    }
    p->host = host;
    p->snap = host->get(host, "fn.snap", 1);
    *ret_inst = p;
    return 0;
}

static void destroy(void *inst)
{
    struct pool *p = inst;

    if (p) {
        list_finish(&p->list);
        free(p);
    }
}

static int start(void *inst, struct fn_error *reterr)
{
    struct pool *p = inst;
    struct fn_snap_builder *b = NULL;
    int r;

    r = p->snap->begin(p->host, FN_GROUP_DEFAULT, &b);
    for (uint32_t i = 0; r == 0 && i < p->list.n; i++) {
        const struct list_entry *e = &p->list.entries[i];
        struct fn_runner runner = {
            .id = text_hash(e->address),
            .address = e->address,
            .weight = 1,
            .labels = e->labels,
        };

        r = p->snap->add(b, &runner, sizeof(runner));
        if (r < 0) {
            p->snap->discard(b);
        }
    }
    if (r == 0) {
        r = p->snap->publish(b);
    }
    if (r < 0 && reterr) {
        reterr->code = r;
        snprintf(reterr->msg, sizeof(reterr->msg), "the list of %u runners was not taken",
                 p->list.n);
    }
    return r;
}

/* One list serves every group. */
static int route(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    (void)inst;
    (void)call;
    if (!memccpy(ret_group, FN_GROUP_DEFAULT, '\0', cap)) {
        return FN_E_RANGE;
    }
    return 0;
}

static void stop(void *inst, void (*done)(void *ud), void *ud)
{
    struct pool *p = inst;

    stopping_begin(&p->stopping, p->host, done, ud);
}

static const struct fn_pool_ops ops = {
    .hdr = FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
    .start = start,
    .route = route,
    .stop = stop,
};

static const struct fn_need needs[] = {
    { .iface = "fn.snap", .major = 1, .minor_min = 0 },
    { .iface = NULL },
};

static const struct fn_opt opts[] = {
    { .key = "runners",
      .doc = "Addresses of the runners' gRPC ports, host:port, each with labels after it if it "
             "has some: \"10.0.0.1:9190 zone=a class=gpu\". List them in the same order in all load "
             "balancers, so that placers that hash choose the same runner everywhere.",
      .type = FN_OPT_STRLIST,
      .offset = offsetof(struct conf, runners) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_POOL,
    .name = "static",
    .summary = "A fixed list of runners for every group.",
    .kind_major = FN_POOL_MAJOR,
    .kind_minor = FN_POOL_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(pool_static, "pool-static", &factory)
