/* A predictor that answers with the mean of this demand and the last. Each M(n) makes one
 * mistake of mutants.txt. */
#include <fn/predictor.h>

#include "mutant.h"

struct state {
    uint64_t last_mb;
};

struct predictor {
    uint64_t last_mb;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct predictor *p = calloc(1, sizeof(*p));

    (void)host;
    (void)conf;
    if (!p) {
        return fail(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    *ret_inst = p;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    struct predictor *p = inst;
    struct state *s = state;
    uint64_t last = M(2) ? p->last_mb : s->last_mb;

    if (M(1)) {
        s[1].last_mb = 1;
    }
    if (M(3) && load->wanted_mb / load->runners_ready == 7) {
        return FN_E_INTERNAL;
    }
    p->last_mb = s->last_mb = load->wanted_mb;
    if (M(6) && load->size > sizeof(*load)) {
        return FN_E_INVALID;
    }
    if (!M(5)) {
        *ret_desired_mb = last / 2 + load->wanted_mb / 2;
    }
    return M(4) ? FN_E_UNAVAILABLE : 0;
}

static int containers(void *inst, void *state, const struct fn_traffic *t, uint32_t *ret_n)
{
    struct predictor *p = inst;
    struct state *s = state;
    uint64_t last = M(8) ? p->last_mb : s->last_mb;

    if (M(7)) {
        s[1].last_mb = 1;
    }
    if (M(9) && t->calls / t->containers == 7) {
        return FN_E_INTERNAL;
    }
    p->last_mb = s->last_mb = t->running_max;
    if (M(12) && t->size > sizeof(*t)) {
        return FN_E_INVALID;
    }
    if (!M(11)) {
        *ret_n = (uint32_t)(last / 2 + t->running_max / 2);
    }
    return M(10) ? FN_E_UNAVAILABLE : 0;
}

static const struct fn_predictor_ops ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .state_size = sizeof(struct state),
    .predict = predict,
    .containers = containers,
};

MUTANT_PLUGIN(mutant, FN_KIND_PREDICTOR, PREDICTOR, 0, NULL, NULL, ops)
