/* What a load balancer knows of its groups: demand to tell, members to publish. Pure, no clock.
 *
 * The order of members is kept: those that stay keep their place, new ones come at the end, so that
 * placers that hash over positions move as few functions as possible. A list that is older than
 * what is known is dropped. When more than half of the members vanish at once without having been
 * drained, they are kept for GROUPS_GRACE_NS: a manager that lost its mind must not stop the
 * traffic (F25, F26). */
#ifndef POOL_NPM_GROUPS_H
#define POOL_NPM_GROUPS_H

#include "wire.h"

#include <fn/pool.h>

#define GROUPS_MAX 512u /* as many as the host has in use at a time */
#define GROUPS_MEMBERS_MAX 65536u /* of a list */
#define GROUPS_IDLE_NS 3000000000LL /* of a group in use the host tells each second */
#define GROUPS_GRACE_NS 30000000000LL
#define GROUPS_GRACE_MIN 3u /* members; of fewer, one is most of them */

struct member {
    const char *id, *address; /* in the group's words */
    const char *labels;       /* the same; NULL: none */
    uint64_t capacity_mb;
    uint64_t key;        /* text_hash() of the id */
    uint64_t list_no;    /* the last list that has it */
    int64_t vanished_ns; /* not listed any more since; 0 = listed */
    int draining;
};

struct words; /* texts that are freed together */

struct group {
    char name[WIRE_GROUP_MAX + 1];
    struct fn_demand demand;
    int64_t wanted_ns; /* last word about its demand */
    uint32_t held;     /* tasks and questions under way that are about it */
    uint64_t epoch, version;
    uint64_t list_no; /* lists begun so far */
    struct words *words, *new_words; /* of all members; of the list that is taken */
    struct member *members;
    uint32_t n, cap;
    uint32_t *cells; /* by key, open addressing: place in members + 1; 2 * cap */
    int known;       /* a list was taken */
    int failed;      /* the stream broke off, and the host holds what it has for stale */
    int fresh;       /* the stream is new: its first list is what the manager knows now */
    const char **label_sets; /* of the list that is taken, in the group's words */
    uint32_t n_label_sets, cap_label_sets;
    uint32_t n_vanished; /* members in their grace */
    uint32_t listed, unusable; /* entries of the last list; those that no call could go to */
};

struct groups {
    struct group *list[GROUPS_MAX];
    uint32_t n;
};

void groups_finish(struct groups *gs);
struct group *groups_find(struct groups *gs, const char *name);
/* When there are too many, one that the host has forgotten and that has no members goes. NULL:
 * there is none, or no memory. */
struct group *groups_get(struct groups *gs, const char *name, int64_t now_ns);

/* Between begin and end, group_labels() is called for each set of labels, then group_member() for
 * each member; one without an id or address that can be used is only counted. < 0: no memory, or
 * FN_E_RANGE: too many. */
void group_list_begin(struct group *g);
int group_labels(struct group *g, const char *labels);
int group_member(struct group *g, const struct wire_member *m);
void group_list_end(struct group *g, int64_t now_ns);
/* Members whose grace is over go. 1 = the members changed. */
int group_expire(struct group *g, int64_t now_ns);
/* Whether a list with this epoch and version is news. Epochs grow with the manager's starts, unless
 * its wall clock went back: hence another epoch at the beginning of a stream is news as well. */
int group_is_news(const struct group *g, uint64_t epoch, uint64_t version);

#endif
