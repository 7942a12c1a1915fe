/* A placer that reaches for the outside, or whose answers depend on what no host gave it. -DDO says
 * what and -DWHERE where; without both it always names the first runner. */
#include <fn/placer.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CREATE  1
#define DECIDE  2
#define OBSERVE 3
#define TIMER   4

#ifndef WHERE
#define WHERE 0
#endif
#ifndef DO
#define DO 0
#endif
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef BEYOND
#define BEYOND 0
#endif
#ifndef AGAIN
#define AGAIN 0
#endif
#ifndef WAIT_NS
#define WAIT_NS 0
#endif
#ifndef INDEX
#define INDEX 0
#endif

struct outside {
    const struct fn_host *host;
    uint32_t calls;
    uint32_t *scratch;
};

static inline int spin(void)
{
    for (volatile int go = 1; go;) {
    }
    return 0;
}

/* A tail call: the C library sees the host as its caller. */
static __attribute__((noinline)) int leave_by_jump(void)
{
    return (int)(DO);
}

static void on_timer(void *ud)
{
    const struct outside *o = ud;
    uint64_t id;

    if (WHERE == TIMER) {
        leave_by_jump();
    }
    if (AGAIN) {
        o->host->timer->arm(o->host, o->host->clock->now_ns(o->host), on_timer, ud, &id);
    }
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct outside *o = malloc(sizeof(*o));
    uint64_t id;

    (void)conf;
    (void)reterr;
    o->host = host;
    o->calls = 0;
    o->scratch = malloc(64 * sizeof(*o->scratch));
    host->timer->arm(host, host->clock->now_ns(host) + 1000000, on_timer, o, &id);
    *ret_inst = o;
    if (WHERE == CREATE) {
        leave_by_jump();
    }
    return 0;
}

static void destroy(void *inst)
{
    struct outside *o = inst;

    if (o) {
        free(o->scratch);
        free(o);
    }
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct outside *o = inst;

    o->calls++;
    (void)o;
    if (ask->snap->n == 0 || ask->why != FN_WHY_START) {
        ret->verdict = FN_WAIT;
        ret->wait_ns = WAIT_NS;
        ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
        return 0;
    }
    ret->verdict = FN_TRY;
    ret->index = BEYOND ? ask->snap->n : (uint32_t)(INDEX) % ask->snap->n;
    if (WHERE == DECIDE) {
        return leave_by_jump();
    }
    return 0;
}

static void observe(void *inst, const struct fn_placed *what)
{
    (void)inst;
    (void)what;
    if (WHERE == OBSERVE) {
        leave_by_jump();
    }
}

static const struct fn_placer_ops ops = { .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
                                          .decide = decide,
                                          .observe = observe };

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "outside",
    .summary = "Reaches for the outside.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .flags = FLAGS,
    .name = "outside",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(outside, manifest)
