/* placer/p2c. */
#include "decide.h"
#include "placer.h"
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

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct p2c *p = inst;
    const struct p2c_chance chance = { placer_draw, (void *)(uintptr_t)p->host };

    p2c_decide(ask->session, ask, &p->options, &chance, ret);
    return 0;
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = sizeof(struct p2c_session),
    .decide = decide,
};

static const struct fn_opt opts[] = {
    PLACER_OPT_RETRY_DELAY(struct p2c_options, "was refused"),
    PLACER_OPT_TRIES(struct p2c_options, 1),
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
