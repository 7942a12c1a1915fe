/* Plan: what a seed says of a world before anything runs, its size, requests and faults. */
#ifndef FND_SIM_PLAN_H
#define FND_SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUNCTIONS_MAX 8u

/* Its name, what it happens to (faults.c), and what people read. */
#define PLAN_KINDS(X)                                                                              \
    X(REQUEST, lb, "request")                                                                      \
    X(LB_KILL, lb, "lb-kill") /* the process dies, and starts again `ns` later */                  \
    X(RUNNER_KILL, runner, "runner-kill")                                                          \
    X(LB_STOP, lb, "lb-stop") /* drained, ends when it is, and starts again */                     \
    X(RUNNER_STOP, runner, "runner-stop")                                                          \
    X(RELOAD, lb, "reload") /* a load balancer gets another placer, pool and options */            \
    X(CLOCK_LB, lb, "lb-clock") /* its wall clock is set, up to days to either side */             \
    X(CLOCK_RUNNER, runner, "runner-clock")                                                        \
    X(FREEZE_LB, lb, "lb-freeze") /* stopped for `ns` (SIGSTOP, a slow machine) */                 \
    X(FREEZE_RUNNER, runner, "runner-freeze")                                                      \
    X(BREAK, net, "break") /* a connection breaks after `n` more frames */                         \
    X(PART_TO, net, "cut-to-runner") /* nothing reaches the runner for `ns` */                     \
    X(PART_FROM, net, "cut-from-runner") /* nothing comes back for `ns` */                         \
    X(PART, net, "cut") /* both */                                                                 \
    X(VOID, net, "half-open") /* a connection whose packets vanish, for ever */                    \
    X(SLOW_NET, net, "slow-net") /* `ns` of delay on top, for a second */                          \
    X(REFUSE, net, "refuse-streams") /* a runner's transport refuses `n` streams */                \
    X(ENGINE_DEAD, engine, "engine-dead") /* for `ns` */                                           \
    X(ENGINE_HANGS, engine, "engine-hangs")                                                        \
    X(ENGINE_SLOW, engine, "engine-slow")                                                          \
    X(ENGINE_FAILS, engine, "engine-fails") /* the next `n` calls of a method */                   \
    X(EXIT, engine, "container-exit") /* of any container that runs */                             \
    X(SOCKETS_GONE, engine, "socket-refuses") /* the next `n` connections to functions */          \
    X(NPM_KILL, pool, "npm-kill") /* these in managed worlds only */                               \
    X(NPM_FREEZE, pool, "npm-freeze")                                                              \
    X(NPM_CUT, pool, "cut-from-npm") /* a load balancer */                                         \
    X(CLOUD_FAILS, pool, "cloud-fails") /* the next `n` calls */                                   \
    X(CLOUD_HANGS, pool, "cloud-hangs")                                                            \
    X(MACHINE_LOST, pool, "machine-lost")                                                          \
    X(ASK_TO, asks, "cut-npm-to-runner") /* for `ns`, as the three below */                        \
    X(ASK_FROM, asks, "cut-runner-to-npm")                                                         \
    X(ASK_CUT, asks, "cut-npm-runner")                                                             \
    X(ASK_SLOW, asks, "slow-npm-runner")                                                           \
    X(ASK_BREAK, asks, "break-npm-runner") /* the next connection, behind 20 * `n` bytes */        \
    X(ASK_VOID, asks, "half-open-npm-runner")                                                      \
    X(STATUS_HANGS, asks, "status-hangs") /* for `ns` */                                           \
    X(API_KILL, api, "api-kill") /* these in worlds with an API node only */                       \
    X(API_FREEZE, api, "api-freeze")                                                               \
    X(API_CUT, api, "cut-from-api") /* a load balancer, or who deploys */                          \
    X(API_SLOW, api, "slow-api")                                                                   \
    X(API_LOSES, api, "api-loses") /* the next `n` / 8 answers */                                  \
    X(DEPLOY, api, "deploy") /* a new version of a function, or its end */                         \
    X(MEMORY_LB, lb, "lb-memory") /* for `ns` its allocations fail now and then; in poor worlds */ \
    X(MEMORY_RUNNER, runner, "runner-memory")                                                      \
    X(MEMORY_NPM, pool, "npm-memory")

enum plan_kind {
#define X(name, whom, text) PLAN_##name,
    PLAN_KINDS(X)
#undef X
        PLAN_KINDS_N
};

struct plan_event {
    int64_t at_ns; /* from the begin of the world */
    enum plan_kind kind;
    uint32_t lb, runner, function;
    uint32_t n;
    int64_t ns;
    uint64_t chance; /* of what is drawn when it happens */
};

/* What a world is made of. */
enum plan_mode {
    PLAN_DRAWN,
    PLAN_POOR, /* memory runs out in any case */
    PLAN_BYTE, /* one request, and one fault at one byte of its way */
    PLAN_LONG, /* the same day again and again, with nights in which all rests */
};

/* Of PLAN_BYTE: the seed counts bytes, and of each byte the courses and faults. */
enum plan_way {
    PLAN_TO_LB,
    PLAN_TO_CLIENT,
    PLAN_TO_RUNNER,
    PLAN_FROM_RUNNER,
    PLAN_TO_NPM, /* from its load balancer */
    PLAN_FROM_NPM,
};
enum plan_speech {
    PLAN_PLAIN, /* clients speak HTTP/1.1 */
    PLAN_TLS_H1,
    PLAN_TLS_H2,
};
enum plan_break {
    PLAN_RESET,
    PLAN_VANISH, /* it and all behind it: half-open */
    PLAN_END,    /* somebody between the two closes */
    PLAN_STALL,  /* it and all behind it come late */
    PLAN_BREAKS_N
};
struct plan_byte {
    uint64_t at; /* the first one that does not come as it should */
    enum plan_way way;
    enum plan_break how;
    enum plan_speech speech;
};
#define PLAN_COURSES_N 12u
#define PLAN_OF_BYTE   (PLAN_COURSES_N * PLAN_BREAKS_N) /* worlds */

struct plan_function {
    uint64_t mem_mb;
    int32_t timeout_s, idle_timeout_s;
    uint32_t app;
};

struct plan {
    uint64_t seed;
    bool slow; /* it takes hours, and rests most of the time */
    bool poor; /* memory runs out */
    bool managed; /* a node pool manager rents the runners; at most `runners` */
    bool api; /* functions are those of an API node */
    bool ruled; /* load balancers have an overrider */
    const struct plan_byte *byte; /* NULL: faults are events */
    struct plan_byte byte_there;
    uint32_t lbs, runners, functions;
    struct plan_function function[FUNCTIONS_MAX];
    int32_t timeout_max_s; /* of a function */
    const char *placer;
    uint64_t runner_mem_mb;
    int64_t latency_ns, jitter_ns;
    uint32_t socket_bytes; /* that a connection takes before they have arrived */
    uint32_t streams_max;  /* of a connection */
    uint32_t window_bytes; /* of an answer that may be on its way */
    uint32_t response_buffer_bytes;
    int64_t placement_timeout_ns;
    bool detached;
    bool nasty; /* timers and lanes are as bad as the contract allows */
    int64_t slow_ns, fast_ns, boot_ns; /* of the engine, and of functions until they listen */
    int64_t length_ns; /* of the time with requests and faults */
    uint32_t days;     /* how often there is such a time */
    struct plan_event *events; /* by time */
    uint32_t n_events;
};

const char *plan_placer(uint32_t i); /* NULL: there are no more */
bool plan_is_poor(uint64_t seed);
void plan_draw(struct plan *p, uint64_t seed, enum plan_mode mode); /* p stays where it is */
enum plan_mode plan_mode_of(const struct plan *p); /* one that draws the same */
void plan_free(struct plan *p);
void plan_tell_event(const struct plan *p, uint32_t i, char *ret, size_t cap);

#endif
