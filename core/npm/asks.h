/* Asks: the questions to runners how many calls they run, and whose turn it is.
 *
 * Each costs a connection: a fleet is asked bit by bit. A runner that does not answer holds its
 * place for seconds, so some places are for those that do, or have not been asked yet. Of each
 * runner one question at most waits. Everything is [loop]. */
#ifndef NPM_ASKS_H
#define NPM_ASKS_H

#include <base/env.h>
#include <base/table.h>
#include <npm/npm.h>

#define ASKS_MAX        64u /* under way */
#define ASKS_SILENT_MAX 48u /* of them, to those that did not answer last time */

/* Who is asked first. */
enum asks_urgency {
    ASK_AT_ONCE, /* it answered last time, or was not asked yet */
    ASK_BOOTING, /* it has not come up yet */
    ASK_SILENT,  /* it fell silent */
    ASKS_URGENCIES_N
};

struct asks_subject {
    struct npm_group *group;
    void *ud; /* the asker's */
    char host[NPM_ID_MAX + 1];
};

struct asks_question;

struct asks {
    struct env *env;
    int (*ask)(void *ud, const char *address, uint64_t ticket); /* see npm_deps */
    void *ud;
    uint64_t ticket_last;
    TAILQ_HEAD(, asks_question) waiting[ASKS_URGENCIES_N];
    struct asks_question *queued;
    struct asks_question *under_way;
    uint32_t n_silent; /* under way and not ASK_AT_ONCE */
    bool stopped;
};

void asks_init(struct asks *s, struct env *env,
               int (*ask)(void *ud, const char *address, uint64_t ticket), void *ud);
void asks_stop(struct asks *s);   /* no further one is asked */
void asks_finish(struct asks *s); /* after asks_stop(), or when nothing was ever asked */
/* A host of the group's; it is asked when its turn comes. ud comes back with the answer. */
void asks_add(struct asks *s, struct npm_group *group, void *ud, const char *id);
/* An answer came, or none in time. false: nobody waits for this ticket. asks_next() follows, once
 * the answer has been used. */
bool asks_end(struct asks *s, uint64_t ticket, struct asks_subject *ret);
void asks_next(struct asks *s);

#endif
