/* Watchdog: a thread that sees when the loop does not move, and a place for slow chores.
 *
 * The loop begins a callback after the other; when somebody is inside and the same callback runs
 * for `limit_ns`, report() is called, then again after twice the time, and once more when the loop
 * moved again. Nothing of this needs the loop. */
#ifndef LOOP_WATCHDOG_H
#define LOOP_WATCHDOG_H

#include <loop/loop.h>

struct watchdog;

struct watchdog_options {
    int64_t limit_ns; /* 0 = not watched */
};
extern const struct opt_table watchdog_opt_table; /* part of `plugins:`, options.c */

struct watchdog_config {
    int64_t limit_ns; /* 0 = not watched */
    /* On the watchdog's thread. over: the event loop runs again. stuck_ns is right within a quarter
     * of limit_ns. */
    void (*report)(void *ud, int64_t stuck_ns, bool over);
    int64_t chore_ns; /* 0 = never */
    void (*chore)(void *ud); /* every chore_ns, on the watchdog's thread */
    void *ud;
};

/* [init] Starts the thread. */
int watchdog_create(struct loop *l, const struct watchdog_config *config, struct watchdog **ret,
                    struct fn_error *reterr);
void watchdog_destroy(struct watchdog *w); /* waits for a running report; NULL ok */

#endif
