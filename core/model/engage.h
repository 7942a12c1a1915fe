/* Engage: one call on its way between a load balancer and a runner.
 *
 * The load balancer and the runner know the exchange as plain values and these tables; gRPC and
 * protobuf stay in core/rpc. Implementations: core/rpc (gRPC), core/rpc/local.c (both ends in one
 * process) and the simulator. On the wire, as Go Fn does: TryCall, then the body, whose last frame
 * says eof; back come at most one CallResultStart, data, and exactly one CallFinished, which may be
 * the first.
 *
 * Everything is [loop]. Callbacks are never run from inside a call of the same object. */
#ifndef MODEL_ENGAGE_H
#define MODEL_ENGAGE_H

#include <base/body.h>
#include <base/headers.h>
#include <fn/driver.h>
#include <model/grpc.h>
#include <stdbool.h>
#include <sys/queue.h>

/* TryCall. Client side: borrowed until attempt() returned. Server side: until on_try() returned. */
struct engage_try {
    const char *call_json;    /* models.Call, see model/call.h; NUL-terminated */
    size_t call_json_len;
    const char *slot_hash_id; /* hex or "" */
    const struct fn_kv *extensions;
    uint32_t n_extensions;
    const char *request_id; /* metadata fn_request_id, or NULL */
};

/* CallResultStart. */
struct engage_start {
    int32_t status;
    const struct header *headers;
    uint32_t n_headers;
};

/* Why a runner refuses a call. */
enum engage_reason {
    ENGAGE_REASON_NONE,     /* it does not say */
    ENGAGE_REASON_ROOM,     /* no memory or CPU for a container of the function */
    ENGAGE_REASON_QUEUE,    /* the function's containers are busy, and as many calls wait as may */
    ENGAGE_REASON_MEMORY,   /* the runner's own, or the app's share of it, for calls that wait */
    ENGAGE_REASON_DRAINING, /* it takes no calls any more */
    ENGAGE_REASON_ENGINE,   /* the container engine does not answer */
    ENGAGE_REASON_IMAGE,    /* the image did not come */
    ENGAGE_REASON_START,    /* a container did not start, or not in time, or was lost */
    ENGAGE_REASONS_N
};

static inline const char *const *engage_reason_names(void)
{
    static const char *const names[ENGAGE_REASONS_N] = { "none",     "room",   "queue", "memory",
                                                         "draining", "engine", "image", "start" };

    return names;
}

/* With a NACK; what a peer says of itself. All 0 = nothing was told. */
struct engage_refusal {
    enum engage_reason reason;
    int64_t retry_ns;        /* from now: not to be asked before, for what the reason covers */
    uint64_t free_mem_bytes; /* for containers: unused, or held by idle ones */
    uint64_t free_cpu_milli;
    uint32_t idle; /* containers that wait for calls */
};

/* CallFinished; texts may be NULL, times are RFC 3339 text or NULL, durations in ns. */
struct engage_finished {
    bool success;
    bool error_user;
    int32_t error_code;
    const char *error_text;
    const char *details;
    const char *image;
    const char *created_at;
    const char *started_at;
    const char *completed_at;
    int64_t scheduler_ns;
    int64_t execution_ns;
    int64_t image_pull_wait_ns;
    int64_t ctr_prep_ns;
    int64_t ctr_create_ns;
    int64_t init_start_ns;
    struct engage_refusal refusal; /* error_code 503 */
};

/* What is known about a failed attempt: only a proof lets the call be sent again. */
enum engage_proof {
    ENGAGE_PROOF_NONE,     /* the runner may have started it */
    ENGAGE_PROOF_NOT_SENT, /* no whole TryCall left this process */
    ENGAGE_PROOF_FULL,     /* the same, because as many calls run as the runner lets in */
    ENGAGE_PROOF_REFUSED,  /* the transport says that it was not processed */
};

/* A line that a function printed, in StreamLogs; texts that nobody knows are "". */
struct engage_line {
    const char *app_id, *fn_id, *container_id;
    const char *call_id;
    const char *data; /* without its newline */
    size_t len;
    int64_t wall_ms;
    uint64_t lost; /* > 0: no function's; so many are missing here, as `data` says in words */
    bool of_stderr;
};

/* ---- client side: one link per runner address, one attempt per try ------------------------- */

struct engage_link;
struct engage_attempt;
struct engage_reader;

struct engage_client_cb {
    void (*on_start)(void *ud, const struct engage_start *start); /* borrowed; at most once */
    void (*on_data)(void *ud, const void *data, size_t len);      /* borrowed */
    void (*on_finished)(void *ud, const struct engage_finished *f); /* borrowed; at most once */
    /* Last callback, exactly once unless cancelled; a clean end is GRPC_OK. `legal` is false when
     * messages came in an order that the protocol forbids. */
    void (*on_end)(void *ud, int grpc_status, const char *text, enum engage_proof proof,
                   bool legal);
};

/* How a runner says that it is, now and then. */
struct engage_health {
    bool failing;    /* no container can be started there */
    int32_t code;    /* HTTP status of the failure; 0 = none was told, 504 = it does not answer */
    const char *why; /* "" when it is not failing */
};

/* Told when a link becomes usable or unusable, and, if somebody wants to know, whenever the runner
 * of one that is up begins or ceases to fail; that stays true while it is down. */
struct engage_link_cb {
    void (*on_state)(void *ud, bool up);
    void (*on_health)(void *ud, const struct engage_health *h); /* NULL: it is not asked */
    /* The runner's labels, for people who look; borrowed until the loop goes on. NULL: none. */
    const char *(*labels)(void *ud);
};

/* What the functions of a runner print (StreamLogs). */
struct engage_reader_cb {
    void (*on_lines)(void *ud, const struct engage_line *lines, uint32_t n); /* borrowed */
    /* Last callback, exactly once unless closed. */
    void (*on_end)(void *ud, int grpc_status, const char *text);
};

struct engage_client {
    /* A link dials at once and keeps dialling (back-off <= 1 s, so that a restarted runner is used
     * again within a second). cb may be NULL. NULL when out of memory. */
    struct engage_link *(*link_open)(struct engage_client *, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud);
    /* Attempts that run keep going; no link callback after this. */
    void (*link_close)(struct engage_link *);
    bool (*link_is_up)(const struct engage_link *);
    /* Starts an attempt: sends `try`, then body (a reference is taken) in frames, then eof.
     * deadline_ns 0 = none. NULL when out of memory. A link that is down still answers through
     * on_end (ENGAGE_PROOF_NOT_SENT). */
    struct engage_attempt *(*attempt)(struct engage_link *, const struct engage_try *,
                                      struct body *, int64_t deadline_ns,
                                      const struct engage_client_cb *, void *ud);
    /* Stops reading (back-pressure) or goes on. The deadline of a call that has not ended at the
     * runner is told all the same. */
    void (*attempt_pause)(struct engage_attempt *, bool paused);
    /* Releases the attempt: cancels the stream if it has not ended; no callback after this. Must be
     * called exactly once, also after on_end. */
    void (*attempt_close)(struct engage_attempt *);
    /* Reads lines of a runner; the keys say which (docs/logs.md) and are copied. It ends with its
     * link. NULL when out of memory. */
    struct engage_reader *(*reader_open)(struct engage_link *, const struct fn_kv *keys, uint32_t n,
                                         const struct engage_reader_cb *, void *ud);
    /* Asks for the next message, which may be long in coming. Once before each. */
    void (*reader_more)(struct engage_reader *);
    /* No callback after this. Must be called exactly once, also after on_end. */
    void (*reader_close)(struct engage_reader *);
};

/* ---- server side: one session per call ------------------------------------------------------ */

struct engage_session;

/* RunnerStatus; texts may be NULL, times are RFC 3339 text or NULL, durations in ns. */
struct engage_status {
    int32_t active;
    uint64_t received;
    uint64_t handled;
    bool failed; /* no container can be started here */
    bool cached; /* somebody was told of this run before */
    bool network_disabled;
    int32_t error_code; /* HTTP status; 0 = none */
    const char *error_text;
    const char *id;      /* of the run of the status image */
    const char *details; /* what it answered */
    const char *created_at;
    const char *started_at;
    const char *completed_at;
    const struct fn_kv *custom; /* the operator's own */
    uint32_t n_custom;
    int64_t scheduler_ns;
    int64_t execution_ns;
    int64_t image_pull_wait_ns;
    int64_t ctr_prep_ns;
    int64_t ctr_create_ns;
    int64_t init_start_ns;
};

/* A peer asks for the status: who implements the server owns it, who answers may queue it. */
struct engage_ask {
    const char *request; /* JSON; lives as long as the ask */
    size_t request_len;
    void (*answer)(struct engage_ask *, const struct engage_status *); /* once; the ask is gone */
    TAILQ_ENTRY(engage_ask) link; /* of who answers */
};
TAILQ_HEAD(engage_asks, engage_ask);

/* A peer configures the runner; owned as an ask is. */
struct engage_config {
    const struct fn_kv *keys; /* borrowed until on_configure() returned */
    uint32_t n;
    /* Once; the config is gone. grpc_status 0 = all of them are in use, else none, and why. */
    void (*answer)(struct engage_config *, int grpc_status, const char *text);
};

/* A peer reads what functions print. Owned by who answers from on_logs() until end() or
 * on_logs_gone(). */
struct engage_logs {
    const struct fn_kv *keys; /* borrowed until on_logs() returned */
    uint32_t n;
    bool wanted; /* the peer asks for a message, and gets one */
    /* That message. FN_E_EXHAUSTED: no memory, the stream must be ended. */
    int (*send)(struct engage_logs *, const struct engage_line *lines, uint32_t n);
    void (*end)(struct engage_logs *, int grpc_status, const char *text); /* the logs are gone */
    void *owner; /* of who answers */
};

struct engage_server_cb {
    /* A TryCall came. Return 0 and own the session until finish() or gone; `*ret_ud` is given to
     * the other callbacks. deadline_ns: the stream's, 0 = none. < 0: ends the stream with that gRPC
     * status. */
    int (*on_try)(void *server_ud, struct engage_session *s, const struct engage_try *t,
                  int64_t deadline_ns, void **ret_ud);
    /* Body bytes, borrowed; eof exactly once. Further data comes only after session_more(). */
    void (*on_body)(void *ud, const void *data, size_t len, bool eof);
    /* send_data() said full; it may be called again. */
    void (*on_writable)(void *ud);
    /* The peer went away; the session must not be used after this returned. Never called after
     * finish(). */
    void (*on_gone)(void *ud);
    /* To be answered, now or later. */
    void (*on_status)(void *server_ud, struct engage_ask *ask);
    /* It is not to be answered any more. */
    void (*on_status_gone)(void *server_ud, struct engage_ask *ask);
    /* The same for a configuration. */
    void (*on_configure)(void *server_ud, struct engage_config *config);
    void (*on_configure_gone)(void *server_ud, struct engage_config *config);
    /* A peer wants to read lines, and on_logs() may end them; `wanted` became true; it reads no
     * more. */
    void (*on_logs)(void *server_ud, struct engage_logs *logs);
    void (*on_logs_wanted)(void *server_ud, struct engage_logs *logs);
    void (*on_logs_gone)(void *server_ud, struct engage_logs *logs);
};

struct engage_server {
    /* Asks for the next body message. */
    void (*session_more)(struct engage_session *);
    /* Texts and data are copied. */
    void (*send_start)(struct engage_session *, const struct engage_start *);
    /* 0, or 1 = taken, but wait for on_writable before sending more. */
    int (*send_data)(struct engage_session *, const void *data, size_t len);
    /* Sends CallFinished and ends the stream; releases the session. */
    void (*finish)(struct engage_session *, const struct engage_finished *);
    /* Ends the stream with a gRPC status instead (protocol failures); releases the session. */
    void (*abort)(struct engage_session *, int grpc_status, const char *text);
};

#endif
