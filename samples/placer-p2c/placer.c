/* placer/p2c: the power of two choices. Draws two runners and takes the one with less in flight per
 * unit of weight, which is close to the best choice at the price of two looks (Mitzenmacher
 * 1996). */
#include <fn/placer.h>

#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX

struct conf { /* filled by the host from fn.yaml, see opts[] */
    int64_t tries;
    int64_t retry_delay_ns;
};

struct p2c {
    const struct fn_host *host;
    const struct conf *conf; /* lives as long as the instance */
};

struct session { /* one call's, host memory, zeroed at FN_WHY_START */
    int64_t tries;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct p2c *p = calloc(1, sizeof(*p));

    (void)reterr;
    if (!p) {
        return FN_E_EXHAUSTED;
    }
    p->host = host;
    p->conf = conf;
    *ret_inst = p;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int usable(const struct fn_ask *ask, uint32_t index)
{
    int refused = ask->why == FN_WHY_BUSY || ask->why == FN_WHY_UNREACHABLE;

    return !(fn_snapshot_at(ask->snap, index)->flags & FN_RUNNER_DRAINING) &&
           !(refused && index == ask->last_index);
}

/* The first usable runner from a random place on. */
static uint32_t draw(const struct p2c *p, const struct fn_ask *ask)
{
    uint32_t n = ask->snap->n;
    uint32_t index = (uint32_t)(p->host->rng->u64(p->host) % n);
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (usable(ask, index)) {
            return index;
        }
        index = index + 1 < n ? index + 1 : 0;
    }
    return NONE;
}

static uint32_t less_loaded(const struct fn_ask *ask, uint32_t a, uint32_t b)
{
    uint64_t weight_a = fn_snapshot_at(ask->snap, a)->weight;
    uint64_t weight_b = fn_snapshot_at(ask->snap, b)->weight;

    return ask->inflight[a] * weight_b <= ask->inflight[b] * weight_a ? a : b;
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct p2c *p = inst;
    struct session *s = ask->session;
    uint32_t index = NONE;

    if (ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE) {
        s->tries = 0; /* a new round */
    }
    if (s->tries < p->conf->tries && s->tries < ask->snap->n) {
        index = draw(p, ask);
    }
    if (index == NONE) {
        ret->verdict = FN_WAIT;
        ret->wait_ns = p->conf->retry_delay_ns;
        ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
        return 0;
    }
    s->tries++;
    ret->verdict = FN_TRY;
    ret->index = less_loaded(ask, index, draw(p, ask));
    snprintf(ret->note, sizeof(ret->note), "try %d", (int)s->tries); /* for `fnd why` */
    return 0;
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct session),
    .decide = decide,
};

static const struct fn_opt opts[] = {
    { .key = "tries", .doc = "Number of runners that may refuse a call before it "
                             "waits.", .dflt = "4",
      .min = 1, .max = 100, .type = FN_OPT_INT, .offset = offsetof(struct conf, tries) },
    { .key = "retry_delay", .doc = "Longest wait before a refused call is offered again.",
      .dflt = "100ms", .min = 1000000, .max = 60000000000, .type = FN_OPT_DURATION,
      .offset = offsetof(struct conf, retry_delay_ns) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER, .name = "p2c", .summary = "The less loaded of two drawn runners.",
    .kind_major = FN_PLACER_MAJOR, .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct conf), .opts = opts, .ops = &ops,
    .create = create, .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "placer-p2c", .version = "1.0", .license = "Apache-2.0", .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(placer_p2c, manifest)
