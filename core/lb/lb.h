/* Lb: one state machine per call, from a complete HTTP request to exactly one answer.
 *
 * Knows no sockets and no gRPC: requests come in and answers go out through the tables below,
 * runners are found by core/place, functions by the catalog (catalog.h). Every call ends in one of
 * five outcomes (ok, failed, not-executed, unknown, aborted), told by the header Fn-Outcome, the
 * log and a counter; it is sent again only on a proof that nothing ran. Everything is [loop] unless
 * marked. Go Fn: api/agent/lb_agent.go. */
#ifndef LB_LB_H
#define LB_LB_H

#include <base/body.h>
#include <base/env.h>
#include <base/headers.h>
#include <base/tally.h>
#include <base/walk.h>
#include <lb/catalog.h>
#include <model/engage.h>
#include <model/ids.h>
#include <override/chain.h>
#include <place/place.h>
#include <plugin/plugin.h>
#include <trace/trace.h>

struct lb;
struct lb_call;

/* Part of `lb:`, but for the last two; see options.c for defaults and limits. */
struct lb_options {
    int64_t placement_timeout_ns;
    int64_t detached_placement_timeout_ns;
    int64_t execution_headroom_ns; /* extra time of detached calls */
    int64_t response_buffer_bytes; /* held back so that a failure can still become an error */
    int64_t response_bytes_max;    /* 0 = none */
    uint32_t calls_max;            /* at a time; more are refused; 0 = none */
    uint32_t detached;             /* detached calls are accepted */
    uint32_t why_calls;            /* ended calls that lb_why() knows; 0 = none */
    const char *rid_header;        /* header with the caller's request id, or NULL; borrowed while
                                      these options are the current ones */
    int64_t message_bytes_max;     /* of a call without its body, as it travels; 0 = none */
    uint32_t generation;           /* of the configuration, for lb_why() */
    uint32_t functions_max;        /* that have metrics of their own; of the node, not of a call */
};

/* For whoever holds the budget of bodies. */
struct lb_bodies_options {
    int64_t memory_bytes; /* 0 = a quarter of the node's memory */
};
extern const struct opt_table lb_opt_table, lb_bodies_table;

/* Everything is borrowed and outlives the lb. */
struct lb_deps {
    struct env *env;
    struct place *place;
    struct engage_client *client;
    struct catalog *catalog;
    struct id_maker *ids;
    struct tracer *tracer; /* NULL = calls are not traced */
    struct lb_options options;
};

/* [init] */
int lb_create(const struct lb_deps *deps, struct lb **ret, struct fn_error *reterr);
/* [loop] or [init]: for calls that come from now on; those that run keep what they began with. */
void lb_set_options(struct lb *lb, const struct lb_options *options);
void lb_set_plugins(struct lb *lb, struct chain *chain); /* NULL = none */
/* Refuses new calls with 503; done() when the last one ended, not from inside. */
void lb_drain(struct lb *lb, void (*done)(void *ud), void *ud);
/* After lb_drain(), when there is no more time: ends every call that is left, with 503 when no
 * runner has it yet, else with 502 and outcome unknown. */
void lb_cut(struct lb *lb);
void lb_destroy(struct lb *lb); /* no call may be left; NULL ok */

/* What came in. Borrowed until the call's last reply callback or lb_call_gone(); body is referenced
 * where it is needed longer. */
struct lb_request {
    struct arena *arena;
    const char *method;
    const char *path;   /* not decoded, without query */
    const char *target; /* with query */
    const char *scheme; /* "http" or "https", a literal */
    const char *host;
    const struct headers *headers; /* canonical names */
    struct body *body;
    const char *peer;
    const unsigned char *client; /* LOOKUPS_ADDRESS bytes: whom shares of one address hold */
    int64_t received_ns; /* its head was complete; 0 = unknown */
};

/* Where the answer goes. Exactly one of: whole() once; head(), data()*, end() or cut(). */
struct lb_reply {
    void (*whole)(void *ud, int status, const struct headers *h, const void *data, size_t len);
    /* {"message": text}, and nothing else: whose it is says Fn-Call-Id. */
    void (*error)(void *ud, int status, const struct headers *h, const char *text);
    void (*head)(void *ud, int status, const struct headers *h, int64_t content_length);
    int (*data)(void *ud, const void *data, size_t len); /* 1 = wait for lb_call_writable() */
    void (*end)(void *ud);
    void (*cut)(void *ud); /* cannot be completed: must not look whole */
};

/* True when the path belongs to the lb (/invoke, /t). */
bool lb_owns_path(const char *path);
/* Takes a request. NULL when it was answered before this returned. */
struct lb_call *lb_submit(struct lb *lb, const struct lb_request *rq, const struct lb_reply *reply,
                          void *ud);
void lb_call_writable(struct lb_call *c);
/* The client went away: no reply callback after this. */
void lb_call_gone(struct lb_call *c);

/* What a running or recently ended call met, as one JSON object. FN_E_NOT_FOUND: LB307. */
int lb_why(const struct lb *lb, const char *call_id, struct buf *out, struct fn_error *reterr);

/* [loop] The calls that there are, oldest first, one after the other; walk_end() when done. Texts
 * are borrowed until the loop goes on. */
struct lb_call_row {
    const char *call_id, *app_id, *fn_id; /* app and function NULL while they are not known */
    const char *state;                    /* of lb_states */
    const char *waits_for;
    const char *runner; /* address; NULL: none has it */
    int64_t age_ns;
    uint32_t offers; /* to runners, so far */
};
void lb_walk(struct lb *lb, struct walk *w);
bool lb_walk_next(struct lb *lb, struct walk *w, struct lb_call_row *ret); /* false: none is left */

/* [loop] What functions did lately. Borrowed; lives as long as the lb. */
const struct tally *lb_tally(const struct lb *lb);

/* [loop] The calls that ended and are still known, the last one first: i from 0. 1: *ret is one
 * that did not end well; 0: it did; < 0: there are no more. Texts are borrowed until the loop goes
 * on. */
struct lb_error_row {
    const char *call_id, *fn_id, *error, *outcome;
    int32_t status;
    int64_t wall_ns; /* when it came */
    int64_t took_ns;
};
int lb_error_at(const struct lb *lb, uint32_t i, struct lb_error_row *ret);

struct lb_counts {
    uint64_t received, ok, failed, not_executed, unknown, aborted;
    uint32_t in_flight;
};
void lb_count(const struct lb *lb, struct lb_counts *ret);

#endif
