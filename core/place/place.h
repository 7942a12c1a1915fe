/* Place: finds a runner for each call.
 *
 * Holds the snapshots that pools publish, one link per runner, and the calls that wait. A call is
 * asked about with place_next(): the answer is a runner to try, "parked" (on_wake() comes later),
 * or the end. The placer plugin decides; retries, deadlines, back-off, wakes and metrics are
 * decided here, once for all placers. A waiting call is an entry of its group's queue and a timer.
 *
 *   new ──next──▶ TRY ──refused──▶ next ...        place_refused(): nothing ran, on proof only
 *                  └────ended────▶ done            place_ended(): the attempt is over
 *       ──next──▶ PARKED ──on_wake──▶ next ...
 *       ──next──▶ GIVE_UP
 *
 * Everything is [loop]; "fn.snap" and "fn.wake" are also called from workers. Go Fn:
 * api/runnerpool. */
#ifndef PLACE_PLACE_H
#define PLACE_PLACE_H

#include <base/env.h>
#include <base/err.h>
#include <model/engage.h>
#include <place/trace.h>
#include <plugin/plugin.h>
#include <stdbool.h>

/* Whoever sets an app's configuration names groups. Those without runners have half the table, and
 * an app a share of it, so that nobody's names keep a pool's lists out. */
#define PLACE_GROUPS_MAX    512u
#define PLACE_EMPTY_MAX     256u
#define PLACE_EMPTY_APP_MAX 16u
#define PLACE_RUNNERS_MAX 65536u
#define PLACE_STACK_MAX   8u

struct place;
struct place_group;
struct place_runner;
struct snapshot;

/* Part of `lb:`; see options.c for defaults and limits. */
struct place_options {
    int64_t retry_min_ns;  /* first wait between two rounds */
    int64_t retry_max_ns;  /* longest */
    uint32_t waiting_max;  /* calls that wait; more are refused. An app has a share of it */
    int64_t pool_grace_ns; /* use of a replaced pool's list while no new one comes */
    uint32_t shadow_permille; /* for place_set_shadow() */
};
extern const struct opt_table place_opt_table;

struct place_deps {
    struct env *env;
    struct plugin_host *host; /* offers fn.snap, fn.wake and fn.placer */
    struct engage_client *client;
    struct place_options options;
};

/* [init] Before the placer and pool instances are made. */
int place_create(const struct place_deps *deps, struct place **ret, struct fn_error *reterr);
/* [init] The placers of one configuration for "fn.placer": begin, then each one as soon as it is
 * made, inner ones first. Borrowed until the next begin. */
void place_stack_begin(struct place *p);
int place_stack_add(struct place *p, struct plugin *placer, struct fn_error *reterr);
/* [loop] or before place_start(): from now on this placer decides. Borrowed until gone(ud) was
 * called (may be NULL), later and from the loop, or by place_destroy(). Calls in the middle of a
 * round end it with the placer that began it; waiting ones begin anew with this one. */
int place_set_placer(struct place *p, struct plugin *placer, void (*gone)(void *ud), void *ud);
/* [loop] or before place_start(), after place_set_placer(), which forgets the fallback of the
 * placer before: who decides while this placer's decisions are bad or slow (breaker.c). The same
 * terms. */
int place_set_fallback(struct place *p, struct plugin *placer, void (*gone)(void *ud), void *ud);
/* Whether it decides for new calls now. */
bool place_uses(const struct place *p, const struct plugin *placer);
/* [loop] For decisions from now on. */
void place_set_options(struct place *p, const struct place_options *options);
/* [loop] Starts the pool: snapshots come through fn.snap. */
int place_start(struct place *p, struct plugin *pool, struct fn_error *reterr);
/* [loop] A list from elsewhere than a pool plugin (the simulator is its own pool): copied, and
 * published as a pool's is. */
int place_publish(struct place *p, const char *group, const struct fn_runner *list, uint32_t n);
/* [loop] Starts another pool, which takes over at once, then stops the old one; gone(ud) when that
 * is done, from the loop or by place_destroy(). < 0: the new one did not start and nothing changed.
 * Lists of the old pool stay until the new one publishes the same group or pool_grace_ns passed;
 * links of runners with the same id and address stay. What the old one still publishes is
 * refused. */
int place_switch_pool(struct place *p, struct plugin *pool, void (*gone)(void *ud), void *ud,
                      struct fn_error *reterr);
/* [loop] Of one that never became the current one, or that gone() was told of: before it is
 * destroyed. Its callbacks may run until then: plugin_retire() has what they publish refused. */
void place_forget_pool(struct place *p, const struct plugin *pool);
/* [loop] Tells the pool to stop; parked calls are woken and given up. done() when it and those that
 * it replaced have stopped, not from inside. */
void place_stop(struct place *p, void (*done)(void *ud), void *ud);
void place_destroy(struct place *p); /* no call may be left; NULL ok */

/* ---- a second placer that is only asked (shadow.c) ------------------------------------------- */

enum place_role { PLACE_SERVING, PLACE_SHADOW, PLACE_ROLES_N };
enum place_pick { PLACE_PICK_FREE, PLACE_PICK_REFUSED, PLACE_PICK_DOWN, PLACE_PICKS_N };
enum place_home { PLACE_HOME_NEW, PLACE_HOME_SAME, PLACE_HOME_MOVED, PLACE_HOMES_N };
#define PLACE_VERDICTS_N 3u /* FN_TRY, FN_WAIT, FN_GIVE_UP, minus 1 */

struct place_shadow_counts {
    uint64_t asked;           /* = agree + disagree + answers that cannot be used */
    uint64_t agree, disagree; /* same verdict and, when both say TRY, the same runner */
    uint64_t answers[PLACE_VERDICTS_N][PLACE_VERDICTS_N];  /* [serving][shadow] */
    uint64_t picks[PLACE_ROLES_N][PLACE_PICKS_N]; /* runners named, by how likely they refuse */
    uint64_t inflight[PLACE_ROLES_N]; /* sum of the calls that were at the runners named */
    uint64_t homes[PLACE_ROLES_N][PLACE_HOMES_N]; /* runners named, against the last one */
    uint64_t predicted;                   /* questions with a wait predicted for both */
    int64_t wait_ns[PLACE_ROLES_N];       /* sums of these waits */
    uint64_t measured;                    /* waits of calls that ended well, sampled or not */
    int64_t measured_ns;
};

/* [loop] or before place_start(), after place_set_placer(): this placer is asked the first question
 * of `permille` of all calls (1..1000) and its answers are counted, never used. NULL = none.
 * Borrowed as by place_set_placer(). FN_E_EXHAUSTED: nothing changed. */
int place_set_shadow(struct place *p, struct plugin *placer, uint32_t permille,
                     void (*gone)(void *ud), void *ud);
/* [loop] The shadow serves and the serving one becomes the shadow; `back` undoes it. The next
 * place_set_placer() or place_set_shadow() forgets that they were swapped. FN_E_NOT_FOUND: no
 * shadow. FN_E_PRECONDITION: swapped already, not swapped, or the shadow was turned off. */
int place_shadow_swap(struct place *p, bool back, struct fn_error *reterr);

struct place_shadow_status {
    const char *serving, *shadow; /* names of the instances; shadow NULL = none */
    const char *off_why;          /* NULL = it is asked; borrowed until the next change */
    uint32_t permille;
    bool swapped;
    int64_t for_ns; /* how long these two have had these roles; the counts are of that time */
    struct place_shadow_counts n;
};
void place_shadow_status(const struct place *p, struct place_shadow_status *ret);

/* ---- one call -------------------------------------------------------------------------------- */

enum place_verdict { PLACE_TRY, PLACE_PARKED, PLACE_GIVE_UP };

/* What is known of a runner when it is named (waits.c). */
struct waits_class {
    uint8_t load; /* class of the calls that are there */
    bool warm;
};

struct place_call {
    /* set by the caller before place_begin(): */
    struct fn_call view;   /* lives as long as this */
    int64_t deadline_ns;   /* end of placement */
    void (*on_wake)(struct place_call *pc);
    struct trace *trace; /* NULL = none is kept; lives as long as this */
    /* set by the caller before place_ended(): */
    int64_t execution_ns; /* that the runner reported; 0 = unknown */
    bool overdue;         /* the call's own time is over, not the function's */
    /* set by the caller before place_refused(): */
    const char *refusal; /* the runner's reason; NULL = none; lives as long as this */
    const struct engage_refusal *told; /* what it said of itself; NULL = nothing; until then */
    /* read by the caller: */
    struct engage_link *link; /* PLACE_TRY: where to send it */
    const char *address;      /* of that runner; borrowed until the attempt ended */
    struct fn_error error;    /* PLACE_GIVE_UP */
    char note[FN_NOTE_MAX];   /* the placer's at its last WAIT or GIVE_UP; printable or "" */
    uint32_t attempts;        /* made so far, unreachable ones included */
    /* its own: */
    struct place *place;
    struct place_group *group; /* NULL: none, and before place_begin() and after the end */
    const char *no_group;      /* the error's text then */
    struct snapshot *snap; /* pinned during a round */
    struct policy *policy; /* whose session this is; counted */
    struct place_runner *runner;
    struct env_timer timer;
    TAILQ_ENTRY(place_call) link_waiting;
    struct turn_line *line; /* of its function, while queued */
    struct share_holder *place_of; /* its app, while it has one of waiting_max: while it waits, and
                                    * is tried for a while; else NULL */
    struct place_call *turn_child, *turn_prev, *turn_next; /* in that line's heap */
    uint64_t arrival;                                      /* among the calls of its group */
    uint32_t wake_mask;
    uint32_t why;
    uint32_t last_index;
    int32_t last_code;
    uint32_t round;
    uint32_t round_attempts;
    uint32_t busy, unreachable; /* of the last round */
    uint32_t passed;            /* of those busy: not asked, as they had told so (hints.c) */
    uint32_t next_index;        /* of these, the one that may be asked first, and when */
    int64_t next_ns;
    int64_t hint_ns;            /* when the first hint of the last round ends; 0 = none */
    struct fn_answer last;      /* the placer's, to be done when it was asked in vain */
    bool has_last;
    int64_t begun_ns;
    int64_t parked_ns; /* since when, while it is */
    int64_t attempt_ns;
    int64_t window_ns; /* attempts of the running second */
    uint32_t window_attempts;
    bool parked;
    bool queued;
    bool has_turn; /* waits for capacity */
    bool counted;
    bool begun; /* and not over */
    bool answered; /* it has its error: its client did not leave */
    bool pool_failed; /* counted as one whose pool did not tell its runners */
    bool class_known;         /* of this attempt */
    struct waits_class class; /* at its begin */
    _Alignas(16) unsigned char session[FN_PLACER_SESSION_MAX];
};

/* Takes the call into its group. Then place_next(). */
void place_begin(struct place *p, struct place_call *pc);
enum place_verdict place_next(struct place_call *pc);
/* The attempt was refused (FN_WHY_BUSY) or never sent (FN_WHY_UNREACHABLE): a proof that nothing
 * ran. Then place_next(). */
void place_refused(struct place_call *pc, uint32_t why, int32_t code);
/* The attempt is over: FN_DONE_OK or FN_DONE_FAILED. The call is out of the place after this. */
void place_ended(struct place_call *pc, uint32_t outcome);
/* Gives the call up in any state; no on_wake() after this. Needed also after PLACE_GIVE_UP. */
void place_leave(struct place_call *pc);
/* Either of them, by the state, for whoever answers a call; also when it never began. */
enum place_end { PLACE_END_OK, PLACE_END_FAILED, PLACE_END_GONE /* its client left */ };
void place_end(struct place_call *pc, enum place_end how);

/* [loop] The runners of all groups whose links are open, one after the other, until seen() says
 * false, which is returned. One of several groups comes several times. Borrowed until the loop goes
 * on. */
bool place_each_runner(struct place *p,
                       bool (*seen)(void *ud, struct engage_link *link, const char *address),
                       void *ud);

/* [loop] The runners of all groups, also those without a link, for people who look; a list that is
 * replaced meanwhile is shown as it was. place_walk_end() when done, before place_destroy(). Texts
 * are borrowed until the loop goes on. */
struct place_walk {
    struct place_group *group;
    struct snapshot *held; /* NULL: none is left */
    uint32_t i;
};
struct place_runner_row {
    const char *group, *address;
    const char *labels; /* NULL: nothing is known */
    const char *state;
    uint32_t inflight; /* calls of this load balancer */
    uint64_t capacity_mb; /* 0 = unknown */
};
void place_walk(struct place *p, struct place_walk *w);
bool place_walk_next(struct place_walk *w, struct place_runner_row *ret); /* false: none is left */
void place_walk_end(struct place_walk *w);

struct place_counts {
    uint32_t waiting;
    uint32_t trying; /* attempts under way */
    uint32_t groups;
    uint32_t runners;
    uint32_t runners_up;
    uint32_t groups_empty; /* the pool in use said so, and can tell of new runners */
    uint32_t groups_stale; /* whose pool failed last */
};
void place_count(const struct place *p, struct place_counts *ret);

#endif
