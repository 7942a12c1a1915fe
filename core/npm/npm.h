/* Npm: sizes the runners of one LB group, as one pure step function.
 *
 * npm_step(group, event, now) changes the group's state and appends actions for the caller to carry
 * out: ask the control plane, ask a runner for its load, publish the list. It has no clock, no
 * thread, no chance and, after npm_group_create(), no allocation, so that the daemon and the
 * simulator run the same object file and a run repeats from its seed.
 *
 * States of a host:
 *
 *   listed ──▶ BOOTING ──answers──▶ ACTIVE ──not needed, operator──▶ DRAINING ──empty, deadline──▶
 *                 │                    ▲                                │      REMOVING ──gone──▶ -
 *                 ├──boot_max──▶ REMOVING   ◀── needed again, undrain ──┘
 *                 └──operator──▶ DRAINING
 *   listed beyond runners_max ──▶ FOREIGN: not ours, until capacity is short and there is room
 *
 * What the operator wants of a host comes before what the group needs: drained by the operator,
 * it stays so and is left alone; to be replaced, it serves until others can; to be removed, it goes
 * when it is empty and does not come back. Wishes are the caller's to remember: they are told again
 * when a host of theirs is adopted.
 *
 * LBs are told of ACTIVE and DRAINING hosts. A host that the control plane stops listing is
 * believed lost after NPM_LOSS_POLLS lists, or after loss_brake when more than half of the hosts go
 * at once. One call to the control plane is under way at a time, at most one per poll interval.
 * Capacity that was asked for counts as supply until it arrives or its request expires, so that
 * nothing is bought twice; a machine that is listed as gone and was never listed before is one that
 * was asked for and ended. After hosts that did not live (that one, never answered, or went soon
 * after their first answer) nothing is asked for during a pause that doubles until one lives.
 *
 * What must hold is in docs/npm-model.md (S1 to S18, L1 to L5) and docs/faults.md (F21 to F38, F89
 * to F91). Every call: one thread at a time per group and its budget. */
#ifndef NPM_NPM_H
#define NPM_NPM_H

#include <base/states.h>
#include <fn/cplane.h>
#include <fn/predictor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPM_ID_MAX 255u
#define NPM_ADDRESS_MAX 255u
#define NPM_FAULT_MAX 127u
#define NPM_LABELS_MAX FN_LABELS_TEXT_MAX
#define NPM_LB_ID_MAX 39u
#define NPM_REQUESTS_MAX 16u /* provisions that have not arrived */
#define NPM_ACTIONS_MAX 64u  /* of one step */
#define NPM_HOSTS_SPARE 64u  /* foreign and leaving hosts beyond runners_max that are remembered */

#define NPM_S 1000000000LL

/* What nobody can set. */
#define NPM_LOSS_POLLS      3u          /* lists that must agree that a host is gone */
#define NPM_EXPIRED_MAX     3u          /* requests in a row that brought nothing, then an alarm */
#define NPM_RUNNER_MB_MAX   (16u << 20) /* larger ones are lies */
#define NPM_BACKOFF_MIN_NS  NPM_S
#define NPM_STALL_NS        (10 * NPM_S) /* a longer gap between two steps: the process stood */
#define NPM_STATUS_IDLE_NS  (60 * NPM_S) /* between two questions to an active host */
#define NPM_STATUS_BUSY_NS  NPM_S        /* to a booting or draining one */

/* Part of `npm:`, but for the predictor; options.c has limits and says what operators read. */
struct npm_options {
    uint32_t runners_min;
    uint32_t runners_max;
    uint32_t lbs_max;
    uint32_t request_max;    /* runners of one provision call */
    uint64_t runner_mb;      /* capacity of a runner that nobody knows yet */
    int64_t poll_ns;         /* between two calls to the control plane */
    int64_t demand_life_ns;  /* of an LB's last word */
    int64_t settle_ns;       /* after a start nothing is provisioned */
    int64_t cooldown_ns;     /* capacity must have been too much for so long */
    int64_t drain_min_ns;    /* until every LB has the list without the host */
    int64_t drain_max_ns;    /* longest function timeout and a margin */
    int64_t request_life_ns; /* until asked capacity is no longer believed in */
    int64_t boot_max_ns;
    int64_t backoff_max_ns;
    int64_t loss_brake_ns;
    int64_t silent_max_ns;  /* an active host that does not answer for so long is replaced */
    int64_t status_idle_ns; /* 0: NPM_STATUS_IDLE_NS; short simulated worlds ask more often */
    int64_t stillborn_max_ns; /* a host that goes so soon after its first answer never lived */
    int64_t stillborn_backoff_min_ns; /* nothing is asked for after a stillborn host */
    int64_t stillborn_backoff_max_ns;
    /* Demand in MB to capacity in MB; NULL = as much as is wanted. */
    int (*predict)(void *ud, const struct fn_load *load, uint64_t *ret_desired_mb);
    void *predict_ud;
};

/* The defaults, for whoever steps groups without a configuration; a test holds them to the rows. */
#define NPM_OPTIONS_INIT                                                                           \
    {                                                                                              \
        .runners_max = 100, .lbs_max = 1000, .request_max = 20, .runner_mb = 4096,                 \
        .poll_ns = NPM_S, .demand_life_ns = 10 * NPM_S, .settle_ns = 10 * NPM_S,                   \
        .cooldown_ns = 60 * NPM_S, .drain_min_ns = 3 * NPM_S, .drain_max_ns = 310 * NPM_S,         \
        .request_life_ns = 300 * NPM_S, .boot_max_ns = 600 * NPM_S, .backoff_max_ns = 60 * NPM_S,  \
        .loss_brake_ns = 30 * NPM_S, .silent_max_ns = 60 * NPM_S, .stillborn_max_ns = 10 * NPM_S,  \
        .stillborn_backoff_min_ns = NPM_S, .stillborn_backoff_max_ns = 60 * NPM_S,                 \
    }

/* What all groups have together. */
struct npm_budget {
    uint32_t runners_max;
    uint32_t runners; /* hosts and asked ones */
    uint64_t request_last; /* ids of requests, of all groups; begins elsewhere after each start */
};

/* ---- events ---------------------------------------------------------------------------------- */

enum npm_event_kind {
    NPM_TICK,
    NPM_DEMAND, /* an LB told what its calls need */
    NPM_LISTED, /* the control plane's complete list */
    NPM_LIST_FAILED,
    NPM_PROVISIONED,      /* n = accepted */
    NPM_PROVISION_FAILED, /* unknown: it may have happened all the same */
    NPM_REMOVED,          /* the control plane took the order; the host may be listed for a while */
    NPM_REMOVE_FAILED,
    NPM_REPORTED, /* a runner told its load */
    NPM_SILENT,   /* a runner did not answer */
    NPM_DRAIN,    /* the operator's wishes: see npm_wish */
    NPM_UNDRAIN,
    NPM_REPLACE,
    NPM_RETIRE,
    NPM_END, /* now, whatever runs on it */
};

struct npm_event {
    enum npm_event_kind kind;
    const char *id;   /* of the LB or host */
    uint64_t seq;     /* DEMAND: of this LB, growing; 0 = it does not count (historic LBs) */
    uint64_t incarnation; /* DEMAND: of this start of the LB; 0 = it does not say */
    uint64_t mb;      /* DEMAND */
    uint64_t waiting; /* DEMAND: calls without a runner */
    uint32_t active;  /* REPORTED: calls that run */
    bool mute;        /* REPORTED: it is there, and did not say how many in time */
    const char *fault; /* REPORTED: why it starts no containers; NULL = it does */
    uint32_t n;       /* LISTED: machines; PROVISIONED: accepted */
    bool unknown;     /* PROVISION_FAILED */
    const struct fn_machine *machines; /* LISTED; borrowed; labels sorted by key */
    bool standby;     /* LISTED: another manager acts for the group */
};

/* ---- actions --------------------------------------------------------------------------------- */

enum npm_action_kind {
    NPM_DO_LIST,
    NPM_DO_PROVISION,
    NPM_DO_REMOVE,
    NPM_DO_STATUS,  /* ask the runner at `address` */
    NPM_DO_PUBLISH, /* members or their order changed: npm_is_listed() */
    NPM_DO_NOTE,    /* something that an operator wants to read */
};

enum npm_note {
    NPM_NOTE_ADOPTED, /* nobody asked for it */
    NPM_NOTE_ARRIVED, /* value: ms since it was asked for */
    NPM_NOTE_ACTIVE,
    NPM_NOTE_DRAINING,
    NPM_NOTE_REACTIVATED,
    NPM_NOTE_REMOVING,
    NPM_NOTE_GONE,
    NPM_NOTE_LOST,   /* no longer listed, replaced if needed */
    NPM_NOTE_PULLED, /* the same with calls on it */
    NPM_NOTE_BRAKE,  /* most hosts went at once: not believed yet */
    NPM_NOTE_FOREIGN,
    NPM_NOTE_BAD_MACHINE, /* a list entry that nobody can use; value: its place */
    NPM_NOTE_MOVED,       /* an id with another address */
    NPM_NOTE_DRAIN_CUT,   /* removed at the deadline with calls on it */
    NPM_NOTE_BOOT_FAILED,
    NPM_NOTE_SILENT,
    NPM_NOTE_REQUEST_EXPIRED,
    NPM_NOTE_REQUEST_ALARM,
    NPM_NOTE_AT_MAX, /* more is wanted than runners_max or the budget allow */
    NPM_NOTE_DEMAND_CLAMPED,
    NPM_NOTE_LB_GONE,
    NPM_NOTE_LBS_FULL,
    NPM_NOTE_STALL,
    NPM_NOTE_STILLBORN, /* value: how often in a row */
    NPM_NOTE_ENDED,     /* gone before it was ever listed */
    NPM_NOTE_NONE_ACCEPTED, /* value: runners of the request */
    NPM_NOTE_LB_TWICE,      /* value: that many use the id */
    NPM_NOTE_REPLACING,
    NPM_NOTE_FAILING, /* it says that it starts no containers: npm_host.fault */
    NPM_NOTE_WELL,    /* it does again */
    NPM_NOTES_N
};

struct npm_note_about {
    const char *text;
    const char *key; /* what `value` is, with its unit; NULL: nothing */
    bool warns;
};
extern const struct npm_note_about npm_notes[NPM_NOTES_N];

struct npm_action {
    enum npm_action_kind kind;
    enum npm_note note;
    uint64_t request_id;
    uint64_t value;      /* NOTE: a figure, by note; PROVISION: see n */
    uint32_t n;          /* PROVISION */
    const char *id;      /* of the host or LB; lives until the next step */
    const char *address; /* STATUS */
};

struct npm_actions {
    struct npm_action list[NPM_ACTIONS_MAX];
    uint32_t n;
    uint32_t dropped; /* notes that did not fit */
};

/* ---- groups ---------------------------------------------------------------------------------- */

enum npm_host_state {
    NPM_BOOTING,
    NPM_ACTIVE,
    NPM_DRAINING,
    NPM_REMOVING,
    NPM_FOREIGN,
    NPM_STATES_N
};

extern const struct states npm_host_states; /* it begins as BOOTING or FOREIGN */
extern const char *const npm_state_names[NPM_STATES_N];

/* What the operator wants of a host, beyond what the group needs. */
enum npm_wish {
    NPM_WISH_NONE,
    NPM_WISH_DRAIN,   /* no new calls; it is kept until the operator says otherwise */
    NPM_WISH_REPLACE, /* it serves until others can, then goes */
    NPM_WISH_REMOVE,  /* it goes when it is empty */
    NPM_WISHES_N
};

extern const char *const npm_wish_names[NPM_WISHES_N];

/* Why a host drains. */
enum npm_reason {
    NPM_REASON_NONE,
    NPM_REASON_NOT_NEEDED,
    NPM_REASON_SILENT,
    NPM_REASON_OPERATOR,
    NPM_REASON_REPLACED,
    NPM_REASON_BUSY_AGAIN, /* it was to be removed, and got a call */
    NPM_REASONS_N
};

extern const char *const npm_reason_texts[NPM_REASONS_N];

/* What every step reads comes first. */
struct npm_host {
    enum npm_host_state state;
    enum npm_wish wish;
    enum npm_reason reason; /* DRAINING: why */
    bool status_under_way;
    bool braked;       /* missing together with most others */
    bool lived;        /* answered for stillborn_max */
    bool emptied;      /* REMOVING because it said so */
    bool ordered;      /* its removal, once at least */
    int64_t since_ns;  /* in this state */
    int64_t silent_ns; /* since the first question without an answer; 0 = it answers */
    int64_t status_ns; /* next question */
    int64_t asked_ns;  /* the one under way */
    uint64_t list_no;  /* last list with it */
    uint32_t missing;  /* lists in a row without it */
    uint32_t active;   /* calls, as last reported */
    uint64_t capacity_mb;
    char id[NPM_ID_MAX + 1];
    char address[NPM_ADDRESS_MAX + 1]; /* "" while unknown */
    const char *moves_to; /* what the list that is being read gives it instead; else NULL */
    int64_t missing_ns;
    int64_t asked_for_ns; /* when the request that brought it was made; 0 = nobody asked */
    int64_t ready_ns;     /* first answer; 0 = none */
    int64_t reported_ns;  /* last answer; 0 = none */
    int64_t told_ns;      /* when that answer was asked for */
    int64_t remove_ns;    /* next try */
    uint32_t tries;       /* removals */
    uint32_t labels_1;    /* its set of labels + 1; 0 = none: npm_labels() */
    uint64_t order;       /* by time of adoption: the order of members */
    char fault[NPM_FAULT_MAX + 1]; /* why it starts no containers; "" = it does */
};

struct npm_group;

/* [init] budget: borrowed, outlives the group. NULL when out of memory. */
struct npm_group *npm_group_create(const struct npm_options *options, struct npm_budget *budget,
                                   int64_t now_ns);
void npm_group_destroy(struct npm_group *g); /* NULL ok */
/* Other limits and times; runners_max, lbs_max and the predictor stay as they were created. What
 * has begun keeps its time. */
void npm_group_set_options(struct npm_group *g, const struct npm_options *options);

/* Returns when the next NPM_TICK is due; earlier ones do no harm. *out is emptied first. */
int64_t npm_step(struct npm_group *g, const struct npm_event *e, int64_t now_ns,
                 struct npm_actions *out);

/* Hosts in order of adoption; i < npm_host_count(). */
uint32_t npm_host_count(const struct npm_group *g);
const struct npm_host *npm_host_at(const struct npm_group *g, uint32_t i);
const struct npm_host *npm_host_find(const struct npm_group *g, const char *id);
/* A draining host said that it has no calls when it was asked after every LB had the time to hear
 * of the drain (drain_settle). */
bool npm_is_empty(const struct npm_group *g, const struct npm_host *h);
/* A question of NPM_DO_STATUS could not be asked: it is due again after the usual pause. */
void npm_unasked(struct npm_group *g, const char *id, int64_t now_ns);
/* What LBs are told of: active ones get calls, draining ones keep their place without. */
static inline bool npm_is_listed(const struct npm_host *h)
{
    return (h->state == NPM_ACTIVE || h->state == NPM_DRAINING) && h->address[0];
}

/* Sets of labels are kept once, at places 0 to npm_labels_n() - 1; a place that is free is "". */
uint32_t npm_labels_n(const struct npm_group *g);
const char *npm_labels_at(const struct npm_group *g, uint32_t i);
static inline const char *npm_labels(const struct npm_group *g, const struct npm_host *h)
{
    return h->labels_1 ? npm_labels_at(g, h->labels_1 - 1) : "";
}

struct npm_figures {
    uint64_t version; /* of the members; grows with each change */
    uint64_t wanted_mb;
    uint64_t waiting;
    uint64_t desired_mb; /* by the predictor, within runners_max */
    uint64_t state_mb[NPM_STATES_N];
    uint32_t state_n[NPM_STATES_N];
    uint32_t asked_n; /* runners asked for that have not arrived */
    uint32_t requests_n;
    uint32_t lbs_n;
    uint32_t cplane_failures; /* in a row */
    uint32_t cplane_away; /* of these: lists, and provisions of which nobody knows the outcome */
    uint32_t stillborn;       /* pauses in a row because hosts did not live */
    uint32_t lbs_twice;       /* whose id another LB uses as well */
    uint32_t leaving_n;       /* active or booting, to be replaced */
    uint32_t failing_n;       /* active, and start no containers */
    int64_t asked_since_ns;   /* oldest of asked_n; 0 = none */
    int64_t listed_ns;        /* last complete list; 0 = none */
    /* Nothing is asked for, nothing is listed before: */
    int64_t stillborn_until_ns, provision_until_ns, list_until_ns;
    bool at_max; /* more is wanted than there may be */
    bool standby; /* another manager acts: nothing is asked for, drained or removed */
    bool settled;
    bool cplane_busy;
};
/* One sentence: what there is, what was asked for, what keeps it from more. cap > 0. */
void npm_explain(const struct npm_group *g, int64_t now_ns, char *ret, size_t cap);
#define NPM_EXPLAIN_MAX 400u
bool npm_lb_is_twice(const struct npm_group *g, const char *lb_id);
/* What one LB's demand is clamped to. */
uint64_t npm_group_max_mb(const struct npm_group *g);
void npm_figures(const struct npm_group *g, struct npm_figures *ret);

#endif
