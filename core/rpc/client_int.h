/* Client side of this room: links (link.c), attempts (attempt.c), small unary calls (unary.c). */
#ifndef RPC_CLIENT_INT_H
#define RPC_CLIENT_INT_H

#include <rpc/rpc_int.h>

struct chan;
struct unary;

/* States: dialling (up false) and up. A link lives until its owner closed it and the last attempt,
 * unary call and channel that name it are gone. */
struct engage_link {
    struct rpc *rpc;
    LIST_ENTRY(engage_link) entry;
    char *address;
    char *tls_name;
    struct chan *chan; /* NULL once closed */
    const struct engage_link_cb *cb;
    void *ud;
    uint32_t refs;
    bool up;
    bool closed;
    int64_t heard_ns; /* when something last came from the peer */
    int64_t probe_started_ns;
    bool probing;
    struct env_timer probe_timer;
    LIST_HEAD(, engage_attempt) attempts;
};

/* A channel as this room makes them; tls_name may be NULL. NULL when out of memory. */
grpc_channel *rpc_channel_create(struct rpc *r, const char *address, struct identity *identity,
                                 const char *tls_name);

void link_ref(struct engage_link *l);
void link_unref(struct engage_link *l);
/* A call on the link's channel, NULL when it has none. `method` as RPC_METHOD_*. */
grpc_call *link_call(struct engage_link *l, const char *method, gpr_timespec deadline);
grpc_call *link_call_engage(struct engage_link *l, gpr_timespec deadline);

static inline void link_heard(struct engage_link *l)
{
    l->heard_ns = env_now_ns(l->rpc->env);
}

/* The connection is dead: every attempt that runs ends with this text. */
void attempts_break(struct engage_link *l, const char *text);
void attempts_close(struct engage_link *l);

struct engage_attempt *attempt_open(struct engage_link *, const struct engage_try *, struct body *,
                                    int64_t deadline_ns, const struct engage_client_cb *, void *);
void attempt_pause(struct engage_attempt *a, bool paused);
void attempt_close(struct engage_attempt *a);

/* ---- unary calls ---------------------------------------------------------------------------- */

/* answer is NULL unless grpc_status is 0; text and answer are borrowed. [loop] */
typedef void unary_done_fn(void *ud, int grpc_status, const char *text, grpc_byte_buffer *answer);

/* Sends an empty message. done is called exactly once unless the rpc is closing. */
int unary_start(struct engage_link *l, const char *method, int64_t deadline_ns,
                unary_done_fn *done, void *ud);

#endif
