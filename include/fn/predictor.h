/* Predictor: turns measured demand into what should exist: at a node pool manager the capacity of an
 * LB group, since 1.1 at a runner the containers of a function.
 * Go Fn (2018): the capacity predictor of the node pool manager. */
#ifndef FN_PREDICTOR_H
#define FN_PREDICTOR_H

#include <fn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_PREDICTOR_MAJOR 1
#define FN_PREDICTOR_MINOR 1
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

/* Since 1.1: what came for one function at a runner since the question before. */
struct fn_traffic {
    uint32_t size;
    uint32_t containers;  /* that are ready now: they run a call, are idle or frozen */
    uint32_t starting;
    uint32_t kept;        /* the answer before, as it is in force */
    uint32_t kept_max;    /* more are not kept: runner.warm_max */
    uint32_t running_max; /* most calls at once, those that waited for a container included */
    int64_t now_ns;
    int64_t interval_ns;  /* since the question before; 0: there was none */
    int64_t idle_ns;      /* since the last call came */
    int64_t start_ns;     /* what a start takes of late, to the function's socket; 0 = not known */
    uint64_t calls;       /* that came */
    uint64_t missed;      /* calls whose wait for a start is over; they may have come earlier */
    uint64_t hits;        /* calls that got a container which was only there to be ready */
    uint64_t mem_mb;      /* of one container */
    const char *app_id;   /* texts are borrowed; "" = not known */
    const char *fn_id;
    const char *image;
};

struct fn_predictor_ops {
    struct fn_hdr hdr;   /* FN_MAGIC_PREDICTOR */
    /* Per group, or function: host memory, aligned to 16, zeroed; <= ..._STATE_MAX. */
    uint32_t state_size;
    uint32_t reserved0;
    /* [loop] required, pure but for *state. On failure the group gets what is wanted now. */
    int (*predict)(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb);
    /* Since 1.1. [loop] optional, pure but for *state: how many containers of a function a runner
     * should have, those that run calls included. Fewer than there are: idle ones may go after their
     * idle timeout. More: they are started, as far as memory is free. More than kept_max is
     * kept_max. Asked about each function that was called lately, once a second or less often. On
     * failure the number stays. */
    int (*containers)(void *inst, void *state, const struct fn_traffic *traffic, uint32_t *ret_n);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_PREDICTOR_H */
