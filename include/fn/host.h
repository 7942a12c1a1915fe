/* What every plugin instance gets from the host, and the interfaces it can ask for by name.
 *
 * The host table belongs to one instance: the host knows who is calling, so that log lines,
 * metrics, timers and time budgets are attributed without the plugin's help. The same tables have a
 * second implementation in the simulator, which is why a plugin takes time, chance, programs and
 * HTTP from nowhere else.
 *
 * Every interface of 1.0 has version 1.0 of its own. Tables live as long as the process; what get()
 * returned may be kept as long as the instance. */
#ifndef FN_HOST_H
#define FN_HOST_H

#include <fn/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_MAGIC_CLOCK  0x464e0001u
#define FN_MAGIC_TIMER  0x464e0002u
#define FN_MAGIC_LOG    0x464e0003u
#define FN_MAGIC_METRIC 0x464e0004u
#define FN_MAGIC_RNG    0x464e0005u
#define FN_MAGIC_OP     0x464e0006u
#define FN_MAGIC_HTTP   0x464e0007u
#define FN_MAGIC_EXEC   0x464e0008u
#define FN_MAGIC_PROC   0x464e0009u
#define FN_MAGIC_WAKE   0x464e000au

struct fn_clock_if {
    struct fn_hdr hdr;
    int64_t (*now_ns)(const struct fn_host *);  /* [any] monotonic; constant in a loop method */
    int64_t (*wall_ns)(const struct fn_host *); /* [any] since 1970; for logs only, may jump back */
};

/* Timers are named by ids, so that a stale id is harmless. They fire once, on the loop, not before
 * at_ns, never from inside arm(), never before create() has returned or after destroy() has begun.
 * A time that has passed means soon. At most 10 000 per instance: FN_E_EXHAUSTED. */
struct fn_timer_if {
    struct fn_hdr hdr;
    int (*arm)(const struct fn_host *, int64_t at_ns, void (*cb)(void *ud), void *ud,
               uint64_t *ret_id);                       /* [init] [loop] */
    int (*cancel)(const struct fn_host *, uint64_t id); /* [loop] cb does not run after this */
};

#define FN_LOG_ERROR 1u
#define FN_LOG_WARN  2u
#define FN_LOG_INFO  3u
#define FN_LOG_DEBUG 4u

struct fn_log_if {
    struct fn_hdr hdr;
    const uint32_t *level; /* highest level that is written, may change; read before formatting */
    /* [any] One line, copied, without the plugin's name; at most 2 047 bytes are kept. */
    void (*write)(const struct fn_host *, uint32_t level, const char *msg, size_t len);
};

#define FN_METRIC_COUNTER 1u
#define FN_METRIC_GAUGE   2u

struct fn_metric_if {
    struct fn_hdr hdr;
    /* [init] name: [a-z0-9_]{1,48}; exported as fn_plugin_<kind>_<plugin>_<name>; copied. At most 32
     * per instance. */
    int (*declare)(const struct fn_host *, const char *name, uint32_t kind, uint32_t *ret_id);
    /* [any] A counter ignores delta < 0. */
    void (*add)(const struct fn_host *, uint32_t id, int64_t delta);
};

/* A stream of its own per instance: adding a plugin shifts nobody else's numbers. Not for
 * secrets. */
struct fn_rng_if {
    struct fn_hdr hdr;
    uint64_t (*u64)(const struct fn_host *); /* [init] [loop] */
};

struct fn_host {
    struct fn_hdr hdr; /* FN_MAGIC_HOST */
    void *priv;        /* the host's own */
    const struct fn_clock_if *clock;
    const struct fn_timer_if *timer;
    const struct fn_log_if *log;
    const struct fn_metric_if *metric;
    const struct fn_rng_if *rng;
    /* [init] A host interface by name ("fn.http"), or NULL. Only what needs[] lists, with the same
     * major, is given. */
    const void *(*get)(const struct fn_host *, const char *iface, uint32_t major);
};

/* "fn.op": inside a blocking operation, the only legal ways to let time pass. The fn_op is borrowed
 * and used by the thread that was given it. */
struct fn_op_if {
    struct fn_hdr hdr;
    /* [worker] on the clock of fn_clock_if.now_ns; INT64_MAX = none */
    int64_t (*deadline_ns)(const struct fn_op *);
    int (*cancelled)(const struct fn_op *);       /* [worker] 1 when the result is not wanted */
    int (*sleep_until)(struct fn_op *, int64_t at_ns); /* [worker] 0, FN_E_CANCELLED, FN_E_DEADLINE */
};

/* "fn.wake": ask the waiting calls of a group again that answered with FN_WAKE_PLUGIN. */
struct fn_wake_if {
    struct fn_hdr hdr;
    /* [any] NULL = all groups. Nobody is asked from inside. May wait for the loop: see Re-entrancy
     * in abi.h for locks. */
    void (*wake)(const struct fn_host *, const char *group);
};

/* "fn.http": HTTP exchanges over TCP or a unix socket. Connections are kept and reused. */
#define FN_HTTP_HEADERS_MAX 32u

struct fn_http_request {
    uint32_t size;
    uint32_t timeout_ms;     /* 0 = the operation's deadline only */
    const char *method;      /* "GET" */
    const char *unix_path;   /* NULL = TCP to the host of the url */
    const char *url;         /* absolute, "http://localhost/containers/json" */
    const char *const *headers; /* "Name: value", NULL ends; may be NULL */
    const void *body;        /* may be NULL */
    uint64_t body_len;
    uint64_t answer_max;     /* bytes; a longer answer fails with FN_E_EXHAUSTED; 0 = 1 MiB */
    /* Since 1.1, for https: files of PEM, read again for each new connection. */
    const char *tls_ca;      /* who may have signed the server's certificate; NULL = the system's */
    const char *tls_cert;    /* the client's certificate and key: both or neither */
    const char *tls_key;
};

struct fn_http_answer {
    uint32_t size;     /* set by the caller */
    uint32_t status;   /* HTTP status */
    const char *body;  /* given: NUL-terminated after body_len bytes; release with free_answer() */
    uint64_t body_len;
};

struct fn_http_stream_cb {
    struct fn_hdr hdr; /* magic 0 */
    /* Both run on the host's stream thread, one at a time per instance, never after close returned;
     * they may call what is marked [any]. data: borrowed. end: exactly once; status is the HTTP
     * status or 0, err is NULL on a clean end. */
    void (*data)(void *ud, uint32_t status, const void *data, size_t len);
    void (*end)(void *ud, uint32_t status, const struct fn_error *err);
};

struct fn_http_if {
    struct fn_hdr hdr;
    /* [worker], since 1.1 destroy() too, op NULL. 0: any HTTP status; < 0: no complete answer. */
    int (*exchange)(const struct fn_host *, struct fn_op *, const struct fn_http_request *,
                    struct fn_http_answer *ret, struct fn_error *reterr);
    void (*free_answer)(struct fn_http_answer *given); /* [any] NULL fields are accepted */
    /* [any] also from inside a stream callback. A long answer delivered piece by piece (event and
     * log streams); the request is copied, timeout_ms bounds the wait for the first byte only. Every
     * outcome of the transfer arrives through the callbacks, which may run before this returns. */
    int (*stream_open)(const struct fn_host *, const struct fn_http_request *copied,
                       const struct fn_http_stream_cb *cb, void *ud, uint64_t *ret_id,
                       struct fn_error *reterr);
    /* [init] [worker] Not from inside a stream callback: it waits for a running one, so the caller
     * holds no lock that a callback takes. A stale id is harmless. */
    void (*stream_close)(const struct fn_host *, uint64_t id);
};

/* "fn.exec": run a program to its end and collect its output. No shell, no inherited
 * descriptors. */
struct fn_exec_request {
    uint32_t size;
    uint32_t timeout_ms;      /* 0 = the operation's deadline */
    const char *const *argv;  /* argv[0] is a path or found in PATH; NULL ends */
    const char *const *env;   /* "K=V"; NULL ends; NULL = only PATH */
    const char *cwd;          /* NULL = the node's */
    const char *stdin_text;   /* NULL = /dev/null */
    uint64_t output_max;      /* bytes kept of stdout and of stderr, 0 = 64 KiB */
};

struct fn_exec_result {
    uint32_t size;     /* set by the caller */
    int32_t exit_code; /* 0..255, or -signal */
    char *out;         /* given, NUL-terminated; free_result() */
    char *err;         /* given, NUL-terminated */
};

struct fn_exec_if {
    struct fn_hdr hdr;
    /* [worker] 0 for every exit code; < 0 when the program did not start, or was killed at the
     * deadline. Output beyond output_max is read and dropped. The program leads a process group of
     * its own, which is killed (SIGKILL) when it has ended, whichever way: what shall go on is
     * started in a session of its own (setsid). */
    int (*run)(const struct fn_host *, struct fn_op *, const struct fn_exec_request *,
               struct fn_exec_result *ret, struct fn_error *reterr);
    void (*free_result)(struct fn_exec_result *given);               /* [any] */
};

/* "fn.proc": long-lived child processes with namespaces and limits. */
#define FN_PROC_NEW_PID   (1u << 0)
#define FN_PROC_NEW_MOUNT (1u << 1) /* private mounts; binds[] below need it */
#define FN_PROC_NEW_NET   (1u << 2) /* loopback only */
#define FN_PROC_NEW_IPC   (1u << 3)
#define FN_PROC_NEW_UTS   (1u << 4)
#define FN_PROC_NO_NEW_PRIVS (1u << 5)
#define FN_PROC_READONLY     (1u << 6) /* all file systems but /tmp and bind_to; NEW_MOUNT only */

/* fn_proc_if.isolation(): what this host can really give. */
#define FN_PROC_HAS_NAMESPACES (1u << 0)
#define FN_PROC_HAS_CGROUP     (1u << 1)

struct fn_proc_spec {
    uint32_t size;
    uint32_t flags;          /* FN_PROC_*; those that the host cannot give are left out */
    const char *const *argv; /* NULL ends; argv[0] is an absolute path */
    const char *const *env;  /* NULL ends */
    const char *cwd;
    const char *bind_from;   /* host directory shown at bind_to inside, noexec; or NULL */
    const char *bind_to;
    uint32_t uid;            /* 0 = unchanged */
    uint32_t gid;
    uint64_t mem_bytes;      /* 0 = no limit; cgroup where available, else RLIMIT_AS */
    uint64_t cpu_milli;      /* 0 = no limit; cgroup only */
    uint64_t tmp_bytes;      /* size of the private /tmp, 0 = 64 MiB; FN_PROC_NEW_MOUNT only */
    uint64_t pids_max;       /* 0 = no limit */
    uint64_t nofile_max;     /* 0 = unchanged */
    const char *cgroup_name; /* name of its own cgroup, [a-z0-9-]; NULL = none */
    uint64_t cpu_shares;     /* since 1.1: weight against others, 2 to 262144; 0 = none; cgroup only */
};

/* Both run on one thread of the host's for all instances, which must not wait, and never inside the
 * loop; they may call what is marked [any]. */
struct fn_proc_cb {
    struct fn_hdr hdr; /* magic 0 */
    void (*output)(void *ud, uint32_t fd, const void *data, size_t len); /* fd 1 or 2; borrowed */
    /* exactly once, before destroy() of the instance is called; code as fn_exec_result.exit_code;
     * oom is 1 when the memory limit killed it */
    void (*exited)(void *ud, int32_t code, uint32_t oom);
};

struct fn_proc_if {
    struct fn_hdr hdr;
    uint32_t (*isolation)(const struct fn_host *); /* [any] FN_PROC_HAS_* */
    /* [worker] spec and cb are copied. The callbacks may run before this returns. */
    int (*spawn)(const struct fn_host *, const struct fn_proc_spec *, const struct fn_proc_cb *cb,
                 void *ud, uint64_t *ret_id, struct fn_error *reterr);
    /* [any] The whole group; exited() follows. A stale id is harmless. */
    int (*kill)(const struct fn_host *, uint64_t id, struct fn_error *reterr);
    /* [worker] on 1 stops the whole group, 0 lets it go on; FN_E_NOT_FOUND for a stale id. */
    int (*freeze)(const struct fn_host *, uint64_t id, uint32_t on, struct fn_error *reterr);
    /* [worker] Kills what earlier nodes left: every process in a cgroup whose name begins with
     * `prefix` but not with `keep`. 0 where there are no cgroups. The host marks names that begin
     * with `keep` as those of a living process from then on, and removes what processes of any
     * owner left that had marked theirs so and are dead. */
    int (*sweep)(const struct fn_host *, const char *prefix, const char *keep,
                 uint32_t *ret_removed, struct fn_error *reterr);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_HOST_H */
