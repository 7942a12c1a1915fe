/* Peers: who is dialled, and when again.
 *
 *   DOWN ──▶ DIALLING ──▶ SETTLING ──▶ UP       each of the last three ──▶ DOWN, all ──▶ CLOSED
 *
 *   DOWN to DIALLING      dial(): the timer of an eager one, or peer_want()
 *   DIALLING to SETTLING  on_dialled(): p->conn is there and takes no calls yet
 *   SETTLING to UP        on_ready(): its settings came; changed() is told, as when it is lost
 *   to DOWN               failed(): p->why says the reason, and the next dial is a pause away
 *   to CLOSED             peer_close(): no callback any more
 *
 * Dials are at least a pause apart, counted from one to the next; the pause grows from
 * reconnect_first to reconnect_max with a jitter of 20 %, and is short again once a connection has
 * stood for reconnect_max. So a runner that comes back is used within that time, and one that takes
 * connections and drops them sees no storm. A connection counts as up when its settings came. */
#include <rpc/client_int.h>

#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEER_LINES_MAX 50 /* a second */

#define PAUSE_FACTOR_10 16 /* tenths */

static const uint32_t follows[PEER_STATES_N] = {
    [PEER_DOWN] = STATE(PEER_DIALLING) | STATE(PEER_CLOSED),
    [PEER_DIALLING] = STATE(PEER_SETTLING) | STATE(PEER_DOWN) | STATE(PEER_CLOSED),
    [PEER_SETTLING] = STATE(PEER_UP) | STATE(PEER_DOWN) | STATE(PEER_CLOSED),
    [PEER_UP] = STATE(PEER_DOWN) | STATE(PEER_CLOSED),
    [PEER_CLOSED] = 0,
};
static const char *const names[PEER_STATES_N] = { "down", "dialling", "settling", "up", "closed" };
const struct states peer_states = { "peer", names, follows, PEER_STATES_N };

static int64_t now_of(const struct peer *p)
{
    return env_now_ns(p->rpc->env);
}

static void peer_enter(struct peer *p, enum peer_state state)
{
    p->state_ns = now_of(p);
    p->state = (enum peer_state)states_next(&peer_states, p->state, state);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static void note_dial(struct peer *p)
{
    const struct rpc_config *c = &p->rpc->config;
    int64_t jitter = (int64_t)(env_random_u64(p->rpc->env) % 401) - 200; /* per mille */
    int64_t next;

    p->next_ns = now_of(p) + p->pause_ns / 1000 * (1000 + jitter);
    next = p->pause_ns * PAUSE_FACTOR_10 / 10;
    p->pause_ns = next < c->reconnect_max_ns ? next : c->reconnect_max_ns;
}

static void dial_later(struct peer *p)
{
    if (p->eager) {
        env_timer_set(p->rpc->env, &p->timer, p->next_ns);
    }
}

/* ---- what an operator reads ------------------------------------------------------------------ */

/* A fleet that comes or goes at once is a few lines, and how many were left out. */
static void peer_tell(struct peer *p, bool up, const char *why)
{
    uint32_t level = up ? FN_LOG_INFO : FN_LOG_WARN;
    uint32_t suppressed;

    if (!p->told || (!up && p->told_down)) {
        return;
    }
    p->told_down = !up;
    if (log_gate_open(&p->rpc->peers_gate, now_of(p), ENV_S, PEER_LINES_MAX, &suppressed)) {
        log_write(level, up ? "runner connected" : "runner not connected", "runner_addr",
                  p->address, "error", why, "suppressed",
                  suppressed ? log_num(suppressed) : NULL, (char *)NULL);
    }
}

/* ---- the connection -------------------------------------------------------------------------- */

static void failed(struct peer *p, const char *why)
{
    peer_enter(p, PEER_DOWN);
    snprintf(p->why, sizeof(p->why), "%s", why);
    peer_tell(p, false, p->why);
    raws_fail(p, p->why);
    dial_later(p);
}

/* Down again, or never up. The last touch. */
static void lost(struct peer *p, const char *why)
{
    const struct rpc_config *c = &p->rpc->config;
    bool was_up = p->state == PEER_UP;

    p->conn = NULL;
    env_timer_clear(p->rpc->env, &p->timer);
    if (was_up && now_of(p) - p->up_since_ns >= c->reconnect_max_ns) {
        p->pause_ns = c->reconnect_first_ns;
    }
    failed(p, why);
    if (was_up && p->changed) {
        p->changed(p, false);
    }
}

static void on_ready(void *ud)
{
    struct peer *p = ud;

    env_timer_clear(p->rpc->env, &p->timer);
    peer_enter(p, PEER_UP);
    p->up_since_ns = now_of(p);
    peer_tell(p, true, NULL);
    raws_begin(p);
    if (p->changed) {
        p->changed(p, true);
    }
}

static void on_going(void *ud)
{
    struct peer *p = ud;

    rpc_conn_leave(p->conn);
    lost(p, "the peer goes away (GOAWAY)");
}

static void on_closed(void *ud, const char *why)
{
    lost(ud, why);
}

static const struct rpc_conn_cb conn_cb = { .ready = on_ready,
                                           .going = on_going,
                                           .closed = on_closed };

static const char *authority_of(const struct peer *p)
{
    if (p->tls_name) {
        return p->tls_name;
    }
    return strncmp(p->address, "unix:", 5) == 0 ? "localhost" : p->address;
}

static void on_dialled(void *ud, struct net_io *io, const char *error)
{
    struct peer *p = ud;
    bool tls = !net_identity_is_plain(p->identity);

    p->dial = NULL;
    if (!io) {
        failed(p, error);
        return;
    }
    p->conn = rpc_conn_create(p->rpc, io, authority_of(p), tls, &conn_cb, p);
    if (!p->conn) {
        failed(p, "out of memory");
        return;
    }
    peer_enter(p, PEER_SETTLING);
    env_timer_set(p->rpc->env, &p->timer,
                  now_of(p) + p->rpc->config.connect_timeout_ns);
}

static void dial(struct peer *p)
{
    struct net_dial_config config = { .address = p->address,
                                      .identity = p->identity,
                                      .tls_name = p->tls_name,
                                      .alpn = "h2",
                                      .timeout_ms = p->rpc->config.connect_timeout_ns / ENV_MS };
    struct fn_error e = ERR_INIT;

    peer_enter(p, PEER_DIALLING);
    note_dial(p);
    if (net_dial(p->rpc->loop, &config, on_dialled, p, &p->dial, &e) < 0) {
        p->dial = NULL;
        failed(p, e.msg);
    }
}

static void peer_on_timer(struct env_timer *t)
{
    struct peer *p = container_of(t, struct peer, timer);
    char why[128];

    if (p->state == PEER_SETTLING) {
        snprintf(why, sizeof(why), "no HTTP/2 settings within %lld ms",
                 (long long)(p->rpc->config.connect_timeout_ns / ENV_MS));
        rpc_conn_break(p->conn, why);
    } else {
        dial(p);
    }
}

/* ---- what the owners call -------------------------------------------------------------------- */

bool peer_want(struct peer *p)
{
    if (p->state != PEER_DOWN) {
        return true;
    }
    if (p->eager || now_of(p) < p->next_ns) {
        return false;
    }
    dial(p);
    return p->state != PEER_DOWN;
}

bool peer_takes_calls(const struct peer *p)
{
    return p->state == PEER_UP && rpc_conn_takes_calls(p->conn);
}

bool peer_is_full(const struct peer *p)
{
    return peer_takes_calls(p) && rpc_conn_is_full(p->conn);
}

void peer_break(struct peer *p, const char *why)
{
    struct rpc_conn *c = p->conn;

    if (c) {
        rpc_conn_break(c, why);
        rpc_conn_leave(c);
        lost(p, why);
    }
}

int peer_open(struct peer *p, struct rpc *r, const char *address, const char *tls_name,
              struct net_identity *identity, uint32_t flags,
              void (*changed)(struct peer *p, bool up))
{
    *p = (struct peer){ .rpc = r,
                        .eager = (flags & PEER_EAGER) != 0,
                        .told = (flags & PEER_TOLD) != 0,
                        .changed = changed,
                        .timer.cb = peer_on_timer,
                        .pause_ns = r->config.reconnect_first_ns,
                        .address = strdup(address),
                        .tls_name = tls_name ? strdup(tls_name) : NULL };
    if (!p->address || (tls_name && !p->tls_name)) {
        free(p->address);
        free(p->tls_name);
        return FN_E_EXHAUSTED;
    }
    p->identity = net_identity_ref(identity);
    snprintf(p->why, sizeof(p->why), "not connected");
    if (p->eager) {
        dial(p);
    }
    return 0;
}

void peer_close(struct peer *p)
{
    env_timer_clear(p->rpc->env, &p->timer);
    net_dial_cancel(p->dial);
    p->dial = NULL;
    if (p->conn) {
        rpc_conn_leave(p->conn);
        p->conn = NULL;
    }
    peer_enter(p, PEER_CLOSED);
    raws_fail(p, "the link was closed");
    raws_leave(p);
    net_identity_unref(p->identity);
    p->identity = NULL;
}

void peer_finish(struct peer *p)
{
    free(p->address);
    free(p->tls_name);
    p->address = p->tls_name = NULL;
}
