/* What the engine and its functions share. */
#ifndef FND_SIM_ENGINE_INT_H
#define FND_SIM_ENGINE_INT_H

#include "world.h"

#define CONTAINER_ID_BYTES 40

enum box_state { BOX_CREATED, BOX_RUNS, BOX_FROZEN, BOX_ENDED, BOX_GONE };

/* A container. */
struct box {
    LIST_ENTRY(box) link;
    struct engine *engine;
    struct runner_node *by; /* whose process made it */
    char id[CONTAINER_ID_BYTES];
    uint64_t handle;
    uint32_t function, version, rules; /* that its task has */
    uint64_t mem_bytes;
    enum box_state state;
    bool started; /* tried to, at least */
    bool lost; /* its runner was told that it could not be created */
    bool exiting;
    int64_t idle_ns; /* since when nobody uses it, and nothing is wrong */
    struct env_timer exit_timer;
    struct fn_exit exit;
};

struct engine {
    struct world *w;
    uint32_t runner;
    struct sim_rng rng;
    LIST_HEAD(, box) boxes;
    int64_t dead_until_ns, hung_until_ns, slow_until_ns;
    uint32_t fail_method, fails;
    int32_t fail_code;
    uint32_t refuse_sockets;
};

/* The driver's instance: one of a process. */
struct engine_driver {
    struct engine *engine;
    struct runner_node *runner;
    const struct fn_host *host;
    const struct fn_driver_if *reports;
};

struct box *box_find(struct engine *e, const struct runner_node *by, const char *id);
/* Its process ends `ns` from now, if it has one. From its runner's node. */
void box_exit(struct box *b, uint32_t reason, int32_t status, int64_t ns);

/* ---- function.c ---------------------------------------------------------------------------- */

void function_begin(struct box *b); /* it runs, and will listen */
void function_end(struct box *b);   /* its process is gone */
bool function_is_used(const struct box *b);

#endif
