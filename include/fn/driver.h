/* Container driver: makes, starts, freezes and removes containers for a runner.
 *
 * All calls run on worker lanes with a deadline, one at a time per container. The end of a container
 * and its output are reported through "fn.driver", never by a call that blocks until then. Ids come
 * from the host; a driver labels what it makes with `owner` and the id, so that sweep() can remove
 * what a dead node left behind. Go Fn: api/agent/drivers. */
#ifndef FN_DRIVER_H
#define FN_DRIVER_H

#include <fn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_DRIVER_MAJOR 1
#define FN_DRIVER_MINOR 1
#define FN_MAGIC_DRIVER     0x464e1401u
#define FN_MAGIC_TASK       0x464e1402u
#define FN_MAGIC_DRIVER_IF  0x464e1403u

struct fn_kv {
    const char *key;
    const char *value;
};

/* fn_task.flags. A flag of a later minor that takes rights away is only set for a driver that
 * offers the capability to honour it, so that an old driver never runs a container too freely. */
#define FN_TASK_NO_NETWORK     (1u << 0)
#define FN_TASK_WRITABLE_ROOT  (1u << 1)
#define FN_TASK_PRIVILEGED_USER (1u << 2) /* run as the image's user with default capabilities */
#define FN_TASK_ALLOW_VOLUMES  (1u << 3)

/* fn_mount.type */
#define FN_MOUNT_BIND   1u
#define FN_MOUNT_TMPFS  2u
#define FN_MOUNT_VOLUME 3u

#define FN_MOUNT_READ_ONLY (1u << 0) /* fn_mount.flags */

struct fn_mount {
    const char *source;  /* bind: absolute path as the engine sees it; volume: its name; tmpfs: NULL */
    const char *target;  /* absolute path inside */
    uint64_t size_bytes; /* of a tmpfs; 0 = the engine's default */
    uint32_t type;       /* FN_MOUNT_* */
    uint32_t flags;
    uint64_t reserved[2]; /* 0 */
};

struct fn_device {
    const char *source; /* on the engine's machine, "/dev/kvm" */
    const char *target; /* inside; NULL = the same */
    const char *access; /* letters of "rwm"; NULL = "rw" */
    uint64_t reserved[2]; /* 0 */
};

struct fn_ulimit {
    const char *name; /* "core", "nproc"; one that the node sets is set instead of it */
    uint64_t soft;
    uint64_t hard;
};

/* What to run; immutable, lives until close() of the container returned. A driver that wraps
 * another copies the struct (no more than hdr.size bytes), changes fields and passes its copy. */
struct fn_task {
    struct fn_hdr hdr;       /* FN_MAGIC_TASK */
    const char *id;          /* 26 characters, unique; also the container's name */
    const char *owner;       /* identity of this runner across restarts, [a-z0-9-]{1,63} */
    const char *instance;    /* identity of this process, 32 hex digits */
    const char *fn_id;
    const char *app_id;
    const char *image;
    const struct fn_kv *env;        /* n_env */
    const struct fn_kv *extensions; /* n_extensions */
    uint32_t n_env;
    uint32_t n_extensions;
    const char *registry_token; /* NULL = none */
    const char *syslog_url;     /* NULL = none */
    const char *iofs_dir;    /* directory of the socket as the node sees it, absolute. A file .lock
                              * beside it is locked by flock() as long as this node lives */
    const char *iofs_engine_dir; /* the same as the container engine sees it */
    const char *iofs_inside; /* mount point inside the container, "/tmp/iofs" */
    const char *hostname;
    uint64_t mem_bytes;      /* 0 = no limit */
    uint64_t cpu_milli;      /* 0 = no limit */
    uint64_t tmpfs_bytes;    /* 0 = engine's default for /tmp */
    uint64_t tmpfs_inodes;   /* 0 = engine's default */
    uint64_t fs_bytes;       /* 0 = no limit of the root file system */
    uint64_t pids_max;       /* 0 = no limit */
    uint64_t nofile_max;
    uint64_t memlock_max;
    uint64_t sigpending_max;
    uint64_t msgqueue_max;
    uint32_t flags;          /* FN_TASK_* */
    uint32_t reserved0;
    uint64_t handle;         /* names the container in fn_driver_if calls */
    /* Since 1.1; only if hdr.size says that they are there. The host leaves them 0, wrappers set
     * them; what depends on a call's extensions belongs into slot_key() too. */
    uint64_t cpu_shares;         /* weight against other containers, 2 to 262144; 0 = the engine's */
    const struct fn_kv *labels;  /* n_labels; of the container, beside the driver's own */
    uint32_t n_labels;
    uint32_t n_mounts;
    /* What goes beyond this needs a word of the operator; a driver refuses what it was not allowed
     * and what it cannot do. See docs/abi.md, "What a container may get". Lists of texts end with
     * NULL; everything may be NULL. */
    const struct fn_mount *mounts;   /* n_mounts; beside the socket's directory */
    const struct fn_device *devices; /* n_devices */
    const struct fn_ulimit *ulimits; /* n_ulimits */
    uint32_t n_devices;
    uint32_t n_ulimits;
    uint32_t n_log_options;
    uint32_t reserved1;
    const char *const *cap_add;      /* "NET_ADMIN" */
    const char *const *cap_drop;
    const char *const *dns;          /* addresses of servers */
    const char *const *dns_search;
    const char *const *dns_options;
    const char *const *extra_hosts;  /* "name:address" */
    const char *runtime;             /* "runsc" */
    const char *network;             /* instead of the node's; "none" */
    const char *log_driver;          /* instead of what syslog_url says */
    const struct fn_kv *log_options; /* n_log_options; of log_driver */
    /* A JSON object that is merged into the engine's create request, objects member by member, for
     * an engine that knows more than this struct. */
    const char *extra_json;
};

/* fn_exit.reason */
#define FN_EXIT_CODE    1u /* status is the exit code */
#define FN_EXIT_SIGNAL  2u /* status is the signal */
#define FN_EXIT_OOM     3u /* the memory limit killed it */
#define FN_EXIT_REMOVED 4u /* somebody removed it */

struct fn_exit {
    uint32_t size;
    uint32_t reason; /* FN_EXIT_* */
    int32_t status;
    uint32_t reserved0;
};

struct fn_driver_ops;

/* "fn.driver": how a driver reports. */
struct fn_driver_if {
    struct fn_hdr hdr; /* FN_MAGIC_DRIVER_IF */
    /* [any] at most once per handle, after start() was called, also from inside it; late reports
     * are ignored. All three reports may wait for the loop: see Re-entrancy in abi.h for locks. */
    void (*exited)(const struct fn_host *, uint64_t handle, const struct fn_exit *what);
    /* [any] fd 1 or 2; copied. */
    void (*output)(const struct fn_host *, uint64_t handle, uint32_t fd, const void *data,
                   size_t len);
    /* [any] The engine went away (0) or came back (1); calls fail fast meanwhile. */
    void (*engine)(const struct fn_host *, uint32_t up, const struct fn_error *why);
    /* [init] Another driver of this node by its name in fn.yaml, for drivers that wrap one; it
     * outlives the wrapper. *ret_ops is the host's copy: checked, as large as the host knows,
     * optional slots may be NULL. */
    int (*inner)(const struct fn_host *, const char *name, const struct fn_driver_ops **ret_ops,
                 void **ret_inst, struct fn_error *reterr);
    /* Since 1.1. [worker] The task as the host made it, whatever wrappers changed in their copies;
     * NULL for a handle that names no container. Borrowed until close() of the container returned. */
    const struct fn_task *(*task)(const struct fn_host *, uint64_t handle);
};

/* fn_usage.flags */
#define FN_USAGE_KNOWN (1u << 0) /* the driver filled it in */

/* What a container used of the machine since its start. Since 1.1. */
struct fn_usage {
    uint64_t handle; /* fn_task.handle; set by the host */
    uint32_t flags;  /* FN_USAGE_*; 0 = there is no such container, or it has no figures */
    uint32_t reserved0;
    uint64_t cpu_ns; /* of all processors together; cpu_user_ns + cpu_kernel_ns may differ a little */
    uint64_t cpu_user_ns;
    uint64_t cpu_kernel_ns;
    uint64_t mem_bytes;       /* now */
    uint64_t mem_limit_bytes; /* what it may have; the machine's where there is no limit */
    uint64_t net_rx_bytes;
    uint64_t net_tx_bytes;
    uint64_t disk_read_bytes;
    uint64_t disk_write_bytes;
    uint64_t reserved1[4];
};

struct fn_driver_ops {
    struct fn_hdr hdr; /* FN_MAGIC_DRIVER */
    uint32_t flags;    /* 0 */
    uint32_t reserved0;
    /* [loop] optional, pure: text that becomes part of the identity of a container pool; calls with
     * different texts never share a container. Returns 0 or FN_E_RANGE. */
    int (*slot_key)(void *inst, const struct fn_kv *extensions, uint32_t n, char *ret_key,
                    size_t cap);
    /* [worker slow] required: make the image present; 0 when it was or now is. The host runs one
     * at a time per image and shares the result. */
    int (*prepare_image)(void *inst, struct fn_op *, const struct fn_task *task,
                         struct fn_error *reterr);
    /* [worker slow] required: create, not start: nothing runs and no memory is used, since the host may
     * create before there is memory. On failure nothing is left behind, or sweep() finds it. */
    int (*create)(void *inst, struct fn_op *, const struct fn_task *borrowed_until_close,
                  void **ret_ctr, struct fn_error *reterr);
    /* [worker slow] required, once: returns when it runs. After a failure close() follows. */
    int (*start)(void *inst, struct fn_op *, void *ctr, struct fn_error *reterr);
    /* [worker fast] optional, both or neither. */
    int (*freeze)(void *inst, struct fn_op *, void *ctr, struct fn_error *reterr);
    int (*thaw)(void *inst, struct fn_op *, void *ctr, struct fn_error *reterr);
    /* [worker slow] required: stop and remove, idempotent: "not there" is success. On failure the
     * host calls again later, with the same ctr. After 0 the ctr is gone. */
    int (*close)(void *inst, struct fn_op *, void *ctr, struct fn_error *reterr);
    /* [worker slow] required: remove everything that `owner` left, except what belongs to the
     * process `instance`. Runs beside calls for containers of this process. */
    int (*sweep)(void *inst, struct fn_op *, const char *owner, const char *instance,
                 uint32_t *ret_removed, struct fn_error *reterr);
    /* [worker fast] required: can the engine be used now? Names its version in ret_version,
     * NUL-terminated, in cap bytes. */
    int (*probe)(void *inst, struct fn_op *, char *ret_version, size_t cap,
                 struct fn_error *reterr);
    /* [any] required: the uid that the processes of a container have on the node, for the check of
     * socket peers; UINT32_MAX = unknown. */
    uint32_t (*uid)(void *inst, void *ctr);
    /* [worker slow] optional, since 1.1: figures of n containers, for metrics, once a second and never
     * on the way of a call. Runs beside calls for these containers, which may be gone: it finds them
     * by handle. The host has zeroed all but the handles. What takes long is left out. */
    int (*usage)(void *inst, struct fn_op *, struct fn_usage *items, uint32_t n,
                 struct fn_error *reterr);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_DRIVER_H */
