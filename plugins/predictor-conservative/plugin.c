/* predictor/conservative: as much as is wanted now, and a share of spare. With spare 0 it is the
 * predictor of Fn's manager of 2018. */
#include "shipped.h"

#include <fn/predictor.h>
#include <stdlib.h>

struct conf {
    int64_t spare_percent;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct conf *copy = malloc(sizeof(*copy));

    (void)host;
    (void)reterr;
    if (!copy) {
        return FN_E_EXHAUSTED;
    }
    *copy = *(const struct conf *)conf;
    *ret_inst = copy;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    const struct conf *c = inst;
    uint64_t percent = (uint64_t)c->spare_percent;

    (void)state;
    *ret_desired_mb =
        load->wanted_mb + load->wanted_mb / 100 * percent + load->wanted_mb % 100 * percent / 100;
    return 0;
}

static const struct fn_predictor_ops ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .predict = predict,
};

static const struct fn_opt opts[] = {
    {.key = "spare",
     .doc = "Capacity to keep beyond the demand, in percent of it, so that new calls find a runner "
            "at once. Go Fn: 0.",
     .dflt = "0",
     .max = 1000,
     .type = FN_OPT_INT,
     .offset = offsetof(struct conf, spare_percent)},
    {.key = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PREDICTOR,
    .name = "conservative",
    .summary = "As much capacity as is wanted now.",
    .kind_major = FN_PREDICTOR_MAJOR,
    .kind_minor = FN_PREDICTOR_MINOR,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(predictor_conservative, "predictor-conservative", &factory)
