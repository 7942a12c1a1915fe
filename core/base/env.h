/* Env: time, chance, timers and worker lanes as arguments.
 *
 * State machines (place, lb, runner, npm) live on this table only; core/loop is its real
 * implementation and sim/ the other one. All functions are [loop] unless marked; `now` is constant
 * during one callback. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <fn/host.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct env;

/* Intrusive one-shot timer; zeroed = not set. Equal deadlines fire in the order they were set. */
struct env_timer {
    void (*cb)(struct env_timer *t);
    int64_t at_ns;
    size_t heap_slot; /* in timers.h; 0 = not set, else index + 1 */
};

/* Intrusive "run soon, from the loop, not from inside this call"; zeroed = not queued. */
struct env_task {
    void (*cb)(struct env_task *t);
    TAILQ_ENTRY(env_task) link;
    bool queued;
};

/* Lanes of blocking work, each with its own threads and a bounded queue, so that a slow registry
 * never makes freezing impossible. */
enum env_lane {
    ENV_LANE_FAST,    /* freeze, thaw, inspect: milliseconds */
    ENV_LANE_SLOW,    /* pull, create, start, remove: seconds to minutes */
    ENV_LANE_CONTROL, /* control planes, API node: own threads */
    ENV_LANE_NAMES,   /* names of hosts, which a resolver may take its time for */
    ENV_LANE_ENDS,    /* listeners that may be slow hear of ended calls, and of changes */
    ENV_LANES_N
};

/* One blocking operation. Owned by the submitter until done() was called; done() is the last touch
 * and may free it. */
struct env_work {
    void (*run)(struct env_work *w, struct fn_op *op); /* [worker] */
    void (*done)(struct env_work *w);                  /* [loop] exactly once after submit == 0 */
    enum env_lane lane;
    int64_t deadline_ns; /* told to the operation through fn_op; 0 = none */
    int64_t timeout_ns;  /* makes the deadline when a thread takes the work up; 0 = it stays */
    const char *owner; /* name of the plugin that runs, or of what is asked; NULL = none. Borrowed
                          until done(). One that has too many operations which do not return gets
                          FN_E_EXHAUSTED. */
    /* the implementation's own: */
    TAILQ_ENTRY(env_work) link;
    struct fn_op *op;
    int cancelled; /* atomic: set through env_cancel() */
};

struct env {
    int64_t (*now_ns)(struct env *);  /* [any] monotonic */
    int64_t (*wall_ns)(struct env *); /* [any] since 1970 */
    uint64_t (*random_u64)(struct env *);
    void (*timer_set)(struct env *, struct env_timer *, int64_t at_ns); /* moves one that is set */
    void (*timer_clear)(struct env *, struct env_timer *);              /* not set: no effect */
    void (*defer)(struct env *, struct env_task *); /* already queued: no effect */
    void (*undefer)(struct env *, struct env_task *);
    int (*submit)(struct env *, struct env_work *); /* 0 or FN_E_EXHAUSTED: lane queue is full */
    void (*cancel)(struct env *, struct env_work *); /* asks the operation to end early */
    /* [any, not from the loop] A foreign thread becomes the loop between these two; deferred tasks
     * run before leave() returns. */
    void (*enter)(struct env *);
    void (*leave)(struct env *);
};

#define ENV_US 1000LL
#define ENV_MS 1000000LL
#define ENV_S  1000000000LL

static inline int64_t env_now_ns(struct env *e) { return e->now_ns(e); }
static inline int64_t env_wall_ns(struct env *e) { return e->wall_ns(e); }
static inline uint64_t env_random_u64(struct env *e) { return e->random_u64(e); }
static inline void env_timer_clear(struct env *e, struct env_timer *t) { e->timer_clear(e, t); }
static inline void env_defer(struct env *e, struct env_task *t) { e->defer(e, t); }
static inline void env_undefer(struct env *e, struct env_task *t) { e->undefer(e, t); }
static inline int env_submit(struct env *e, struct env_work *w) { return e->submit(e, w); }
static inline void env_cancel(struct env *e, struct env_work *w) { e->cancel(e, w); }

static inline void env_timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    e->timer_set(e, t, at_ns);
}

static inline bool env_timer_is_set(const struct env_timer *t) { return t->heap_slot != 0; }

/* Sets it unless it fires by then anyway. */
static inline void env_timer_hasten(struct env *e, struct env_timer *t, int64_t at_ns)
{
    if (!env_timer_is_set(t) || t->at_ns > at_ns) {
        e->timer_set(e, t, at_ns);
    }
}

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
