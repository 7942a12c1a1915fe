/* Call listener: told before a call starts and after it ended, at the LB and at the runner.
 * Go Fn: fnext.CallListener. */
#ifndef FN_LISTENER_H
#define FN_LISTENER_H

#include <fn/placer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_LISTENER_MAJOR 1
#define FN_LISTENER_MINOR 0
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
};

#ifdef __cplusplus
}
#endif
#endif /* FN_LISTENER_H */
