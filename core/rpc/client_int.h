/* Client side of this room: whom we dial (peer.c), links (link.c), attempts (attempt.c), raw calls
 * (raw.c), small unary calls (unary.c). */
#ifndef RPC_CLIENT_INT_H
#define RPC_CLIENT_INT_H

#include <rpc/raw.h>
#include <rpc/rpc_int.h>

/* ---- peers ----------------------------------------------------------------------------------- */

enum peer_state {
    PEER_DOWN,     /* eager: the timer dials again */
    PEER_DIALLING, /* dial */
    PEER_SETTLING, /* conn, whose settings the timer waits for */
    PEER_UP,       /* conn */
    PEER_CLOSED,
    PEER_STATES_N
};
extern const struct states peer_states;

/* Embedded in a link, which keeps it up (eager), or in a channel, which wants it for calls only. */
struct peer {
    enum peer_state state;
    struct rpc *rpc;
    char *address;
    char *tls_name;
    struct net_identity *identity;
    /* It came up or went down; the last touch, the peer may be closed inside. */
    void (*changed)(struct peer *p, bool up);
    bool eager;
    bool told;      /* in the log, when it comes and goes */
    bool told_down; /* that it cannot be reached; said once until it is up */
    struct net_dial *dial;
    struct rpc_conn *conn;
    struct env_timer timer;
    int64_t pause_ns;    /* before the next dial, counted from the last one */
    int64_t next_ns;     /* no dial earlier */
    int64_t up_since_ns;
    int64_t state_ns;    /* since */
    char why[256];       /* the last failure */
};

#define PEER_EAGER 1u
#define PEER_TOLD  2u

/* tls_name NULL ok; texts copied, identity: ref taken; flags PEER_*. FN_E_EXHAUSTED. */
int peer_open(struct peer *p, struct rpc *r, const char *address, const char *tls_name,
              struct net_identity *identity, uint32_t flags,
              void (*changed)(struct peer *p, bool up));
/* No callback. What runs on its connection goes on. */
void peer_close(struct peer *p);
void peer_finish(struct peer *p); /* after that: frees its texts */
/* False: it is down and not to be dialled yet; `why` says the reason. Else up or on the way. */
bool peer_want(struct peer *p);
bool peer_takes_calls(const struct peer *p);
/* Takes calls, but as many as it lets in run. */
bool peer_is_full(const struct peer *p);
/* The connection is of no use: what runs on it ends with this text. */
void peer_break(struct peer *p, const char *why);

/* ---- links ----------------------------------------------------------------------------------- */

/* What the runner of a link says of itself (health.c). */
struct health {
    struct env_timer timer; /* asks; not set while a question is under way */
    bool failing;
    char why[192];
};

/* A link lives until its owner closed it and the last attempt and unary call that name it are
 * gone. */
struct engage_link {
    struct rpc *rpc;
    LIST_ENTRY(engage_link) entry;
    struct peer peer; /* closed with the link */
    const struct engage_link_cb *cb;
    void *ud;
    uint32_t refs;
    bool closed;
    int64_t probe_started_ns;
    enum { PROBE_NONE, PROBE_CALL, PROBE_PING } probing;
    struct env_timer probe_timer;
    struct health health;
    LIST_HEAD(, engage_attempt) attempts;
};

void health_init(struct engage_link *l);
void health_ask_soon(struct engage_link *l); /* it is up */
void health_finish(struct engage_link *l);   /* it is closed */

void link_ref(struct engage_link *l);
void link_unref(struct engage_link *l);

void attempts_close(struct engage_link *l);

struct engage_attempt *attempt_open(struct engage_link *, const struct engage_try *, struct body *,
                                    int64_t deadline_ns, const struct engage_client_cb *, void *);
void attempt_pause(struct engage_attempt *a, bool paused);
void attempt_close(struct engage_attempt *a);

/* ---- readers of logs (logs_client.c) --------------------------------------------------------- */

struct engage_reader *reader_open(struct engage_link *l, const struct fn_kv *keys, uint32_t n,
                                  const struct engage_reader_cb *cb, void *ud);
void reader_more(struct engage_reader *rd);
void reader_close(struct engage_reader *rd);
void readers_leave(struct engage_link *l); /* it is being closed */

/* ---- raw calls ------------------------------------------------------------------------------- */

/* rpc_raw_start() for any peer. */
int raw_start(struct peer *p, const char *method, const void *message, size_t len,
              int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
              struct fn_error *reterr);
/* The same with messages that are framed already, which it takes out of the buf; stays_open: more
 * may follow. NULL: no memory. */
struct rpc_raw *raw_open(struct peer *p, const char *method, struct buf *messages,
                         int64_t deadline_ns, bool stays_open, const struct rpc_raw_cb *cb,
                         void *ud);
int raw_more(struct rpc_raw *c, const struct buf *messages); /* FN_E_EXHAUSTED: not sent */
/* For peer.c: calls that wait for it begin, or end with UNAVAILABLE. No callback from inside. */
void raws_begin(struct peer *p);
void raws_fail(struct peer *p, const char *why);
void raws_leave(struct peer *p); /* it is closed; calls that run go on */

/* ---- unary calls ---------------------------------------------------------------------------- */

/* answer is NULL unless grpc_status is 0; text and answer are borrowed. [loop] */
typedef void unary_done_fn(void *ud, int grpc_status, const char *text, const void *answer,
                           size_t len);

/* Sends an empty message. done is called exactly once unless the rpc is destroyed; `owned` is freed
 * in either case. */
int unary_start(struct engage_link *l, const char *method, int64_t deadline_ns,
                unary_done_fn *done, void *ud, void *owned);

#endif
