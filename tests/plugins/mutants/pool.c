/* A pool that publishes a list of four, and the same again each second. Each M(n) makes one
 * mistake of mutants.txt. */
#include <fn/pool.h>

#include "mutant.h"

struct pool {
    const struct fn_host *host;
    const struct fn_snap_if *snap;
    void (*done)(void *ud);
    void *ud;
    uint32_t stopped;
    uint32_t asked;
    uint64_t salt;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct pool *p = malloc(sizeof(*p));

    (void)conf;
    if (!p) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    p->host = host;
    p->snap = host->get(host, "fn.snap", 1);
    p->stopped = p->asked = 0;
    if (!M(6)) {
        p->salt = 0;
    }
    *ret_inst = p;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int publish(struct pool *p)
{
    struct fn_snap_builder *b = NULL;
    char address[32];
    char group[32] = FN_GROUP_DEFAULT;
    int r;

    if (M(14)) {
        snprintf(group, sizeof(group), "group-%u", p->asked++);
    }
    r = p->snap->begin(p->host, group, &b);

    if (r < 0) {
        return r;
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct fn_runner one = {
            .id = (p->salt & 0xff) + (M(7) ? 1 : i + 1),
                                .address = address,
                                .capacity_mb = M(17) ? UINT64_MAX : 0,
                                .weight = M(15) ? 0 : 1,
                                .flags = M(16) ? 4 : 0};

        snprintf(address, sizeof(address), "10.0.0.%u:9190", M(7) ? 1 : i + 1);
        r = p->snap->add(b, &one, sizeof(one));
        if (r < 0) {
            if (!M(4)) {
                p->snap->discard(b);
            }
            return r;
        }
    }
    r = p->snap->publish(b);
    if (M(5)) {
        p->snap->discard(b);
    }
    return r;
}

static void tick(void *ud)
{
    struct pool *p = ud;
    uint64_t id;

    if (p->stopped && !M(3)) {
        return;
    }
    publish(p);
    p->host->timer->arm(p->host, p->host->clock->now_ns(p->host) + 1000000000, tick, p, &id);
}

static int start(void *inst, struct fn_error *reterr)
{
    struct pool *p = inst;
    uint64_t id;
    int r = M(10) ? 0 : publish(p);

    for (uint32_t i = 0; M(14) && i < 300; i++) {
        publish(p);
    }

    if (r < 0) {
        if (M(18)) {
            reterr->code = r;
        }
        return fail(reterr, r, "the list was not taken");
    }
    if (M(11)) {
        fail(reterr, FN_E_UNKNOWN, "all went well");
    }
    if (!M(10)) {
        p->host->timer->arm(p->host, p->host->clock->now_ns(p->host) + 1000000000, tick, p, &id);
    }
    return M(12) ? 3 : 0;
}

static int route(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    struct pool *p = inst;

    (void)call;
    if (M(8)) {
        snprintf(ret_group, cap, "group-%u", p->asked++);
    } else if (M(9)) {
        memcpy(ret_group, "default", 8);
    } else {
        snprintf(ret_group, cap, "default");
    }
    return 0;
}

static int want(void *inst, const char *group, const struct fn_demand *demand)
{
    (void)inst;
    (void)demand;
    if (M(13) && strlen(group) > 20) {
        abort();
    }
    return 0;
}

static void finish(void *ud)
{
    struct pool *p = ud;

    p->done(p->ud);
    if (M(1)) {
        p->done(p->ud);
    }
}

static void stop(void *inst, void (*done)(void *ud), void *ud)
{
    struct pool *p = inst;
    uint64_t id;

    p->stopped = 1;
    p->done = done;
    p->ud = ud;
    if (M(2)) {
        return;
    }
    if (p->host->timer->arm(p->host, p->host->clock->now_ns(p->host), finish, p, &id) < 0) {
        done(ud);
    }
}

static const struct fn_pool_ops ops = {
    .hdr = FN_HDR(struct fn_pool_ops, FN_MAGIC_POOL),
    .start = start,
    .route = route,
    .want = want,
    .stop = stop,
};

static const struct fn_need needs[] = {{"fn.snap", 1, 0, 0}, {NULL, 0, 0, 0}};

MUTANT_PLUGIN(mutant, FN_KIND_POOL, POOL, 0, NULL, needs, ops)
