/* What core/loop is to the rooms above: a host's sockets are watched, and its callbacks made, in
 * turns of the host. As with epoll(7) what is ready is found at the begin of a turn,
 * level-triggered, and who is not watched any more when its turn has come hears nothing. */
#include "watch.h"

#include <assert.h>
#include <stdlib.h>

#define TURN_NS     (20 * ENV_US) /* until the next one, while something is ready */
#define READY_MAX   64u           /* of one turn, as much as a loop asks for */

struct watch {
    TAILQ_ENTRY(watch) entry;
    uint64_t id;
    struct sock *sock;
    struct loop_fd *w;
    short edge; /* LOOP_QUIET: what was told */
};

struct ready {
    uint64_t id;
    uint32_t events;
};

static struct host *host_of(struct loop *l)
{
    return (struct host *)(void *)l;
}

struct loop *host_loop(struct host *h)
{
    return (struct loop *)(void *)h;
}

static uint32_t ready_events(struct watch *w, int64_t *later_ns)
{
    int64_t at_ns;
    short p = sock_poll(w->sock, &at_ns);
    uint32_t r = 0;

    *later_ns = at_ns < *later_ns ? at_ns : *later_ns;
    if (w->w->events & LOOP_READ && p & (POLLIN | POLLRDHUP)) {
        r |= LOOP_READ;
    }
    if (w->w->events & LOOP_WRITE && p & POLLOUT) {
        r |= LOOP_WRITE;
    }
    if (p & (POLLERR | POLLHUP) && !(w->w->events == LOOP_QUIET && w->edge)) {
        r |= LOOP_READ | LOOP_WRITE;
    }
    w->edge = p & (POLLERR | POLLHUP);
    return r;
}

static struct watch *watch_by_id(struct host *h, uint64_t id)
{
    struct watch *w;

    TAILQ_FOREACH(w, &h->watches, entry) {
        if (w->id == id) {
            return w;
        }
    }
    return NULL;
}

void host_look(struct host *h)
{
    struct ready ready[READY_MAX];
    int64_t later_ns = INT64_MAX;
    uint32_t n = 0;
    struct watch *w;

    TAILQ_FOREACH(w, &h->watches, entry) {
        uint32_t events = n < READY_MAX ? ready_events(w, &later_ns) : 0;

        if (events) {
            ready[n++] = (struct ready){ w->id, events };
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        w = watch_by_id(h, ready[i].id);
        if (w) {
            w->w->cb(w->w, ready[i].events);
        }
    }
    if (n > 0) {
        later_ns = sim_now_ns(h->sim) + TURN_NS;
    }
    if (later_ns < INT64_MAX) {
        host_wake(h, later_ns);
    }
}

void host_watch(struct host *h, struct loop_fd *w, uint32_t events)
{
    struct watch *watch = sim_alloc(sizeof(*watch));

    watch->id = ++h->watch_ids;
    watch->sock = kernel_sock(h->kernel, w->fd);
    assert(watch->sock);
    watch->w = w;
    w->events = events;
    w->generation = watch->id;
    TAILQ_INSERT_TAIL(&h->watches, watch, entry);
    host_wake(h, sim_now_ns(h->sim));
}

/* ---- where the linker leads calls of core/loop (--wrap) -------------------------------------- */

struct env *__wrap_loop_env(struct loop *l);
int __wrap_loop_fd_add(struct loop *l, struct loop_fd *w, uint32_t events, struct fn_error *reterr);
void __wrap_loop_fd_set(struct loop *l, struct loop_fd *w, uint32_t events);
void __wrap_loop_fd_remove(struct loop *l, struct loop_fd *w);
void __wrap_loop_enter(struct loop *l);
void __wrap_loop_leave(struct loop *l);

struct env *__wrap_loop_env(struct loop *l)
{
    return sim_env(host_of(l)->sim);
}

int __wrap_loop_fd_add(struct loop *l, struct loop_fd *w, uint32_t events, struct fn_error *reterr)
{
    if (scarce_hits((const void *)(uintptr_t)__wrap_loop_fd_add)) {
        return err_set(reterr, FN_E_EXHAUSTED, "loop: out of memory for a descriptor");
    }
    host_watch(host_of(l), w, events);
    return 0;
}

void __wrap_loop_fd_set(struct loop *l, struct loop_fd *w, uint32_t events)
{
    struct host *h = host_of(l);
    struct watch *watch = watch_by_id(h, w->generation);

    assert(watch);
    if (w->events != events) {
        w->events = events;
        watch->edge = 0;
        host_wake(h, sim_now_ns(h->sim));
    }
}

void __wrap_loop_fd_remove(struct loop *l, struct loop_fd *w)
{
    struct host *h = host_of(l);
    struct watch *watch = watch_by_id(h, w->generation);

    assert(watch);
    TAILQ_REMOVE(&h->watches, watch, entry);
    free(watch);
}

/* One thread does everything. */
void __wrap_loop_enter(struct loop *l)
{
    (void)l;
}

void __wrap_loop_leave(struct loop *l)
{
    (void)l;
}
