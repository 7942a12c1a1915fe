/* Sockets, flows of segments between them, and the faults of a network: partitions, cuts, short
 * reads, interrupted calls. */
#include "kernel.h"

#include "../world/world.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FD_FIRST     (1 << 20) /* below are real ones */
#define PORT_FIRST   32768u    /* of who dials */
#define SHORT_ONE_IN 4u        /* of reads and writes that could be longer */
#define EINTR_ONE_IN 50u
#define CUTS_MAX     128u
#define STALL_NS     (300 * ENV_MS)
/* When nothing is wrong any more, a connection is not slower than that, however small the world's
 * sockets are. */
#define BYTES_PER_S_MIN 500000

struct segment {
    TAILQ_ENTRY(segment) link;
    int64_t at_ns;
    bool landed;
    size_t len, off; /* of `data`; read so far */
    char data[];
};

/* One direction of a connection. */
struct flow {
    TAILQ_HEAD(, segment) segments;
    uint64_t held;   /* bytes on their way or unread */
    uint64_t taken;  /* bytes ever */
    int64_t last_ns; /* when the last one arrives */
    int64_t end_ns;  /* when its end does; INT64_MAX: not yet sent */
    bool resets;     /* that end is a reset */
    bool end_landed;
    bool is_void;
    uint64_t break_at; /* of `taken`; UINT64_MAX = never */
    enum kernel_break how;
};

/* A connection. Side 0 has dialled. Lives as long as one of its sockets. */
struct tcp {
    LIST_ENTRY(tcp) entry; /* the newest first */
    struct kernel *kernel;
    struct sock *ends[2]; /* NULL: closed */
    uint32_t ip[2];
    uint16_t port[2];
    struct flow to[2]; /* that side */
};

enum sock_state { SOCK_NEW, SOCK_LISTENING, SOCK_DIALLING, SOCK_OPEN, SOCK_DEAD };

struct sock {
    LIST_ENTRY(sock) entry; /* of its host; of a backlog it has none yet */
    struct host *host;
    enum sock_state state;
    int fd; /* -1: in a backlog */
    uint16_t port;
    struct tcp *tcp;
    int side;
    int64_t up_ns; /* while it dials: when the answer is there */
    int error;     /* that nobody was told of */
    bool shut, reset_at_close, end_told;
    TAILQ_HEAD(, sock) backlog;
    TAILQ_ENTRY(sock) waiting; /* in one */
};

struct cut {
    uint32_t from, to;
    int64_t until_ns, slow_until_ns, slow_ns;
};

struct kernel {
    struct world *w;
    struct sim_rng rng;
    bool picky; /* counts are short, and calls are interrupted */
    uint64_t room_bytes; /* of a socket, until they are read */
    LIST_HEAD(, host) hosts;
    LIST_HEAD(, tcp) tcps;
    struct sock **socks; /* by descriptor */
    size_t n_socks;
    struct cut cuts[CUTS_MAX];
    uint32_t n_cuts;
    struct {
        uint32_t from, to; /* 0: none is to break */
        bool back;
        uint64_t bytes;
        enum kernel_break how;
    } next;
    bool broken;
};

static int64_t now_of(const struct kernel *k)
{
    return k->w->now_ns;
}

static bool one_in(struct kernel *k, uint32_t n)
{
    return k->picky && sim_rng_below(&k->rng, n) == 0;
}

static int failed(int err)
{
    errno = err;
    return -1;
}

/* ---- ways between hosts ---------------------------------------------------------------------- */

static struct cut *cut_of(struct kernel *k, uint32_t from, uint32_t to)
{
    struct cut *c = k->cuts;

    while (c < k->cuts + k->n_cuts && (c->from != from || c->to != to)) {
        c++;
    }
    if (c == k->cuts + k->n_cuts) {
        assert(k->n_cuts < CUTS_MAX);
        k->n_cuts++;
        *c = (struct cut){ .from = from, .to = to };
    }
    return c;
}

static int64_t cut_until_ns(struct kernel *k, uint32_t from, uint32_t to)
{
    return cut_of(k, from, to)->until_ns;
}

static int64_t latency_ns(struct kernel *k, uint32_t from, uint32_t to)
{
    const struct cut *c = cut_of(k, from, to);
    const struct plan *p = k->w->plan;
    int64_t ns = p->latency_ns + (int64_t)sim_rng_below(&k->rng, (uint64_t)p->jitter_ns);

    return now_of(k) < c->slow_until_ns ? ns + c->slow_ns : ns;
}

static int64_t flow_latency_ns(const struct tcp *t, int to)
{
    return latency_ns(t->kernel, t->ip[1 - to], t->ip[to]);
}

/* Whether what arrives at `at_ns` has; *later: when it may have. */
static bool has_landed(const struct tcp *t, int to, int64_t at_ns, int64_t *later_ns)
{
    int64_t cut_ns = cut_until_ns(t->kernel, t->ip[1 - to], t->ip[to]);
    int64_t due_ns = at_ns > cut_ns ? at_ns : cut_ns;

    if (now_of(t->kernel) >= due_ns) {
        return true;
    }
    *later_ns = due_ns < *later_ns ? due_ns : *later_ns;
    return false;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static void on_turn(struct env_timer *t)
{
    struct host *h = container_of(t, struct host, turn);

    h->woken_ns = INT64_MAX;
    h->look(h);
}

void host_wake(struct host *h, int64_t at_ns)
{
    if (at_ns < h->woken_ns) {
        h->woken_ns = at_ns;
        sim_at(h->sim, &h->turn, at_ns);
    }
}

static void wake_side(const struct tcp *t, int side, int64_t at_ns)
{
    if (t->ends[side] && t->ends[side]->fd >= 0) {
        host_wake(t->ends[side]->host, at_ns);
    }
}

void host_open(struct host *h, struct kernel *k, struct sim *sim, uint32_t ip,
               void (*look)(struct host *h))
{
    *h = (struct host){ .kernel = k,
                        .sim = sim,
                        .ip = ip,
                        .next_port = PORT_FIRST,
                        .woken_ns = INT64_MAX,
                        .turn.cb = on_turn,
                        .look = look };
    LIST_INIT(&h->socks);
    TAILQ_INIT(&h->watches);
    LIST_INSERT_HEAD(&k->hosts, h, entry);
}

void host_close(struct host *h)
{
    assert(LIST_EMPTY(&h->socks) && TAILQ_EMPTY(&h->watches));
    env_timer_clear(sim_env(h->sim), &h->turn);
    LIST_REMOVE(h, entry);
}

/* Of several lives of a host the one that lives. */
static struct sock *listener_at(struct kernel *k, uint32_t ip, uint16_t port)
{
    struct host *h;
    struct sock *s;

    LIST_FOREACH(h, &k->hosts, entry) {
        LIST_FOREACH(s, &h->socks, entry) {
            if (!h->dead && h->ip == ip && s->state == SOCK_LISTENING && s->port == port) {
                return s;
            }
        }
    }
    return NULL;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static void drop_segments(struct flow *f, bool landed_too)
{
    struct segment *s, *next;

    for (s = TAILQ_FIRST(&f->segments); s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (landed_too || !s->landed) {
            TAILQ_REMOVE(&f->segments, s, link);
            f->held -= s->len - s->off;
            free(s);
        }
    }
}

/* When what is sent now arrives: behind what was sent before. */
static int64_t arrival_ns(const struct tcp *t, int to)
{
    int64_t at_ns = now_of(t->kernel) + flow_latency_ns(t, to);

    return at_ns > t->to[to].last_ns ? at_ns : t->to[to].last_ns;
}

static void put_segment(struct tcp *t, int to, const char *data, size_t len)
{
    struct flow *f = &t->to[to];
    struct segment *s;

    f->held += len;
    if (len == 0 || f->is_void || f->end_ns != INT64_MAX) {
        return;
    }
    s = sim_alloc(sizeof(*s) + len);
    s->len = len;
    s->at_ns = f->last_ns = arrival_ns(t, to);
    memcpy(s->data, data, len);
    TAILQ_INSERT_TAIL(&f->segments, s, link);
    wake_side(t, to, s->at_ns);
}

static void put_end(struct tcp *t, int to, bool resets)
{
    struct flow *f = &t->to[to];

    if (f->is_void || (f->end_ns != INT64_MAX && (!resets || f->resets))) {
        return;
    }
    f->end_ns = f->last_ns = arrival_ns(t, to);
    f->resets = resets;
    f->end_landed = false;
    wake_side(t, to, f->end_ns);
}

/* What is on its way may be overtaken. */
static void put_reset(struct tcp *t, int to)
{
    if (sim_rng_below(&t->kernel->rng, 2) == 0) {
        drop_segments(&t->to[to], false);
    }
    put_end(t, to, true);
}

/* Looks what has arrived by now; *later_ns as in sock_poll(). */
static void flow_look(struct tcp *t, int to, int64_t *later_ns)
{
    struct flow *f = &t->to[to];
    struct segment *s;

    TAILQ_FOREACH(s, &f->segments, link) {
        s->landed = s->landed || has_landed(t, to, s->at_ns, later_ns);
        if (!s->landed) {
            return; /* and nothing behind it */
        }
    }
    if (f->end_ns != INT64_MAX && !f->end_landed) {
        f->end_landed = has_landed(t, to, f->end_ns, later_ns);
    }
}

static bool is_readable(const struct flow *f)
{
    const struct segment *s = TAILQ_FIRST(&f->segments);

    return s && s->landed;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void flow_init(struct flow *f)
{
    TAILQ_INIT(&f->segments);
    f->end_ns = INT64_MAX;
    f->break_at = UINT64_MAX;
}

static void break_after(struct tcp *t, int to, uint64_t bytes, enum kernel_break how)
{
    t->to[to].break_at = t->to[to].taken + bytes;
    t->to[to].how = how;
}

static struct tcp *tcp_create(struct sock *from, uint32_t ip, uint16_t port)
{
    struct tcp *t = sim_alloc(sizeof(*t));

    t->kernel = from->host->kernel;
    t->ends[0] = from;
    t->ip[0] = from->host->ip;
    t->ip[1] = ip;
    t->port[0] = from->port;
    t->port[1] = port;
    flow_init(&t->to[0]);
    flow_init(&t->to[1]);
    LIST_INSERT_HEAD(&t->kernel->tcps, t, entry);
    if (t->kernel->next.from == t->ip[0] && t->kernel->next.to == ip) {
        break_after(t, t->kernel->next.back ? 0 : 1, t->kernel->next.bytes, t->kernel->next.how);
        t->kernel->next.from = 0;
    }
    return t;
}

/* The socket of this side is gone: a program that has read everything says so with an end, others
 * with a reset. */
static void tcp_leave(struct tcp *t, int side, bool reset)
{
    struct flow *in = &t->to[side];
    bool unread = is_readable(in);

    t->ends[side]->tcp = NULL;
    t->ends[side] = NULL;
    drop_segments(in, true);
    if (reset || unread) {
        put_reset(t, 1 - side);
    } else {
        put_end(t, 1 - side, false);
    }
    if (!t->ends[1 - side]) {
        drop_segments(&t->to[1 - side], true);
        LIST_REMOVE(t, entry);
        free(t);
    }
}

static struct sock *sock_create(struct host *h, enum sock_state state)
{
    struct sock *s = sim_alloc(sizeof(*s));

    s->host = h;
    s->state = state;
    s->fd = -1;
    TAILQ_INIT(&s->backlog);
    return s;
}

static void sock_number(struct sock *s)
{
    struct kernel *k = s->host->kernel;
    size_t i = 0;

    while (i < k->n_socks && k->socks[i]) {
        i++;
    }
    if (i == k->n_socks) {
        k->n_socks = k->n_socks ? 2 * k->n_socks : 64;
        k->socks = sim_resize(k->socks, k->n_socks * sizeof(*k->socks));
        memset(k->socks + i, 0, (k->n_socks - i) * sizeof(*k->socks));
    }
    k->socks[i] = s;
    s->fd = FD_FIRST + (int)i;
    LIST_INSERT_HEAD(&s->host->socks, s, entry);
}

struct sock *kernel_sock(struct kernel *k, int fd)
{
    size_t i = (size_t)(fd - FD_FIRST);

    return k && fd >= FD_FIRST && i < k->n_socks ? k->socks[i] : NULL;
}

/* ---- making connections ---------------------------------------------------------------------- */

int sock_open(struct host *h)
{
    struct sock *s = sock_create(h, h->dead ? SOCK_DEAD : SOCK_NEW);

    sock_number(s);
    return s->fd;
}

int sock_bind(struct sock *s, uint32_t ip, uint16_t port)
{
    if (ip != s->host->ip) {
        return failed(EADDRNOTAVAIL);
    }
    if (listener_at(s->host->kernel, ip, port)) {
        return failed(EADDRINUSE);
    }
    s->port = port;
    return 0;
}

int sock_listen(struct sock *s)
{
    s->state = s->state == SOCK_NEW ? SOCK_LISTENING : s->state;
    return 0;
}

int sock_connect(struct sock *s, uint32_t ip, uint16_t port)
{
    struct kernel *k = s->host->kernel;
    int64_t back_ns;

    if (s->state != SOCK_NEW) {
        return failed(s->state == SOCK_DEAD ? ENETUNREACH : EISCONN);
    }
    s->state = SOCK_DIALLING;
    s->port = s->host->next_port++;
    s->tcp = tcp_create(s, ip, port);
    back_ns = latency_ns(k, ip, s->host->ip);
    s->up_ns = now_of(k) + latency_ns(k, s->host->ip, ip) + back_ns;
    host_wake(s->host, s->up_ns);
    return failed(EINPROGRESS);
}

/* The other side has answered, or its machine has. */
static void connected(struct sock *s)
{
    struct tcp *t = s->tcp;
    struct sock *listener = listener_at(t->kernel, t->ip[1], t->port[1]);
    struct sock *other;

    if (!listener) {
        s->state = SOCK_NEW;
        s->error = ECONNREFUSED;
        LIST_REMOVE(t, entry);
        free(t);
        s->tcp = NULL;
        return;
    }
    s->state = SOCK_OPEN;
    other = sock_create(listener->host, SOCK_OPEN);
    other->port = listener->port;
    other->tcp = t;
    other->side = 1;
    t->ends[1] = other;
    TAILQ_INSERT_TAIL(&listener->backlog, other, waiting);
    host_wake(listener->host, now_of(t->kernel));
}

/* While packets of either way are cut off, the first one is sent again and again. */
static void dial_look(struct sock *s, int64_t *later_ns)
{
    const struct tcp *t = s->tcp;

    if (has_landed(t, 1, s->up_ns, later_ns) && has_landed(t, 0, s->up_ns, later_ns)) {
        connected(s);
    }
}

int sock_accept(struct sock *s, uint32_t *ret_ip, uint16_t *ret_port)
{
    struct sock *in = TAILQ_FIRST(&s->backlog);

    if (!in || one_in(s->host->kernel, EINTR_ONE_IN)) {
        return failed(in ? EINTR : EAGAIN);
    }
    TAILQ_REMOVE(&s->backlog, in, waiting);
    sock_number(in);
    *ret_ip = in->tcp->ip[0];
    *ret_port = in->tcp->port[0];
    return in->fd;
}

/* ---- reading and writing --------------------------------------------------------------------- */

static size_t shorten(struct kernel *k, size_t n)
{
    return n > 1 && one_in(k, SHORT_ONE_IN) ? 1 + (size_t)sim_rng_below(&k->rng, n - 1) : n;
}

static size_t take_bytes(struct flow *f, char *buf, size_t cap)
{
    struct segment *s;
    size_t got = 0;

    while (got < cap && (s = TAILQ_FIRST(&f->segments)) && s->landed) {
        size_t n = s->len - s->off < cap - got ? s->len - s->off : cap - got;

        memcpy(buf + got, s->data + s->off, n);
        s->off += n;
        got += n;
        f->held -= n;
        if (s->off == s->len) {
            TAILQ_REMOVE(&f->segments, s, link);
            free(s);
        }
    }
    return got;
}

static int reset_told(struct sock *s)
{
    bool first = !s->end_told;

    s->end_told = true;
    return first ? ECONNRESET : 0;
}

static bool is_reset(const struct sock *s)
{
    return s->tcp->to[s->side].end_landed && s->tcp->to[s->side].resets;
}

ssize_t sock_recv(struct sock *s, void *buf, size_t cap)
{
    struct kernel *k = s->host->kernel;
    int64_t later_ns = INT64_MAX;
    struct flow *in;
    size_t n;
    int err;

    if (s->state != SOCK_OPEN) {
        return failed(s->state == SOCK_DEAD ? ECONNRESET : ENOTCONN);
    }
    if (one_in(k, EINTR_ONE_IN)) {
        return failed(EINTR);
    }
    in = &s->tcp->to[s->side];
    flow_look(s->tcp, s->side, &later_ns);
    n = take_bytes(in, buf, shorten(k, cap));
    if (n > 0) {
        wake_side(s->tcp, 1 - s->side, now_of(k) + flow_latency_ns(s->tcp, 1 - s->side));
        return (ssize_t)n;
    }
    if (!in->end_landed || is_readable(in)) {
        return failed(EAGAIN);
    }
    err = in->resets ? reset_told(s) : 0;
    return err ? failed(err) : 0;
}

static void break_here(struct tcp *t, int to)
{
    struct flow *f = &t->to[to];

    f->break_at = UINT64_MAX;
    t->kernel->broken = true;
    switch (f->how) {
    case KERNEL_RESET:
        put_end(t, to, true);
        put_reset(t, 1 - to);
        break;
    case KERNEL_END:
        put_end(t, to, false);
        put_end(t, 1 - to, false);
        break;
    case KERNEL_STALL:
        f->last_ns = now_of(t->kernel) + STALL_NS;
        break;
    case KERNEL_VOID:
        t->to[0].is_void = t->to[1].is_void = true;
    }
}

/* How many of these bytes arrive before the connection breaks. */
static void put_bytes(struct tcp *t, int to, const char *data, size_t len)
{
    struct flow *f = &t->to[to];
    uint64_t left = f->break_at - f->taken;

    f->taken += len;
    if (len < left) {
        put_segment(t, to, data, len);
        return;
    }
    put_segment(t, to, data, (size_t)left);
    break_here(t, to);
    put_segment(t, to, data + left, len - (size_t)left);
}

ssize_t sock_send(struct sock *s, const void *data, size_t len)
{
    struct kernel *k = s->host->kernel;
    uint64_t room_max = k->room_bytes;
    int64_t later_ns = INT64_MAX;
    int other = 1 - s->side;
    struct flow *out;

    if (s->state != SOCK_OPEN) {
        return failed(EPIPE);
    }
    flow_look(s->tcp, s->side, &later_ns);
    if (s->shut || is_reset(s)) {
        return failed(!s->shut && reset_told(s) ? ECONNRESET : EPIPE);
    }
    out = &s->tcp->to[other];
    if (one_in(k, EINTR_ONE_IN)) {
        return failed(EINTR);
    }
    if (out->held >= room_max) {
        return failed(EAGAIN);
    }
    len = shorten(k, len < room_max - out->held ? len : (size_t)(room_max - out->held));
    if (!s->tcp->ends[other]) {
        put_reset(s->tcp, s->side); /* nobody is there any more */
        return (ssize_t)len;
    }
    put_bytes(s->tcp, other, data, len);
    return (ssize_t)len;
}

/* ---- ends ------------------------------------------------------------------------------------ */

int sock_shut(struct sock *s)
{
    if (s->state != SOCK_OPEN) {
        return failed(ENOTCONN);
    }
    s->shut = true;
    put_end(s->tcp, 1 - s->side, false);
    return 0;
}

/* It knows no connection any more. */
static void sock_leave(struct sock *s, bool reset)
{
    struct sock *in;

    while ((in = TAILQ_FIRST(&s->backlog))) {
        TAILQ_REMOVE(&s->backlog, in, waiting);
        tcp_leave(in->tcp, in->side, true);
        free(in);
    }
    if (s->state == SOCK_DIALLING) {
        LIST_REMOVE(s->tcp, entry);
        free(s->tcp);
        s->tcp = NULL;
    } else if (s->tcp) {
        tcp_leave(s->tcp, s->side, reset);
    }
}

void sock_close(struct sock *s)
{
    int64_t later_ns = INT64_MAX;

    if (s->state == SOCK_OPEN) {
        flow_look(s->tcp, s->side, &later_ns);
    }
    sock_leave(s, s->reset_at_close);
    s->host->kernel->socks[s->fd - FD_FIRST] = NULL;
    LIST_REMOVE(s, entry);
    free(s);
}

void host_die(struct host *h)
{
    struct sock *s;

    h->dead = true;
    LIST_FOREACH(s, &h->socks, entry) {
        sock_leave(s, sim_rng_below(&h->kernel->rng, 2) == 0);
        s->state = s->state == SOCK_LISTENING ? s->state : SOCK_DEAD; /* nobody comes any more */
    }
    host_wake(h, now_of(h->kernel));
}

int sock_error(struct sock *s)
{
    int err = s->state == SOCK_DEAD ? ECONNRESET : s->error;

    s->error = 0;
    return err;
}

void sock_reset_at_close(struct sock *s)
{
    s->reset_at_close = true;
}

uint16_t sock_port(const struct sock *s)
{
    return s->port;
}

struct host *sock_host(const struct sock *s)
{
    return s->host;
}

struct host *sock_peer(const struct sock *s)
{
    const struct sock *other = s->tcp ? s->tcp->ends[1 - s->side] : NULL;

    return other ? other->host : NULL;
}

/* ---- poll ------------------------------------------------------------------------------------ */

static short poll_open(struct sock *s, int64_t *later_ns)
{
    const struct flow *in = &s->tcp->to[s->side], *out = &s->tcp->to[1 - s->side];
    short r = 0;

    flow_look(s->tcp, s->side, later_ns);
    if (is_readable(in) || in->end_landed) {
        r |= POLLIN;
    }
    if (in->end_landed) {
        r |= POLLRDHUP;
    }
    if (is_reset(s)) {
        return (short)(r | POLLOUT | POLLHUP | (s->end_told ? 0 : POLLERR));
    }
    if (in->end_landed && s->shut) {
        r |= POLLHUP;
    }
    return (short)(out->held < s->host->kernel->room_bytes || s->shut ? r | POLLOUT : r);
}

short sock_poll(struct sock *s, int64_t *ret_later_ns)
{
    *ret_later_ns = INT64_MAX;
    if (s->state == SOCK_DIALLING) {
        dial_look(s, ret_later_ns);
    }
    switch (s->state) {
    case SOCK_NEW:
        return (short)(POLLOUT | POLLHUP | (s->error ? POLLERR : 0));
    case SOCK_LISTENING:
        return TAILQ_EMPTY(&s->backlog) ? 0 : POLLIN;
    case SOCK_DIALLING:
        return 0;
    case SOCK_OPEN:
        return poll_open(s, ret_later_ns);
    default:
        return POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR;
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

void sock_break_after(struct sock *s, bool sends, uint64_t bytes, enum kernel_break how)
{
    if (s->tcp) {
        break_after(s->tcp, sends ? 1 - s->side : s->side, bytes, how);
    }
}

void kernel_break_after(struct kernel *k, uint32_t from, uint32_t to, uint64_t bytes,
                        enum kernel_break how)
{
    struct tcp *t;

    LIST_FOREACH(t, &k->tcps, entry) {
        for (int side = 0; side < 2; side++) {
            if (t->ip[1 - side] == from && t->ip[side] == to && t->ends[0] && t->ends[1]) {
                break_after(t, side, bytes, how);
                return;
            }
        }
    }
}

void kernel_cut(struct kernel *k, uint32_t from, uint32_t to, int64_t until_ns)
{
    struct cut *c = cut_of(k, from, to);

    c->until_ns = until_ns > c->until_ns ? until_ns : c->until_ns;
}

void kernel_slow(struct kernel *k, uint32_t from, uint32_t to, int64_t more_ns, int64_t until_ns)
{
    struct cut *c = cut_of(k, from, to);

    c->slow_ns = more_ns;
    c->slow_until_ns = until_ns;
}

void kernel_break_next(struct kernel *k, uint32_t from, uint32_t to, bool back, uint64_t bytes,
                       enum kernel_break how)
{
    k->next.from = from;
    k->next.to = to;
    k->next.back = back;
    k->next.bytes = bytes;
    k->next.how = how;
}

bool kernel_has_broken(const struct kernel *k)
{
    return k->broken;
}

static uint64_t healthy_room(const struct plan *p)
{
    uint64_t least = (uint64_t)(2 * (p->latency_ns + p->jitter_ns) * BYTES_PER_S_MIN / ENV_S);

    return p->socket_bytes > least ? p->socket_bytes : least;
}

void kernel_heal(struct kernel *k)
{
    struct host *h;
    struct tcp *t;

    k->n_cuts = 0;
    k->next.from = 0;
    k->room_bytes = healthy_room(k->w->plan);
    LIST_FOREACH(t, &k->tcps, entry) {
        t->to[0].break_at = t->to[1].break_at = UINT64_MAX;
    }
    LIST_FOREACH(h, &k->hosts, entry) {
        host_wake(h, now_of(k));
    }
}

struct kernel *kernel_create(struct world *w)
{
    struct kernel *k = sim_alloc(sizeof(*k));

    k->w = w;
    k->rng = sim_rng_make(w->plan->seed, 108);
    k->room_bytes = w->plan->socket_bytes;
    k->picky = sim_rng_below(&k->rng, 2) == 0 && !w->plan->byte;
    LIST_INIT(&k->hosts);
    LIST_INIT(&k->tcps);
    return k;
}

void kernel_destroy(struct kernel *k)
{
    assert(LIST_EMPTY(&k->hosts) && LIST_EMPTY(&k->tcps));
    free(k->socks);
    free(k);
}
