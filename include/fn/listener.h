/* Call listener: told before a call starts and after it ended, at the LB and at the runner.
 * Go Fn: fnext.CallListener. */
#ifndef FN_LISTENER_H
#define FN_LISTENER_H

#include <fn/placer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_LISTENER_MAJOR 1
#define FN_LISTENER_MINOR 1
#define FN_MAGIC_LISTENER 0x464e1301u

/* A call whose client went away is "aborted" on both sides: FN_E_CANCELLED, status 444, blame
 * FN_BLAME_USER. One that its runner lets run to its end all the same ends there as its function
 * did. */
struct fn_call_end {
    uint32_t size;
    int32_t code;           /* 0 or FN_E_* */
    uint32_t http_status;   /* the answer's; 444: nobody was left to get one */
    uint32_t blame;         /* FN_BLAME_* when code < 0 */
    int64_t started_ns;     /* monotonic */
    int64_t ended_ns;
    const char *outcome;    /* "ok", "failed", "not-executed", "unknown", "aborted" */
};

struct fn_listener_ops {
    struct fn_hdr hdr; /* FN_MAGIC_LISTENER */
    /* [loop] optional; in the order of fn.yaml; < 0 refuses the call with *reterr before anything
     * ran, and later listeners are not asked. */
    int (*before)(void *inst, const struct fn_call *call, struct fn_error *reterr);
    /* [loop] optional; exactly once for each call that before() let through, also when a later
     * listener refused it. */
    void (*after)(void *inst, const struct fn_call *call, const struct fn_call_end *end);
    /* Since 1.1. [worker] optional, beside after() or instead of it: for listeners that may be slow.
     * One at a time per instance, in the order in which calls ended, with views that are the
     * listener's until it returns; the call is long over. At most once for each call that before()
     * let through: ends that come while FN_LISTENER_WAITING_* wait are left out and counted, and
     * those that still wait FN_LISTENER_DRAIN_S after a reload or the begin of a shutdown are, too.
     * The deadline of `op` is FN_LISTENER_TIME_S away or little less; what runs at such an end is
     * cancelled. < 0 is counted, and logged with *reterr. */
    int (*after_worker)(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr);
};

#define FN_LISTENER_WAITING_MAX   1024u       /* ends of calls, per instance, */
#define FN_LISTENER_WAITING_BYTES (16u << 20) /* and what they hold together */
#define FN_LISTENER_TIME_S        5
#define FN_LISTENER_DRAIN_S       10

#ifdef __cplusplus
}
#endif
#endif /* FN_LISTENER_H */
