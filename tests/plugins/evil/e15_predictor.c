/* E15: predict() wants more than there is, a negative number, and answers what is no result. */
#define EVIL_NAME "e15"
#include "factory.h"
#include "turns.h"

#include <fn/predictor.h>

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    (void)state;
    switch (evil_turn(inst, 0)) {
    case 0:
        *ret_desired_mb = UINT64_MAX;
        return 0;
    case 1:
        *ret_desired_mb = (uint64_t)INT64_MIN;
        return 0;
    case 2:
        *ret_desired_mb = 1 << 20;
        return 4;
    case 3:
        *ret_desired_mb = 1 << 20;
        return -4711;
    default:
        *ret_desired_mb = load->wanted_mb;
        return 0;
    }
}

static const struct fn_predictor_ops ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR), .predict = predict
};
EVIL_FACTORY(evil, FN_KIND_PREDICTOR, FN_PREDICTOR, NULL, &ops, evil_turns_create, free);

#define EVIL_FACTORIES &evil
#include "file.h"
