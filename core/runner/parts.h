/* Private to core/runner: the parts that containers and queues are made with. See runner_int.h. */
#ifndef RUNNER_PARTS_H
#define RUNNER_PARTS_H

#include <base/log.h>
#include <base/metric.h>
#include <base/table.h>
#include <model/call.h>
#include <model/engage.h>
#include <model/ids.h>
#include <model/time_text.h>
#include <runner/gate.h>
#include <runner/lines.h>
#include <runner/rspans.h>
#include <runner/runner.h>
#include <runner/usage.h>
#include <sys/queue.h>

struct slot_queue;
struct container;
struct rcall;
struct runner;

/* Pairs of a log line: whose container it is, and which. */
#define OF_CONTAINER(c)                                                                            \
    "app_id", (c)->task.app_id, "fn_id", (c)->task.fn_id, "container_id", (c)->id

/* ---- what a container prints (output.c) ---------------------------------------------------- */

struct output {
    struct log_ring *ring;
    struct buf line[2]; /* unfinished lines of fd 1 and 2 */
    struct buf tail;    /* given by output_tail() */
    char call_id[CALL_ID_LEN + 1]; /* of the call that runs, or ran last; "" before the first */
    struct log_gate gate;
};

int output_init(struct container *c); /* FN_E_EXHAUSTED */
void output_finish(struct container *c);
/* The last `max` bytes as text, borrowed until the next change; NULL: there are none. */
const char *output_tail(struct output *o, size_t max);
void output_of_call(struct container *c, const char *call_id); /* what comes now is of this call */
void output_flush(struct container *c); /* unfinished lines are lines */
void container_output(struct container *c, uint32_t fd, const void *data, size_t len);

/* ---- replay table (seen.c) ----------------------------------------------------------------- */

struct seen_id;

struct seen {
    struct seen_id *ids; /* max and one */
    uint32_t *heads;     /* by fingerprint: a place of ids; 0 = none */
    uint64_t seed;
    uint64_t number;     /* of the newest, growing for ever */
    uint32_t max, used;  /* places; those beyond `used` were never taken */
    uint32_t free;       /* of these the first that is free; 0 = none */
    uint32_t heads_mask;
    uint32_t keep_s;
};

/* What seen_forget() needs; all zero = nothing was noted. */
struct seen_mark {
    uint64_t number;
    uint32_t at;
};

/* The last `max` ids are known for keep_ns at least, those that were forgotten left out; max 0 =
 * none. How long each function takes does not depend on how many are known. */
int seen_init(struct seen *s, uint32_t max, int64_t keep_ns, uint64_t seed);
void seen_finish(struct seen *s);
/* 0 and a mark for seen_forget(), or FN_E_EXISTS. now_ns never goes back. */
int seen_add(struct seen *s, const char *id, int64_t now_ns, struct seen_mark *ret);
void seen_forget(struct seen *s, const struct seen_mark *mark); /* an old mark is harmless */

/* ---- slot keys (keys.c) -------------------------------------------------------------------- */

#define KEYS_KEPT 64

/* Keys of the identities that came lately, at places that their functions choose. */
struct keys {
    struct {
        struct buf identity; /* empty: nothing is kept here */
        unsigned char key[SLOT_KEY_BYTES];
    } kept[KEYS_KEPT];
    struct buf identity; /* of the call at hand */
};

void keys_finish(struct keys *k);
/* The slot key of a call, see call_identity(). 0 or FN_E_EXHAUSTED. */
int keys_find(struct keys *k, const struct call *c, const char *extension,
              unsigned char ret[SLOT_KEY_BYTES]);

/* ---- images (image.c) ---------------------------------------------------------------------- */

enum image_state {
    IMAGE_IDLE,
    IMAGE_WAITING, /* for a place, to be looked at or to be pulled */
    IMAGE_LOOKING, /* being prepared: it is there, or a pull that has only begun */
    IMAGE_PULLING, /* being prepared, for so long that it must be a pull */
};

/* One image name with one set of credentials; prepared once for all who wait. */
struct image {
    UT_hash_handle hh;
    struct runner *r;
    char *key; /* name, newline, registry token */
    enum image_state state;
    bool must_pull;   /* it was looked at, and is not there */
    bool given_up;    /* its preparation was cancelled */
    bool was_there;   /* the last time */
    int64_t begun_ns; /* LOOKING, PULLING: since */
    uint32_t users;   /* containers of it that are there, or wait for it */
    int64_t used_ns;  /* no users: since */
    TAILQ_HEAD(, container) waiters;
    struct gate *look_gate; /* images.known or images.looks */
    struct gate_pass look;
    struct gate_pass pull;
    struct env_work work;
    struct env_timer timer;     /* LOOKING: it is a pull; PULLING: nobody waits any more */
    const struct fn_task *task; /* of the first waiter's container, which is held meanwhile */
    struct container *held;
    bool told; /* that it is overdue */
    int result;
    struct fn_error err;
};

struct images {
    struct image *by_key;
    struct gate known; /* for looks at what was there the last time */
    struct gate looks;
    struct gate pulls;
    uint32_t preparing; /* operations on lanes */
    struct env_timer timer; /* names are forgotten; set while there are any */
};

#define LOOKS_MAX 4u /* of each kind */

void images_init(struct runner *r);
void images_set_options(struct runner *r); /* r->opt changed */
/* Makes the image of `c` ready: container_image_done() is called, from here when it cannot be. */
void image_want(struct container *c);
void image_unwant(struct container *c); /* not waiting: no effect */
void image_unuse(struct container *c);  /* it goes */
/* When the oldest running preparation began, INT64_MAX when none runs. */
int64_t images_oldest_ns(const struct runner *r);
void images_tell_overdue(struct runner *r, int64_t now);
void images_fail(struct runner *r, const struct fn_error *why); /* engine is down */
void images_cancel_unwanted(struct runner *r); /* pulls; looks as well once it drains */
void images_forget_timers(struct runner *r);
void images_finish(struct runner *r);

/* ---- engine (engine.c) --------------------------------------------------------------------- */

enum engine_op_kind { OP_NONE, OP_CREATE, OP_START, OP_FREEZE, OP_THAW, OP_CLOSE };

struct engine_op {
    struct env_work work;
    enum engine_op_kind kind;
    bool submitted; /* a lane has it */
    bool overdue;   /* and does not give it back */
    bool log_home;  /* the task may log to servers in this node's own networks */
    struct gate *gate;
    struct gate_pass pass;
    struct env_task task; /* reports a failure without a lane */
    int64_t begun_ns;
    int result;
    struct fn_error err;
    TAILQ_ENTRY(container) flight_link;
};

TAILQ_HEAD(container_list, container);
TAILQ_HEAD(rcall_list, rcall);

#define ENGINE_PROBE_NS (2 * ENV_S) /* between questions to one that does not answer */

enum engine_state { ENGINE_UP, ENGINE_SUSPECT, ENGINE_DOWN, ENGINE_STATES_N };
extern const struct states engine_states;

struct engine {
    enum engine_state state;
    struct gate starts;   /* creates and starts */
    struct gate warm_starts; /* those that no call waits for */
    struct gate removals; /* of their own: one that hangs keeps nobody from starting */
    struct gate freezes;  /* and thaws */
    struct container_list flight; /* in order of begin */
    int64_t last_done_ns;
    struct env_timer timer; /* lazy: stalls, probes */
    struct fn_error why;    /* why it is down */
    int64_t down_since_ns;
    bool thaws_need_it; /* one has failed since then */
    struct env_work probe;
    bool probing;
    int64_t probe_begun_ns;
    int probe_result;
    struct fn_error probe_err;
    char version[64];
    struct env_work sweep;
    struct env_timer sweep_timer;
    bool sweeping;
    uint32_t sweep_removed;
    int64_t sweep_backoff_ns;
    struct fn_error sweep_err;
    int sweep_result;
};

void engine_init(struct runner *r);
void engine_set_options(struct runner *r); /* r->opt changed */
void engine_finish(struct runner *r);
/* Queues an operation of c; container_op_done() follows, never from inside this call. A removal
 * waits while the engine is down; everything else fails with FN_E_UNAVAILABLE then. */
void engine_call(struct container *c, enum engine_op_kind kind);
/* Takes a queued operation back; false when it already runs. */
bool engine_uncall(struct container *c);
void engine_hasten(struct container *c); /* a call waits for it now */
void engine_set(struct runner *r, bool up, const struct fn_error *why); /* of its being down */
uint32_t engine_uid(struct container *c); /* what the driver says; UINT32_MAX = unknown */
bool engine_accepts(const struct runner *r);
bool engine_thaws(const struct runner *r); /* or nothing says that a driver needs it for that */
/* Adds why it is down; `text` is for that. */
void engine_status(const struct runner *r, struct engage_status *ret, char text[FN_ERROR_TEXT_MAX]);
/* Something began at begun_ns; while it runs for too long, the engine is probed. */
void engine_watch(struct runner *r, int64_t begun_ns);
/* Judges the result of any engine operation: opens the circuit when the engine is unreachable. */
void engine_judge(struct runner *r, int result, const struct fn_error *err);
/* Says that the driver keeps an operation of c beyond its deadline. */
void engine_tell_overdue(struct runner *r, const char *method, const struct container *c,
                         int64_t for_ns);
void engine_sweep(struct runner *r);
void engine_stop_sweeps(struct runner *r); /* also the one that runs */
bool engine_is_quiet(const struct runner *r); /* no lane works for this runner */

/* ---- status (status.c) --------------------------------------------------------------------- */

#define STATUS_RUN_MAX_NS (60 * ENV_S) /* from the question to the end of the run; Go Fn's */

/* Something that the operator's plugin is asked; one of each kind at a time (operator.c). */
struct operator_job {
    struct runner *r;
    const struct operator_kind *kind;
    struct env_work work;
    struct env_task failed; /* it is told that none will ask */
    bool asking;  /* from the question until its answer is told */
    bool running; /* a lane has it, or its answer is being told */
    struct arena arena; /* of what is asked, or of the answer */
    int result;
    struct fn_error error;
};

/* What it says of the status. */
struct operator_question {
    struct operator_job job;
    void (*done)(struct runner *r);
    const struct fn_kv *given, *pairs; /* the plugin's, and their copy */
    uint32_t given_n, n;
};

/* Keys of a ConfigureRunner on their way to the plugin. */
struct operator_change {
    struct operator_job job;
    struct engage_config *from; /* NULL: gone */
    struct kvs keys;     /* for the plugin */
    struct kvs settings; /* for the node, which has them already */
};

/* Lines of functions on their way to the plugin: a reader as others are. */
struct operator_feed {
    struct operator_job job;
    struct engage_logs logs;
    struct env_timer pause; /* after lines that it did not take */
    void (*taken)(struct runner *r); /* the plugin has got lines, which others may read there */
    bool on; /* it reads */
    const struct fn_log_line **lines;
    uint32_t n;
};

/* Lines of the plugin for one reader (history.c). */
struct operator_read {
    struct operator_job job; /* the reader may go meanwhile */
    struct fn_log_query query;
    uint64_t cursor;
    void (*done)(struct runner *r);
    const struct fn_log_line *const *lines; /* the plugin's, until its next call */
    uint32_t n;
};

void operator_init(struct runner *r);
void operator_start(struct runner *r);
void operator_forget_timers(struct runner *r);
void operator_finish(struct runner *r);
bool operator_is_asked(const struct runner *r); /* a lane has a question */
bool operator_has_lines(const struct runner *r); /* that the plugin has not got yet */
bool operator_has_history(const struct runner *r);
/* While r->read is not asking; done() follows, never from inside. */
void operator_read(struct runner *r, const struct log_query *q, uint64_t cursor,
                   void (*done)(struct runner *r));
void operator_on_configure(void *endpoint, struct engage_config *config);
void operator_on_configure_gone(void *endpoint, struct engage_config *config);
bool operator_says_status(const struct runner *r);
void operator_ask(struct runner *r, void (*done)(struct runner *r)); /* perhaps from inside */

struct status {
    struct operator_question question;
    struct buf request;   /* what the last run was asked */
    struct env_task next; /* the run of who asked something else */
    struct rcall *run;       /* of the status image; NULL = none runs */
    struct engage_asks asks; /* that wait for it */
    bool offline;            /* it has no network */
    bool too_much;           /* was answered */
    struct buf details;
    int64_t fresh_until_ns;
    struct engage_status last; /* the last run; its texts are these: */
    char text[FN_ERROR_TEXT_MAX];
    char id[CALL_ID_LEN + 1];
    char created[TIME_TEXT_MAX], started[TIME_TEXT_MAX], completed[TIME_TEXT_MAX];
};

void status_init(struct runner *r);
void status_finish(struct runner *r); /* those who wait are not told */
void status_forget(struct runner *r); /* what was cached */
void status_forget_tasks(struct runner *r);
void status_on_ask(void *endpoint, struct engage_ask *ask);
void status_on_gone(void *endpoint, struct engage_ask *ask);

/* ---- memory of calls that wait (memory.c) -------------------------------------------------- */

/* False: all calls together, or those of its app, hold enough. */
bool rcall_charge(struct rcall *rc, size_t bytes);
void rcall_uncharge(struct rcall *rc, size_t bytes);
void rcall_leave_memory(struct rcall *rc); /* it is over */

/* refusal.c: rc->refusal says what there is now. Its queue, if it has one, is still there. */
void refusal_fill(struct rcall *rc, enum engage_reason reason);

/* ---- phases of a start (phases.c) ---------------------------------------------------------- */

enum phase {
    PHASE_PULL,    /* until the image is there */
    PHASE_PREPARE, /* until memory and CPU are */
    PHASE_CREATE,  /* until the engine has started it */
    PHASE_INIT,    /* until the function has published its socket */
    PHASES_N
};
extern const char *const phase_names[PHASES_N];
void phases_count(const struct container *c); /* all of them are over */
/* Of each, the part during which `rc` waited here. A later container's replace those before. */
void phases_note(const struct container *c, struct rcall *rc);

#endif
