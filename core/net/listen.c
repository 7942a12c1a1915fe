/* From a port to streams.
 *
 * Accepting rests (the listening socket is not watched) while its owner wants none, while as many
 * handshakes run as may and none of them is silent, and for a moment when descriptors or memory ran
 * out: the backlog waits. */
#include <net/net_int.h>
#include <net/port_counts.h>

#include <base/log.h>
#include <base/share.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS_PER_EVENT 32
#define STARVED_PAUSE_NS  (100 * ENV_MS)

/* A stream during its handshake. */
struct arriving {
    struct net_listener *l;
    struct net_io *io;
    int64_t since_ns;
    TAILQ_ENTRY(arriving) link;
};

struct net_listener {
    struct loop_fd w;
    struct loop *loop;
    struct env *env;
    struct net_identity *identity; /* NULL: plain */
    char *address;
    char *alpn;
    char *unix_path; /* to be removed, or NULL */
    uint16_t port;
    struct net_listen_config config; /* its times and numbers */
    struct fn_strlist refuse_interfaces;
    struct visitors *visitors;
    struct port_counts counts;
    uint32_t arriving_n;
    TAILQ_HEAD(, arriving) arriving; /* in order of arrival */
    struct env_timer silence; /* a look at those that have not sent a byte */
    struct env_timer resume; /* set: starved */
    struct log_gate failed_gate, starved_gate, turned_gate;
    bool *gone; /* of the accept loop: set when the listener was closed by a callback */
    void (*accepted)(void *ud, struct net_io *io);
    void *ud;
};

static struct arriving *longest_silent(struct net_listener *l)
{
    struct arriving *a;

    TAILQ_FOREACH(a, &l->arriving, link) {
        if (!a->io->heard) {
            return a;
        }
    }
    return NULL;
}

static void watch(struct net_listener *l)
{
    bool full = l->identity && l->arriving_n >= l->config.handshakes_max && !longest_silent(l);
    bool on = !full && !env_timer_is_set(&l->resume);

    loop_fd_set(l->loop, &l->w, on ? LOOP_READ : 0);
}

static void log_gated(struct net_listener *l, struct log_gate *g, const char *text,
                      const char *peer, const char *error)
{
    log_write_gated(g, 1, FN_LOG_WARN, text, "listen", l->address, "peer", peer, "error", error,
                    (char *)NULL);
}

static void on_resume(struct env_timer *t)
{
    watch(container_of(t, struct net_listener, resume));
}

static void starve(struct net_listener *l, const char *error)
{
    log_gated(l, &l->starved_gate, "accepting is paused", NULL, error);
    env_timer_set(l->env, &l->resume, env_now_ns(l->env) + STARVED_PAUSE_NS);
}

/* ---- handshakes ------------------------------------------------------------------------------ */

static void arriving_free(struct arriving *a)
{
    TAILQ_REMOVE(&a->l->arriving, a, link);
    a->l->arriving_n--;
    a->io->visitor->holds--;
    free(a);
}

static void shake_failed(struct net_listener *l, struct net_io *io, const char *error)
{
    metric_add(l->counts.unshaken, 1);
    log_gated(l, &l->failed_gate, "a handshake failed", net_io_peer(io), error);
}

static void cut_silent(struct arriving *a, const char *why)
{
    struct net_listener *l = a->l;
    struct net_io *io = a->io;

    shake_failed(l, io, why);
    arriving_free(a);
    net_io_close(io);
}

static void arm_silence(struct net_listener *l)
{
    struct arriving *a = longest_silent(l);

    if (a && !env_timer_is_set(&l->silence)) {
        env_timer_set(l->env, &l->silence, a->since_ns + l->config.silence_timeout_ms * ENV_MS);
    }
}

static void on_silence(struct env_timer *t)
{
    struct net_listener *l = container_of(t, struct net_listener, silence);
    int64_t before = env_now_ns(l->env) - l->config.silence_timeout_ms * ENV_MS;
    struct arriving *a;

    while ((a = longest_silent(l)) && a->since_ns <= before) {
        cut_silent(a, "no byte came for too long");
    }
    arm_silence(l);
    watch(l);
}

static void listen_on_shaken(void *ud, const char *error)
{
    struct arriving *a = ud;
    struct net_listener *l = a->l;
    struct net_io *io = a->io;

    arriving_free(a);
    watch(l);
    if (error && net_io_shake_failure(io) == NET_SHAKE_HUNG_UP) {
        log_debug("a handshake was left", "listen", l->address, "peer", net_io_peer(io));
        net_io_close(io);
    } else if (error) {
        shake_failed(l, io, error);
        net_io_close(io);
    } else {
        l->accepted(l->ud, io);
    }
}

static int shake(struct net_listener *l, struct net_io *io, struct fn_error *reterr)
{
    struct net_shake config = { .identity = l->identity,
                                .alpn = l->alpn,
                                .timeout_ms = l->config.handshake_timeout_ms };
    struct arriving *a = calloc(1, sizeof(*a));
    int r = a ? net_io_shake(io, &config, listen_on_shaken, a, reterr)
              : err_set(reterr, FN_E_EXHAUSTED, "out of memory");

    if (r < 0) {
        free(a);
        return r;
    }
    a->l = l;
    a->io = io;
    a->since_ns = env_now_ns(l->env);
    TAILQ_INSERT_TAIL(&l->arriving, a, link);
    l->arriving_n++;
    io->visitor->holds++;
    arm_silence(l);
    return 0;
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* Why a connection, which is counted already, does not come in; NULL: it does. */
static const char *objection(struct net_listener *l, int fd, const struct sockaddr *addr,
                             struct visitor *p)
{
    const struct net_listen_config *config = &l->config;
    bool has_address = addr->sa_family == AF_INET || addr->sa_family == AF_INET6;

    if (net_came_by(fd, addr, &l->refuse_interfaces)) {
        return "it came by an interface that is refused";
    }
    if (config->connections_max && l->visitors->n > config->connections_max) {
        return "too many connections";
    }
    if (has_address && config->connections_per_ip_max && p->n > config->connections_per_ip_max) {
        return "too many connections from one address";
    }
    if (has_address && l->identity &&
        !share_allows(config->handshakes_max + 1, l->arriving_n, p->holds, 1)) {
        return "too many handshakes from one address";
    }
    return NULL;
}

/* Without an end that could be read, and without a trace in the kernel. */
static void turn_away(struct net_listener *l, int fd, const char *peer, const char *why)
{
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };

    metric_add(l->counts.turned_away, 1);
    log_gated(l, &l->turned_gate, "a connection was turned away", peer, why);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

static void make_room(struct net_listener *l)
{
    struct arriving *a = l->arriving_n >= l->config.handshakes_max ? longest_silent(l) : NULL;

    if (a) {
        cut_silent(a, "it was silent while others wanted to come in");
    }
}

static void listen_admit(struct net_listener *l, int fd, const struct sockaddr *addr)
{
    struct visitor *visitor = visitor_come(l->visitors, net_customer(net_address_of(addr)));
    struct fn_error e = ERR_INIT;
    char peer[NET_PEER_BYTES];
    const char *why;
    struct net_io *io;

    net_peer_text(addr, peer, sizeof(peer));
    why = visitor ? objection(l, fd, addr, visitor) : "out of memory";
    if (why) {
        turn_away(l, fd, peer, why);
        visitor_leave(visitor);
        return;
    }
    if (net_io_create(l->loop, fd, peer, &io, &e) < 0) {
        visitor_leave(visitor);
        starve(l, e.msg);
        return;
    }
    io->visitor = visitor;
    net_io_count(io, l->counts.received, l->counts.sent);
    if (l->identity) {
        make_room(l);
    }
    if (!l->identity) {
        l->accepted(l->ud, io);
    } else if (shake(l, io, &e) < 0) {
        net_io_close(io);
        starve(l, e.msg);
    }
}

static void on_accept(struct loop_fd *w, uint32_t events)
{
    struct net_listener *l = container_of(w, struct net_listener, w);
    bool gone = false;

    (void)events;
    l->gone = &gone;
    watch(l); /* who was silent may have begun to speak */
    for (int i = 0; i < ACCEPTS_PER_EVENT && w->events; i++) {
        struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
        socklen_t len = sizeof(addr);
        int fd = accept4(w->fd, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        metric_add(l->counts.accepted, fd >= 0);
        if (fd >= 0 && net_is_of_last_tenth(fd)) {
            metric_add(l->counts.turned_away, 1);
            close(fd);
            starve(l, "the last tenth of descriptors is for calls that run");
        } else if (fd >= 0) {
            listen_admit(l, fd, (struct sockaddr *)&addr);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            starve(l, strerror(errno));
        } else if (errno != ECONNABORTED && errno != EINTR) {
            break;
        }
        if (gone) {
            return;
        }
        watch(l);
    }
    l->gone = NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int listen_check(const struct net_listen_config *config, struct fn_error *reterr)
{
    const struct net_identity *i = config->identity;

    if (i && !net_identity_is_plain(i) && !i->server) {
        return err_set(reterr, FN_E_INVALID,
                       "listen: %.120s: an authority without certificate and key; expected all "
                       "three, or certificate and key", config->address);
    }
    return 0;
}

static void listener_free(struct net_listener *l)
{
    if (l->w.fd >= 0) {
        close(l->w.fd);
    }
    if (l->unix_path) {
        unlink(l->unix_path);
    }
    net_identity_unref(l->identity);
    visitors_unref(l->visitors);
    net_interfaces_finish(&l->refuse_interfaces);
    free(l->unix_path);
    free(l->address);
    free(l->alpn);
    free(l);
}

/* False: out of memory. */
static bool take_config(struct net_listener *l, const struct net_listen_config *config)
{
    l->config = *config;
    if (l->config.silence_timeout_ms == 0) {
        l->config.silence_timeout_ms = config->handshake_timeout_ms;
    }
    port_counts_init(&l->counts, config->name);
    l->visitors = visitors_create(l->counts.open);
    l->address = strdup(config->address);
    l->alpn = config->alpn ? strdup(config->alpn) : NULL;
    return l->visitors && l->address && (!config->alpn || l->alpn) &&
           (!config->refuse_interfaces ||
            net_interfaces_copy(config->refuse_interfaces, &l->refuse_interfaces) == 0);
}

int net_listen(struct loop *loop, const struct net_listen_config *config,
               void (*accepted)(void *ud, struct net_io *io), void *ud, struct net_listener **ret,
               struct fn_error *reterr)
{
    struct net_listener *l;
    int r = listen_check(config, reterr);

    if (r < 0) {
        return r;
    }
    l = calloc(1, sizeof(*l));
    if (!l) {
        return err_set(reterr, FN_E_EXHAUSTED, "listen: out of memory");
    }
    l->loop = loop;
    l->env = loop_env(loop);
    l->w = (struct loop_fd){ .fd = -1, .cb = on_accept };
    l->resume.cb = on_resume;
    l->silence.cb = on_silence;
    l->accepted = accepted;
    l->ud = ud;
    TAILQ_INIT(&l->arriving);
    if (config->identity && !net_identity_is_plain(config->identity)) {
        l->identity = net_identity_ref(config->identity);
    }
    r = !take_config(l, config)
            ? err_set(reterr, FN_E_EXHAUSTED, "listen: out of memory")
            : net_bind(config->address, false, &l->w.fd, &l->unix_path, &l->port, reterr);
    r = r == 0 ? loop_fd_add(loop, &l->w, LOOP_READ, reterr) : r;
    if (r < 0) {
        listener_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

int net_listener_port(const struct net_listener *l)
{
    return l->port;
}

void net_listener_close(struct net_listener *l)
{
    struct arriving *a;

    if (!l) {
        return;
    }
    if (l->gone) {
        *l->gone = true;
    }
    while ((a = TAILQ_FIRST(&l->arriving))) {
        struct net_io *io = a->io;

        arriving_free(a);
        net_io_close(io);
    }
    env_timer_clear(l->env, &l->resume);
    env_timer_clear(l->env, &l->silence);
    loop_fd_remove(l->loop, &l->w);
    listener_free(l);
}
