/* Runner: executes calls in hot containers.
 *
 * A runner accepts sessions (model/engage.h) through endpoints, finds or starts a container for
 * each call and answers with CallFinished. It knows no socket, no thread and no engine: sessions,
 * function sockets (model/fnsock.h) and the container driver (fn/driver.h, on worker lanes) are
 * tables.
 *
 * Order of a node's start: driver_hub_create, plugin_create of the drivers, driver_hub_add of each,
 * runner_create with the outermost one, runner_attach per server, runner_start. Everything is
 * [loop] unless marked. Go Fn: api/agent. */
#ifndef RUNNER_RUNNER_H
#define RUNNER_RUNNER_H

#include <base/env.h>
#include <base/err.h>
#include <base/tally.h>
#include <base/walk.h>
#include <model/engage.h>
#include <model/fnsock.h>
#include <model/ids.h>
#include <override/chain.h>
#include <plugin/plugin.h>
#include <runner/account.h>
#include <trace/trace.h>

struct runner;

/* ---- driver hub: "fn.driver" for the drivers of a node ------------------------------------- */

struct driver_hub;

/* [init] Offers "fn.driver"; before the first driver instance is made. NULL when out of memory. */
struct driver_hub *driver_hub_create(struct env *env, struct plugin_host *host);
/* [init] Makes an instance findable by its name for drivers that wrap it, in order of creation. */
int driver_hub_add(struct driver_hub *hub, struct plugin *driver, struct fn_error *reterr);
void driver_hub_destroy(struct driver_hub *hub); /* [init] NULL ok; drivers must be gone */

/* ---- options ------------------------------------------------------------------------------- */

/* Part of `runner:`, but for those marked *, which the wiring or runner_options_fix() sets; see
 * options.c for defaults and limits. Times in ns. Texts are borrowed and outlive the runner. */
struct runner_options {
    const char *owner;    /* fn_task.owner: this runner across restarts, [a-z0-9-]{1,63} */
    const char *instance; /* * fn_task.instance: this process, 32 hex digits */
    const char *hostname; /* * of the containers; NULL = left to the engine */

    int64_t freeze_idle_ns;    /* FN_FREEZE_IDLE_MSECS, 50 ms; < 0 = never */
    const char *freeze_when;   /* "always" or "busy" */
    int64_t pull_timeout_ns;   /* FN_HOT_PULL_TIMEOUT_MSECS, 600 s; < 0 = never */
    int64_t start_timeout_ns;  /* FN_HOT_START_TIMEOUT_MSECS, 5 s; socket, after start returned;
                                  < 0 = never */
    int64_t start_timeout_max_ns; /* that a function may ask for: 2 min */
    int64_t engine_timeout_ns; /* create, start, remove: 20 s each */
    int64_t freeze_timeout_ns; /* freeze and thaw: 2 s each */
    int64_t queue_wait_ns;     /* wait of a call for which nothing is starting: 500 ms */
    int64_t start_wait_ns;     /* wait of any call: 10 s */
    int64_t start_target_ns;   /* * containers are started until short calls wait less: 5 ms */
    int64_t body_wait_ns;      /* from TryCall to the first body frame: 10 s */
    int64_t exit_wait_ns;      /* for the reason, when a function closed its connection: 300 ms */

    int64_t warm_hold_ns;         /* 5 min; see warm_rule.c */

    uint32_t warm_max;            /* containers of a function that are kept ready: 0 */
    uint32_t warm_memory_percent; /* that they may hold together: 50 */
    uint32_t queue_factor;        /* waiting calls per container of a function: 2 */
    uint32_t parallel_starts_max; /* creates and starts at a time, and removals: 8; see gate.h */
    uint32_t pulls_max;           /* images pulled at a time: 8 */

    uint64_t answer_bytes_max;        /* FN_MAX_RESPONSE_SIZE, 6 MiB; 0 = none */
    uint64_t call_json_arena_max;     /* * memory of one call model: 4 MiB */
    uint64_t calls_bytes_max;         /* models and bodies of all that wait: 256 MiB */
    uint64_t mem_mb_min;              /* smallest memory of a function: 16 */
    uint64_t log_ring_bytes;          /* stdout and stderr kept per container: 64 KiB .. 1 MiB */
    uint64_t log_kept_bytes;          /* the same of all that have gone: 4 MiB */
    uint32_t log_streams_max;         /* who reads them: 16; 0 = nobody */
    const char *log_source;           /* "containers" or "operator" */
    uint32_t user_logs;               /* lines that functions print go to the log */
    uint32_t user_log_lines_per_s;    /* per container: 200 */
    uint32_t seen_max;                /* * call ids remembered against replay: 100 000; 0 = off */
    bool count_calls;                 /* * fn_calls ... are ours; false where a balancer in the
                                         same process counts them (then fn_runner_calls ...) */
    uint32_t detached;                /* detached calls are accepted; Go Fn's stock runner: no */
    uint32_t syslog_own_networks;     /* functions may log to servers beside this node */
    struct fn_strlist images_allowed; /* patterns with '*'; n 0 = all */
    struct fn_strlist configurable;   /* the same, of names of settings; n 0 = none */
    const char *status_image;         /* NULL = none */
    const char *status_network_file;  /* without it the status image has no network; NULL = has */

    /* Limits of containers, as in fn_task. */
    uint32_t writable_root; /* FN_TASK_WRITABLE_ROOT */
    uint32_t privileged;    /* FN_TASK_PRIVILEGED_USER */
    uint32_t volumes;       /* FN_TASK_ALLOW_VOLUMES */
    uint32_t container_stats;
    uint32_t no_network;    /* FN_TASK_NO_NETWORK */
    uint64_t fs_bytes;
    uint64_t pids_max;
    uint64_t nofile_max;
    uint64_t memlock_max;
    uint64_t sigpending_max;
    uint64_t msgqueue_max;
    uint64_t tmpfs_inodes;
};

/* For metric_set_subjects(). */
struct runner_metrics_options {
    uint32_t functions_max;
};
extern const struct opt_table runner_opt_table, runner_metrics_table;

void runner_options_fix(struct runner_options *o);
/* Operations of a runner that may be on the slow lane at a time: starts, removals, pulls, looks
 * for images, the sweep. With fewer threads one of them waits behind others, such as pulls of
 * minutes. */
uint32_t runner_slow_operations_max(const struct runner_options *o);

/* ---- life ---------------------------------------------------------------------------------- */

/* Settings of the node that a ConfigureRunner may change. [loop] */
struct runner_settings {
    bool (*is_setting)(const char *name);
    /* All of them or none, in use when it returns 0; FN_E_INVALID, FN_E_UNAVAILABLE. Then keep(),
     * which takes them back when it is false, and is false itself where a reload took them back
     * already. runner_set_options() may be called from inside. */
    int (*set)(void *ud, const struct fn_kv *keys, uint32_t n, struct fn_error *reterr);
    bool (*keep)(void *ud, bool keep);
};

/* Everything is borrowed and outlives the runner; the struct itself is copied. */
struct runner_deps {
    struct env *env;
    const struct fnsock_if *fnsock;
    struct driver_hub *hub;
    struct plugin *driver;            /* the outermost one */
    struct plugin *operator_;         /* NULL = none */
    struct plugin *predictor;         /* NULL = none: warm_rule() */
    struct id_maker *ids;         /* container ids */
    struct tracer *tracer;        /* NULL = calls are not traced */
    struct account_totals totals; /* see account_detect() */
    struct account_reader reader; /* see account_cpu_spare(); zero = not known */
    int (*leads_home)(const char *url); /* [worker] see net/home.h; NULL = not asked */
    bool (*file_exists)(const char *path);
    const struct runner_settings *settings; /* NULL = none can be changed */
    void *settings_ud;
    struct runner_options options;
};

/* FN_E_INVALID: the options want lines of a plugin that has none; operator_ may be NULL. */
int runner_check_operator(const struct runner_options *opt, const struct plugin *operator_,
                          struct fn_error *reterr);
/* FN_E_INVALID: it cannot say how many containers to keep; NULL is good. */
int runner_check_predictor(const struct plugin *predictor, struct fn_error *reterr);
int runner_create(const struct runner_deps *deps, struct runner **ret, struct fn_error *reterr);
/* [loop] or [init]: for calls that come from now on; NULL = none. Running calls keep theirs. */
void runner_set_plugins(struct runner *r, struct chain *chain);
/* [loop] owner, instance, hostname, count_calls and the replay table keep what runner_create() got.
 * Containers keep the limits they were made with. */
void runner_set_options(struct runner *r, const struct runner_options *options);
/* Lets sessions of `server` in. *ret_cb and *ret_ud are what the server wants; they live as long as
 * the runner. Up to 4 servers. */
int runner_attach(struct runner *r, const struct engage_server *server,
                  struct engage_server_cb *ret_cb, void **ret_ud, struct fn_error *reterr);
/* Removes what a dead process of the same owner left behind, in the background. */
void runner_start(struct runner *r);
/* Refuses new and waiting calls, lets running ones end, removes containers. done() is called once,
 * not from inside this call: when everything is gone, or soon after the deadline. Calls that still
 * run at the deadline are answered 502. */
void runner_drain(struct runner *r, int64_t deadline_ns, void (*done)(void *ud, bool clean),
                  void *ud);
/* While it drains: what its deadline does, now. done() comes within RUNNER_CUT_NS. */
#define RUNNER_CUT_NS (3 * ENV_S) /* for removals */
void runner_cut(struct runner *r);
/* After drain's done(). When that was not clean and operations still run on lanes, what they use is
 * left allocated. NULL ok. */
void runner_destroy(struct runner *r);

/* [loop] The calls and the containers that there are, oldest first, one after the other; walk_end()
 * when done. Texts are borrowed until the loop goes on. */
struct runner_call_row {
    const char *call_id, *app_id, *fn_id;
    const char *state; /* of rcall_states */
    const char *waits_for;
    const char *container_id; /* NULL: it has none */
    int64_t age_ns;
    uint64_t body_bytes; /* that are kept */
};
struct runner_container_row {
    const char *container_id, *app_id, *fn_id, *image;
    const char *state; /* of ctr_states */
    const char *waits_for;
    const char *call_id; /* NULL: it has none */
    int64_t age_ns;
    uint64_t mem_bytes; /* charged to the node */
    bool warm;          /* only kept ready */
};
void runner_walk_calls(struct runner *r, struct walk *w);
void runner_walk_containers(struct runner *r, struct walk *w);
bool runner_walk_next_call(struct runner *r, struct walk *w, struct runner_call_row *ret);
bool runner_walk_next_container(struct runner *r, struct walk *w, struct runner_container_row *ret);

/* [loop] What functions did lately here, without calls that were handed back. Borrowed. */
const struct tally *runner_tally(const struct runner *r);

/* Containers that are kept ready; all but the first since the start. */
struct runner_warm_counts {
    uint32_t now;     /* that no call needs, starting ones included */
    uint64_t hits;    /* calls that got one */
    uint64_t misses;  /* calls that waited for a start */
    uint64_t started;
    uint64_t failed;  /* starts */
    uint64_t expired; /* not wanted any more */
    uint64_t evicted; /* somebody needed the room */
};

struct runner_counts {
    uint64_t received; /* = ok + failed + not_executed + unknown + aborted + in_flight */
    uint64_t ok;
    uint64_t failed;
    uint64_t not_executed;
    uint64_t unknown;
    uint64_t aborted;
    uint64_t in_flight;
    uint64_t active;  /* of those and of calls whose caller is gone: what still runs */
    uint64_t handled; /* without NACKs */
    uint32_t waiting;
    uint32_t running; /* also those whose caller is gone */
    uint32_t containers;
    uint32_t queues;
    struct account_need used;
    bool engine_up;
    struct runner_warm_counts warm;
};
void runner_count(const struct runner *r, struct runner_counts *ret);

#endif
