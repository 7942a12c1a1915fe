/* World: real load balancers and real runners, each on a simulated host of its own, joined by a
 * simulated network, with clients in front and container engines behind; in managed worlds with a
 * real node pool manager before a simulated cloud, in others with a real API node.
 *
 * Every node has its own struct sim: clock, timers, lanes. The world always steps the one whose
 * next event is due first, so that one seed gives one run. A node is entered by its own timers
 * alone: whoever wants something of another node sets a timer there (world_at()).
 *
 * A node that is killed is cut off: its connections break, its clients lose it, and what it still
 * does nobody hears; it ends by itself, so that it gives back what it holds. A new one takes its
 * place with no memory of it. */
#ifndef FND_SIM_WORLD_H
#define FND_SIM_WORLD_H

#include "books.h"
#include "plan.h"

#include <lb/lb.h>
#include <place/place.h>
#include <runner/runner.h>
#include <sim/sim.h>

#define LBS_MAX       4u
#define RUNNERS_MAX   6u
#define NODE_NAME_BYTES 16
#define FN_ID_BYTES   32
#define FOLDER_BYTES  64
#define API_NET_DEPLOYER LBS_MAX /* its way to the API node, beside those of load balancers */

struct world;
struct engine;

/* ---- world.c ------------------------------------------------------------------------------- */

/* One process of a node. */
struct node {
    struct world *w;
    struct sim *sim;
    struct env *env;
    char name[NODE_NAME_BYTES]; /* "lb1", "runner2" */
    uint32_t life;        /* of all nodes ever made; names it in the books */
    bool dead;            /* killed: nobody hears of it */
    int64_t frozen_until_ns; /* its process is stopped, and its clock goes on */
    int64_t frozen_ns;       /* so long in all, or less */
    int64_t scarce_until_ns; /* of its allocations one in so many fails */
    uint32_t scarce_one_in;
    struct node *next;
    bool is_runner; /* whom connections of load balancers lead to: it goes behind them */
    /* Its drain has ended. */
    bool (*over)(const struct node *n);
    /* Checks what it should have left, then frees it. */
    void (*destroy)(struct node *n);
};

struct api_node;
struct api_ask;
struct deploy;
struct version_call;

/* Of worlds with an API node: api_node.h, versions.c. */
struct api_world {
    struct api_node *node;
    struct deploy *deploy;
    struct sim_rng rng;
    LIST_HEAD(, api_ask) asks;
    struct api_faults {
        int64_t cut_until_ns, slow_ns, slow_until_ns;
        uint32_t loses; /* so many answers from now on */
    } faults[LBS_MAX + 1];
    char folder[FOLDER_BYTES];
    char fn_id[FUNCTIONS_MAX][FN_ID_BYTES];   /* "": it is not deployed */
    char last_id[FUNCTIONS_MAX][FN_ID_BYTES]; /* that it had */
    struct version_call *calls; /* by request */
    uint32_t n_calls;
    uint32_t known[LBS_MAX][FUNCTIONS_MAX]; /* newest version that the process has gone by */
    uint32_t names; /* ids that functions had */
    uint32_t rules; /* numbers that overriders had, in ruled worlds */
    bool exact;     /* it goes by the newest one of all */
    uint64_t told_404;
};

struct world {
    const struct plan *plan;
    const bool *left_out; /* by event of the plan; NULL = none */
    struct books *books;
    struct nights *nights;
    struct node *nodes; /* also dead ones that still end */
    struct sim *outside; /* the plan's own clock */
    struct lb_node *lbs[LBS_MAX];             /* NULL while there is none */
    struct runner_node *runners[RUNNERS_MAX]; /* the same */
    struct engine *engines[RUNNERS_MAX];      /* outlive the processes of their runners */
    struct net *net;
    struct npm_node *npm; /* NULL while there is none; these in managed worlds */
    struct cloud *cloud;
    struct sim_rng pool_rng;
    LIST_HEAD(, pool_call) pool_calls;
    int64_t pool_cut_until_ns[LBS_MAX];
    struct ask_net *asks; /* NULL: a manager's questions are bytes */
    int64_t said_ns[RUNNERS_MAX]; /* when a process there last said how many calls it runs */
    int64_t slow_ns[RUNNERS_MAX]; /* when a manager last saw one take a question and not answer */
    int64_t unsure_until_ns; /* load balancers may not have heard of a drain until then */
    int64_t upset_until_ns; /* what managers and load balancers know may be wrong until then */
    struct happening *happenings; /* by event of the plan */
    uint32_t lives;
    int64_t begun_ns, now_ns;
    int64_t heal_ns; /* when faults end */
    uint64_t steps;
    bool healed; /* faults are over */
    bool told;   /* the story goes to standard output */
    struct api_world a;
    uint64_t requests, answers_ok;
    uint64_t served[FUNCTIONS_MAX]; /* good answers, by function */
    bool crowded; /* crowds go on */
};

/* Makes a node's host; false: out of memory. */
void node_init(struct node *n, struct world *w, const char *kind, uint32_t index);
void node_finish(struct node *n);
/* What a world is made of can be made; else the program ends, and says why. */
void must_be(int r, const struct fn_error *e);
/* Steps until the world's clock stands at `at_ns` or a rule is broken. False: broken. */
bool world_run_until(struct world *w, int64_t at_ns);
/* From any node: `t` of node `n` fires at `at_ns`, or as soon as it can. */
static inline void world_at(struct node *n, struct env_timer *t, int64_t at_ns)
{
    sim_at(n->sim, t, at_ns);
}
/* A line of the story: "12.345678 lb1: ...". */
void world_tell(struct world *w, const struct node *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define tell(node_, ...)                                                                           \
    do {                                                                                           \
        if ((node_)->w->told) {                                                                    \
            world_tell((node_)->w, (node_), __VA_ARGS__);                                          \
        }                                                                                          \
    } while (0)

/* ---- scarce.c ------------------------------------------------------------------------------ */

void scarce_open(void); /* once */
void scarce_begin(uint64_t seed); /* a world's */
/* What is allocated now is this node's, NULL = nobody's. */
void scarce_enter(const struct node *n);
/* An allocation that happens now fails; `at`: where it is in the program. */
bool scarce_hits(const void *at);
struct scarce_place {
    const void *at;
    uint64_t asked, refused; /* while memory was scarce, in all worlds so far */
};
const struct scarce_place *scarce_next_place(const struct scarce_place *last); /* NULL = first */
uint64_t scarce_refused(void); /* in this world */

/* ---- net.c and net_engage.c, or ../wire/ --------------------------------------------------- */

struct net *net_create(struct world *w);
void net_destroy(struct net *net);
/* What runs now is this node's, NULL = nobody's. */
void net_enter(struct net *net, const struct node *n);
/* The client table of a load balancer. */
struct engage_client *net_client_create(struct net *net, struct lb_node *lb);
void net_client_destroy(struct engage_client *client);
struct engage_server *net_server_table(void);
/* A runner's process takes connections, or its machine answers that nobody does. */
void net_serve(struct net *net, struct runner_node *r);
/* It takes no more connections and calls, and says when those that it has are over. */
void net_drain_runner(struct net *net, struct runner_node *r, void (*done)(void *ud), void *ud);
/* Whether the fault of a plan_byte has happened. */
bool net_has_broken(const struct net *net);
/* Its process is gone: its connections break. */
void net_lose_runner(struct net *net, struct runner_node *r);
void net_lose_lb(struct net *net, struct lb_node *lb);
/* The node ends: what its connections still have is dropped. */
void net_forget(struct net *net, const struct node *n);
/* Runners end their calls in time. */
void net_check_times(struct net *net);
/* Faults. */
enum net_way { NET_TO = 1, NET_FROM = 2, NET_BOTH = NET_TO | NET_FROM }; /* a runner */
void net_part(struct net *net, uint32_t lb, uint32_t runner, enum net_way way, int64_t until_ns);
void net_slow(struct net *net, uint32_t lb, uint32_t runner, int64_t more_ns, int64_t until_ns);
void net_break_after(struct net *net, uint32_t lb, uint32_t runner, uint32_t frames, bool to);
void net_make_void(struct net *net, uint32_t lb, uint32_t runner);
void net_refuse(struct net *net, uint32_t runner, uint32_t streams);
void net_heal(struct net *net);
bool net_carries_api(void); /* it has a way to an API node */

/* ---- pool_net.c, ask_net.c, npm_node.c, cloud.c: managed worlds ---------------------------- */

#define POOL_COOLDOWN_NS (15 * ENV_S)

struct npm_node;
struct rpc;
struct rpc_service;
struct pool_client;

/* The network of a manager's process, for its questions to runners. */
struct rpc *pool_net_open(struct npm_node *npm);
void pool_net_close(struct rpc *rpc); /* its manager is gone */
/* Its process takes calls. */
void pool_net_serve(struct npm_node *npm);
/* Offers fn.rpc to the plugins of a load balancer. */
void pool_client_create(struct lb_node *l);
void pool_client_destroy(struct pool_client *pc); /* its plugins are gone; NULL ok */
void pool_net_lose(struct npm_node *npm); /* its process is gone */
void pool_net_cut(struct world *w, uint32_t lb, int64_t until_ns);
void pool_net_heal(struct world *w);

/* ask_net.c, or ../wire/: from the manager to its runners. */
struct ask_net *ask_net_create(struct world *w); /* NULL ok */
void ask_net_destroy(struct ask_net *net);
void ask_net_lose_npm(struct rpc *rpc);           /* its process is gone */
void ask_net_lose_runner(struct runner_node *r);
void ask_net_part(struct world *w, uint32_t runner, enum net_way way, int64_t until_ns);
void ask_net_slow(struct world *w, uint32_t runner, int64_t more_ns, int64_t until_ns);
/* The next connection breaks behind so many bytes that go there, or come back. */
void ask_net_break(struct world *w, uint32_t runner, bool back, bool is_void, uint32_t bytes);
void ask_net_hang(struct world *w, uint32_t runner, int64_t until_ns);
void ask_net_heal(struct world *w);

void npm_node_create(struct world *w);
void npm_node_look(struct npm_node *m); /* what it believes of its runners is right */
struct node *npm_node_base(struct npm_node *m);
const struct rpc_service *npm_node_service(const struct npm_node *m);
uint32_t npm_node_members(const struct npm_node *m); /* that load balancers are told of */
/* From any node. */
void npm_node_kill(struct npm_node *m);
void npm_node_drain(struct npm_node *m);

struct cloud *cloud_create(struct world *w);
void cloud_destroy(struct cloud *c);
/* The factory of the control plane; its options are a pointer to the manager's node. */
extern const struct fn_factory cloud_cplane;
uint32_t cloud_count(const struct cloud *c); /* machines that are there */
bool cloud_runs(const struct cloud *c, uint32_t runner);
void cloud_fail(struct cloud *c, uint32_t times);
void cloud_hang(struct cloud *c, int64_t until_ns);
void cloud_lose(struct cloud *c, uint32_t runner); /* this machine dies */
void cloud_heal(struct cloud *c);

/* ---- engine.c, function.c ------------------------------------------------------------------ */

struct engine *engine_create(struct world *w, uint32_t runner);
void engine_destroy(struct engine *e);
/* The factory of the driver; its options are a pointer to the node. */
extern const struct fn_factory engine_driver;
struct fnsock_if *engine_sockets_create(struct runner_node *r); /* freed with free() */
/* Faults. */
void engine_mode(struct engine *e, enum plan_kind kind, int64_t until_ns);
void engine_fail(struct engine *e, uint32_t method, uint32_t times, uint64_t chance);
void engine_exit_one(struct engine *e, uint64_t chance);
void engine_refuse_sockets(struct engine *e, uint32_t n);
void engine_heal(struct engine *e);
/* No container is there that should be gone. */
void engine_check_idle(struct engine *e);
/* What it has of a process of its runner. */
void engine_check_empty(struct engine *e, const struct runner_node *r);

/* ---- lb_node.c, runner_node.c, client.c ------------------------------------------------------ */

struct lb_node {
    struct node n; /* first */
    uint32_t index;
    struct plugin_host *host;
    LIST_HEAD(, lent) lent; /* its plugins, also replaced ones that are still in use */
    struct lent *pool;      /* that publishes */
    uint64_t reload_chance; /* of what the next one brings; 0 = what it began with */
    struct place *place;
    struct catalog *catalog;
    struct lb *lb;
    struct engage_client *client;
    struct pool_client *pool_client; /* NULL: nobody manages its runners */
    struct follow *follow;           /* NULL: functions are those of fn.yaml */
    struct catalog_source source;
    uint32_t rules; /* of ruled worlds: the number that its overrider gives to calls */
    struct id_maker ids;
    struct clients *clients;
    struct front *front; /* of front.c, or ../wire/front.c */
    struct env_timer kill, drain, reload;
    bool draining, drained, stopped;
    bool leaving; /* it ends when it is drained */
};

struct lb_node *lb_node_create(struct world *w, uint32_t index);
void lb_node_kill(struct lb_node *l);  /* [its own timers] */
void lb_node_drain(struct lb_node *l); /* [its own timers] */
void lb_node_drain_calls(struct lb_node *l); /* nobody can bring one any more */
void lb_node_maybe_leave(struct lb_node *l); /* the last connection of a client has gone */
/* From any node: it is configured anew; chance 0 = as it was at first. */
void lb_node_reload(struct lb_node *l, uint64_t chance);

/* lent.c: a plugin that ends when lent_back(it) was called, or with the node. */
struct lent *lent_add(struct lb_node *l, struct plugin *plugin, bool is_pool);
void lent_back(void *lent);
void lent_end(struct lb_node *l); /* all that are left; their users are gone */

/* rules.c: in ruled worlds it gets an overrider with the next number. */
void rules_use(struct lb_node *l);

struct runner_node {
    struct node n; /* first */
    uint32_t index;
    char address[32], instance[33];
    struct plugin_host *host;
    struct driver_hub *hub;
    struct plugin *driver;
    struct runner *r;
    struct engage_server_cb cb;
    void *cb_ud;
    struct id_maker ids;
    struct fnsock_if *sockets;
    uint32_t open_sockets, exchanges, sessions;
    uint64_t tried, told_ok, told_refused; /* by the network */
    struct env_timer kill, drain, late;
    LIST_HEAD(, seen_session) seen; /* of ../wire/witness.c */
    bool draining, drained, clean;
    bool calm; /* the network has none of its calls any more */
    bool leaving;
};

struct runner_node *runner_node_create(struct world *w, uint32_t index);
void runner_node_kill(struct runner_node *r);
void runner_node_drain(struct runner_node *r);

struct clients *clients_create(struct lb_node *l);
void clients_destroy(struct clients *c);
void clients_forget(struct clients *c); /* those whose request is over, at night */
/* From any node: a client sends this request when it is time. */
void clients_request(struct clients *c, const struct plan_event *e);
/* From any node: a client asks this function for a plain answer. */
void clients_probe(struct clients *c, uint32_t function);
/* From any node: one asks again and again, while the world is crowded. */
void clients_crowd(struct clients *c, uint32_t function);
void clients_lose(struct clients *c); /* their load balancer died. [its own timers] */
uint32_t clients_waiting(const struct clients *c);

/* ---- versions.c: worlds with an API node ----------------------------------------------------- */

/* The first image in a text: its function and version. */
bool version_read(const char *text, uint32_t *ret_function, uint32_t *ret_version);
/* The number that an overrider gave the call for which this container is made; 0 = none. */
uint32_t version_rules(const struct fn_task *task);
void version_opened(struct lb_node *l, uint32_t seq, uint32_t function);
void version_offered(struct lb_node *l, uint32_t seq, const char *json);
size_t versions_bytes(const struct world *w); /* that it has allocated for requests */
void version_runs(struct world *w, uint32_t seq, uint32_t version, uint32_t rules);

/* ---- faults.c, run.c ----------------------------------------------------------------------- */

/* Places for runners; those that nobody rented are empty. */
static inline uint32_t world_slots(const struct world *w)
{
    return w->plan->managed ? RUNNERS_MAX : w->plan->runners;
}

/* Makes a process of the node at this place, if there is none, and a machine for it. */
void faults_start_lb(struct world *w, uint32_t index);
void faults_start_runner(struct world *w, uint32_t index);
void faults_start_npm(struct world *w);
void faults_start_api(struct world *w);
/* What the plan says happens now. From the world's own timer. */
void faults_happen(struct world *w, const struct plan_event *e);
/* Everything that is wrong ends, and what is dead starts again. */
void faults_heal(struct world *w);

/* crowd.c: somebody comes while one function has endless calls. False: a rule is broken. */
bool crowd_comes(struct world *w);

/* Goes on and looks at the clocks of requests now and then. False: a rule is broken. */
bool run_on(struct world *w, int64_t ns);
bool run_is_idle(const struct world *w); /* no client waits */

struct run_result {
    enum books_rule broken;
    char why[256];
    uint32_t request; /* that it is about; 0 = none */
    int64_t at_ns;
    uint64_t hash;
    uint64_t requests, ok, steps;
    uint64_t refused; /* allocations */
    bool reached; /* the byte of a plan_byte */
    int64_t simulated_ns;
};

/* One world from its plan to its end. */
void run_world(const struct plan *p, const bool *left_out, bool told, struct run_result *ret);

#endif
