/* Private to core/runner: the objects of a runner and who may touch what.
 *
 * runner      owns queues, images, containers, calls of its endpoints
 * slot_queue  one function identity: waiting calls (first in, first out), idle containers (last in,
 *             first out); dies when it has neither, later when its starts hung
 * container   one driver container and its function socket; at most one engine operation and one
 *             call at a time
 * rcall       one call of one session; lives until its session and its exchange are both over
 *             (rcall.h)
 *
 * All of it is [loop]. An engine operation (struct engine_op) is the only thing that a lane thread
 * touches: it reads task and ctr of its container, which do not change meanwhile. */
#ifndef RUNNER_RUNNER_INT_H
#define RUNNER_RUNNER_INT_H

#include <base/states.h>
#include <base/tally.h>
#include <plugin/answer.h>
#include <runner/fair.h>
#include <runner/metrics.h>
#include <runner/parts.h>
#include <runner/rcall.h>
#include <runner/warm.h>

#define DUE_NEVER INT64_MAX
#define TEXT_BUSY "Timed out - server too busy"

/* ---- containers (container.c) -------------------------------------------------------------- */

enum ctr_state {
    CTR_IMAGE,   /* its image is being prepared; nothing is reserved */
    CTR_RESERVE, /* waits for memory and CPU; being made, or made, where they are promised */
    CTR_CREATE,
    CTR_START,
    CTR_INIT,    /* runs; the function has not published its socket */
    CTR_IDLE,    /* in q->idle and r->lru */
    CTR_FREEZE,  /* being frozen; in q->idle unless a call wants it */
    CTR_FROZEN,  /* in q->idle and r->lru */
    CTR_THAW,    /* being thawed for c->call */
    CTR_BUSY,    /* runs c->call */
    CTR_CLOSE,   /* being removed */
    CTR_GONE,
    CTR_STATES_N
};

struct container {
    UT_hash_handle hh; /* r->containers by handle */
    struct runner *r;
    struct slot_queue *q;
    TAILQ_ENTRY(container) link;         /* q->containers */
    TAILQ_ENTRY(container) idle_link;    /* q->idle */
    TAILQ_ENTRY(container) lru_link;     /* r->lru */
    TAILQ_ENTRY(container) reserve_link; /* r->reserving */
    TAILQ_ENTRY(container) image_link;   /* image->waiters */
    struct arena arena;
    uint64_t handle;
    char id[CALL_ID_LEN + 1];
    enum ctr_state state;
    int64_t state_ns; /* since */
    struct fn_task task;
    struct image *image, *used_image; /* waited for; whose name it keeps, since it wanted it */
    struct account_need need;
    int64_t idle_timeout_ns;
    int64_t start_limit_ns; /* < 0 = never */
    void *ctr; /* the driver's */
    bool charged;
    bool reserving; /* in r->reserving_list */
    bool ctr_made, in_idle, early;
    bool image_held; /* an image's preparation uses its task */
    bool image_retried;
    bool ready, started; /* the socket is there; start() returned */
    bool exited, outgrown; /* ended for what is in its socket's directory */
    bool served, stillborn; /* a call was answered by it; it is counted in q->stillborn */
    bool evicted;
    bool coming; /* its charge is in r->closing */
    bool claimed; /* another one was closed to make room for it (fair.h) */
    bool warm;   /* the pool wants it, no call does (warm.h) */
    bool spare;  /* of a warm one that starts: in r->lru */
    struct fn_exit exit;
    struct fnsock *sock;
    struct engine_op op;
    struct env_timer timer; /* lazy: may fire before due_ns */
    int64_t due_ns;
    int64_t idle_since_ns;
    int64_t close_backoff_ns;
    struct env_task task_fail; /* reports fail_err from outside the call that found it */
    struct fn_error fail_err;
    struct env_task task_gone, task_exited; /* the second has a cb once its end was reported */
    struct rcall *call;     /* CTR_THAW, CTR_BUSY, CTR_FREEZE */
    struct rcall *for_call; /* started for it, while it waits */
    struct output output;
    int64_t launched_ns, image_ns, create_ns, started_ns, ready_ns; /* see phases.c */
    struct usage_of usage;
    char ran_trace[TRACE_ID_HEX]; /* of the call that leaves it, if its trace is kept; else "" */
};

/* Starts making a container for `rc` (borrowed). NULL when out of memory. */
struct container *container_launch(struct slot_queue *q, struct rcall *rc);
/* The same for the pool. False: there will be none. */
bool container_launch_warm(struct slot_queue *q, const struct mould *mould);
void container_image_done(struct container *c, int result, const struct fn_error *err);
void container_reserved(struct container *c);
void container_op_done(struct container *c);
void container_op_overdue(struct container *c); /* the driver does not give it back */
void container_exited(struct container *c, const struct fn_exit *what);
/* It ended before it read a byte of a call. True: as those before it, so that another is vain. */
bool container_stillborn(struct container *c);
bool container_ended_by_itself(const struct container *c); /* nobody killed it */
/* Gives it to a call: dispatches now, or after a thaw. The container is idle. */
void container_take(struct container *c, struct rcall *rc);
/* The call is over. keep: the function is idle and healthy; ran: it had something of the call. */
void container_release(struct container *c, bool keep, bool ran);
/* Removes it in whatever state it is; waiting calls are not told. */
void container_close(struct container *c);
void container_give_up(struct container *c); /* and looks for what its calls get instead */
/* Gives up what a closed container still waits for. A creation that is given up may have made a
 * container all the same, which the driver removes later; a drain therefore waits as long as it
 * can, since it has no later. */
void container_hurry(struct container *c);
/* Starting failed: tells the waiting calls and removes it. */
void container_fail(struct container *c, const struct fn_error *why);
void container_free(struct container *c);
void container_arm(struct container *c, int64_t due_ns);
/* The preparation of an image no longer uses its task. */
void container_unhold(struct container *c);
const char *container_exit_text(const struct container *c, char *ret, size_t cap);
extern const struct states ctr_states;
enum ctr_shown metrics_shown(enum ctr_state s); /* metrics.c: several are one for Go Fn */
const char *metrics_state_name(enum ctr_state s); /* as its metrics call it */
void metrics_evicted(const struct slot_queue *q, enum ctr_state state);

/* ---- slot queues (slots.c) ----------------------------------------------------------------- */

struct slot_queue {
    UT_hash_handle hh; /* r->queues by key */
    struct runner *r;
    unsigned char key[SLOT_KEY_BYTES];
    struct rcall_list waiters;
    struct container_list idle;
    struct container_list containers;
    uint32_t n_waiters, n_idle;
    uint32_t n_containers; /* without those being removed */
    uint32_t n_evictable;  /* of them, in r->lru */
    uint32_t n_starting, n_init;
    uint32_t n_all; /* with those being removed */
    uint32_t stillborn; /* containers in a row that ended ready, but before they read of a call */
    struct account_need need;
    struct account_need planned; /* will be wanted after images are there; nobody else's limit */
    int64_t hung_until_ns; /* a start ran out of time: one at a time; 0 = no */
    struct env_task kick;
    struct env_timer timer;
    struct queue_metrics metrics;
    char *app_id;
    char *fn_id;
    char *image;
    int64_t run_ns;  /* the shortest run of late; 0 = none yet */
    int64_t mean_ns; /* of all runs, the last 64 more than others; 0 = none yet */
    int64_t window_ns, window_run_ns, before_ns; /* what run_ns is made of */
    int64_t ran_ns; /* when a run ended last */
    struct warm_queue *warm; /* NULL: no pool */
    int64_t gap_ns; /* from a call's end to the next one in its container, of late; 0 = none yet */
    double backlog; /* calls that wait when a run ends, at the last 64 more than at others */
    bool starved; /* in r->starving: a launch found no room */
    TAILQ_ENTRY(slot_queue) starving_link;
    struct fair_app *app;
    struct claim claim;
};

/* Finds or makes the queue of a call. NULL when out of memory. */
struct slot_queue *slots_queue(struct runner *r, const unsigned char key[SLOT_KEY_BYTES],
                               const struct call *call);
void slots_ran(struct slot_queue *q, int64_t ns); /* a call ran that long */
/* An idle container that can be used now, or NULL. */
struct container *slots_idle(struct slot_queue *q);
struct rcall *slots_waiter(struct slot_queue *q, uint32_t i); /* the i-th, or NULL */
void slots_wait(struct slot_queue *q, struct rcall *rc, bool first);
void slots_unwait(struct rcall *rc);
void slots_kick(struct slot_queue *q);     /* soon */
void slots_maybe_destroy(struct slot_queue *q); /* unused: forgets it */
void slots_kick_all(struct runner *r);
/* Resources were given back, or may now be evicted: grants waiting reservations, starts containers
 * for queues that found no room. */
void slots_room(struct runner *r);
/* true = charged now (container_reserved() was called) or soon; false = no room. */
bool slots_reserve(struct container *c);
/* What one more container of q lacks when `coming` is given back. */
struct account_need slots_missing(const struct slot_queue *q, const struct account_need *coming);
bool slots_helps(const struct container *c, const struct account_need *missing);
void slots_unreserve(struct container *c); /* waits for room: stops waiting */
void slots_plan(struct container *c, bool on); /* will want room after its image */
void slots_hung(struct slot_queue *q, bool hung); /* a start of q ran out of time, or one came up */
void slots_coming(struct container *c, bool on); /* its room will soon be free */
void slots_early(struct container *c, bool on); /* made, or being made, before it has room */
/* A container of q could not be started; it is being removed already. */
void slots_launch_failed(struct slot_queue *q, struct container *c, const struct fn_error *why);
void slots_engine_down(struct runner *r); /* waiting reservations end */
void slots_idle_add(struct container *c);
void slots_idle_remove(struct container *c);
void slots_evict_first(struct container *c); /* of those that are idle */
void slots_spare(struct container *c, bool on); /* may be evicted though it only starts */
void slots_finish(struct runner *r);

/* ---- the runner ---------------------------------------------------------------------------- */

#define ENDPOINTS_MAX 4

struct endpoint {
    struct runner *r;
    const struct engage_server *server;
};

struct runner {
    struct env *env;
    struct runner_deps deps;
    struct runner_options opt;
    struct chain *chain; /* of new calls; NULL = no plugins */
    const struct fn_driver_ops *ops;
    void *inst;
    struct account account;
    struct account_cpu cpu;
    struct account_need closing;   /* charged to containers that will soon be removed */
    struct account_need reserving; /* wanted by r->reserving_list, or promised to claims */
    struct account_need evictable; /* charged to r->lru */
    struct container_list reserving_list;
    TAILQ_HEAD(, slot_queue) starving;
    struct container_list lru; /* may be evicted: warm ones, then idle and frozen ones, those first
                                  that were used longest ago */
    uint32_t n_idle; /* idle and frozen, of all queues */
    uint32_t n_early; /* made, or being made, without a charge */
    struct slot_queue *queues;
    struct container *containers;
    struct walks call_walks, container_walks; /* over calls and containers */
    struct images images;
    struct rcall_list awaiting; /* RC_BODY, in order of arrival */
    struct rcall_list calls;
    uint64_t calls_bytes; /* that those which wait hold */
    struct share_holder *memories; /* of apps that hold some (memory.c) */
    struct env_timer awaiting_timer;
    struct endpoint endpoints[ENDPOINTS_MAX];
    uint32_t n_endpoints;
    uint64_t next_handle;
    struct seen seen;
    struct keys keys;
    struct engine engine;
    struct status status;
    struct usage usage;
    struct warm warm;
    struct fair fair;
    struct freezing freezing;
    struct operator_change change;
    struct operator_feed feed;
    struct operator_read read;
    struct history history;
    struct log_store logs;
    struct runner_counts counts;
    struct tally *tally; /* of functions */
    struct runner_metrics metrics;
    bool draining, drain_forced, drain_given_up;
    bool abandoned; /* destroyed while operations ran: their ends are ignored */
    int64_t drain_deadline_ns;
    struct env_timer drain_timer;
    struct env_task drain_task; /* judges whether the drain is complete */
    struct env_task room_task;  /* somebody left who waited for room, or gave some back */
    void (*drain_done)(void *ud, bool clean);
    void *drain_ud;
};

/* Something ended. */
static inline void runner_drain_check(struct runner *r)
{
    if (r->draining && r->drain_done) {
        env_defer(r->env, &r->drain_task);
    }
}

static inline struct container *runner_container(const struct runner *r, uint64_t handle)
{
    struct container *c;

    HASH_FIND(hh, r->containers, &handle, sizeof(handle), c);
    return c;
}

void driver_hub_set_runner(struct driver_hub *hub, struct runner *r);

#endif
