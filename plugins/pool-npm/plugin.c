/* pool/npm: runners as the node pool manager says. Go Fn: the gRPC node pool of 2018 (api/agent/
 * nodepool/grpc), without its defects. */
#include "address.h"
#include "link.h"
#include "shipped.h"
#include "stopping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool {
    struct link link;
    struct stopping stopping;
};

static void fail(void *ud, struct group *g, int32_t code, const char *text)
{
    struct pool *p = ud;
    struct fn_error why = { .size = sizeof(why), .code = code };

    strncpy(why.msg, text ? text : "the node pool manager is away", sizeof(why.msg) - 1);
    p->link.intake.snap->fail(p->link.host, g->name, &why);
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const char *address = ((const struct link_conf *)conf)->address;
    const char *fault = address_fault(address);
    struct pool *p;

    if (fault) {
        if (reterr) {
            reterr->code = FN_E_INVALID;
            snprintf(reterr->msg, sizeof(reterr->msg), "address, got \"%.100s\"; expected %s",
                     address, fault);
        }
        return FN_E_INVALID;
    }
    p = calloc(1, sizeof(*p));
    if (!p) {
        return FN_E_EXHAUSTED;
    }
    p->link = (struct link){ .host = host,
                             .rpc = host->get(host, "fn.rpc", 1),
                             .conf = conf,
                             .intake = { .host = host, .snap = host->get(host, "fn.snap", 1) },
                             .failed = fail,
                             .ud = p };
    *ret_inst = p;
    return 0;
}

static void destroy(void *inst)
{
    struct pool *p = inst;

    if (p) {
        intake_finish(&p->link.intake);
        groups_finish(&p->link.groups);
        free(p);
    }
}

static int start(void *inst, struct fn_error *reterr)
{
    return link_open(&((struct pool *)inst)->link, reterr);
}

static int want(void *inst, const char *group, const struct fn_demand *demand)
{
    struct fn_demand d = { 0 };

    memcpy(&d, demand, demand->size < sizeof(d) ? demand->size : sizeof(d));
    link_want(&((struct pool *)inst)->link, group, &d);
    return 0;
}

static void stop(void *inst, void (*done)(void *ud), void *ud)
{
    struct pool *p = inst;

    link_close(&p->link);
    stopping_begin(&p->stopping, p->link.host, done, ud);
}

static const struct fn_pool_ops ops = {
    .hdr = FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
    .start = start,
    .want = want,
    .stop = stop,
};

static const struct fn_need needs[] = {
    {.iface = "fn.snap", .major = 1, .minor_min = 0},
    {.iface = "fn.rpc", .major = 1, .minor_min = 0},
    {.iface = NULL},
};

#define MS 1000000LL
#define MIN (60000 * MS)

static const struct fn_opt opts[] = {
    {.key = "address",
     .doc = "gRPC port of the node pool manager, host:port.",
     .min = 1,
     .max = 255,
     .type = FN_OPT_STR,
     .offset = offsetof(struct link_conf, address)},
    {.key = "lb_id",
     .doc = "Name of this load balancer at the manager; no other load balancer may have it, and "
            "with TLS it must be the name in its certificate. When absent: a new random name at "
            "each start.",
     .min = 1,
     .max = LINK_ID_MAX,
     .type = FN_OPT_STR,
     .offset = offsetof(struct link_conf, lb_id),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = "tls",
     .doc = "Name of the entry of `tls:` for the connection to the manager. When absent: that of "
            "the other gRPC connections.",
     .min = 1,
     .max = 64,
     .type = FN_OPT_STR,
     .offset = offsetof(struct link_conf, tls),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = "protocol",
     .doc = "Protocol to the manager: fnd = fnd.Pool, historic = that of Fn's manager of 2018, "
            "auto = fnd.Pool, and the historic one if the manager does not know it.",
     .dflt = "auto",
     .choices = "auto|fnd|historic",
     .type = FN_OPT_CHOICE,
     .offset = offsetof(struct link_conf, protocol)},
    {.key = "interval",
     .doc = "Time between two reports of demand to the manager. Keep it well below npm.demand_life "
            "of the manager.",
     .dflt = "1s",
     .min = 10 * MS,
     .max = MIN,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct link_conf, interval_ns)},
    {.key = "poll",
     .doc = "Time between two requests for a group's list of runners. Only with the historic "
            "protocol; otherwise the manager sends each change at once.",
     .dflt = "500ms",
     .min = 10 * MS,
     .max = MIN,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct link_conf, poll_ns)},
    {.key = "timeout",
     .doc = "Time for one request to the manager; then the list of runners that is known stays in "
            "use. Go Fn has no limit.",
     .dflt = "2s",
     .min = 10 * MS,
     .max = MIN,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct link_conf, timeout_ns)},
    {.key = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_POOL,
    .name = "npm",
    .summary = "Runners of each group as the node pool manager provides them.",
    .kind_major = FN_POOL_MAJOR,
    .kind_minor = FN_POOL_MINOR,
    .conf_size = sizeof(struct link_conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(pool_npm, "pool-npm", &factory)
