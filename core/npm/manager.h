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
#include <plugin/plugin.h>

#define NPM_GROUPS_MAX 1000u
#define NPM_GROUP_NAME_MAX 63u
#define NPM_MACHINES_MAX 65536u /* of one list */

struct npm_manager;

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
    void *ud;
    struct npm_options options; /* of every group; predict is set by the manager */
    uint32_t runners_max;       /* of all groups */
    int64_t cplane_timeout_ns;
    const char *const *groups;
    uint32_t n_groups;
};

int npm_manager_create(const struct npm_deps *deps, struct npm_manager **ret,
                       struct fn_error *reterr);
/* Other limits and times for the groups that there are; see npm_group_set_options(). */
void npm_manager_set_options(struct npm_manager *m, const struct npm_options *options,
                             uint32_t runners_max, int64_t cplane_timeout_ns);
/* Stops asking; done() when no control-plane call is under way, never from inside. */
void npm_manager_stop(struct npm_manager *m, void (*done)(void *ud), void *ud);
void npm_manager_destroy(struct npm_manager *m); /* after stop's done(); NULL ok */

/* FN_E_NOT_FOUND: "NPM502 ..."; 1: taken but clamped, with "NPM501 ..." in *ret_note. */
int npm_manager_demand(struct npm_manager *m, const char *lb_id, uint64_t seq, const char *group,
                       uint64_t mb, uint64_t waiting, struct fn_error *ret_note);
void npm_manager_reported(struct npm_manager *m, uint64_t ticket, bool answered, uint32_t active);

/* Borrowed; NULL: no such group. */
const struct npm_group *npm_manager_group(const struct npm_manager *m, const char *name);
/* Differs after each start. */
uint64_t npm_manager_epoch(const struct npm_manager *m);
/* In the order of the configuration. */
uint32_t npm_manager_count(const struct npm_manager *m);
const char *npm_manager_name_at(const struct npm_manager *m, uint32_t i);

/* The operator's drain of a runner by its id. FN_E_NOT_FOUND. */
int npm_manager_drain(struct npm_manager *m, const char *host_id, bool on, struct fn_error *reterr);

#endif
