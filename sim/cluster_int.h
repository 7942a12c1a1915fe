/* What the files of the cluster model share. */
#ifndef SIM_CLUSTER_INT_H
#define SIM_CLUSTER_INT_H

#include <sim/cluster.h>

#include <base/arena.h>
#include <place/place.h>
#include <sim/fixed.h>
#include <sim/sim_int.h>
#include <sim/stats.h>

/* First argument of sim_record(). */
enum cluster_what { CLUSTER_ARRIVED = 100, CLUSTER_TRY, CLUSTER_STARTED, CLUSTER_ENDED,
                    CLUSTER_MEMBER, CLUSTER_HOMES };

enum arrival_kind { ARRIVE_TIMER, ARRIVE_POISSON, ARRIVE_BURSTS };

struct function {
    char id[27];
    struct fn_call view;
    uint64_t memory; /* bytes */
    uint64_t median_ns;
    uint64_t weight;
    /* alias method over the weights: */
    uint64_t keep; /* of 2^32 */
    uint32_t other;
    /* shape azure: */
    struct cluster *cluster;
    struct env_timer timer;
    enum arrival_kind kind;
    uint64_t gap_ns;
    uint64_t left; /* calls of the running burst */
};

/* States: REACHING (sent, not there yet) -> QUEUED at the runner -> RUNNING -> over; parked and
 * undecided calls are core/place's. `timer` belongs to the state. */
enum call_state { CALL_FREE, CALL_PLACING, CALL_REACHING, CALL_REFUSED, CALL_QUEUED, CALL_RUNNING,
                  CALL_LOST };

struct call {
    struct env_timer timer;
    struct cluster *cluster;
    struct lb *lb;
    uint32_t function;
    uint32_t runner;
    enum call_state state;
    uint32_t why; /* CALL_REFUSED: FN_WHY_* */
    int64_t arrived_ns;
    int64_t started_ns; /* of its work */
    int64_t service_ns;
    bool cold;
    TAILQ_ENTRY(call) link; /* of its runner's calls, or of the free ones */
    TAILQ_ENTRY(call) link_queue;
    struct place_call pc; /* last: its session is not cleared */
};
TAILQ_HEAD(call_list, call);

/* An idle container. Lists by index into fleet.idle; 0 = none. */
struct idle {
    uint32_t function;
    uint32_t newer, older;           /* of the runner */
    uint32_t same_newer, same_older; /* of the runner and function */
    int64_t since_ns;
};

struct cell {
    uint32_t idle;  /* the newest */
    uint32_t total; /* containers, idle or busy */
};

enum listing { LIST_ABSENT, LIST_DRAINING, LIST_ACTIVE };

struct runner {
    struct cluster *cluster;
    char address[32];
    uint64_t memory_free;
    uint32_t busy;
    uint32_t newest, oldest; /* idle containers */
    bool alive;
    bool silent;   /* dead without a word: its machine vanished */
    bool link_up;  /* what load balancers see, or soon will */
    bool used;
    int64_t dead_ns;
    enum listing listing;
    uint32_t queued;
    struct call_list calls; /* running and queued */
    struct call_list queue;
    struct env_timer link_timer;
};

struct engage_link {
    struct lb *lb;
    uint32_t runner;
    bool up;
    const struct engage_link_cb *cb;
    void *ud;
};

struct lb {
    struct cluster *cluster;
    struct engage_client client;
    struct plugin_host *host;
    struct plugin *stack[CLUSTER_INNER_MAX + 1];
    uint32_t n_stack;
    struct place *place;
    struct engage_link **links; /* by runner; NULL = none */
    struct env_timer publish_timer;
    struct fn_runner *list; /* as last published */
    uint32_t n_list;
    int64_t busy_until_ns; /* decisions cost time: placement.decision_cost */
};

struct plan { /* one event of the scenario, or its end */
    struct env_timer timer;
    struct cluster *cluster;
    const struct scenario_event *event;
    bool back;
};

struct cluster {
    const struct scenario *sc;
    const struct cluster_options *o;
    struct cluster_result *r;
    struct conf_problems *problems;
    struct sim *sim;
    int64_t start_ns;
    int64_t counted_ns; /* calls that arrive before are warm-up */
    struct sim_rng rng_arrive, rng_serve, rng_fleet, rng_member;
    /* traffic.c */
    struct function *functions;
    uint32_t n_functions;
    struct arena mores; /* what functions' views have behind them */
    uint64_t gap_q10; /* mean time between calls, 1/1024 ns */
    uint64_t next_q10;
    struct env_timer arrival;
    uint64_t arrived;
    bool over; /* no more calls arrive */
    struct env_timer end;
    /* fleet.c */
    struct runner *runners;
    uint32_t n_runners;
    struct cell *cells; /* runner * n_functions + function */
    struct idle *idle;
    uint32_t n_idle, cap_idle, free_idle;
    /* cluster.c */
    struct lb *lbs;
    uint32_t n_lbs;
    struct call_list free_calls;
    struct call **slabs;
    uint32_t n_slabs;
    uint64_t active;
    bool failed; /* out of memory */
    struct stats *wait, *slowdown;
    /* member.c */
    struct plan *plans;
    uint32_t n_plans;
    /* homes.c */
    struct lb probe; /* instances of their own, so that looking changes nothing */
    uint64_t views;
    int64_t homes_ns; /* real time spent */
    uint64_t *homes; /* runner id + 1 per function; 0 = none */
};

#define SLAB_CALLS 256u

/* traffic.c */
int traffic_create(struct cluster *c);
void traffic_start(struct cluster *c);
void traffic_destroy(struct cluster *c);
uint64_t traffic_service_ns(struct cluster *c, const struct function *f);

/* fleet.c */
int fleet_create(struct cluster *c);
void fleet_destroy(struct cluster *c);
/* The call is at its runner. True: it runs or waits there; false: refused. */
bool fleet_offer(struct cluster *c, struct call *call);
/* Its work is done. */
void fleet_release(struct cluster *c, struct call *call);
/* Loses everything: calls go to call_lose(). */
void fleet_kill(struct cluster *c, struct runner *r, int64_t told_ns);

/* cluster.c */
void call_arrive(struct cluster *c, uint32_t function);
void call_finished(struct env_timer *t);       /* timer of a running call */
void call_lose(struct call *call, int64_t at_ns);
int lb_open_plugins(struct lb *lb, struct fn_error *reterr);
void lb_close_plugins(struct lb *lb);

/* member.c */
void member_client(struct lb *lb);
int member_create(struct cluster *c);
void member_start(struct cluster *c);
void member_destroy(struct cluster *c);

/* homes.c */
int homes_create(struct cluster *c, struct fn_error *reterr);
/* The first load balancer gets another list. */
void homes_changed(struct cluster *c, const struct fn_runner *old, uint32_t n_old,
                   const struct fn_runner *list, uint32_t n);
void homes_time(struct cluster *c);
void homes_destroy(struct cluster *c);

#endif
