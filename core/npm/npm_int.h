/* What the files of this room share. */
#ifndef NPM_NPM_INT_H
#define NPM_NPM_INT_H

#include <npm/npm.h>

/* ---- index.c: text to slot without allocation ------------------------------------------------ */

/* Open addressing with linear probing. Keys are borrowed from the slots: members of an array. */
struct index_cell {
    uint32_t slot_1; /* slot + 1; 0 = free */
    uint32_t hash;   /* of its key */
};

struct index {
    struct index_cell *cells;
    uint32_t mask;
    const char *keys; /* that of slot 0 */
    size_t stride;    /* to that of the next slot */
};

#define INDEX_NONE UINT32_MAX

int index_create(struct index *x, uint32_t slots_max, const char *keys, size_t stride);
void index_finish(struct index *x);
uint32_t index_find(const struct index *x, const char *key); /* INDEX_NONE */
void index_add(struct index *x, uint32_t slot);              /* its key must not be there */
void index_remove(struct index *x, uint32_t slot);

/* ---- state ----------------------------------------------------------------------------------- */

#define NPM_LB_WAITING_MAX (1u << 20) /* of one LB; it only feeds predictors */

/* One start of an LB. Narrow: a manager has one for each LB of each group. */
struct npm_voice {
    uint64_t incarnation;
    uint64_t seq;
    uint64_t mb;
    int64_t heard_ns;
    uint32_t heard_no;     /* among the words of its id: after a standstill many come at one time */
    uint32_t waiting : 24; /* NPM_LB_WAITING_MAX at most */
    uint32_t known : 1;    /* else the place is free */
    uint32_t counts : 1;   /* else another start took over */
    uint32_t late : 6;     /* words since then */
};

#define NPM_VOICES 3u /* of one id, and as many LBs that share it without losing demand */

/* More voices of one id are rare (it restarted, or two share it), and so they are the group's: a
 * set for every NPM_LBS_PER_SPARE LBs. An id that finds none left keeps the start heard last. */
#define NPM_SPARES_MIN    16u
#define NPM_LBS_PER_SPARE 4u

struct npm_spare {
    struct npm_voice voices[NPM_VOICES - 1];
};

struct npm_lb {
    char id[NPM_LB_ID_MAX + 1]; /* "" = free */
    struct npm_voice voice;
    uint32_t spare_1; /* of spares[]: its index + 1; 0 = none */
    uint32_t words;   /* heard */
};

/* A provision call whose runners have not all arrived. Sent again with the same id until the
 * control plane took it. */
struct npm_request {
    uint64_t id;
    uint32_t n;    /* still to come; 0 = free entry */
    uint32_t told; /* what the control plane was told; 0 = nothing yet, n may change */
    bool taken;
    bool unknown; /* the last answer left open whether it was taken */
    int64_t made_ns;
    int64_t expires_ns;
};

/* Labels that hosts have in common. As many as hosts, and one while a host changes its own. */
struct npm_label_set {
    uint32_t hosts; /* that have it; 0 = free */
    char text[NPM_LABELS_MAX + 1];
};

#define NPM_GONE_KEPT 128u

enum npm_cplane_call { NPM_CALL_NONE, NPM_CALL_LIST, NPM_CALL_PROVISION, NPM_CALL_REMOVE };

struct npm_group {
    struct npm_options o;
    struct npm_budget *budget;
    uint64_t version;
    uint64_t order_last;

    /* hosts[slots[0..n_hosts)] in order of adoption; slots[n_hosts..] are free */
    struct npm_host *hosts;
    uint32_t *slots;
    uint32_t hosts_max, n_hosts;
    int64_t *calm_ns; /* hosts[i]: nothing is due before; 0 = look (hosts_watch) */
    struct index host_index, address_index;
    struct npm_label_set *label_sets; /* labels.c */
    uint32_t *free_label_sets;        /* [0..n_free_label_sets) */
    uint32_t n_free_label_sets;
    uint32_t label_sets_n; /* places of which some were ever taken */
    struct index label_index;
    uint64_t list_no;
    int64_t listed_ns;
    uint64_t state_mb[NPM_STATES_N];
    uint32_t state_n[NPM_STATES_N];
    uint64_t typical_mb; /* mean of active and draining hosts */
    uint64_t leaving_mb; /* of active and booting hosts that are to be replaced */
    uint32_t leaving_n;
    uint64_t failing_mb; /* of active hosts with a fault that are not among those */
    uint32_t failing_n;

    /* Ids that the cloud lists as gone: told apart from new ones. */
    struct {
        uint64_t key;
        uint64_t list_no; /* the last one with it; 0 = free */
    } gone[NPM_GONE_KEPT];

    struct npm_lb *lbs;
    uint32_t *lb_slots;
    uint32_t n_lbs;
    struct index lb_index;
    struct npm_spare *spares;
    uint32_t *free_spares; /* [0..n_free_spares) */
    uint32_t spares_max, n_free_spares;
    uint32_t lbs_twice;    /* of whose id more than one start talks */
    int64_t lbs_expire_ns; /* no LB is forgotten before */
    uint64_t wanted_mb, waiting;
    uint64_t desired_mb;

    struct npm_request requests[NPM_REQUESTS_MAX];
    uint32_t asked_n;
    uint32_t expired; /* in a row */

    enum npm_cplane_call call, call_last;
    uint64_t call_request;
    char call_host[NPM_ID_MAX + 1];
    int64_t call_next_ns;
    int64_t list_next_ns, provision_next_ns; /* back-off */
    uint32_t list_failures, provision_failures;
    uint32_t provisions_open; /* in a row, of which nobody knows the outcome: no refusals */
    int64_t stillborn_next_ns; /* requests are made from then on */
    uint32_t stillborn;        /* pauses in a row */

    int64_t stepped_ns;
    int64_t settled_ns;  /* provisions from then on */
    int64_t act_down_ns; /* drains and removals from then on */
    bool listed;         /* a complete list since the start or the last stall */
    bool brake;
    bool standby;        /* another manager acts */
    int64_t low_since_ns;    /* too much capacity since; 0 = not */
    uint64_t low_peak_mb;    /* most that was desired since */
    bool capped;             /* more is wanted than there may be */
    bool at_max;             /* and that was told */
    bool published;          /* members changed in this step */
    struct npm_actions *out; /* of the running step */
};

/* group.c */
struct npm_host *host_find(const struct npm_group *g, const char *id);
/* NULL: no room. */
struct npm_host *host_add(struct npm_group *g, const char *id, enum npm_host_state state,
                          int64_t now_ns);
void host_drop(struct npm_group *g, struct npm_host *h);
/* Another one than now, as is the capacity. */
void host_set_state(struct npm_group *g, struct npm_host *h, enum npm_host_state state,
                    int64_t now_ns);
struct npm_host *host_at_address(const struct npm_group *g, const char *address); /* NULL: none */
/* Another address, or "" for none; false: another host has it. */
bool host_set_address(struct npm_group *g, struct npm_host *h, const char *address);
void host_set_capacity(struct npm_group *g, struct npm_host *h, uint64_t mb);
void host_set_wish(struct npm_group *g, struct npm_host *h, enum npm_wish wish);
void host_set_fault(struct npm_group *g, struct npm_host *h, const char *fault);
uint64_t failing_mb(const struct npm_group *g); /* that is no supply */
static inline struct npm_host *host_at(const struct npm_group *g, uint32_t i)
{
    return &g->hosts[g->slots[i]];
}
/* Something that hosts_watch() goes by is another one now. */
static inline void host_look(struct npm_group *g, const struct npm_host *h)
{
    g->calm_ns[h - g->hosts] = 0;
}

/* A list, provision or remove, and a publish always find room: notes and questions leave it. */
#define ROOM_FOR_ORDERS 4u
static inline bool has_room(const struct npm_group *g)
{
    return g->out->n + ROOM_FOR_ORDERS < NPM_ACTIONS_MAX;
}
struct npm_action *act(struct npm_group *g, enum npm_action_kind kind);
void note(struct npm_group *g, enum npm_note what, const char *id, uint64_t value);
/* min_ns, doubled for each failure after the first, at most max_ns. */
int64_t backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures);
void asked_add(struct npm_group *g, struct npm_request *r, uint32_t n);
void asked_take(struct npm_group *g, struct npm_request *r, uint32_t n);

/* labels.c */
int labels_create(struct npm_group *g); /* hosts_max is set */
void labels_finish(struct npm_group *g);
void host_set_labels(struct npm_group *g, struct npm_host *h, const char *labels); /* NULL: none */

/* demand.c */
void demand_heard(struct npm_group *g, const struct npm_event *e, int64_t now_ns);
void demand_expire(struct npm_group *g, int64_t now_ns);

/* cplane.c */
void cplane_listed(struct npm_group *g, const struct npm_event *e, int64_t now_ns);
void cplane_answered(struct npm_group *g, const struct npm_event *e, int64_t now_ns);
void cplane_expire(struct npm_group *g, int64_t now_ns);
/* Starts the next call if one is due; returns when to look again. */
int64_t cplane_next(struct npm_group *g, int64_t now_ns);

/* hosts.c */
void hosts_heard(struct npm_group *g, const struct npm_event *e, int64_t now_ns);
void hosts_operator(struct npm_group *g, const struct npm_event *e, int64_t now_ns);
void hosts_drain(struct npm_group *g, struct npm_host *h, enum npm_reason why, int64_t now_ns);
/* h is given up or drained; it was well until well_ns. Counts when it never lived. */
void hosts_lost(struct npm_group *g, const struct npm_host *h, int64_t well_ns, int64_t now_ns);
/* One that was asked for did not live. */
void hosts_stillborn(struct npm_group *g, const char *id, int64_t now_ns);
/* Another manager acts from now on, or none does any more. */
void hosts_turn(struct npm_group *g, bool standby, int64_t now_ns);
/* Time-outs of all hosts, questions about their load; returns when to look again. */
int64_t hosts_watch(struct npm_group *g, int64_t now_ns);

/* scale.c */
int64_t scale(struct npm_group *g, bool may_shrink, int64_t now_ns);

#endif
