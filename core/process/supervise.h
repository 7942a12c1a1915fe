/* Supervise: a small parent process that starts the node again after a crash.
 *
 *   running ──crash──▶ pause 0.1 s, doubling to 10 s ──▶ running
 *      │                   └──5 crashes in 60 s──▶ exit 70
 *      └──asked to end, or configuration──▶ exit with the node's code
 *
 * A crash is an end by a signal or with a code that a node does not choose. What a start after it
 * needs and does not find (69) is none, nor is a process that cannot be made: the pause gets
 * longer, and where fn.yaml is another one by then, what served before is tried in turn with it.
 * Calls in flight are cut; the port comes back with the next process. fn.yaml is read again at each
 * start. When the node cannot start with it, or the crash came within 60 s of a reload, what served
 * before serves until the next reload, however often the node crashes; when that cannot be read any
 * more (a file that it names is gone), the configuration of the first start does. */
#ifndef PROCESS_SUPERVISE_H
#define PROCESS_SUPERVISE_H

#include <config/config.h>
#include <process/start.h>

/* [init] Before any thread. Forks; returns the exit code, in the child that of run(). */
int supervise(struct config *c, const struct start *o,
              int (*run)(struct config *c, const struct start *o));

int supervise_parent(void); /* pid of the process above this node; 0 = none */
/* What the node tells its parent; no effect without one. [loop] */
void supervise_loaded(const char *config_path); /* this file is in use from now on; NULL ok */
void supervise_ending(void);                    /* the end that comes is wanted */

#endif
