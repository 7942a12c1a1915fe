/* What a run is told, and what comes of it: kinds of faults, sizes, counts. */
#ifndef NPM_SIM_CONF_H
#define NPM_SIM_CONF_H

#include <npm/npm.h>

#define MS 1000000LL
#define S NPM_S
#define MIN (60 * S)
#define LBS_MAX 8u
#define POOLS_MAX 4u

/* ---- faults ---------------------------------------------------------------------------------- */

#define FAULTS(X)                                                                                  \
    X(LB_SILENT, "lb-silent", 20, 1000)                                                            \
    X(LB_RESTART, "lb-restart", 20, 500)                                                           \
    X(LB_TWIN, "lb-twin", 20, 500)                                                                 \
    X(LB_GARBAGE, "lb-garbage", 100, 10000)                                                        \
    X(LB_INVENTED, "lb-invented", 20, 2000)                                                        \
    X(NET_DELAY, "net-delay", 1000, 30000)                                                         \
    X(NET_DROP, "net-drop", 1000, 50000)                                                           \
    X(NET_DUPLICATE, "net-duplicate", 1000, 30000)                                                 \
    X(NET_CUT, "net-cut", 50, 2000)                                                                \
    X(CP_DELAY, "cp-delay", 3000, 60000)                                                           \
    X(CP_HANG, "cp-hang", 500, 20000)                                                              \
    X(CP_ERROR, "cp-error", 3000, 100000)                                                          \
    X(CP_PARTIAL, "cp-partial", 20000, 300000)                                                     \
    X(CP_SURPLUS, "cp-surplus", 10000, 200000)                                                     \
    X(CP_LOST, "cp-lost", 20000, 300000)                                                           \
    X(CP_LATE, "cp-late", 10000, 200000)                                                           \
    X(CP_ZOMBIE, "cp-zombie", 20000, 400000)                                                       \
    X(CP_PULL, "cp-pull", 100, 5000)                                                               \
    X(LIST_EMPTY, "list-empty", 100, 5000)                                                         \
    X(LIST_HALF, "list-half", 100, 5000)                                                           \
    X(LIST_STALE, "list-stale", 1000, 20000)                                                       \
    X(LIST_SHUFFLE, "list-shuffle", 1000, 50000)                                                   \
    X(LIST_TWICE, "list-twice", 500, 20000)                                                        \
    X(LIST_BAD, "list-bad", 500, 20000)                                                            \
    X(LIST_STRANGER, "list-stranger", 50, 1000)                                                    \
    X(ID_REUSE, "id-reuse", 50, 2000)                                                              \
    X(ADDRESS_REUSE, "address-reuse", 10000, 100000)                                               \
    X(CAPACITY, "capacity", 20000, 200000)                                                         \
    X(HOST_SLOW_BOOT, "host-slow-boot", 20000, 300000)                                             \
    X(HOST_DEAD_BOOT, "host-dead-boot", 10000, 100000)                                             \
    X(HOST_UNBORN, "host-unborn", 10000, 200000)                                                   \
    X(HOST_STILLBORN, "host-stillborn", 50, 1000)                                                  \
    X(HOST_DIES, "host-dies", 20000, 300000)                                                       \
    X(HOST_BLACKOUT, "host-blackout", 20, 300)                                                     \
    X(HOST_MUTE, "host-mute", 1000, 50000)                                                         \
    X(HOST_STUCK, "host-stuck", 10000, 100000)                                                     \
    X(NPM_CRASH, "npm-crash", 20, 500)                                                             \
    X(NPM_STOP, "npm-stop", 50, 1000)                                                              \
    X(NPM_LATE, "npm-late", 500, 20000)                                                            \
    X(WALL_JUMP, "wall-jump", 50, 3000)                                                            \
    X(OPERATOR, "operator", 100, 3000)

enum fault {
#define X(name, text, rare, heavy) F_##name,
    FAULTS(X)
#undef X
        FAULTS_N
};

/* Chances are per million of the occasions of a fault. */
struct fault_def {
    const char *name;
    uint32_t rare, heavy;
};
extern const struct fault_def fault_defs[FAULTS_N];

/* ---- configuration and result ---------------------------------------------------------------- */

struct conf {
    uint64_t seed;
    int64_t fault_ns;              /* time with faults; the quiet end comes on top */
    uint32_t lbs, runners, groups; /* 0 = by seed */
    bool calm;                     /* no faults at all */
    uint64_t without;              /* fault kinds that never happen, one bit each */
    bool trace;
};

#define SAFETIES_N 18

#define SAFETY(n) (n)
#define LIVENESS(n) (SAFETIES_N + (n))

struct result {
    uint64_t hash;
    uint64_t events, steps;
    int64_t time_ns;
    uint64_t faults[FAULTS_N];
    uint64_t actions[NPM_DO_NOTE + 1];
    uint64_t notes[NPM_NOTES_N];
    uint64_t calls, calls_cut, calls_excused;
    uint64_t crowded;
    int broken; /* SAFETY(n), LIVENESS(n) or 0 */
    int64_t broken_ns;
    char why[200];
};

/* run.c: returns ret->broken. */
int world_run(const struct conf *conf, struct result *ret);

#endif
