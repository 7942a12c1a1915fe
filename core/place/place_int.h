/* What the files of this room share. */
#ifndef PLACE_PLACE_INT_H
#define PLACE_PLACE_INT_H

#include <base/table.h>
#include <place/place.h>
#include <place/waits.h>

#include <base/arena.h>
#include <base/metric.h>
#include <base/share.h>
#include <plugin/answer.h>

/* A runner's place in a listing. */
struct seat {
    uint64_t listing_no; /* 0 = in none */
    uint32_t index;
};

/* A runner of a group across listings: one link, one count of attempts. Counted by the listings
 * that have it and by its attempts; the link is closed with the last of them. */
struct place_runner {
    struct place_group *group;
    struct engage_link *link; /* NULL: not opened yet */
    const char *tls_name;     /* in key, behind the rest; may be NULL */
    uint32_t inflight;
    uint32_t refs;
    struct seat seats[2]; /* by the parity of a listing's number */
    int64_t since_ns; /* first listed */
    struct metric *failing; /* its status does: counted here while it is up; NULL = it does not */
    int64_t refused_ns; /* when it refused a call last; 0 = never */
    struct hints *hints; /* what it said then; NULL = nothing */
    TAILQ_ENTRY(place_runner) link_unopened; /* while there is no link */
    UT_hash_handle hh;
    char key[]; /* id, address */
};

static inline const char *runner_address(const struct place_runner *r)
{
    return r->key + sizeof(uint64_t);
}

struct home;
struct hints;

/* ---- what exists ----------------------------------------------------------------------------- */

/* One placer in use (policy.c). */
struct policy {
    struct place *place;
    struct plugin *placer;
    const struct fn_placer_ops *ops;
    uint32_t refs;
    void (*gone)(void *ud);
    void *ud;
    struct home *homes; /* of functions, while there is a shadow (shadow.c); else NULL */
    struct env_task gone_task;
    LIST_ENTRY(policy) link_leaving;
    bool distrusted; /* the breaker is open: no call goes on with it */
};

/* One pool in use (pool.c). */
struct source {
    struct place *place;
    struct plugin *pool;
    const struct fn_pool_ops *ops;
    uint64_t seq; /* counts pools; names the one that published a list */
    bool stopped; /* its stop() is done */
    bool over;    /* and that was told; kept until its pool is forgotten, which may say it twice */
    void (*gone)(void *ud);
    void *ud;
    struct env_task task;
    struct env_timer stop_timer; /* when stop() should be done */
    LIST_ENTRY(source) link_leaving;
};

/* Plugins see the runners: one that frees them frees no block of the heap, which the C library
 * notices by the size that stands before it. */
struct runner_block {
    _Alignas(16) char head[16]; /* zeros */
    struct fn_runner runners[];
};

/* Labels that runners of one list have, once. */
struct label_set {
    UT_hash_handle hh;
    char text[];
};

/* A list under construction; may be filled by a worker. Then the memory of a listing. */
struct fn_snap_builder {
    struct place *place;
    const struct fn_host *host; /* not for use once it is published; NULL: no plugin's */
    char group[FN_GROUP_NAME_MAX + 1];
    struct arena arena;
    struct runner_block *block;
    struct label_set *label_sets; /* in the arena; an entry's labels are one of these texts */
    uint32_t n, cap;
    struct fn_error *failed; /* held back: no list, but why there is none; else NULL */
    TAILQ_ENTRY(fn_snap_builder) link_held;
};

/* A pool's list with the group's runners (listing.c); counted by the snapshots over it and by its
 * group while it is bound. The in-flight counts follow those of the runners while it is bound and
 * while it is the current snapshot's. */
struct listing {
    struct place_group *group;
    uint64_t no; /* of its group, of another parity than the one that it replaces */
    uint32_t refs;
    uint32_t looked_at; /* entries; n of them have a runner */
    uint32_t guess;     /* where the next entry's runner may sit in the current listing */
    uint32_t n;
    struct fn_snap_builder *given; /* owned; its entries */
    struct fn_runner *list;        /* n */
    struct place_runner **runners; /* n, each counted */
    uint32_t *inflight;            /* n */
    uint64_t inflight_total;
    TAILQ_ENTRY(listing) link; /* place.binding or place.ended */
};

/* A listing with the indexes of the placers in use; counted by its group while it is the current
 * one and by the calls that are in a round over it. */
struct snapshot {
    struct fn_snapshot view;
    struct place *place;
    struct policy *policy; /* built the index; counted; NULL before the first placer */
    struct policy *shadow; /* built the index of shadow_view; counted; NULL = none */
    struct fn_snapshot shadow_view;
    uint32_t refs;
    struct listing *listing;       /* counted */
    struct fn_runner *list;        /* view.n, all three the listing's */
    struct place_runner **runners;
    uint32_t *inflight;
};

struct place_group {
    char name[FN_GROUP_NAME_MAX + 1];
    struct place *place;
    struct snapshot *snap; /* never NULL */
    uint64_t listings;     /* the last one's number */
    struct listing *binding;      /* becomes the next snapshot; NULL = none; counted */
    struct fn_snap_builder *next; /* waits for it to end; NULL = none */
    uint64_t published_by; /* source.seq of its list; 0 = none */
    struct place_runner *runners;
    uint32_t up_n, failing_n; /* of these: connected; and their status fails */
    TAILQ_HEAD(place_queue, place_call) waiting; /* parked once and not over, in that order */
    struct turn_app *apps; /* of these calls (turns.c) */
    TAILQ_HEAD(, turn_app) turns; /* apps with calls that wait for capacity */
    uint64_t arrivals;     /* that were queued so far */
    uint32_t waiting_n, trying_n;                /* parked now; at a runner now */
    uint64_t mem_mb; /* of waiting and trying calls */
    uint64_t app; /* whose call named it first, as a hash; 0 = nobody's */
    uint32_t calls; /* begun and not over; one more while the pool looks at it */
    uint32_t listings_n; /* that exist; the current one is one of them */
    int64_t used_ns; /* the last call's end, or when it was made */
    struct metric *new_runner;
    int64_t waited_ns; /* calls wait since, and no new runner took one; 0 = neither */
    uint32_t wakes;  /* parked calls that shall be asked again */
    uint32_t wake_mask;
    struct env_task wake_task;
    struct env_timer want_timer;
    struct waits_means means; /* learnt while there is a shadow */
    UT_hash_handle hh;
};

struct place_metrics {
    struct metric *attempts, *latency, *empty, *pool_error, *timeout, *client_gone;
    struct metric *client_timeout, *refresh_failed;
    struct metric *placed_ok, *placed_error, *placed_abort, *retry_busy, *retry_error;
    struct metric *passed_over, *refusals[ENGAGE_REASONS_N];
    struct metric *waiting, *runners, *runners_up, *groups_stale;
};

/* shadow.c */
struct place_shadow {
    struct policy *policy; /* counted; NULL = none */
    uint32_t permille;
    bool swapped;
    char off_why[40]; /* "" = it is asked */
    uint32_t strikes;
    int64_t strikes_ns; /* of the first one */
    int64_t since_ns;
    struct place_shadow_counts n;
    struct {
        struct metric *asked, *same, *strikes, *on, *swapped;
        struct metric *answers[PLACE_VERDICTS_N][PLACE_VERDICTS_N];
        struct metric *picks[PLACE_ROLES_N][PLACE_PICKS_N];
        struct metric *homes[PLACE_ROLES_N][PLACE_HOMES_N];
        struct metric *inflight[PLACE_ROLES_N];
        struct metric *predicted[PLACE_ROLES_N], *unpredicted, *measured;
    } m;
    struct waits *waits; /* since the first shadow was set */
};

#define BREAKER_STRIKES 3u

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_TRIAL };

/* breaker.c */
struct breaker {
    enum breaker_state state;
    struct policy *main;     /* the operator's; counted */
    struct policy *fallback; /* counted; NULL = there is no breaker */
    int64_t strikes_ns[BREAKER_STRIKES]; /* ring of the last ones */
    uint32_t n_strikes;
    uint32_t good; /* decisions of the trial */
    int64_t pause_ns; /* of the next opening */
    struct env_timer timer;
};

struct place {
    struct place_deps deps;
    struct policy *policy; /* current; NULL before the first placer */
    struct place_shadow shadow;
    LIST_HEAD(, policy) leaving;
    struct breaker breaker;
    struct plugin *stack[PLACE_STACK_MAX]; /* inner ones first (stack.c) */
    uint32_t stack_n;
    struct source *source; /* current; NULL before place_start() */
    LIST_HEAD(, source) sources_leaving;
    uint64_t source_seq;
    TAILQ_HEAD(, fn_snap_builder) held; /* published by pools that are not started */
    uint32_t held_n;
    struct env_timer grace_timer; /* after a change of the pool */
    void (*stopped)(void *ud);    /* place_stop()'s done */
    void *stopped_ud;
    struct place_group *groups;
    struct place_group *fallback; /* "default" */
    uint64_t epochs; /* of a new group: one that is made again goes on behind its old ones */
    uint32_t waiting_n; /* parked now */
    uint32_t places_n;  /* of waiting_max, that calls have */
    struct share_holder *placed_apps; /* of these calls, in whatever groups */
    int32_t stale_n; /* groups whose pool failed last */
    bool stopping;
    TAILQ_HEAD(listing_queue, listing) binding, ended;
    struct env_timer listing_timer; /* the next portion of these */
    TAILQ_HEAD(, place_runner) unopened;
    struct env_timer open_timer;
    int64_t opened_ns; /* the last link */
    uint32_t opened_n; /* of the running portion */
    struct place_metrics metrics;
};

/* waiting.c */
void waiting_init(struct place_group *g);
void waiting_finish(struct place_group *g);
/* FN_E_EXHAUSTED: no memory. */
int group_queue(struct place_group *g, struct place_call *pc);
void group_unqueue(struct place_group *g, struct place_call *pc);
/* A runner took the call. */
void group_placed(struct place_group *g, const struct place_call *pc);
/* Asks up to n parked calls that wait for `mask` again, soon. */
void group_wake(struct place_group *g, uint32_t n, uint32_t mask);

/* group.c */
struct place_group *group_get(struct place *p, const char *name); /* NULL: too many or no memory */
/* For a call of that app (NULL: of none). NULL: *ret_why is the text of its error. */
struct place_group *group_for(struct place *p, const char *name, const char *app_id,
                              const char **ret_why);
void group_destroy(struct place_group *g);
/* listing_publish() for the group that it names. */
int group_publish(struct place *p, struct fn_snap_builder *given);
/* Its pool could not refresh its list. */
int group_fail(struct place *p, const char *group, const struct fn_error *why);

/* turns.c */
/* A call that is parked for the first time; until turns_leave(). FN_E_EXHAUSTED: no memory. */
int turns_join(struct place_call *pc);
void turns_leave(struct place_call *pc);
/* It is parked, and waits for its turn if capacity shall wake it: until turns_remove(). */
void turns_park(struct place_call *pc);
/* The one whose turn it is, without a turn from now on; NULL = none. */
struct place_call *turns_next(struct place_group *g);
void turns_add(struct place_call *pc); /* takes its place again */
void turns_remove(struct place_call *pc);

/* links.c */
#define RUNNER_WORD_MAX 255u /* bytes of an address, of a tls_name: ABI 1.0 */
void links_init(struct place *p);
void links_finish(struct place *p);
/* Opens links of new runners, now and in portions later. */
void links_open(struct place *p);
bool runner_is_up(const struct place_runner *r);
/* It says that it cannot start containers, and not so many others do that this is no reason. */
bool runner_is_failing(const struct place_runner *r);
/* The group's runner for an entry, new or known; the caller gets a reference. guess: may be it,
 * which saves the search; NULL = none. NULL: no memory. */
struct place_runner *runner_get(struct place_group *g, struct place_runner *guess,
                                const struct fn_runner *e);
bool runner_unref(struct place_runner *r); /* true: that closed its link */

/* hints.c */
/* It refused the call and told so. When the hint ends; 0 = there is none. */
int64_t hints_take(struct place_runner *r, const struct place_call *pc,
                   const struct engage_refusal *told);
/* Until when it is not to be asked about the call; 0 = it may be. */
int64_t hints_until_ns(const struct place_runner *r, const struct place_call *pc);
void hints_ended(struct place_runner *r, const struct place_call *pc); /* it ran the call */
void hints_forget(struct place_runner *r);

/* snap.c */
extern const struct fn_snap_if place_snap_if;

/* builder.c */
struct fn_snap_builder *builder_create(struct place *p, const char *group); /* NULL: no memory */
int builder_add(struct fn_snap_builder *b, const struct fn_runner *copied); /* < 0: no memory */
void builder_free(struct fn_snap_builder *b); /* NULL ok */

/* seats.c */
bool seat_is_in(struct place_runner *r, const struct listing *l);
uint32_t seat_index(struct place_runner *r, const struct listing *l); /* if it is */
void seat_take(struct place_runner *r, struct listing *l); /* the next one */
void runner_set_inflight(struct place_runner *r, uint32_t n);
const char *runner_labels(struct place_runner *r); /* in the current list; NULL: none */

/* listing.c */
#define LISTING_PORTION 256u /* entries at a time */
/* One count. Owns the builder (NULL: an empty list) unless it fails (NULL). */
struct listing *listing_create(struct place_group *g, struct fn_snap_builder *given);
struct listing *listing_ref(struct listing *l);
void listing_unref(struct listing *l);
/* One portion of one that ended; frees it with its last runner. Returns when to go on. */
int64_t listing_let_go(struct listing *l);
/* Not in this turn of the loop: other events come first. */
void listings_go_on(struct place *p, int64_t after_ns);
/* Lets go of all runners of listings that ended; before a group is freed. */
void listings_finish(struct place *p);

/* binding.c */
void listings_init(struct place *p);
/* Makes a list the group's current snapshot: before it returns or, when it is long, soon. Takes the
 * builder in any case. */
int listing_publish(struct place_group *g, struct fn_snap_builder *given);
int listing_clear(struct place_group *g); /* an empty list, now */
/* Drops what is on its way to be the group's snapshot. */
void listing_forget(struct place_group *g);

/* snapshot.c */
/* The group's current snapshot from now on is one over this listing. */
int snapshot_swap(struct place_group *g, struct listing *l);
/* What placers see of the pool's health: FN_SNAP_* and an error code. */
void snapshot_mark(struct place_group *g, uint32_t flags, int32_t err_code);
void snapshot_unref(struct snapshot *s);
/* The same listings again, with the indexes of those placers that are in use now; < 0: not every
 * group has them. */
int snapshots_renew(struct place *p);
int snapshots_use(struct place *p, struct policy *y); /* and this policy serves from now on */

/* pool.c */
enum source_word { SOURCE_CURRENT, SOURCE_HELD, SOURCE_REFUSED };
/* What becomes of a list that this pool publishes now. */
enum source_word source_judge(const struct place *p, const struct plugin *pool);
int source_hold(struct place *p, struct fn_snap_builder *given); /* < 0: not taken */
/* For plugin_host_on_release(): what is held of an instance names it, and goes with it. */
void source_release(void *impl, const struct fn_host *host);
void sources_finish(struct place *p);

/* stack.c */
extern const struct fn_placer_if place_placer_if;

/* shadow.c */
/* After the serving placer was asked a call's first question; nothing has changed since. */
void shadow_ask(struct place_call *pc, const struct fn_ask *asked, int result,
                const struct fn_answer *answer);
void shadow_observe(struct place_call *pc, const struct fn_placed *placed);
/* An attempt begins at a runner, before it is counted there; it ended well. */
void shadow_attempt(struct place_call *pc, uint32_t index);
void shadow_attempt_ended(struct place_call *pc);
bool shadow_is(const struct place *p, const struct plugin *plugin);
void shadow_index_build(struct snapshot *s);
void shadow_index_free(struct snapshot *s);
void shadow_placer_set(struct place *p); /* there is a new serving placer, of the operator */
void shadow_policy_used(struct place *p); /* another policy decides */
/* From now on, NULL = none; takes the count unless it fails. Indexes follow by
 * snapshots_renew(). */
int shadow_set(struct place *p, struct policy *y, uint32_t permille);
void shadow_exchange(struct place *p); /* the one that serves for the shadow; indexes as above */

/* policy.c */
/* One count; NULL when out of memory. */
struct policy *policy_create(struct place *p, struct plugin *placer, void (*gone)(void *ud),
                             void *ud);
void policy_discard(struct policy *y); /* one that nobody used: gone() is not called */
struct policy *policy_ref(struct policy *y);
void policy_unref(struct policy *y); /* NULL ok */
/* The placer's index of a list; NULL: it has none. */
const void *policy_index_build(struct policy *y, const struct fn_snapshot *view);
void policy_index_free(struct policy *y, const void *index); /* NULL ok */
void policies_finish(struct place *p);

/* breaker.c */
void breaker_begin(struct place *p, struct policy *main); /* a new placer, without fallback */
void breaker_finish(struct place *p);
void breaker_swapped(struct place *p); /* another policy is the operator's now; same fallback */
/* A decision was bad or slow; true: the call may be asked about again, by this or another
 * placer. */
bool breaker_strike(struct policy *y, const char *why);
void breaker_good(struct policy *y);

#endif
