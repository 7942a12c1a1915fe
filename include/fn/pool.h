/* Runner pool: publishes who exists.
 *
 * Push, not pull: a pool publishes immutable, counted, ordered snapshots through "fn.snap"; nothing
 * of it stands on the way of a call. The host owns connections, keyed by (id, address). A pool that
 * fails keeps its last good list. Go Fn: api/runnerpool.RunnerPool. */
#ifndef FN_POOL_H
#define FN_POOL_H

#include <fn/placer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_POOL_MAJOR 1
#define FN_POOL_MINOR 0
#define FN_MAGIC_POOL 0x464e1101u
#define FN_MAGIC_SNAP 0x464e1102u

#define FN_GROUP_DEFAULT  "default"
#define FN_GROUP_NAME_MAX 64u

struct fn_snap_builder; /* host-owned; used by one thread at a time */

/* What the calls of a group need right now. */
struct fn_demand {
    uint32_t size;
    uint32_t reserved0;
    uint64_t mem_mb;  /* wanted by placed and waiting calls */
    uint64_t waiting; /* parked calls */
    uint64_t running; /* placed calls */
};

/* "fn.snap", for pools; all [any], callbacks of streams and processes included. publish() and
 * fail() may wait for the loop: see Re-entrancy in abi.h for locks. */
struct fn_snap_if {
    struct fn_hdr hdr; /* FN_MAGIC_SNAP */
    /* group: 1 to FN_GROUP_NAME_MAX bytes. FN_E_PRECONDITION for an instance that is no pool. */
    int (*begin)(const struct fn_host *, const char *group, struct fn_snap_builder **ret_given);
    /* size: sizeof(struct fn_runner) as the plugin knows it. On failure the builder is as before.
     * id and address together name a runner: no two entries have the same. A list has at most
     * 65 536 of them: the next one is FN_E_EXHAUSTED and counted as a bad answer. */
    int (*add)(struct fn_snap_builder *, const struct fn_runner *copied, uint32_t size);
    /* One swap, epoch + 1. The builder is gone, also on failure; then the old list stays. */
    int (*publish)(struct fn_snap_builder *given);
    void (*discard)(struct fn_snap_builder *given); /* NULL is accepted */
    /* The last good list stays and is marked FN_SNAP_STALE. */
    int (*fail)(const struct fn_host *, const char *group, const struct fn_error *why);
};

struct fn_pool_ops {
    struct fn_hdr hdr; /* FN_MAGIC_POOL */
    /* [loop] required; begin watching. Once, before the other slots; a failure ends the node's
     * start. */
    int (*start)(void *inst, struct fn_error *reterr);
    /* [loop] optional, pure: names the group of a call, NUL-terminated, in cap bytes; absent =
     * call->lb_group. A failure ends the call. At most 512 groups are in use at a time, 256 of them
     * without runners; one that nobody uses is forgotten. */
    int (*route)(void *inst, const struct fn_call *call, char *ret_group, size_t cap);
    /* [loop] optional: at first use of a group, then each second. The host goes on whatever it says. */
    int (*want)(void *inst, const char *group, const struct fn_demand *demand);
    /* [loop] required, once: calls done(ud) exactly once, [loop], better from a timer than from
     * inside; publishes nothing after it. */
    void (*stop)(void *inst, void (*done)(void *ud), void *ud);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_POOL_H */
