/* The talk with the node pool manager: demand out, memberships in.
 *
 *   WATCHING: a stream of fnd.Pool brings each change. HISTORIC: the manager does not know
 * fnd.Pool; each group is asked for every 500 ms, as Fn did in 2018. A manager that cannot be
 * reached leaves the last good lists in place, marked stale, until it tells them again, or that it
 * has no such group, whose list is empty then; groups of which it never told a list, until it
 * answers (F21 to F26). [loop] */
#ifndef POOL_NPM_LINK_H
#define POOL_NPM_LINK_H

#include "intake.h"

#include <fn/rpc.h>

#define LINK_ID_MAX 39
#define LINK_OBJECTION_MAX 256

struct link_conf {
    const char *address;
    const char *lb_id;
    const char *tls;
    const char *protocol; /* auto, fnd, historic */
    int64_t interval_ns;
    int64_t poll_ns;
    int64_t timeout_ns;
};

struct link {
    const struct fn_host *host;
    const struct fn_rpc_if *rpc;
    const struct link_conf *conf;
    struct groups groups;
    struct intake intake; /* publishes their members */
    char lb_id[LINK_ID_MAX + 1];
    uint64_t incarnation; /* this instance's, never 0; seq counts its words */
    uint64_t seq;
    uint64_t channel;
    int historic;
    uint64_t demand_call; /* 0 = none under way */
    uint64_t watch_call;
    char objection[LINK_OBJECTION_MAX]; /* the last one of the manager */
    int64_t objection_next_ns, state_next_ns;
    int watch_ended; /* by us, to ask for more groups or for all lists once more */
    int64_t watch_next_ns;
    uint32_t watch_failures;
    int64_t again_ns; /* the stream is begun anew then, for lists that got lost; 0 = none did */
    struct group *polled; /* historic: whose answer is awaited */
    uint32_t poll_next;
    uint64_t timer;
    int64_t demand_next_ns, poll_next_ns;
    /* The last list of a group is stale. */
    void (*failed)(void *ud, struct group *g, int32_t code, const char *text);
    void *ud;
};

/* host, rpc, conf, intake and failed are set. */
int link_open(struct link *l, struct fn_error *reterr);
void link_close(struct link *l);
/* A group's demand; a new group is asked for at once, and so is help for its first waiting call. */
void link_want(struct link *l, const char *group, const struct fn_demand *demand);

#endif
