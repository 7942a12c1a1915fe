/* Private to core/runner: calls (call.c) and their end (call_end.c).
 *
 * The runner owns its calls: r->calls has each from rcall_begin() to rcall_free(). Session, queue,
 * container and exchange only point to it, and none of them still does when it is freed.
 *
 * A call is over when its session and its exchange both are. Functions marked
 *   (now)   end it themselves where it ends, and may have freed it when they return;
 *   (soon)  may be called in the midst of its callbacks: they fix what its caller is told
 *           (RC_ENDING), and rc->task ends it when those have returned.
 * But for rcall_free() and the task, no other one frees it. */
#ifndef RUNNER_RCALL_H
#define RUNNER_RCALL_H

#include <base/states.h>
#include <model/view.h>
#include <runner/parts.h>

/* ---- calls (call.c) ------------------------------------------------------------------------ */

enum rcall_state {
    RC_BODY,    /* accepted; waits for the first body frame */
    RC_WAIT,    /* in q->waiters */
    RC_TAKEN,   /* has a container that is being thawed */
    RC_RUN,     /* dispatched */
    RC_ENDING,  /* what the caller is told is known, dispatched or not; rc->task ends it */
    RC_DONE,
    RC_STATES_N
};

/* What a run still awaits that lost its connection, or its container, but not both. */
enum run_awaits {
    RUN_AWAITS_NOTHING,
    RUN_AWAITS_EXIT,   /* the connection ended; the container's exit may say why */
    RUN_AWAITS_ANSWER, /* the container exited; the answer may still be in the socket */
};

struct rcall {
    TAILQ_ENTRY(rcall) link; /* r->awaiting (RC_BODY) or q->waiters (RC_WAIT) */
    TAILQ_ENTRY(rcall) all;  /* r->calls */
    struct runner *r;
    struct chain *chain; /* the one it began with; pinned; NULL = no plugins */
    const struct engage_server *server;
    struct engage_session *session; /* NULL once finished or gone */
    struct arena arena;
    size_t charged; /* of r->calls_bytes */
    struct share_holder *memory; /* that it counts with; NULL = it holds little */
    struct call call;
    struct fn_call_more more; /* what listeners may ask of it; filled when there are any */
    const char *request_id; /* the caller's, for log lines; NULL = none */
    struct kvs extensions;
    unsigned char key[SLOT_KEY_BYTES];
    struct account_need need;
    enum rcall_state state;
    enum outcome outcome;
    struct slot_queue *q;
    struct container *c;
    struct fnsock_exchange *ex;
    struct buf body;      /* not yet proven to have reached a function */
    bool body_complete;   /* `body` is everything that came: it can be sent again */
    bool eof, eof_sent;   /* the last frame came; it was handed over */
    bool paused, moved;   /* its answer waits for the caller; or moved since the last look */
    bool fn_full;         /* fnsock said full */
    bool head_seen, start_sent;
    bool discard;         /* the answer is not for the caller */
    bool began;           /* listeners before() passed */
    bool own_launch;      /* a container was started for it */
    bool tainted;         /* the container must not be used again */
    bool own;             /* this runner's, not a peer's: counted nowhere */
    bool no_network;      /* of the container that is started for it */
    bool ended;           /* on_end came */
    enum run_awaits awaits;
    uint32_t attempts;
    uint32_t listeners_passed;
    int fn_status;
    uint64_t bytes_to_function;
    struct seen_mark seen_mark;
    int64_t stream_deadline_ns;
    int64_t deadline_ns; /* of the run */
    int64_t start_limit_ns; /* of its function; 0 = the runner's */
    int64_t queued_ns;
    int64_t created_ns, started_ns, ended_ns;
    int64_t run_ns; /* since when its container runs it */
    struct fnsock_result end;
    struct env_task task; /* ends the call from outside the callback that found the reason */
    int end_http;
    bool end_user;
    const char *end_text;
    const char *why; /* for the log */
    struct engage_refusal refusal; /* of a NACK */
    int64_t phase_ns[PHASES_N], phase_at_ns[PHASES_N]; /* of the start that it waited for */
    struct rcall_spans traced;
};

extern const struct states rcall_states;
/* The only one that writes rc->state. */
void rcall_enter(struct rcall *rc, enum rcall_state state);
/* Of struct engage_server_cb. */
int rcall_on_try(void *endpoint, struct engage_session *s, const struct engage_try *t,
                 int64_t deadline_ns, void **ret_ud);
void rcall_on_body(void *ud, const void *data, size_t len, bool eof);
void rcall_on_writable(void *ud);
void rcall_pause(struct rcall *rc, bool paused); /* reading the answer of its exchange */
/* A call of `s`, in r->calls; more is to be filled in. NULL when out of memory. */
struct rcall *rcall_begin(struct runner *r, const struct engage_server *server,
                          struct engage_session *s);
/* Its model and key are complete, and this is its whole body. */
void rcall_submit(struct rcall *rc, const void *body, size_t len);
void calls_awaiting_tick(struct env_timer *t);
void rcall_drop_body(struct rcall *rc);
/* The container is ready: run the call on it. */
void rcall_dispatch(struct rcall *rc);

/* ---- their end (call_end.c) ---------------------------------------------------------------- */

int listeners_before(struct rcall *rc, struct fn_error *reterr);
/* (soon) Not a byte was sent: refuse so that the load balancer tries elsewhere. `why`: literal. */
void rcall_nack(struct rcall *rc, enum engage_reason reason, const char *why);
/* (soon) Nothing will be run: the error of a check. */
void rcall_refuse(struct rcall *rc, const struct fn_error *err);
void rcall_lost(struct rcall *rc); /* (soon) no memory for the answer */
/* (soon) A waiting call, already out of its queue. */
void rcall_launch_failed(struct rcall *rc, enum engage_reason reason, const struct fn_error *why);
/* (soon) Not at a function yet: out of where it waits, and refused as by rcall_nack(). */
void rcall_take_back(struct rcall *rc, enum engage_reason reason, const char *why);
/* (now) Lost its container with nothing sent: another one, or a refusal. */
void rcall_again(struct rcall *rc, const char *why);
void rcall_unrun(struct rcall *rc, bool keep); /* ends the exchange, gives the container back */
/* (now) What a run meets: the end of its exchange, of its time, of its container. */
void rcall_ended(struct rcall *rc);
void rcall_deadline(struct rcall *rc);
void rcall_container_exited(struct rcall *rc);
void rcall_force(struct rcall *rc); /* (now) drain deadline */
void rcall_on_gone(void *ud);       /* (now) its caller went away */
void rcall_drop(struct rcall *rc);  /* (now) runs, and nobody waits for it */
void rcall_free(struct rcall *rc);
void rcall_end_task(struct env_task *t);

#endif
