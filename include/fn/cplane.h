/* Control plane: rents machines that run runners, for the node pool manager.
 *
 * All calls run on a worker lane, one at a time per instance and group, with a deadline; different
 * groups at the same time. Slow, partial and lying clouds are handled by the host: a plugin reports
 * what it sees and does not retry. A failed or timed-out call says nothing about what happened: the
 * host lists again.
 * Go Fn (2018): poolmanager.ControlPlane. */
#ifndef FN_CPLANE_H
#define FN_CPLANE_H

#include <fn/host.h>
#include <fn/labels.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_CPLANE_MAJOR 1
#define FN_CPLANE_MINOR 1
#define FN_MAGIC_CPLANE       0x464e1501u
#define FN_MAGIC_MACHINE_SINK 0x464e1502u

/* fn_machine.state */
#define FN_MACHINE_STARTING 1u
#define FN_MACHINE_READY    2u
#define FN_MACHINE_GONE     3u

struct fn_machine {
    uint32_t size;
    uint32_t state;       /* FN_MACHINE_* */
    const char *id;       /* the cloud's, stable; 1..255 printable characters */
    const char *address;  /* "host:port" of the runner's gRPC port; NULL while starting */
    uint64_t capacity_mb; /* 0 = unknown, the runner reports it */
    const char *labels;   /* of its runner (labels.h), may change; NULL = none */
};

struct fn_machine_sink {
    struct fn_hdr hdr; /* FN_MAGIC_MACHINE_SINK */
    /* Only inside list(), by its thread. < 0: list() stops and returns that. */
    int (*add)(void *ud, const struct fn_machine *copied);
    void *ud; /* handed to add() */
};

struct fn_cplane_ops {
    struct fn_hdr hdr; /* FN_MAGIC_CPLANE */
    /* [worker] required: all machines of a group, a complete list or an error. The host uses the
     * list only when 0 is returned. */
    int (*list)(void *inst, struct fn_op *, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr);
    /* [worker] required: ask for n machines; *ret_accepted <= n of them will appear in list(), now
     * or later. A repeated request_id buys nothing twice and answers as the first time. */
    int (*provision)(void *inst, struct fn_op *, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr);
    /* [worker] required: idempotent, by identity; "not there" is success. */
    int (*remove)(void *inst, struct fn_op *, const char *group, const char *machine_id,
                  struct fn_error *reterr);
    /* [worker] optional, since 1.1; before each list(). Where two managers could reach the same
     * machines, only the plugin can tell which one acts, by a lock or a lease. 0: this manager
     * does, and keeps the group as long as it asks; 1: another one does, which reterr names, and
     * this one adds and removes nothing. A host before 1.1 does not ask: provision() and remove()
     * refuse by themselves as well, FN_E_PRECONDITION. < 0: it cannot be told; the host goes on as
     * before. */
    int (*claim)(void *inst, struct fn_op *, const char *group, struct fn_error *reterr);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_CPLANE_H */
