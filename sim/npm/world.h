/* Npm_sim: load balancers, a network, a control plane and runners around core/npm, in virtual time.
 *
 * One world is one run. Everything that happens is an item of the heap or the tick of a group;
 * every event that reaches npm_step() goes through node_step(), which checks the invariants after
 * it. The models do not look into the group and the checks do not trust it: they keep books of
 * their own. */
#ifndef NPM_SIM_WORLD_H
#define NPM_SIM_WORLD_H

#include "conf.h"
#include "groups.h"
#include "heap.h"
#include "rng.h"

#include <npm/npm.h>

#define ASK_TIMEOUT_NS (2 * S) /* of a question to a runner, as poolserver/asker.h */
#define LEG_MAX_NS (5 * MS) /* of a message, without faults */
#define CPLANE_TIMEOUT_NS (30 * S)
#define CALL_MAX_NS (300 * S) /* longest function timeout */
#define CALLS_OF_MACHINE 8u
#define REF_LBS_MAX 64u     /* ids that a manager remembers at most */
#define REF_LIVES_MAX 192u
#define TOLD_IDS_MAX 64u
#define REQUESTS_KEPT 64u
#define PEAKS_MAX 1024u

/* ---- machines -------------------------------------------------------------------------------- */

struct call {
    int64_t start_ns, end_ns;
};

/* A machine of the cloud, its runner, and what the books say about the host of this id. A place is
 * used again, with another id, long after its machine went. */
struct machine {
    char id[24], address[24]; /* "mNNNNN.gen", "aNNNNN:9190": the number is the place */
    uint32_t address_no;
    bool used;
    uint32_t generation;
    int64_t visible_ns; /* listed from then on */
    int64_t named_ns;   /* with an address, READY */
    int64_t ready_ns;   /* the runner answers */
    int64_t dead_ns;    /* no more */
    int64_t gone_ns;    /* not listed any more */
    uint64_t capacity_mb;
    bool stuck;      /* says forever that calls run */
    bool unborn;     /* ended before it was listed, and listed as gone for a while */
    uint32_t deaf;   /* removals that will change nothing */
    int64_t mute_ns; /* questions get lost until then */
    struct call calls[CALLS_OF_MACHINE];

    /* What the operator wants of it; a manager's start changes nothing about that. */
    enum npm_wish wish;
    bool forced; /* to be removed at once */

    /* books, of the manager that runs */
    uint32_t ended_told; /* that it is unborn, to which start of the manager */
    bool known;
    enum npm_host_state state, was; /* now and before the step */
    uint32_t missing;
    bool braked; /* missing with most others */
    int64_t missing_ns;
    uint64_t listed_no;
    int64_t drain_ns; /* DRAINING since */
    bool from_drain;  /* REMOVING after DRAINING */
    uint32_t last_active;
    int64_t last_report_ns;
    int64_t heard_ns, silent_ns; /* first answer; first question without one; 0 = none */
    bool lived;                        /* answered for stillborn_max */
    int64_t ordered_ns; /* last order to remove it */
    uint64_t walk_no;
};

/* ---- lists that were published --------------------------------------------------------------- */

struct snap_member {
    uint32_t place, address_no;
    uint64_t capacity_mb;
    bool draining;
};

struct snap {
    uint32_t refs;
    uint64_t epoch, version;
    uint32_t n;
    struct snap_member members[];
};

/* ---- one group with its cloud ---------------------------------------------------------------- */

/* One life of an LB as the reference model of demand knows it (S8). The simulator knows which life
 * sent a word, and whether that life goes on; the manager knows neither. */
struct ref_lb {
    uint32_t key;  /* the life */
    uint32_t name; /* the id that it uses */
    uint64_t seq, mb;
    int64_t heard_ns;
    uint64_t heard_no; /* among all words */
    uint32_t words;    /* since another life of this name began or a dead one was heard */
    uint32_t late;     /* words since another life of this name began */
    bool replaced;     /* another life of this name began, and at most one word came since */
};

struct peak {
    int64_t until_ns;
    uint64_t mb;
};

/* A host of the group as the last walk found it. */
#define TEXT_SEEN 16u /* characters of ids and addresses here, with their end */
struct seen {
    char id[TEXT_SEEN], address[TEXT_SEEN];
    uint64_t capacity_mb;
    enum npm_host_state state;
};

/* What a walk over the hosts of a group found. */
struct walk {
    uint64_t mb[NPM_STATES_N];
    uint32_t n[NPM_STATES_N];
    uint32_t listed, drained;
    uint64_t leaving_mb; /* serving, and to be replaced */
    uint64_t drained_mb; /* S16: largest that was drained in this step for want of demand */
    int64_t returned_ns; /* S16: oldest drain that was undone in this step */
    int64_t left_ns;     /* S16: newest drain that could have been */
    bool replaced;       /* S15: one was drained because others can do without it */
    bool as_published;
};

struct pool {
    uint32_t no;
    struct npm_group *g;
    int64_t tick_ns;

    struct rng rng;
    struct machine *machines;
    uint32_t machines_max;
    uint32_t *alive; /* places of used machines */
    uint32_t n_alive;
    uint32_t *owners; /* by address number: place + 1 */
    uint32_t next_place;
    struct {
        uint64_t id;
        uint32_t accepted;
    } requests[REQUESTS_KEPT];
    uint32_t n_requests;
    uint32_t empty_lists, half_lists; /* still to come */
    int64_t spoilt_ns;                /* new machines die early until then */
    uint32_t unborn_n;                /* of the next machines none is ever listed alive */

    /* the call that is under way */
    enum npm_action_kind call;
    bool calling, call_fails, call_unknown, call_does, call_done;
    uint32_t call_n, call_accepted, call_place;
    uint64_t call_request;
    struct fn_machine *list;
    uint32_t n_list, list_cap;
    bool list_taken;

    /* books */
    struct ref_lb ref[REF_LIVES_MAX];
    uint32_t n_ref, n_names;
    uint64_t ref_words;                 /* heard */
    uint64_t ref_least_mb, ref_most_mb; /* between them is what the manager should want */
    uint32_t ref_born;                  /* lives when these were reckoned */
    bool ref_due;
    int64_t ref_expire_ns; /* none is forgotten before */
    struct peak peaks[PEAKS_MAX]; /* of the desired capacity, falling */
    uint32_t peak_first, peak_n;
    struct snap *published;
    int64_t published_ns;
    uint64_t version;
    uint64_t lists; /* complete ones since the manager's start or stall */
    int64_t stepped_ns, settled_ns;
    int64_t called_ns; /* the control plane */
    bool node_waits;   /* for its answer */
    uint32_t stillborn; /* pauses in a row */
    int64_t stillborn_next_ns;
    uint32_t list_failures, provision_failures; /* S17, in a row */
    int64_t list_next_ns, provision_next_ns;
    uint32_t expired; /* requests in a row */
    uint32_t expired_before;
    bool alarmed;
    bool walk_fresh;    /* the last step changed hosts */
    uint32_t room;      /* for further runners before the step */
    int64_t blind_ns; /* notes were lost: what they would have said lasts at most so long */
    int64_t short_ns; /* L5: too little supply with nothing in its way since; 0 = not */
    int64_t asked_ns; /* L5: when the last runner was asked for, or came */
    struct npm_figures last;
    uint64_t walk_no, list_no;
    struct walk walked;
    struct seen *seen;    /* of the n_known */
    uint32_t calm_steps;  /* that should change no host */
    bool walk_due;        /* what was walked does not stand: another manager, another list */
    uint32_t n_missing;   /* of the known ones, by the last list */
    uint32_t *known, *known_before; /* places, in the group's order */
    uint32_t n_known, n_known_before;
    uint32_t n_wishes; /* of all machines that ever were */
    uint64_t *address_walks;
    uint32_t adopted_n; /* in this step */
    uint64_t wish_mb, more_mb; /* demand of the quiet end */
    /* More strangers than the group remembers come in one by one as others go: no promise when. */
    bool crowded;
    int direction; /* of the last change: 1 up, -1 down */
    uint32_t turns;
};

/* ---- load balancers -------------------------------------------------------------------------- */

enum shape { SHAPE_ZERO, SHAPE_CONSTANT, SHAPE_RAMP, SHAPE_STEP, SHAPE_SPIKE, SHAPE_SAW, SHAPES_N };

struct wish {
    enum shape shape;
    uint64_t mb;
    int64_t since_ns, until_ns, period_ns;
};

struct lb {
    uint32_t no;
    struct rng rng;
    uint32_t life; /* part of its id */
    char id[24];
    uint64_t seq;
    bool same_id;
    bool twin;     /* uses the id of another one */
    uint32_t name; /* which id it uses */
    uint64_t incarnation;
    int64_t cut_out_ns, cut_in_ns; /* until */
    uint32_t connected;            /* to which start of the manager; 0 = not */
    uint32_t stream;               /* number of the connection */
    struct wish wishes[POOLS_MAX];
    bool real; /* keeps members with pool-npm's code */
    struct groups groups;
    struct group light[POOLS_MAX]; /* of the others: epoch and version alone */
    struct snap *views[POOLS_MAX];
};

struct message {
    struct message *next_free;
    uint32_t refs;
    uint32_t key; /* the life that sent it; 0 = an id that cannot be */
    uint32_t name;
    char id[NPM_LB_ID_MAX + 2];
    uint64_t incarnation;
    uint64_t seq;
    uint64_t mb[POOLS_MAX], waiting[POOLS_MAX];
};

/* ---- the world ------------------------------------------------------------------------------- */

enum item_kind {
    IT_LB,        /* a = lb */
    IT_DEMAND,    /* ptr = message, a = lb */
    IT_MEMBERS,   /* group, a = lb, b = life of the lb, c = its stream; ptr = snap */
    IT_RECONNECT, /* a = lb, b = life */
    IT_EFFECT,    /* group: what the control plane was asked takes place; c = start */
    IT_ANSWER,    /* group, c = start */
    IT_SAMPLE,    /* group, a = place, b = address number, c = start */
    IT_REPORT,    /* group, a = place, b = active + 1 or 0 = silent, c = start */
    IT_START,
    IT_FATE, /* each second: crashes, cuts, the operator */
};

struct world {
    struct conf conf;
    struct result *result;
    int64_t now_ns;
    struct heap heap;
    struct rng rng_net, rng_node, rng_fate;
    uint32_t chance[FAULTS_N]; /* per 2^32 */
    bool quiet;
    int64_t quiet_ns; /* since */
    uint32_t born; /* lives of load balancers */
    struct {
        uint64_t id;
        uint32_t pool;
    } told[TOLD_IDS_MAX]; /* requests, S18 */
    uint32_t n_told;

    struct npm_options o;
    struct npm_budget budget;
    int predictor; /* 0 none, 1 half more, 2 two thirds, 3 twice and fails at times */
    bool up;
    uint32_t start_no;
    int64_t started_ns, stopped_ns; /* stands still until */
    int64_t wall_ns;                /* ahead of the clock */
    uint64_t epoch;
    struct npm_actions out;

    struct pool pools[POOLS_MAX];
    uint32_t n_pools;
    struct lb lbs[LBS_MAX];
    uint32_t n_lbs;
    uint32_t invented;
    struct message *free_messages;
};

/* run.c */
/* And counts. */
static inline bool happens(struct world *w, enum fault f, struct rng *rng)
{
    if (w->chance[f] == 0 || (uint32_t)(rng_u64(rng) >> 32) >= w->chance[f]) {
        return false;
    }
    w->result->faults[f]++;
    return true;
}
void later(struct world *w, int64_t delay_ns, enum item_kind kind, uint32_t group, uint32_t a,
           uint32_t b, uint32_t c, void *ptr);
void trace(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void broken(struct world *w, int which, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline void hash_add(struct world *w, uint64_t x)
{
    w->result->hash = (w->result->hash ^ x) * 0x9e3779b97f4a7c15u;
    w->result->hash ^= w->result->hash >> 29;
}

/* cloud.c */
void cloud_open(struct world *w, struct pool *p);
void cloud_close(struct pool *p);
void cloud_call(struct world *w, struct pool *p, const struct npm_action *a);
void cloud_effect(struct world *w, struct pool *p);
void cloud_answer(struct world *w, struct pool *p);
void cloud_fate(struct world *w, struct pool *p);
void cloud_calm(struct world *w, struct pool *p);
void cloud_ask(struct world *w, struct pool *p, uint32_t place, uint32_t address_no);
void cloud_sample(struct world *w, struct pool *p, uint32_t place, uint32_t address_no);
void cloud_place_call(struct world *w, struct pool *p, uint32_t address_no, struct rng *rng);
/* False: its address leads to another machine. */
bool cloud_answers_for(const struct pool *p, const struct machine *m);
/* Of active hosts that do answer. */
uint64_t cloud_true_mb(const struct world *w, const struct pool *p);
/* Number of calls that run; of those that began up to begun_ns. */
uint32_t machine_calls(const struct machine *m, int64_t now_ns, int64_t begun_ns);
static inline uint32_t place_of(const char *id)
{
    uint32_t n = 0;

    for (int i = 1; i <= 5; i++) {
        n = n * 10 + (uint32_t)(id[i] - '0');
    }
    return n;
}

/* Five digits. */
static inline void put_place(char *ret, uint32_t n)
{
    for (int i = 4; i >= 0; i--) {
        ret[i] = (char)('0' + n % 10);
        n /= 10;
    }
}

/* lb.c */
void lb_open(struct world *w, struct lb *lb);
void lb_close(struct world *w, struct lb *lb);
void lb_restart(struct world *w, struct lb *lb); /* with the same id */
void lb_tick(struct world *w, struct lb *lb);
void lb_reconnect(struct world *w, struct lb *lb);
void lb_members(struct world *w, struct lb *lb, const struct item *it);
void lb_publish(struct world *w, struct pool *p); /* to all that are connected */
void lb_fate(struct world *w, struct lb *lb);
void message_unref(struct world *w, struct message *m);
struct snap *snap_ref(struct snap *s);
void snap_unref(struct snap *s);

/* node.c */
void node_start(struct world *w);
void node_crash(struct world *w);
void node_step(struct world *w, struct pool *p, const struct npm_event *e);
/* The operator's order, as manager.c carries it out: kept, and renewed when the host is new. */
void node_order(struct world *w, struct pool *p, const char *id, enum npm_event_kind kind);
void node_renew(struct world *w, struct pool *p); /* after each list */
void node_demand(struct world *w, const struct message *m);

/* quiet.c: the end without faults, and what must have come true by then. */
void quiet_begin(struct world *w);
void quiet_run(struct world *w);

/* run.c: all that happens up to then. */
void world_until(struct world *w, int64_t until_ns);

#endif
