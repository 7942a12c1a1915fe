/* What the files of the simulated host share. */
#ifndef SIM_SIM_INT_H
#define SIM_SIM_INT_H

#include <sim/sim.h>

#include <base/buf.h>
#include <base/timers.h>
#include <sys/queue.h>

/* First argument of sim_record() for the simulated host's own events; models begin at 100. */
enum sim_what {
    SIM_TIMER = 1,
    SIM_TASK,
    SIM_SUBMIT,
    SIM_REFUSE,
    SIM_OP_START,
    SIM_OP_END,
    SIM_ASKED,
};

struct fibre;

struct sim_lane {
    struct sim *sim;
    TAILQ_HEAD(, env_work) queue;
    uint32_t queued;
    uint32_t running, width;
    struct env_timer start;
};

struct sim_stream;

struct sim {
    struct env env; /* first: &s->env is handed out */
    int64_t now_ns;
    int64_t wall_ns;
    struct sim_nasty nasty;
    struct sim_rng core_rng;  /* env.random_u64 */
    struct sim_rng sched_rng; /* nastiness */
    uint64_t hash;
    uint64_t events;
    int64_t still_ns;      /* since when events are counted for SIM_STILL_EVENTS */
    uint64_t still_events; /* those before */
    void (*still)(void *ud);
    void *still_ud;
    uint64_t tie;
    struct timers timers;
    TAILQ_HEAD(, env_task) tasks;
    struct sim_lane lanes[ENV_LANES_N];
    LIST_HEAD(, fn_op) ops;    /* started, not ended */
    LIST_HEAD(, fibre) fibres; /* not returned */
    LIST_HEAD(, fibre) spare;
    uint32_t n_fibres;
    struct fibre *running;
    struct sim_script *script;
};

void sim_settle(struct sim *s);

/* ---- lanes.c --------------------------------------------------------------------------------- */

void sim_lanes_init(struct sim *s);
void sim_lanes_finish(struct sim *s);
int sim_lanes_submit(struct env *e, struct env_work *w);
void sim_lanes_cancel(struct env *e, struct env_work *w);
extern const struct fn_op_if sim_op_if;

/* ---- fibre.c: one stack each, entered and left only by sim
 * ------------------------------------ */

/* Runs fn on a stack of its own until it suspends or returns. NULL when out of memory. */
struct fibre *fibre_start(struct sim *s, void (*fn)(void *ud), void *ud);
/* The running fibre goes to sleep; returns when somebody resumes it. */
void fibre_suspend(struct sim *s);
void fibre_resume(struct sim *s, struct fibre *f);
void fibres_destroy(struct sim *s);

/* ---- script.c -------------------------------------------------------------------------------- */

int sim_script_init(struct sim *s);
void sim_script_finish(struct sim *s);

#endif
