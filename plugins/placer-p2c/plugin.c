/* placer/p2c. */
#include "decide.h"
#include "shipped.h"

#include <stdlib.h>
#include <string.h>

struct p2c {
    const struct fn_host *host;
    struct p2c_options options;
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
    memcpy(&p->options, conf, sizeof(p->options));
    *ret_inst = p;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static uint64_t draw(void *ud)
{
    const struct fn_host *host = ud;

    return host->rng->u64(host);
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct p2c *p = inst;
    const struct p2c_chance chance = { draw, (void *)(uintptr_t)p->host };

    p2c_decide(ask->session, ask, &p->options, &chance, ret);
    return 0;
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct p2c_session),
    .decide = decide,
};

static const struct fn_opt opts[] = {
    { .key = "retry_delay",
      .doc = "Time after which a call that was refused is offered again, if no capacity was freed "
             "before.",
      .dflt = "100ms",
      .min = 1000000,
      .max = 60000000000,
      .type = FN_OPT_DURATION,
      .offset = offsetof(struct p2c_options, retry_delay_ns) },
    { .key = "tries",
      .doc = "Runners that may refuse a call before it waits.",
      .dflt = "16",
      .min = 1,
      .max = TRIES_MAX,
      .type = FN_OPT_INT,
      .offset = offsetof(struct p2c_options, tries) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "p2c",
    .summary = "Draws two runners and takes the one with fewer calls per unit of weight.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct p2c_options),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_p2c, "placer-p2c", &factory)
