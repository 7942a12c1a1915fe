/* Life of the server, accepting and connection limits. */
#include <http/conn.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <net/bind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_PER_EVENT 32
#define STARVED_PAUSE_NS  (100 * ENV_MS)

/* ---- accepting ------------------------------------------------------------------------------ */

void server_send_last(struct http_server *s, int fd, const struct buf *answer)
{
    if (send(fd, answer->data, answer->len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        shutdown(fd, SHUT_WR);
        for (int i = 0; i < LAST_READS_MAX; i++) {
            if (recv(fd, s->scratch, sizeof(s->scratch), MSG_DONTWAIT) <= 0) {
                break;
            }
        }
    }
}

/* Answers without a struct conn and closes; under TLS there is nobody who could read it. */
static void turn_away(struct http_server *s, int fd, int status, const char *text)
{
    struct refusal r;
    struct buf b = BUF_INIT(0);

    metric_add(s->counts.turned_away, 1);
    if (!s->config.identity) {
        refuse(&r, status, "%s", text);
        answer_refusal(s, &b, &r);
        server_send_last(s, fd, &b);
        buf_finish(&b);
    }
    close(fd);
}

void log_gated(struct http_server *s, struct log_gate *g, const char *text, const char *peer,
               const char *key, const char *value)
{
    log_write_gated(g, 1, FN_LOG_WARN, text, "listen", s->config.listen, "peer", peer,
                    key ? key : "error", value, (char *)NULL);
}

/* Whether one more of this address, which is counted already, is too many. A proxy that nobody
 * named is told before. */
static bool has_too_many(struct http_server *s, const struct visitor *p, const char *peer)
{
    int64_t max = s->config.limits.connections_per_ip_max;

    if (p->is_proxy || max == 0) {
        return false;
    }
    if (p->n > max) {
        log_gated(s, &s->full_gate, "too many connections from one address", peer, NULL, NULL);
        return true;
    }
    if (p->n > max / 2) {
        log_gated(s, &s->half_gate,
                  "an address has more than half of http.connections_per_ip_max; if it is a proxy, "
                  "http.proxies lifts the limit for it",
                  peer, "connections", log_num(p->n));
    }
    return false;
}

void server_admit_client(struct http_server *s, int fd, const struct sockaddr_storage *addr)
{
    struct visitor *p = NULL;
    char peer[64];

    net_peer_text((const struct sockaddr *)addr, peer, sizeof(peer));
    if (addr->ss_family != AF_UNIX) {
        p = peer_count_take(s, (const struct sockaddr *)addr);
        if (!p || has_too_many(s, p, peer)) {
            turn_away(s, fd, 429, "HTTP116 too many connections from this address");
            visitor_leave(p);
            return;
        }
    }
    conn_create(s, fd, peer, p);
}

static bool has_no_room(const struct http_server *s)
{
    int64_t max = s->config.limits.connections_max;

    return max && s->conns_n + s->introductions_n + s->beside_n >= max;
}

bool server_admit_beside(struct http_server *s, struct visitor *p, const char *peer,
                         struct refusal *r)
{
    if (has_no_room(s)) {
        log_gated(s, &s->full_gate, "too many connections", peer, NULL, NULL);
        refuse(r, 503, "HTTP116 too many requests at once to this node");
        return false;
    }
    if (p) {
        p->n++;
        if (has_too_many(s, p, peer)) {
            p->n--;
            refuse(r, 429, "HTTP116 too many requests at once from this address");
            return false;
        }
    }
    s->beside_n++;
    return true;
}

void server_leave_beside(struct http_server *s, struct visitor *p)
{
    s->beside_n--;
    if (p) {
        p->n--; /* the connection itself is still counted */
    }
}

/* Whether it is a connection of a proxy that has to say first whom it speaks for. */
static bool must_be_introduced(const struct http_server *s, const struct sockaddr_storage *addr)
{
    struct net_address a = net_address_of((const struct sockaddr *)addr);

    return s->introduced && addr->ss_family != AF_UNIX && peers_is_proxy(s, &a);
}

static void server_admit(struct http_server *s, int fd, const struct sockaddr_storage *addr)
{
    char peer[64];

    net_peer_text((const struct sockaddr *)addr, peer, sizeof(peer));
    if (s->config.owner_only && !net_peer_is_owner(fd)) {
        log_gated(s, &s->foreign_gate, "another user was turned away", peer, NULL, NULL);
        turn_away(s, fd, 403, "HTTP117 this socket is for the user of the node and root");
        return;
    }
    if (net_came_by(fd, (const struct sockaddr *)addr, &s->config.refuse_interfaces)) {
        log_gated(s, &s->foreign_gate, "a connection came by an interface that is refused", peer,
                  NULL, NULL);
        turn_away(s, fd, 403, "HTTP120 this port is not for functions");
        return;
    }
    if (has_no_room(s)) {
        log_gated(s, &s->full_gate, "too many connections", peer, NULL, NULL);
        turn_away(s, fd, 503, "HTTP116 too many connections to this node");
        return;
    }
    if (!must_be_introduced(s, addr)) {
        server_admit_client(s, fd, addr);
    } else if (introduction_await(s, fd, addr) < 0) {
        turn_away(s, fd, 503, "HTTP116 this node is out of memory");
    }
}

static void listen_pause(struct http_server *s)
{
    if (s->listening) {
        s->listening = false;
        loop_fd_set(s->loop, &s->listen, 0);
    }
}

static void listen_resume(struct http_server *s)
{
    if (!s->listening && s->listen.fd >= 0) {
        s->listening = true;
        loop_fd_set(s->loop, &s->listen, LOOP_READ);
    }
}

static void on_resume(struct env_timer *t)
{
    listen_resume(container_of(t, struct http_server, resume));
}

/* The client is told why; then accepting rests, until a connection ends or for a while, so that a
 * full backlog does not keep the loop spinning. fd < 0 = none. */
static void starve(struct http_server *s, int fd)
{
    log_gated(s, &s->starved_gate, "out of descriptors, accepting is paused", NULL, NULL, NULL);
    if (fd >= 0) {
        turn_away(s, fd, 503, "HTTP116 this node is out of descriptors");
    }
    listen_pause(s);
    env_timer_set(s->env, &s->resume, env_now_ns(s->env) + STARVED_PAUSE_NS);
}

/* No descriptor is left: the reserve serves to tell one waiting client so. */
static void starve_at_limit(struct http_server *s)
{
    int fd = -1;

    if (s->reserve_fd >= 0) {
        close(s->reserve_fd);
        fd = accept4(s->listen.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    metric_add(s->counts.accepted, fd >= 0);
    starve(s, fd);
    s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_accept(struct loop_fd *w, uint32_t events)
{
    struct http_server *s = container_of(w, struct http_server, listen);

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
        socklen_t len = sizeof(addr);
        int fd = accept4(w->fd, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        metric_add(s->counts.accepted, fd >= 0);
        if (fd >= 0 && !s->config.owner_only && net_is_of_last_tenth(fd)) {
            starve(s, fd);
            return;
        }
        if (fd >= 0) {
            addr.ss_family = s->unix_path ? AF_UNIX : addr.ss_family;
            server_admit(s, fd, &addr);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            starve_at_limit(s);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

void server_conn_closed(struct http_server *s, struct visitor *p)
{
    s->conns_n--;
    metric_add(s->counts.open, -1);
    visitor_leave(p);
    if (s->reserve_fd < 0) {
        s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (env_timer_is_set(&s->resume)) { /* accepting rests for want of descriptors: here is one */
        env_timer_clear(s->env, &s->resume);
        listen_resume(s);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static void listen_close(struct http_server *s)
{
    if (s->listen.fd < 0) {
        return; /* what is at its path may be another one's */
    }
    close(s->listen.fd);
    s->listen.fd = -1;
    if (s->unix_path) {
        unlink(s->unix_path);
    }
}

static void listen_stop(struct http_server *s)
{
    if (s->listen.fd < 0) {
        return;
    }
    loop_fd_remove(s->loop, &s->listen);
    s->listening = false;
    env_timer_clear(s->env, &s->resume);
    listen_close(s);
}

void http_server_set_limits(struct http_server *s, const struct http_limits *limits)
{
    s->config.limits = *limits;
    s->parse_limits.head_bytes_max = (size_t)limits->header_bytes_max;
    s->parse_limits.line_bytes_max = (size_t)limits->request_line_max;
    s->parse_limits.fields_max = (uint32_t)limits->headers_max;
    client_header_set(s, limits->client_from);
    s->introduced = limits->client_from && strcmp(limits->client_from, "proxy-protocol") == 0;
    if (peers_set_proxies(s) < 0) {
        log_warn("no memory for http.proxies; the old ones stay");
    }
}

/* It is chosen in the handshake. */
static bool may_speak_h2(const struct http_server *s)
{
    return s->config.h2 && s->config.identity;
}

/* What it keeps of its configuration. False: out of memory. */
static bool server_configure(struct http_server *s, const struct http_server_config *config)
{
    bool copied;

    s->config = *config;
    s->config.identity = config->identity && !net_identity_is_plain(config->identity)
                             ? net_identity_ref(config->identity)
                             : NULL;
    s->config.listen = strdup(config->listen);
    copied = net_interfaces_copy(&config->refuse_interfaces, &s->config.refuse_interfaces) == 0;
    port_counts_init(&s->counts, config->name);
    http_server_set_limits(s, &config->limits);
    s->h2 = may_speak_h2(s) ? config->h2->open(s) : NULL;
    return copied && s->config.listen && s->proxies && (s->h2 || !may_speak_h2(s));
}

int http_server_create(struct loop *loop, const struct http_server_config *config,
                       struct http_server **ret, struct fn_error *reterr)
{
    struct http_server *s = calloc(1, sizeof(*s));
    int r;

    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "listen: out of memory");
    }
    s->loop = loop;
    s->env = loop_env(loop);
    s->listen = (struct loop_fd){ .fd = -1, .cb = on_accept };
    s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    s->resume.cb = on_resume;
    TAILQ_INIT(&s->conns);
    TAILQ_INIT(&s->introductions);
    turns_init(s);
    r = !server_configure(s, config)
            ? err_set(reterr, FN_E_EXHAUSTED, "listen: out of memory")
            : net_bind(config->listen, config->owner_only, &s->listen.fd, &s->unix_path,
                       &s->port, reterr);
    r = r == 0 ? loop_fd_add(loop, &s->listen, LOOP_READ, reterr) : r;
    if (r < 0) {
        listen_close(s); /* it is not watched */
        http_server_destroy(s);
        return r;
    }
    s->listening = true;
    *ret = s;
    return 0;
}

void http_server_drain(struct http_server *s, int64_t grace_ns)
{
    struct conn *next;

    if (grace_ns > 0 && s->listening) {
        on_accept(&s->listen, LOOP_READ); /* closing the port resets those that nobody accepted */
    }
    s->draining = true;
    s->drain_until_ns = env_now_ns(s->env) + grace_ns;
    listen_stop(s);
    for (struct conn *c = TAILQ_FIRST(&s->conns); c; c = next) {
        next = TAILQ_NEXT(c, link);
        conn_drain(c);
    }
    if (s->h2) {
        s->config.h2->drain(s->h2);
    }
}

bool http_server_is_calm(const struct http_server *s)
{
    const struct conn *c;

    if (env_now_ns(s->env) >= s->drain_until_ns) {
        return true;
    }
    TAILQ_FOREACH(c, &s->conns, link) {
        if (c->state == CONN_SHAKE || c->state == CONN_HEAD || c->state == CONN_BODY) {
            return false;
        }
    }
    return s->introductions_n == 0 && (!s->h2 || s->config.h2->is_calm(s->h2));
}

uint32_t http_server_connections(const struct http_server *s)
{
    return s->conns_n;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

void http_server_destroy(struct http_server *s)
{
    struct conn *c;

    if (!s) {
        return;
    }
    s->draining = true;
    listen_stop(s);
    introductions_close(s);
    while ((c = TAILQ_FIRST(&s->conns))) {
        /* Broken by an owner that destroys its server from inside on_request(). */
        assert(c->busy == 0);
        conn_gone(c);
    }
    if (s->h2) {
        s->config.h2->close(s->h2);
    }
    if (s->reserve_fd >= 0) {
        close(s->reserve_fd);
    }
    env_timer_clear(s->env, &s->turn);
    buf_finish(&s->head);
    net_identity_unref(s->config.identity);
    net_interfaces_finish(&s->config.refuse_interfaces);
    free(s->proxies);
    free(s->unix_path);
    free((char *)(uintptr_t)s->config.listen);
    free(s);
}
