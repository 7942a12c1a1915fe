/* Lookups: how many functions are asked about at the API node at a time, and whose turn it is.
 *
 * A refresh is of a function that this node knows; it is new when it is of anything else, which
 * strangers can make up. Both kinds have places of their own, so that no number of made-up ids
 * delays what is known. New ones that find no place wait: by address, one address after the other,
 * each in its order, for LOOKUPS_WAIT_NS at most; one that several addresses want, where least of
 * theirs stands before it. What one address has waiting is held to its share (base/share.h) of
 * LOOKUPS_WAITING_MAX. Refreshes wait in their order, without an end; how long somebody waits for
 * one is the catalog's to say. Everything is [loop]. */
#ifndef LB_LOOKUPS_H
#define LB_LOOKUPS_H

#include <base/env.h>
#include <base/table.h>
#include <stdbool.h>

#define LOOKUPS_PLACES      8u /* of each kind */
#define LOOKUPS_THREADS     (2u * LOOKUPS_PLACES) /* that ask at a time */
#define LOOKUPS_WAITING_MAX 1024u
#define LOOKUPS_WAIT_NS     (5 * ENV_S)
#define LOOKUPS_ADDRESS     16u /* bytes; all zero: nobody in particular, without a share */

enum lookup_kind { LOOKUP_NEW, LOOKUP_REFRESH, LOOKUP_KINDS_N };

struct lookup_asker;

struct lookup {
    /* set before lookups_start(): */
    enum lookup_kind kind;
    void (*begin)(struct lookup *l); /* it has its place */
    void (*late)(struct lookup *l);  /* it waited too long, and is out */
    /* their own: */
    bool has_place, waits;
    struct lookup_asker *asker; /* of a new one that waits */
    int64_t until_ns;
    TAILQ_ENTRY(lookup) link;     /* asker's, or the refreshes' */
    TAILQ_ENTRY(lookup) age_link; /* new ones that wait, oldest first */
};

TAILQ_HEAD(lookup_list, lookup);
TAILQ_HEAD(lookup_askers, lookup_asker);

struct lookups {
    struct env *env;
    uint32_t places[LOOKUP_KINDS_N]; /* taken */
    struct lookup_list refreshes;
    struct lookup_askers ring; /* those who have something waiting */
    struct lookup_asker *askers;
    struct lookup_list by_age;
    uint32_t waiting_n;     /* new ones */
    struct env_task task;   /* gives free places away */
    struct env_timer timer; /* the oldest one is late */
};

void lookups_init(struct lookups *s, struct env *env);
/* Nothing may be waiting any more. May run where the loop never did. */
void lookups_finish(struct lookups *s);
/* begin() from inside when there is a place, else later. FN_E_EXHAUSTED: too many wait, of this
 * address or of all, or there is no memory. */
int lookups_start(struct lookups *s, struct lookup *l, const unsigned char *address);
/* This address wants it too: it waits behind what this one has waiting if that is less than what
 * stands before it now. */
void lookups_join(struct lookups *s, struct lookup *l, const unsigned char *address);
/* It is over, or nobody wants it any more; begun, late or waiting. */
void lookups_end(struct lookups *s, struct lookup *l);

#endif
