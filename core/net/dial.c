/* From an address to a stream.
 *
 *   RESOLVE -> CONNECT -> ... -> CONNECT -> SHAKE -> done
 *
 * Names are resolved on a lane of their own, and there aside: a resolver may take half a minute to
 * say no, which neither the next name nor the end of the node waits for.
 * The addresses of a name are tried in turn, each with its part of the time that is left, so that
 * one that is silent leaves time for the others. Events of the socket, the timer, the resolver's
 * answer and, for addresses that need none, `step` lead to done(): net_dial() itself never does. */
#include <net/net_int.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 512

/* Of the thread that asks and the lane together: whoever comes last frees it. */
struct question {
    char host[ADDR_HOST_MAX + 1];
    char port[ADDR_PORT_MAX + 1];
    struct addrinfo *list;
    int error;
    atomic_bool one_left; /* one of the two is done with it */
};

/* Owned by the lane until done(). */
struct resolving {
    struct env_work work;
    struct env *env;
    struct net_dial *d; /* NULL: nobody waits any more */
    struct question *q;
    struct addrinfo *list;
    int error; /* of getaddrinfo() */
    bool late; /* no answer in time */
};

struct net_dial {
    struct loop *loop;
    struct env *env;
    struct net_identity *identity; /* NULL: plain */
    char *address;
    char *expected; /* in the certificate */
    char *alpn;
    char host[ADDR_HOST_MAX + 1];
    char port[ADDR_PORT_MAX + 1];
    int64_t timeout_ms;
    int64_t deadline_ns;
    void (*done)(void *ud, struct net_io *io, const char *error);
    void *ud;
    struct env_timer timer;
    struct env_task step;
    struct resolving *resolving;
    struct addrinfo *list; /* of the resolver */
    struct addrinfo *at;   /* to be tried next */
    struct addrinfo *tried;
    struct addrinfo single; /* of a unix socket */
    struct sockaddr_storage unix_addr;
    struct loop_fd w; /* while connecting; else fd -1 */
    struct net_io *io;
    char text[TEXT_BYTES]; /* why the last address failed */
};

static void try_next(struct net_dial *d);

/* ---- end ------------------------------------------------------------------------------------- */

static void dial_hang_up(struct net_dial *d)
{
    if (d->w.fd >= 0) {
        loop_fd_remove(d->loop, &d->w);
        close(d->w.fd);
        d->w.fd = -1;
    }
}

static void dial_free(struct net_dial *d)
{
    if (d->resolving) {
        d->resolving->d = NULL;
        env_cancel(d->env, &d->resolving->work);
    }
    env_timer_clear(d->env, &d->timer);
    env_undefer(d->env, &d->step);
    dial_hang_up(d);
    if (d->list) {
        freeaddrinfo(d->list);
    }
    net_identity_unref(d->identity);
    free(d->address);
    free(d->expected);
    free(d->alpn);
    free(d);
}

static void dial_finish(struct net_dial *d, struct net_io *io)
{
    void (*done)(void *ud, struct net_io *io, const char *error) = d->done;
    char text[TEXT_BYTES];
    void *ud = d->ud;

    memcpy(text, d->text, sizeof(text));
    if (!io) {
        net_io_close(d->io);
    }
    dial_free(d);
    done(ud, io, io ? NULL : text);
}

static void dial_say(struct net_dial *d, const char *what)
{
    snprintf(d->text, sizeof(d->text), "%.120s: %.300s", d->address, what);
}

static void say_late(struct net_dial *d)
{
    char what[64];

    snprintf(what, sizeof(what), "%s within %lld ms",
             d->resolving ? "the name was not resolved" : "no connection",
             (long long)d->timeout_ms);
    dial_say(d, what);
}

/* ---- connected ------------------------------------------------------------------------------- */

static void dial_on_shaken(void *ud, const char *error)
{
    struct net_dial *d = ud;

    if (error) {
        dial_say(d, error);
        dial_finish(d, NULL);
        return;
    }
    dial_finish(d, d->io);
}

static void on_connected(struct net_dial *d)
{
    int64_t left_ms = (d->deadline_ns - env_now_ns(d->env) + ENV_MS - 1) / ENV_MS;
    struct net_shake shake = { .identity = d->identity,
                               .name = d->expected,
                               .alpn = d->alpn,
                               .timeout_ms = left_ms > 0 ? left_ms : 1 };
    struct fn_error e = ERR_INIT;
    char peer[NET_PEER_BYTES];
    int fd = d->w.fd;

    net_peer_text(d->tried->ai_addr, peer, sizeof(peer));
    loop_fd_remove(d->loop, &d->w);
    d->w.fd = -1;
    env_timer_clear(d->env, &d->timer);
    if (net_io_create(d->loop, fd, peer, &d->io, &e) < 0 ||
        (d->identity && net_io_shake(d->io, &shake, dial_on_shaken, d, &e) < 0)) {
        dial_say(d, e.msg);
        dial_finish(d, NULL);
    } else if (!d->identity) {
        dial_finish(d, d->io);
    }
}

static void dial_on_event(struct loop_fd *w, uint32_t events)
{
    struct net_dial *d = container_of(w, struct net_dial, w);
    socklen_t len = sizeof(int);
    int err = 0;

    (void)events;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0) {
        err = errno;
    }
    if (err == 0) {
        on_connected(d);
        return;
    }
    dial_say(d, strerror(err));
    try_next(d);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void dial_begin(struct net_dial *d, const struct addrinfo *ai)
{
    int one = 1;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct fn_error e = ERR_INIT;

    d->w = (struct loop_fd){ .fd = -1, .cb = dial_on_event };
    if (fd < 0) {
        dial_say(d, strerror(errno));
        return;
    }
    if (ai->ai_family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 && errno != EINPROGRESS) {
        dial_say(d, errno == EAGAIN ? "too many connections wait there" : strerror(errno));
        close(fd);
        return;
    }
    d->w.fd = fd;
    if (loop_fd_add(d->loop, &d->w, LOOP_WRITE, &e) < 0) {
        d->w.fd = -1;
        close(fd);
        dial_say(d, e.msg);
    }
}

/* The next address that can be tried at all, with its part of the time. */
static void try_next(struct net_dial *d)
{
    int64_t now = env_now_ns(d->env);
    int64_t left = 0;

    dial_hang_up(d);
    while (d->at && d->w.fd < 0 && now < d->deadline_ns) {
        d->tried = d->at;
        d->at = d->at->ai_next;
        dial_begin(d, d->tried);
    }
    if (d->w.fd < 0) {
        dial_finish(d, NULL);
        return;
    }
    for (const struct addrinfo *ai = d->tried; ai; ai = ai->ai_next) {
        left++;
    }
    env_timer_set(d->env, &d->timer, now + (d->deadline_ns - now) / left);
}

static void dial_on_timer(struct env_timer *t)
{
    struct net_dial *d = container_of(t, struct net_dial, timer);

    say_late(d);
    if (d->resolving) {
        dial_finish(d, NULL);
    } else {
        try_next(d);
    }
}

static void on_step(struct env_task *t)
{
    try_next(container_of(t, struct net_dial, step));
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void dial_let_go(struct question *q)
{
    if (atomic_exchange(&q->one_left, true)) {
        if (q->list) {
            freeaddrinfo(q->list);
        }
        free(q);
    }
}

/* [any] A thread of its own. */
static void dial_ask(void *arg)
{
    static const struct addrinfo hints = { .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG,
                                           .ai_socktype = SOCK_STREAM };
    struct question *q = arg;

    q->error = getaddrinfo(q->host, q->port, &hints, &q->list);
    dial_let_go(q);
}

/* [worker] */
static void run_resolve(struct env_work *w, struct fn_op *op)
{
    struct resolving *r = container_of(w, struct resolving, work);
    int64_t left_ns = w->deadline_ns - env_now_ns(r->env);

    (void)op;
    if (__atomic_load_n(&w->cancelled, __ATOMIC_RELAXED) || left_ns <= 0) {
        atomic_store(&r->q->one_left, true); /* nobody asked */
        r->late = true;
    } else {
        switch (loop_aside(dial_ask, r->q, left_ns)) {
        case 0:
            r->error = r->q->error;
            r->list = r->q->list;
            r->q->list = NULL;
            break;
        case FN_E_DEADLINE:
            r->late = true;
            break;
        default:
            atomic_store(&r->q->one_left, true); /* no thread: nobody asked */
            r->error = EAI_MEMORY;
            break;
        }
    }
    dial_let_go(r->q);
}

static void done_resolve(struct env_work *w)
{
    struct resolving *r = container_of(w, struct resolving, work);
    struct net_dial *d = r->d;

    if (!d && r->list) {
        freeaddrinfo(r->list);
    }
    if (d) {
        if (r->late) {
            say_late(d);
        }
        d->resolving = NULL;
        d->list = d->at = r->list;
        if (r->error) {
            dial_say(d, r->error == EAI_SYSTEM ? "the name cannot be resolved"
                                               : gai_strerror(r->error));
        }
        env_timer_clear(d->env, &d->timer);
        try_next(d);
    }
    free(r);
}

static int dial_resolve(struct net_dial *d, struct fn_error *reterr)
{
    struct resolving *r = calloc(1, sizeof(*r));
    struct question *q = calloc(1, sizeof(*q));

    if (!r || !q) {
        free(r);
        free(q);
        return err_set(reterr, FN_E_EXHAUSTED, "dial: out of memory");
    }
    r->work = (struct env_work){ .run = run_resolve,
                                 .done = done_resolve,
                                 .lane = ENV_LANE_NAMES,
                                 .deadline_ns = d->deadline_ns };
    r->env = d->env;
    r->d = d;
    r->q = q;
    memcpy(q->host, d->host, sizeof(q->host));
    memcpy(q->port, d->port, sizeof(q->port));
    if (env_submit(d->env, &r->work) < 0) {
        free(r);
        free(q);
        return err_set(reterr, FN_E_EXHAUSTED, "dial: %.120s: too many names are being resolved",
                       d->address);
    }
    d->resolving = r;
    env_timer_set(d->env, &d->timer, d->deadline_ns);
    return 0;
}

static int dial_find(struct net_dial *d, struct fn_error *reterr)
{
    static const struct addrinfo literal = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                             .ai_socktype = SOCK_STREAM };
    struct addr at;

    if (addr_parse(d->address, &at) < 0 || (!at.path && !*at.host)) {
        return err_set(reterr, FN_E_INVALID,
                       "dial: address, got \"%.120s\"; expected host:port, [ipv6]:port or "
                       "unix:/path", d->address);
    }
    if (at.path) {
        d->single.ai_family = AF_UNIX;
        d->single.ai_addr = (struct sockaddr *)&d->unix_addr;
        if (net_unix_addr(at.path, &d->unix_addr, &d->single.ai_addrlen) < 0) {
            return err_set(reterr, FN_E_INVALID,
                           "dial: path, got %zu characters; expected 1..107: %.120s",
                           strlen(at.path), d->address);
        }
        snprintf(d->host, sizeof(d->host), "localhost");
        d->at = &d->single;
        env_defer(d->env, &d->step);
        return 0;
    }
    memcpy(d->host, at.host, sizeof(d->host));
    memcpy(d->port, at.port, sizeof(d->port));
    if (getaddrinfo(d->host, d->port, &literal, &d->list) != 0) {
        return dial_resolve(d, reterr);
    }
    d->at = d->list;
    env_defer(d->env, &d->step);
    return 0;
}

static bool dial_copy(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

int net_dial(struct loop *loop, const struct net_dial_config *config,
             void (*done)(void *ud, struct net_io *io, const char *error), void *ud,
             struct net_dial **ret, struct fn_error *reterr)
{
    struct net_dial *d = calloc(1, sizeof(*d));
    const char *expected = config->tls_name;
    int r;

    if (!d) {
        return err_set(reterr, FN_E_EXHAUSTED, "dial: out of memory");
    }
    d->loop = loop;
    d->env = loop_env(loop);
    d->w.fd = -1;
    d->timer.cb = dial_on_timer;
    d->step.cb = on_step;
    d->done = done;
    d->ud = ud;
    d->timeout_ms = config->timeout_ms;
    d->deadline_ns = env_now_ns(d->env) + config->timeout_ms * ENV_MS;
    if (config->identity && !net_identity_is_plain(config->identity)) {
        d->identity = net_identity_ref(config->identity);
        expected = expected ? expected : config->identity->server_name;
    }
    if (!dial_copy(&d->address, config->address) || !dial_copy(&d->alpn, config->alpn)) {
        dial_free(d);
        return err_set(reterr, FN_E_EXHAUSTED, "dial: out of memory");
    }
    r = dial_find(d, reterr);
    if (r == 0 && !dial_copy(&d->expected, expected ? expected : d->host)) {
        r = err_set(reterr, FN_E_EXHAUSTED, "dial: out of memory");
    }
    if (r < 0) {
        dial_free(d);
        return r;
    }
    *ret = d;
    return 0;
}

void net_dial_cancel(struct net_dial *d)
{
    if (d) {
        net_io_close(d->io);
        dial_free(d);
    }
}
