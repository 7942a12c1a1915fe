/* Listener: told before a call starts and after it ended, at the LB and at the runner, and since 1.1
 * before and after a change of apps, functions and triggers, at a node with the API.
 * Go Fn: fnext.CallListener, AppListener, FnListener, TriggerListener. */
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
    /* Monotonic. Of a load balancer: when the call came, so what follows is all that its client
     * waited for. Of a runner: when it first got a container; what it waited before is not in it. */
    int64_t started_ns;
    int64_t ended_ns;
    const char *outcome;    /* "ok", "failed", "not-executed", "unknown", "aborted" */
};

/* What kinds of things there are, and what can be done with them. */
#define FN_CHANGE_APP      1u
#define FN_CHANGE_FUNCTION 2u
#define FN_CHANGE_TRIGGER  3u
#define FN_CHANGE_CREATE   1u
#define FN_CHANGE_UPDATE   2u
#define FN_CHANGE_DELETE   3u

/* Since 1.1: a change that a client of the API wants made, or that is made. Texts are "" where they
 * are not known. */
struct fn_change {
    uint32_t size;
    uint32_t kind;          /* FN_CHANGE_APP ... */
    uint32_t verb;          /* FN_CHANGE_CREATE ... */
    uint32_t json_len;      /* without the 0 behind it */
    const char *id;         /* of one that is to be created, too */
    const char *name;       /* before an update: if the request has it; of a delete: not known */
    const char *app_id;     /* of an app its own id; else of a create, and after an update */
    const char *app_name;   /* of an app its name; of a trigger after a create or an update */
    /* NULL of a delete. Before a create the object as it would be, before an update the body of the
     * request: what it leaves out stays. After both the object as it is. */
    const char *json;
    const char *who;        /* name of the client's token */
    const char *request_id; /* Fn-Request-Id */
};

struct fn_listener_ops {
    struct fn_hdr hdr; /* FN_MAGIC_LISTENER */
    /* [loop] optional; in the order of fn.yaml; < 0 refuses the call with *reterr before anything
     * ran, and later listeners are not asked. */
    int (*before)(void *inst, const struct fn_call *call, struct fn_error *reterr);
    /* [loop] optional; exactly once for each call that before() let through, also when a later
     * listener refused it; not while a listener without before() rests, which was slow
     * (plugin-faults.md). */
    void (*after)(void *inst, const struct fn_call *call, const struct fn_call_end *end);
    /* Since 1.1. [worker] optional, beside after() or instead of it: for listeners that may be slow.
     * One at a time per instance, in the order in which calls ended, with views that are the
     * listener's until it returns; the call is long over. At most once for each call that before()
     * let through: ends that come while FN_LISTENER_WAITING_* wait are left out and counted, and
     * those that still wait FN_LISTENER_DRAIN_S after a reload that replaced the instance, or after
     * the begin of a shutdown, are, too. A listener that has this and no before_change() or
     * after_change() keeps its instance over a reload that changes neither its file nor its options.
     * The deadline of `op` is FN_LISTENER_TIME_S away or little less; what runs at such an end is
     * cancelled. < 0 is counted, and logged with *reterr. */
    int (*after_worker)(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr);
    /* Since 1.1. [worker] optional, at a node with the API; in the order of fn.yaml. < 0 refuses the
     * change: nothing is made, later listeners are not asked, and the client gets *reterr, with its
     * http_status if that is 400 to 599, else 403. The deadline of `op` is at most FN_CHANGE_TIME_S
     * away, which all listeners of a change share, with the time that it waited; an answer behind it
     * counts as a refusal with 503. Nothing is held meanwhile: other changes may come in between,
     * and the change may still fail. */
    int (*before_change)(void *inst, struct fn_op *op, const struct fn_change *borrowed,
                         struct fn_error *reterr);
    /* Since 1.1. [worker] optional: the change is made for good, and its client has been answered.
     * Once for each change of this node, but when the node ends: what waits FN_LISTENER_DRAIN_S then
     * is left out. The deadline is FN_CHANGE_TIME_S away, for all listeners of a change.
     * Both: one at a time per instance, changes in their order; after_worker() may run beside. */
    void (*after_change)(void *inst, struct fn_op *op, const struct fn_change *borrowed);
};

#define FN_LISTENER_WAITING_MAX   1024u       /* ends of calls, per instance, */
#define FN_LISTENER_WAITING_BYTES (16u << 20) /* and what they hold together */
#define FN_LISTENER_TIME_S        5
#define FN_LISTENER_DRAIN_S       10
#define FN_CHANGE_TIME_S          5
#define FN_CHANGES_MAX            1024u /* at a time, asked about or told; others get 503 */

#ifdef __cplusplus
}
#endif
#endif /* FN_LISTENER_H */
