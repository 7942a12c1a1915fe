/* Intake: from the manager's words about members to lists that the host has.
 *
 * One task after the other, each for one group:
 *
 *   CHECK ──readable to its end──▶ LABELS ──▶ TAKE ──▶ LIST ──published──▶ done
 *     └──not readable: left out──▶ done   └── any: no memory ──lost()──▶ done
 *
 * A list of ten thousand members takes milliseconds, and calls wait for the loop: so at most
 * INTAKE_PORTION members are looked at in a turn of it; short lists are published within the call.
 * Of each group one task waits at most, the newest. [loop] */
#ifndef POOL_NPM_INTAKE_H
#define POOL_NPM_INTAKE_H

#include "groups.h"

#define INTAKE_PORTION 256u

struct intake_task;

struct intake {
    const struct fn_host *host;
    const struct fn_snap_if *snap;
    struct intake_task *first; /* the one that is worked on; owned, as those behind it */
    uint64_t timer;            /* its next portion, while there is a task */
    /* What the manager told got lost for want of memory, or the host has no room for it: it is to
     * be told again. */
    void (*lost)(void *ud);
    void *ud;
};

/* A message with a group's members, which is copied. head: what wire_read_head() said; NULL: the
 * message is one of a historic manager. */
void intake_message(struct intake *in, struct group *g, const struct wire_head *head,
                    const void *copied, size_t len);
/* The members as they are, once more. */
void intake_publish(struct intake *in, struct group *g);
/* Whether the group's members may change soon: nobody else changes them then. */
int intake_is_busy(const struct intake *in, const struct group *g);
void intake_finish(struct intake *in); /* nothing is published any more */

#endif
