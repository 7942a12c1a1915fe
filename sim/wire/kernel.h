/* Kernel: TCP between simulated hosts, as the system calls of core/net see it.
 *
 * Bytes that a socket has taken are on their way in segments; they arrive in order, or not at all.
 * Whether they have is a question of the world's clock, so that nothing of this needs a timer: each
 * host is woken at the moment from which one of its sockets may have something to say, and looks
 * (watch.c). A socket may give and take fewer bytes than asked for, and be interrupted.
 *
 * A partition delays; a half-open connection loses everything from then on and nobody is told; a
 * break loses what is behind a byte that is counted, and both sides hear of it. A host whose
 * process was killed has closed its sockets. Sources: tcp(7), and net/ipv4/tcp.c for what an error,
 * an end and a reset look like to poll(). */
#ifndef FND_WIRE_KERNEL_H
#define FND_WIRE_KERNEL_H

#include <poll.h>
#include <sim/sim.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct kernel;
struct sock;
struct world;

/* A machine with one process. Its owner embeds it; watch.c knows it as a struct loop. */
struct host {
    LIST_ENTRY(host) entry;
    struct kernel *kernel;
    struct sim *sim; /* whose clock wakes it */
    uint32_t ip;     /* 10.0.1.2 is 0x0a000102 */
    bool dead;
    uint16_t next_port;
    int64_t woken_ns; /* `turn` is set for then; INT64_MAX: it is not */
    struct env_timer turn;
    void (*look)(struct host *h); /* something may be there. [its own timer] */
    LIST_HEAD(, sock) socks;
    TAILQ_HEAD(, watch) watches; /* watch.c's */
    uint64_t watch_ids;
};

struct kernel *kernel_create(struct world *w);
void kernel_destroy(struct kernel *k); /* no host is left */

void host_open(struct host *h, struct kernel *k, struct sim *sim, uint32_t ip,
               void (*look)(struct host *h));
/* Its process is gone: its peers hear of it, nobody comes in any more, and its own calls fail. */
void host_die(struct host *h);
void host_close(struct host *h); /* it has no socket any more */
/* It looks at its sockets then, or before. */
void host_wake(struct host *h, int64_t at_ns);

/* ---- system calls: -1 and errno, as the real ones ------------------------------------------- */

struct sock *kernel_sock(struct kernel *k, int fd); /* NULL: not one of these */
int sock_open(struct host *h);                      /* its descriptor */
int sock_bind(struct sock *s, uint32_t ip, uint16_t port);
int sock_listen(struct sock *s);
int sock_accept(struct sock *s, uint32_t *ret_ip, uint16_t *ret_port);
int sock_connect(struct sock *s, uint32_t ip, uint16_t port); /* EINPROGRESS */
ssize_t sock_recv(struct sock *s, void *buf, size_t cap);
ssize_t sock_send(struct sock *s, const void *data, size_t len);
int sock_shut(struct sock *s); /* its own side */
void sock_close(struct sock *s);
int sock_error(struct sock *s); /* SO_ERROR: taken away with the answer */
void sock_reset_at_close(struct sock *s);
uint16_t sock_port(const struct sock *s);
struct host *sock_host(const struct sock *s);
struct host *sock_peer(const struct sock *s); /* NULL: it is gone */
/* POLLIN, POLLOUT, POLLRDHUP, POLLHUP and POLLERR, whatever is true. *ret_later_ns: when that may
 * change by itself; INT64_MAX = never. */
short sock_poll(struct sock *s, int64_t *ret_later_ns);

/* ---- faults: of all that is open between two hosts ------------------------------------------- */

enum kernel_break {
    KERNEL_RESET, /* both sides are told */
    KERNEL_VOID,  /* nobody is, ever */
    KERNEL_END,   /* somebody between them closes both ways */
    KERNEL_STALL, /* what is behind it comes late */
};
/* Behind `bytes` more bytes that this socket sends, or gets. */
void sock_break_after(struct sock *s, bool sends, uint64_t bytes, enum kernel_break how);
/* Behind `bytes` more bytes from `from` to `to`, of the connection that was opened last. */
void kernel_break_after(struct kernel *k, uint32_t from, uint32_t to, uint64_t bytes,
                        enum kernel_break how);
/* Nothing from `from` arrives at `to` before. */
void kernel_cut(struct kernel *k, uint32_t from, uint32_t to, int64_t until_ns);
void kernel_slow(struct kernel *k, uint32_t from, uint32_t to, int64_t more_ns, int64_t until_ns);
/* The next connection from `from` to `to` breaks behind `bytes` that go there, or
 * come back; kernel_has_broken(): it has. */
void kernel_break_next(struct kernel *k, uint32_t from, uint32_t to, bool back, uint64_t bytes,
                       enum kernel_break how);
bool kernel_has_broken(const struct kernel *k);
/* Cuts, delays and breaks to come are over. */
void kernel_heal(struct kernel *k);

#endif
