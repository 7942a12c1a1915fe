/* Manager: the groups of a node pool manager with a real control plane.
 *
 * Feeds each group's npm_step() with demand, ticks, answers of the control plane and reports of
 * runners, and carries out what it orders: control-plane calls on worker lanes, one per group at a
 * time, questions to runners through a function of the node's. Nothing that an LB asks ever waits
 * for the control plane. Groups are those of the configuration; any other name allocates
 * nothing. Everything is [loop]. */
#ifndef NPM_MANAGER_H
#define NPM_MANAGER_H

#include <base/env.h>
#include <base/err.h>
#include <npm/npm.h>
#include <npm/wishes.h>
#include <plugin/plugin.h>

#define NPM_GROUPS_MAX 1000u
#define NPM_GROUP_NAME_MAX 63u
#define NPM_MACHINES_MAX 65536u /* of one list */

struct npm_manager;

/* The rest of `npm:`, see options.c. */
struct npm_settings {
    struct fn_strlist groups;
    uint32_t runners_max; /* of all groups */
    int64_t cplane_timeout_ns;
    const char *wishes_file; /* for whoever keeps them; NULL = beside the admin socket */
};
extern const struct opt_table npm_settings_table, npm_opt_table;

struct npm_deps {
    struct env *env;
    struct plugin *cplane;
    struct plugin *predictor; /* NULL = demand as it is */
    /* Asks the runner at address how many calls it runs: npm_manager_reported() must follow, never
     * from inside. `ticket` is opaque. < 0: no memory, nothing follows; it is asked again when the
     * answer is overdue. */
    int (*ask)(void *ud, const char *address, uint64_t ticket);
    /* The members of a group changed, or were learnt. */
    void (*published)(void *ud, const char *group);
    /* npm_manager_wishes() are others than before. */
    void (*wishes_changed)(void *ud);
    void *ud;
    struct npm_options options; /* of every group; predict is set by the manager */
    struct npm_settings settings; /* its lists and texts are borrowed */
};

int npm_manager_create(const struct npm_deps *deps, struct npm_manager **ret,
                       struct fn_error *reterr);
/* Other limits and times for the groups that there are; see npm_group_set_options(). */
void npm_manager_set_options(struct npm_manager *m, const struct npm_options *options,
                             const struct npm_settings *settings);
/* Stops asking; done() when no control-plane call is under way, never from inside. */
void npm_manager_stop(struct npm_manager *m, void (*done)(void *ud), void *ud);
void npm_manager_destroy(struct npm_manager *m); /* after stop's done(); NULL ok */

/* A load balancer's word about one group. */
struct npm_demand {
    const char *lb_id, *group;
    uint64_t incarnation, seq; /* see npm_event */
    uint64_t mb, waiting;
};

/* < 0: not taken, with the reason in *ret_note: FN_E_NOT_FOUND, "NPM502 ..."; FN_E_INVALID,
 * "NPM504 ..."; FN_E_EXHAUSTED, "NPM506 ...". 1: taken, with an objection in *ret_note: another one
 * uses its id (FN_E_EXISTS, "NPM508 ..."), clamped (FN_E_RANGE, "NPM501 ..."). */
int npm_manager_demand(struct npm_manager *m, const struct npm_demand *d,
                       struct fn_error *ret_note);
/* answer: NPM_REPORTED or NPM_SILENT; of which host, the ticket says. */
void npm_manager_reported(struct npm_manager *m, uint64_t ticket, const struct npm_event *answer);

/* Borrowed; NULL: no such group. */
const struct npm_group *npm_manager_group(const struct npm_manager *m, const char *name);
/* Differs after each start. */
uint64_t npm_manager_epoch(const struct npm_manager *m);
/* In the order of the configuration. */
uint32_t npm_manager_count(const struct npm_manager *m);
const char *npm_manager_name_at(const struct npm_manager *m, uint32_t i);

/* order: an event of the operator, NPM_DRAIN to NPM_END. runner: its id, or group/id when more than
 * one group has it. RETIRE is for one without calls; END does not ask. FN_E_NOT_FOUND,
 * FN_E_PRECONDITION: its state does not allow it, or the id is ambiguous. */
int npm_manager_order(struct npm_manager *m, const char *runner, enum npm_event_kind order,
                      struct fn_error *reterr);
/* To be kept for the next start, and filled with what the last one kept before the first list. */
struct npm_wishes *npm_manager_wishes(const struct npm_manager *m);
/* The last failure of a call to the control plane, or "" since one went well and a claim, too. */
const char *npm_manager_cplane_error(const struct npm_manager *m, const char *group);

#endif
