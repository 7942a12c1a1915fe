/* Cluster: load balancers, runners and a trace of calls around the project's own placement state
 * machine (core/place) and the placer of a plugin file.
 *
 * What is real: the plugin, its host tables, core/place with its rounds, waits, wakes and retries.
 * What is a model: links, runners (memory, idle containers, cold starts, refusals), functions, the
 * arrival of calls, membership. docs/simulator.md says what the model leaves out. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <sim/scenario.h>
#include <sim/sim.h>

#define CLUSTER_INNER_MAX 7u

struct cluster_options {
    uint64_t seed;
    bool nasty; /* nastiness drawn from the seed */
    const char *path;  /* plugin file with the placer */
    const char *use;   /* its factory; NULL when the file has one placer */
    const char *inner[CLUSTER_INNER_MAX]; /* files of placers that it wraps, innermost first */
    uint32_t n_inner;
    int64_t (*real_ns)(void); /* for the time of a decision; NULL = not measured */
    void (*still)(int64_t at_ns); /* sim_options.still, at that time of the run; NULL = abort() */
};

/* Counts are of calls that arrived after warm_up, unless said otherwise. */
struct cluster_result {
    char name[64]; /* "naive 1.0" */
    uint64_t calls;
    uint64_t placed;  /* ran to their end */
    uint64_t refused; /* given up by placement: an answer 503 */
    uint64_t lost;    /* their runner died: a failure without proof, never tried again */
    uint64_t cold;    /* of placed */
    uint64_t attempts;
    uint64_t busy;        /* attempts that a runner refused */
    uint64_t unreachable; /* attempts that met no runner */
    uint64_t decisions;   /* all, warm-up included */
    uint64_t placed_all;  /* warm-up included */
    int64_t wait_p50_ns, wait_p99_ns; /* arrival to the start of the function's work */
    uint64_t slowdown_p50, slowdown_p99; /* 1/1000; (end - arrival) / service time */
    uint32_t changes;     /* of membership seen by the first load balancer */
    bool has_homes;       /* an idle cluster gives a function the same runner each time */
    uint64_t homes;       /* functions x changes */
    uint64_t moved;       /* of these: to another runner */
    uint64_t unaffected;  /* of homes: the runner stayed, and no new one took it */
    uint64_t collateral;  /* of unaffected: moved all the same */
    uint32_t used;        /* runners that ran at least one call */
    int64_t real_ns;      /* real time of the run, without loading and homes */
    int64_t decide_ns; /* real time of one decision at the trace's middle, mean; 0 = not measured */
    uint64_t bad_answers;
    char first_bad[PLUGIN_ANSWER_WHAT_MAX]; /* what was wrong with the first of them */
    uint64_t events;
    uint64_t hash;
    int64_t ended_ns;     /* virtual, from the start */
};

/* Runs the scenario once. 0; FN_E_* and *reterr, with all problems of file and options in *p. */
int cluster_run(const struct scenario *sc, const struct cluster_options *o,
                struct cluster_result *ret, struct conf_problems *p, struct fn_error *reterr);

/* Appends a line for each expectation of the scenario that the run did not keep:
 * "churn.yaml:31:13: cold_max, got 3.14 percent; expected at most 2". Returns their number. */
uint32_t cluster_expect(const struct scenario *sc, const struct cluster_result *r, struct buf *out);

/* plugin_file_check(), and no plugin that starts threads (FN_PLUGIN_HAS_THREADS): SIM101. */
int sim_plugin_open(struct plugin_host *h, const char *path, struct plugin_file **ret,
                    struct buf *lines, struct fn_error *reterr);

#endif
