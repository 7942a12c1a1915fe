/* Scenario: what is simulated, read from YAML through option tables like fn.yaml.
 *
 * A file with mistakes gets all of them as lines "burst.yaml:7:5: ...", with the nearest key, the
 * ranges and the units of fn.yaml. docs/simulator.md lists every key. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <conf/conf.h>

#define SCENARIO_EVENTS_MAX 1000u
#define SCENARIO_CELLS_MAX  20000000u /* runners (joining ones too) x functions */

struct scenario_top {
    const char *summary;
    int64_t duration_ns;
    int64_t warm_up_ns; /* calls that arrive before are not counted */
    int64_t calls_max;  /* 0 = until the duration is over */
    int64_t lbs;
};

struct scenario_runners {
    int64_t count;
    int64_t memory; /* bytes */
    int64_t containers_per_function; /* 0 = no limit */
    int64_t cpus;                    /* 0 = not modelled */
    int64_t queue;                   /* calls that may wait at a runner */
    int64_t idle_timeout_ns;
    int64_t cold_start_ns;
    int64_t cold_spread; /* percent */
    struct fn_strlist labels; /* sets that runners have in turn */
};

struct scenario_functions {
    int64_t count;
    const char *popularity;
    int64_t skew; /* percent: exponent of zipf */
    int64_t memory;
    const char *memory_shape;
    const char *duration_shape;
    int64_t duration_ns;
    int64_t spread; /* percent: sigma of lognormal */
    struct fn_strlist config, annotations; /* of functions in turn */
};

struct scenario_arrivals {
    const char *shape;
    int64_t rate; /* calls per second, mean over all */
    int64_t burst_factor;
    int64_t burst_every_ns;
    int64_t burst_length_ns;
    int64_t period_ns;
    int64_t low; /* percent of the mean at the bottom of the period */
};

struct scenario_network {
    int64_t delay_ns;
    int64_t detect_ns;
    int64_t publish_ns;
};

struct scenario_placement {
    int64_t timeout_ns;
    int64_t retry_min_ns;
    int64_t retry_max_ns;
    int64_t waiting_max;
    int64_t decision_cost_ns;
};

/* What a run must reach; keys that are not in the file are not looked at. */
struct scenario_expect {
    int64_t wait_p99_max_ns;
    int64_t slowdown_p99_max;
    int64_t refused_max; /* percent */
    int64_t cold_max;    /* percent */
    int64_t lost_max;
    int64_t collateral_max; /* percent */
};

struct scenario_event {
    int64_t at_ns; /* from the start */
    const char *what;
    int64_t runner; /* first one */
    int64_t count;
    int64_t back_after_ns; /* 0 = never */
};

struct scenario {
    const struct scenario_top *top;
    const struct scenario_runners *runners;
    const struct scenario_functions *functions;
    const struct scenario_arrivals *arrivals;
    const struct scenario_network *network;
    const struct scenario_placement *placement;
    const struct conf_values *expect; /* of struct scenario_expect; source[i] NULL = not set */
    struct scenario_event *events; /* in order of time */
    uint32_t n_events;
    uint32_t n_runners; /* with those that join */
    /* for the placer's options: */
    struct conf *file;
    struct conf_node *placer; /* or NULL */
    struct conf_override *placer_overrides; /* key NULL ends */
    struct scenario_priv *priv;
};

/* Reads a file; `sets` are "section.key=value" texts of --set, n of them. 0 and *ret, or
 * FN_E_INVALID with lines in *p. [init] */
int scenario_load(const char *path, const char *const *sets, uint32_t n, struct scenario **ret,
                  struct conf_problems *p);
void scenario_destroy(struct scenario *s); /* NULL ok */
/* The keys as Markdown tables, for docs/simulator.md. */
int scenario_reference(struct buf *out);

#endif
