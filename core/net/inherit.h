/* Inherit: TCP ports that outlive a process.
 *
 * A service manager may hold listening sockets for a node: those that it made (sd_listen_fds(3)),
 * and those that a node before this one gave it to keep (FDSTORE=1, sd_notify(3)). Who connects
 * between two processes waits in the backlog of the socket and meets the next one. net_bind() takes
 * such a socket when it has the very address that is asked for. One per process: the environment
 * that tells of them is. [init] or [loop], but never from two threads. */
#ifndef NET_INHERIT_H
#define NET_INHERIT_H

#include <stdint.h>
#include <sys/socket.h>

#define NET_INHERIT_MAX 16 /* FileDescriptorStoreMax= of the unit */

struct net_keeper {
    void (*keep)(int fd, const char *name);
    void (*drop)(const char *name); /* all that were given under this name */
};

/* Takes what LISTEN_FDS tells of, above `fd_min`, and takes the variables out of the environment.
 * `above_pid`: another process that they may be meant for, 0 = none. */
void net_inherit_begin(int above_pid, int fd_min);
/* From now on every TCP port that is opened is given to the keeper. */
void net_inherit_keep(const struct net_keeper *keeper);
/* Ports that are opened from now on are not given, and those that are taken over are not left, to
 * the keeper: they are this process's own, also behind net_inherit_end(). */
void net_inherit_keep_no_more(void);
/* All ports are open: sockets that have the address of none are closed, and dropped. */
void net_inherit_settle(void);
/* The ports that nodes gave to the keeper refuse from now on, whoever has them open. */
void net_inherit_end(void);

/* Of net_bind(): the socket with this address, or -1. */
int net_inherit_take(const struct sockaddr *addr);
void net_inherit_opened(int fd, const char *address);

#endif
