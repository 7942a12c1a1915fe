/* What a manager believes of its runners, next to what it has heard and what they have said: rules
 * B25 and B26. */
#ifndef FND_SIM_NPM_WATCH_H
#define FND_SIM_NPM_WATCH_H

#include "world.h"

#include <npm/manager.h>

/* A runner that does not answer for so long is given up: the manager's limits in these worlds. */
#define NPM_WATCH_SILENT_NS (30 * ENV_S)

#define NPM_WATCH_ID_BYTES 16 /* of the cloud's machines */

struct npm_watch_question;

/* Of one process of a manager. */
struct npm_watch {
    struct node *npm;
    LIST_HEAD(, npm_watch_question) questions;
    struct npm_watch_heard {
        char id[NPM_WATCH_ID_BYTES]; /* of the machine that was asked */
        int64_t at_ns;               /* its last answer came, or it took the question */
        int64_t counts_ns;           /* it said how many calls it runs */
    } heard[RUNNERS_MAX];
};

void npm_watch_init(struct npm_watch *n, struct node *npm);
void npm_watch_finish(struct npm_watch *n);
void npm_watch_asked(struct npm_watch *n, const struct npm_group *g, const char *address,
                     uint64_t ticket);
/* Before the manager takes it. */
void npm_watch_told(struct npm_watch *n, uint64_t ticket, const struct npm_event *answer);
void npm_watch_look(const struct npm_watch *n, const struct npm_group *g);

#endif
