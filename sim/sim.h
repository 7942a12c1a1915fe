/* Sim: the other implementation of what core/loop offers: virtual time, chance from a seed, worker
 * lanes as fibres, and scripted programs and HTTP.
 *
 * Everything runs in the calling thread. Time stands still while code runs and moves to the next
 * timer when nothing is left to do, so a run costs what it computes and the same seed gives the
 * same run. Each event goes into a rolling hash: two runs with equal hashes did the same things at
 * the same virtual times.
 *
 *   struct sim *s = sim_create(&(struct sim_options){ .seed = 7 });
 *   struct plugin_host *h = plugin_host_create(sim_env(s));   clock, timer, log, metric, rng
 *   sim_script_offer(s, h);                                   fn.op, fn.http, fn.exec, fn.proc
 *   ... plugin_create(), sim_run_op() for worker methods, sim_run() for timers ...
 *
 * A blocking operation (a worker method of a driver or control plane) runs on a fibre:
 * fn_op.sleep_until(), fn.exec and fn.http suspend it and time goes on. A plugin may hold no mutex
 * and no thread-local state over such a call. docs/simulator.md says what is modelled and what is
 * not. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <base/env.h>
#include <base/err.h>
#include <plugin/plugin.h>
#include <stdbool.h>

struct sim;

/* What a real node does within its contract and a clean simulator does not. Zeroed = clean: timers
 * fire exactly on time, equal deadlines in the order they were set. Simulator's own events (fibres,
 * sim_at()) are exact always. */
struct sim_nasty {
    int64_t late_max_ns;     /* timers fire up to this late */
    int64_t batch_ns;        /* timers fire together at multiples of this */
    int64_t jump_max_ns;     /* `now` jumps forward up to this between two callbacks ... */
    uint32_t jump_one_in;    /* ... once in this many events; 0 = never */
    uint32_t refuse_one_in;  /* a lane's queue is full once in this many submits; 0 = never */
    int64_t start_max_ns;    /* a submitted operation starts up to this late */
    bool shuffle;            /* equal deadlines fire in an order drawn from the seed: within what
                                fn_timer_if promises, not within what env.h promises to the core */
};

/* So many within so much of virtual time: it does not pass any more. */
#define SIM_STILL_EVENTS 10000000u
#define SIM_STILL_NS     (100 * ENV_MS)

struct sim_options {
    uint64_t seed;
    struct sim_nasty nasty;
    /* Time stands still, or nearly: somebody sets a timer or a task anew for ever. Must not return;
     * NULL = abort(). */
    void (*still)(void *ud);
    void *still_ud;
};

/* Memory of the simulator itself: it does not run out, whatever that of the nodes does. A program
 * that makes theirs fail spares what is allocated while sim_is_outside(). sim_alloc() zeroes. */
void *sim_alloc(size_t size);
void *sim_resize(void *p, size_t size);
void sim_outside_begin(void); /* nest */
void sim_outside_end(void);
bool sim_is_outside(void);

/* Draws each kind of nastiness for itself (none, rare, heavy), so that some seeds have only one. */
struct sim_nasty sim_nasty_from_seed(uint64_t seed);

struct sim *sim_create(const struct sim_options *o); /* NULL when out of memory */
void sim_destroy(struct sim *s); /* operations under way are dropped with their stacks; NULL ok */
struct env *sim_env(struct sim *s); /* now starts at 1000 s, wall at 2026-11-21T04:17:24.501Z */
int64_t sim_now_ns(const struct sim *s);

/* Operations that a lane runs at a time; as a node's with default options to begin with. */
void sim_lane_width(struct sim *s, enum env_lane lane, uint32_t width);

/* ---- letting time pass ---------------------------------------------------------------------- */

/* Runs deferred tasks, then the next timer and the tasks after it. False when nothing is left. */
bool sim_step(struct sim *s);
/* Steps until nothing is due before or at `at_ns`, then now = at_ns. */
void sim_run_until(struct sim *s, int64_t at_ns);
/* Steps until nothing is left or `events` were run (0 = no limit). True = nothing is left. */
bool sim_run(struct sim *s, uint64_t events);
/* When the next event is due; INT64_MAX: nothing is left. For worlds of several simulated hosts,
 * which step whichever is next. */
int64_t sim_due_ns(const struct sim *s);
/* Moves `now` forward without running anything: the clock jumped while the node was stopped. */
void sim_jump(struct sim *s, int64_t ns);

/* The wall clock is set, to either side; `now` goes on. */
void sim_set_wall(struct sim *s, int64_t by_ns);

/* Runs fn on a fibre as a blocking operation and steps until it returned. deadline_ns: absolute, 0
 * = none. cancel_at_ns: when the operation is cancelled, 0 = never. 0, or FN_E_ABORTED when nothing
 * was left that could have woken it. */
struct sim_op {
    void (*fn)(void *ud, struct fn_op *op); /* [worker] */
    void *ud;
    int64_t deadline_ns;
    int64_t cancel_at_ns;
};
int sim_run_op(struct sim *s, const struct sim_op *op);
uint32_t sim_ops_running(const struct sim *s); /* fibres that have not returned */
/* Inside an operation: lets `ns` pass. 0, FN_E_CANCELLED or FN_E_DEADLINE. */
int sim_op_pause(struct fn_op *op, int64_t ns);

/* ---- exact events of models, and the trace --------------------------------------------------- */

/* timer_set() of the env without nastiness; env_timer_clear() ends it. */
void sim_at(struct sim *s, struct env_timer *t, int64_t at_ns);
/* Goes into the hash with the present time. */
void sim_record(struct sim *s, uint32_t what, uint64_t a, uint64_t b);
uint64_t sim_hash(const struct sim *s);
uint64_t sim_events(const struct sim *s); /* timers fired and tasks run */

/* splitmix64: a stream of its own per model, so that a change in one does not shift the others. */
struct sim_rng {
    uint64_t state;
};
struct sim_rng sim_rng_make(uint64_t seed, uint64_t stream);
uint64_t sim_rng_u64(struct sim_rng *r);
uint64_t sim_rng_below(struct sim_rng *r, uint64_t n); /* 0..n-1; 0 for n = 0 */

/* ---- scripted fn.exec, fn.http and fn.proc
 * ---------------------------------------------------- */

enum sim_script_kind { SIM_EXEC, SIM_HTTP, SIM_PROC };

/* One expected request and what comes of it. A step is used once unless `times` says more; the
 * first unused step whose kind and prefix fit wins, so that order matters only between equal
 * prefixes. What fits no step is refused (FN_E_UNAVAILABLE), which is also what an empty script
 * does: a fake that says yes to everything proves nothing. */
struct sim_step_spec {
    enum sim_script_kind kind;
    const char *expect; /* prefix of "argv0 argv1 ..." or "GET http://host/path"; borrowed */
    uint32_t times;     /* 0 = once; UINT32_MAX = always */
    int64_t delay_ns;   /* before anything comes back; longer than a deadline = a hang */
    int32_t fail;       /* FN_E_*: no answer at all; 0 = answer */
    const char *text;   /* sentence of the failure; borrowed, may be NULL */
    int32_t status;     /* exit code (or -signal) or HTTP status */
    const char *out;    /* stdout, or the body; borrowed, may be NULL */
    const char *err;    /* stderr */
    uint32_t oom;       /* SIM_PROC: the memory limit killed it */
    uint32_t garbage;   /* that many bytes from the seed after `out` */
};

/* Appends a step; the texts live as long as the sim. */
void sim_script_add(struct sim *s, const struct sim_step_spec *step);
void sim_script_clear(struct sim *s);
/* Requests so far, and those that fitted no step. */
uint32_t sim_script_asked(const struct sim *s);
uint32_t sim_script_refused(const struct sim *s);
/* Steps that nobody asked for. */
uint32_t sim_script_left(const struct sim *s);
/* The last request: "vboxmanage list vms", "POST http://localhost/x {body}"; borrowed. */
const char *sim_script_last(const struct sim *s);
/* The table of fn.op, for operations that are no plugin's. */
const struct fn_op_if *sim_op_table(void);
/* Offers fn.op, fn.exec, fn.http and fn.proc to the plugins of a host. [init] */
void sim_script_offer(struct sim *s, struct plugin_host *h);

#endif
