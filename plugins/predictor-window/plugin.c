/* predictor/window: see window.h. */
#include "shipped.h"
#include "window.h"

#include <stdlib.h>

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct window_conf *copy = malloc(sizeof(*copy));

    (void)host;
    (void)reterr;
    if (!copy) {
        return FN_E_EXHAUSTED;
    }
    *copy = *(const struct window_conf *)conf;
    *ret_inst = copy;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    *ret_desired_mb = window_predict(inst, state, load);
    return 0;
}

static const struct fn_predictor_ops ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .state_size = sizeof(struct window_state),
    .predict = predict,
};

#define S 1000000000LL

static const struct fn_opt opts[] = {
    {.key = "stable",
     .doc = "Time over which demand is averaged, in whole seconds. A longer one reacts more slowly "
            "to peaks.",
     .dflt = "60s",
     .min = S,
     .max = WINDOW_SECONDS_MAX * S,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct window_conf, stable_ns)},
    {.key = "panic_window",
     .doc = "Length of the short window, in percent of the stable one. It decides while demand "
            "outruns capacity (panic mode).",
     .dflt = "10",
     .min = 1,
     .max = 100,
     .type = FN_OPT_INT,
     .offset = offsetof(struct window_conf, panic_percent)},
    {.key = "panic_threshold",
     .doc = "Demand in the short window, in percent of ready capacity, from which panic mode "
            "begins.",
     .dflt = "200",
     .min = 100,
     .max = 1000,
     .type = FN_OPT_INT,
     .offset = offsetof(struct window_conf, threshold_percent)},
    {.key = "utilisation",
     .doc = "Target utilisation of the runners, in percent.",
     .dflt = "80",
     .min = 1,
     .max = 100,
     .type = FN_OPT_INT,
     .offset = offsetof(struct window_conf, utilisation_percent)},
    {.key = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PREDICTOR,
    .name = "window",
    .summary = "Averages over a stable window, and over a short one when demand outruns capacity.",
    .kind_major = FN_PREDICTOR_MAJOR,
    .kind_minor = FN_PREDICTOR_MINOR,
    .conf_size = sizeof(struct window_conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(predictor_window, "predictor-window", &factory)
