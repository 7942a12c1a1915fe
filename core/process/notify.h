/* Notify: what the service manager is told (systemd, sd_notify(3)): that the node serves, that it
 * ends, and that its loop still turns. Nothing happens where NOTIFY_SOCKET is not set. */
#ifndef PROCESS_NOTIFY_H
#define PROCESS_NOTIFY_H

#include <base/env.h>

/* The datagram, such as "READY=1". Waits half a second at most for a place in the manager's queue;
 * one that does not get there is told in the log. The socket of the first one is kept. [any] */
void notify_tell(const char *state);

/* The manager holds a copy of a descriptor and hands it to the next process (FDSTORE=1); the name
 * has no colon. Dropped: all that have the name. [any] */
void notify_keep(int fd, const char *name);
void notify_drop(const char *name);

/* "WATCHDOG=1" from a timer of the loop, as often as WATCHDOG_USEC asks for; a loop that stands
 * still says nothing, and the manager restarts the node. Never waits. [loop] */
void notify_begin_watchdog(struct env *env);

#endif
