/* Private to core/runner: containers that are kept ready for calls to come (warm.c, warm_rule.c),
 * and what containers are made from (task.c). See runner_int.h. */
#ifndef RUNNER_WARM_H
#define RUNNER_WARM_H

#include <base/arena.h>
#include <fn/predictor.h>
#include <runner/runner.h>
#include <sys/queue.h>

struct slot_queue;
struct container;
struct rcall;

/* ---- what a container is made from (task.c) ------------------------------------------------ */

/* The part of a container's task that comes from a call. */
struct mould {
    struct fn_task task; /* its texts are the call's, or in the arena of who keeps it */
    int64_t idle_timeout_ns;
    int64_t start_limit_ns; /* of the function; 0 = the runner's */
};

/* Whether the function says how long a start may take, and how long. FN_E_INVALID. */
int task_check_start_limit(struct rcall *rc, struct fn_error *err);
struct mould mould_of_call(const struct rcall *rc); /* borrowed: what the call has */
/* Copies the texts of `from`. FN_E_EXHAUSTED: *to is not to be used. */
int mould_copy(struct mould *to, const struct mould *from, struct arena *arena);
/* Fills c->task and its times. FN_E_EXHAUSTED. */
int task_fill(struct container *c, const struct mould *mould);

/* ---- when idle ones are frozen (freeze.c) -------------------------------------------------- */

struct freezing {
    int64_t freeze_ns, thaw_ns; /* what they take of late; 0 = not known */
};

void freeze_taken(struct container *c);                 /* a call takes it out of q->idle */
void freeze_measured(struct container *c);              /* its operation, which is over */
int64_t freeze_due_ns(const struct container *c);       /* idle: not before; INT64_MAX = never */
/* Idle: `now`: freeze it, else later. wanted: a call may come soon. */
int64_t freeze_look_ns(struct container *c, bool wanted, int64_t now);

/* ---- the pool (warm.c) --------------------------------------------------------------------- */

#define WARM_STARTS_MAX 2u /* at a time, beside those that calls wait for */

/* What the pool knows of a function. */
struct warm_queue {
    struct slot_queue *q;
    TAILQ_ENTRY(warm_queue) link;         /* r->warm.queues */
    TAILQ_ENTRY(warm_queue) lacking_link; /* r->warm.lacking */
    bool lacking;
    struct arena arena; /* of mould */
    struct mould mould; /* of the call that a container was last started for */
    bool has_mould;
    uint32_t keep;     /* containers that it should have, those that run calls included */
    uint32_t starting; /* containers that start for the pool */
    uint32_t running_max;        /* since it was asked about, as the three below */
    uint64_t calls, missed, hits;
    int64_t asked_ns; /* 0 = not yet */
    int64_t called_ns;
    int64_t start_ns; /* from a launch to the socket, of late; 0 = none yet */
    int64_t backoff_ns, not_before_ns; /* of its next start for the pool */
    unsigned char *state; /* the rule's */
};

TAILQ_HEAD(warm_queue_list, warm_queue);

struct warm_metrics {
    struct metric *now, *hits, *misses, *started, *failed, *expired, *evicted;
};

struct warm {
    struct warm_queue_list queues;  /* who was asked about longest ago first */
    struct warm_queue_list lacking; /* that should have more */
    struct env_timer timer;
    struct env_task task; /* starts some */
    uint64_t held_bytes;  /* charged to warm containers, or soon */
    uint32_t starting;
    struct runner_warm_counts counts;
    struct warm_metrics metrics;
};

void warm_init(struct runner *r);
void warm_set_options(struct runner *r); /* r->opt changed */
void warm_stop(struct runner *r);        /* for good: it drains, or ends */

/* Only while runner.warm_max > 0: a call of q came, and will take a container or wait. */
void warm_arrived(struct slot_queue *q, const struct rcall *rc);
void warm_remember(struct slot_queue *q, const struct rcall *rc); /* starts are made as for rc */
void warm_forget(struct slot_queue *q);
/* q should have all containers that it has, and perhaps more. */
bool warm_wants(const struct slot_queue *q);
uint32_t warm_starting(const struct slot_queue *q);
/* Gives starts of the pool to calls that wait and have none. */
void warm_adopt(struct slot_queue *q);

/* Of containers; hit, lost, evicted and failed: of warm ones. */
void warm_begins(struct container *c);  /* it is launched for the pool */
void warm_started(struct container *c); /* its socket is there */
void warm_failed(struct container *c);
bool warm_keep(struct container *c);    /* it would go for want of calls: it stays all the same */
void warm_hit(struct container *c);     /* a call takes it */
void warm_evicted(struct container *c); /* warm_lost() follows */
void warm_lost(struct container *c);    /* no more: it is closed, or a call's */

/* ---- how many (warm_rule.c) ---------------------------------------------------------------- */

/* The rule of a runner without a predictor; zero to begin with. */
struct warm_rule {
    uint32_t level;
    int64_t reached_ns; /* when as many calls as that ran at once, or one missed, last */
    int64_t stepped_ns; /* when it went down last */
};

uint32_t warm_rule(struct warm_rule *s, const struct fn_traffic *d, int64_t hold_ns);

#endif
