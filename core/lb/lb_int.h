/* What the files of this room share. */
#ifndef LB_LB_INT_H
#define LB_LB_INT_H

#include <base/metric.h>
#include <base/states.h>
#include <base/table.h>
#include <base/tally.h>
#include <lb/lb.h>
#include <lb/why.h>
#include <model/call.h>
#include <model/view.h>
#include <sys/queue.h>
#include <trace/trace.h>

/* ---- route.c: which function a request means, and the header contract ------------------------ */

#define ROUTE_ID_MAX 255u

/* Of a function's answer. */
#define ANSWER_HEADERS_MAX      100u
#define ANSWER_HEADER_BYTES_MAX (64u * 1024u)

struct route {
    bool is_trigger;
    bool detached;
    const char *fn_id;  /* invoke */
    const char *app;    /* trigger, decoded */
    const char *source; /* trigger, decoded, begins with '/' */
    const char *location; /* where the client is sent instead, or NULL */
};

/* 0, or an error with its HTTP status (404, 405, 400, 503). Texts live in rq->arena. */
int route_match(const struct lb_request *rq, struct route *ret, struct fn_error *reterr);
/* Fills `to` with the headers that the function shall see; counts reserved ones that were
 * dropped. */
int route_request_headers(const struct lb_request *rq, const struct route *route, const char *url,
                          struct headers *to, uint32_t *ret_dropped);
/* Headers and status of the answer from what the runner sent. FN_E_INVALID: the function named a
 * status that cannot be sent. */
int route_answer_headers(bool is_trigger, const struct headers *from, struct headers *to,
                         int *status, struct fn_error *reterr);

/* ---- outcome.c: how attempts and calls end, as data ------------------------------------------ */

/* What an attempt showed; NOT_SENT, REFUSED and NACK prove that nothing ran. */
enum seen {
    SEEN_OK,             /* Finished{success}, then a clean end */
    SEEN_NOT_SENT,       /* ENGAGE_PROOF_NOT_SENT */
    SEEN_FULL,           /* ENGAGE_PROOF_FULL */
    SEEN_REFUSED,        /* ENGAGE_PROOF_REFUSED */
    SEEN_NACK,           /* Finished 503 before ResultStart and Data */
    SEEN_NACK_LATE,      /* the same after them, or with times of a run: a broken promise */
    SEEN_FUNCTION_ERROR, /* Finished, user error: it was executed */
    SEEN_RUNNER_REFUSAL, /* Finished 4xx or 501, not the function's fault, before any output */
    SEEN_ID_KNOWN,       /* Finished 409 to a call that was offered before: one copy may run */
    SEEN_RUNNER_ERROR,   /* Finished with anything else */
    SEEN_DEADLINE,       /* the stream's deadline passed */
    SEEN_MALFORMED,      /* an order of messages that the protocol forbids */
    SEEN_ABORTED,        /* the runner ended the stream with another status: no proof */
    SEEN_BROKEN,         /* the connection is gone: no proof */
    SEEN_N
};

struct rule {
    uint32_t retry_why; /* FN_WHY_BUSY, FN_WHY_UNREACHABLE; 0 = never sent again */
    enum outcome outcome;
    int http_status;    /* 0 = the runner's code */
    const char *text;   /* NULL = the runner's text */
    const char *how;    /* in a word, for people who look */
};
extern const struct rule outcome_rules[SEEN_N];
bool outcome_began(const struct engage_finished *f); /* what the runner finished, it had begun */
/* Why it refused; NULL: it does not say, as Go Fn, which sends the call's id. */
const char *outcome_reason(const struct engage_finished *f, const char *call_id);
/* What was said without its texts, which are borrowed. A duration that is negative, or longer than
 * its call has lasted here, becomes 0: not known. */
void outcome_believe(const struct engage_finished *said, int64_t call_ns,
                     struct engage_finished *ret);
/* A runner's text, cut to what an error has room for, in *room, which is taken from the arena the
 * first time: runners are not trusted, and a call that waits meets many. NULL: there is none, or no
 * memory. */
const char *outcome_text(struct arena *a, char **room, const char *text);

/* ---- calls ----------------------------------------------------------------------------------- */

enum lb_state {
    LB_RECEIVED, /* complete request; the catalog is asked */
    LB_PLACING,  /* no byte of it has been given to a transport */
    LB_OFFERED,  /* the first byte may have left */
    LB_STARTED,  /* ResultStart received */
    LB_STREAMING, /* the client got the first byte of the answer */
    LB_DONE,
    LB_STATES_N
};
extern const struct states lb_states;

/* How Go Fn counts the end of a call. */
enum lb_end { LB_COMPLETED, LB_CANCELED, LB_TIMEOUTS, LB_ERRORS, LB_SERVER_BUSY, LB_ENDS_N };

extern const char *const lb_end_names[LB_ENDS_N]; /* values of call_status */

struct lb_metrics {
    struct metric *calls, *in_flight, *queued, *running;
    struct metric *ended[LB_ENDS_N];
    struct metric *outcomes[OUTCOMES_N];
    struct metric *reserved_dropped, *detached_broken, *strikes;
    struct metric *call_latency[LB_ENDS_N];
    struct metric *sched_latency, *exec_latency;
    struct metric_family *fn_ends, *fn_took;
};

struct lb {
    struct lb_deps deps;
    struct chain *chain; /* of new calls; NULL = no plugins */
    TAILQ_HEAD(, lb_call) calls;
    struct walks walks; /* over calls */
    struct share_holder *bodies; /* of apps that hold some (bodies.c) */
    struct why *why;
    struct tally *tally; /* of functions */
    struct buf json; /* scratch: the model that is being written */
    struct lb_counts counts;
    struct lb_metrics metrics;
    void (*drained)(void *ud);
    void *drained_ud;
    struct env_task drained_task;
    struct env_timer overdue; /* looks for calls that no runner ends; set while there are any */
    int64_t headroom_min_ns;  /* execution_headroom of any call here, those of older options too */
};

/* What it writes of itself for a collector of traces (traced.c). */
struct call_spans {
    struct spans *spans; /* NULL: it is not traced */
    const char *method;  /* NULL: a word that no standard has */
    const char *path, *scheme;
    int64_t found_ns; /* when the function was known; 0 = not yet, or written */
    /* The last stretch: a placement, and the attempt that it led to. */
    int64_t placing_ns; /* 0 = none, or it is written */
    int64_t offered_ns; /* 0 = no attempt yet */
    int64_t ended_ns;   /* of the attempt; 0 = not over */
    int grpc_status;
    unsigned char id[SPAN_ID_BYTES]; /* of the attempt; drawn when it is sent on */
    uint32_t stretches;
    uint32_t tries_told;
    struct spans_mark mark;
    char kept_id[TRACE_ID_HEX]; /* of its trace, once it has ended and is kept; else "" */
    const char *parent; /* traceparent as it is in `json`, with the last attempt's id */
    char *json;
};

struct lb_call {
    struct lb *lb;
    TAILQ_ENTRY(lb_call) link;
    enum lb_state state;
    struct lb_options options; /* those it began with, without rid_header */
    struct chain *chain;       /* the same; pinned; NULL = no plugins */
    struct arena arena; /* what lives as long as the call, and the call */
    struct lb_request rq; /* its memory is the client's: not touched once the call is detached */
    const struct lb_reply *reply;
    void *reply_ud; /* meaningless when client_gone */
    struct body *body;
    struct share_holder *bodies; /* that its body counts with; NULL = none */
    struct route route;
    char id[CALL_ID_LEN + 1];
    struct catalog_query *query;
    struct catalog_fn *fn;
    const char *slot_hash_id;
    uint64_t mem_mb;
    int32_t timeout_s;
    struct call model; /* of the request's memory too: forget_request() */
    const char *json;  /* the model as it travels */
    size_t json_len;
    struct kvs extensions;
    struct fn_call_more more; /* what plugins may ask of the model */
    const char *request_id;

    struct place_call place;
    uint32_t offers; /* attempts that were given to a transport */
    struct why_entry *why; /* NULL = not kept */
    struct call_spans traced;
    struct engage_attempt *attempt;
    struct headers headers; /* of ResultStart */
    struct headers answer;  /* what the client gets */
    int status;
    struct buf held;   /* answer bytes that are not sent yet */
    uint64_t received; /* answer bytes from the runner */
    int64_t declared;  /* Content-Length of the function, -1 = none */
    struct engage_finished finished;
    char *said_error, *said_details; /* room for its texts: outcome_text() */
    bool has_finished;
    bool began; /* outcome_began() */

    int64_t created_ns;
    int64_t started_wall_ns;
    uint32_t listeners_passed; /* whose before() let it through */
    bool submitting;  /* inside lb_submit(): not freed yet */
    bool client_gone; /* no reply any more */
    bool answered;    /* detached: the 202 went out */
    bool paused;
    bool out_of_order; /* the runner broke the order of messages */
};

void metrics_declare(struct lb_metrics *m);

/* functions.c: metrics of single functions */
void functions_declare(struct lb_metrics *m);
/* A call has ended; `of` may be NULL. */
void functions_count(const struct lb_call *c, enum outcome outcome,
                     const struct metric_exemplar *of);

/* bodies.c */
/* Counts the call's body with its app. FN_E_EXHAUSTED: the app holds its share. */
int bodies_take(struct lb_call *c, struct fn_error *reterr);
void bodies_give(struct lb_call *c);

/* traced.c. Nothing is done for a call that is not traced. */
void traced_begin(struct lb_call *c);
int traced_headers(struct lb_call *c, struct headers *h); /* for what travels; FN_E_EXHAUSTED */
void traced_written(struct lb_call *c, char *json);       /* those headers are in it */
void traced_placing(struct lb_call *c); /* the function is known */
void traced_again(struct lb_call *c);   /* placement goes on */
void traced_offer(struct lb_call *c);
void traced_attempt(struct lb_call *c, enum seen seen, int grpc_status, const char *words);
void traced_end(struct lb_call *c, enum outcome outcome, int status, const struct fn_error *e);
/* After it, for the call's latencies: `room`, or NULL when its trace is not kept. */
const struct metric_exemplar *traced_exemplar(const struct lb_call *c,
                                              struct metric_exemplar *room);

/* call.c */
void call_run(struct lb_call *c); /* asks the catalog and goes on */
void call_release(struct lb_call *c); /* a call that is done */
/* Notes in c->why, if there is one. */
void note_attempt(struct lb_call *c, enum seen seen, int grpc_status, const char *text);
void note_placing(struct lb_call *c); /* the function is known */
void note_first_byte(struct lb_call *c);
void note_end(struct lb_call *c, enum outcome outcome, int status, const struct fn_error *e);
extern const char lb_stopping_text[];
void call_cut(struct lb_call *c); /* the node ends */
/* When a runner has had the call for too long. A detached call's stream has the same limit. */
int64_t call_overdue_ns(const struct lb_call *c);
void call_end_overdue(struct lb_call *c);

#endif
