/* Predictor: turns measured demand of an LB group into the capacity that should exist.
 * Go Fn (2018): the capacity predictor of the node pool manager. */
#ifndef FN_PREDICTOR_H
#define FN_PREDICTOR_H

#include <fn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_PREDICTOR_MAJOR 1
#define FN_PREDICTOR_MINOR 0
#define FN_MAGIC_PREDICTOR 0x464e1601u

#define FN_PREDICTOR_STATE_MAX 4096u

struct fn_load {
    uint32_t size;
    uint32_t runners_ready;
    int64_t now_ns;
    uint64_t wanted_mb;   /* demand of all LBs of the group */
    uint64_t waiting;     /* calls without a runner */
    uint64_t capacity_mb; /* of ready runners */
};

struct fn_predictor_ops {
    struct fn_hdr hdr;   /* FN_MAGIC_PREDICTOR */
    uint32_t state_size; /* per group, host memory, aligned to 16, zeroed; <= ..._STATE_MAX */
    uint32_t reserved0;
    /* [loop] required, pure but for *state. On failure the group gets what is wanted now. */
    int (*predict)(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_PREDICTOR_H */
