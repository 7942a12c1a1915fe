/* Links: one peer per runner address, dialled for ever, watched, probed. */
#include <rpc/client_int.h>

#include <assert.h>
#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATE_NS ENV_S /* a probe timer this late says more about this process than about the peer */

static int64_t heard_ns(const struct engage_link *l)
{
    return l->peer.state == PEER_UP ? rpc_conn_heard_ns(l->peer.conn) : 0;
}

static void on_changed(struct peer *p, bool up)
{
    struct engage_link *l = container_of(p, struct engage_link, peer);

    if (up && !l->closed) {
        health_ask_soon(l);
    }
    if (l->cb && l->cb->on_state && !l->closed) {
        l->cb->on_state(l->ud, up);
    }
}

/* ---- probe ---------------------------------------------------------------------------------- */

/* The peer is silent: its connection is given up, and with it what runs on it. */
static void link_break(struct engage_link *l)
{
    char text[256];

    snprintf(text, sizeof(text), "runner %.120s: no answer for %lld ms", l->peer.address,
             (long long)(l->rpc->config.probe_timeout_ns / ENV_MS));
    peer_break(&l->peer, text);
}

static void probe_again(struct engage_link *l, int64_t at_ns)
{
    if (!l->closed && l->rpc->config.probe_interval_ns > 0) {
        env_timer_set(l->rpc->env, &l->probe_timer, at_ns);
    }
}

/* What the peer did since the probe. */
static void probe_judge(struct engage_link *l)
{
    const struct rpc_config *c = &l->rpc->config;
    int64_t now = env_now_ns(l->rpc->env);

    probe_again(l, now + c->probe_interval_ns);
    if (l->peer.state == PEER_UP && heard_ns(l) < l->probe_started_ns &&
        now - l->probe_started_ns < c->probe_timeout_ns + LATE_NS) {
        link_break(l);
    }
}

static void on_probed(void *ud, int grpc_status, const char *text, const void *answer, size_t len)
{
    struct engage_link *l = ud;

    (void)text;
    (void)answer;
    (void)len;
    l->probing = PROBE_NONE;
    if (l->closed) {
        return;
    }
    if (grpc_status == GRPC_DEADLINE) {
        probe_judge(l);
    } else {
        probe_again(l, env_now_ns(l->rpc->env) + l->rpc->config.probe_interval_ns);
    }
}

/* A peer that lets no further call in is pinged: it has a limit, which Go's runners do not have,
 * so it is none that counts pings (rpc.h). */
static void probe_start(struct engage_link *l)
{
    const struct rpc_config *c = &l->rpc->config;
    int64_t now = env_now_ns(l->rpc->env);
    int64_t end = now + c->probe_timeout_ns;

    l->probe_started_ns = now;
    if (rpc_conn_is_full(l->peer.conn)) {
        l->probing = PROBE_PING;
        rpc_conn_ping(l->peer.conn);
        probe_again(l, end);
    } else if (unary_start(l, RPC_METHOD_PROBE, end, on_probed, l, NULL) == 0) {
        l->probing = PROBE_CALL;
    } else {
        probe_again(l, now + c->probe_interval_ns);
    }
}

static void on_probe_timer(struct env_timer *t)
{
    struct engage_link *l = container_of(t, struct engage_link, probe_timer);
    const struct rpc_config *c = &l->rpc->config;
    int64_t interval = c->probe_interval_ns;
    int64_t now = env_now_ns(l->rpc->env);

    if (l->probing == PROBE_PING) {
        l->probing = PROBE_NONE;
        probe_judge(l);
    } else if (l->peer.state != PEER_UP || l->probing || now - t->at_ns > LATE_NS) {
        probe_again(l, now + interval);
    } else if (now - heard_ns(l) < interval) {
        probe_again(l, heard_ns(l) + interval);
    } else {
        probe_start(l);
    }
}

/* ---- links ---------------------------------------------------------------------------------- */

void link_ref(struct engage_link *l)
{
    l->refs++;
}

void link_unref(struct engage_link *l)
{
    /* Broken by this room, if it gave a reference back twice. */
    assert(l->refs > 0);
    if (--l->refs > 0) {
        return;
    }
    /* Broken by this room: the owner and each attempt have a reference. */
    assert(l->closed && LIST_EMPTY(&l->attempts));
    peer_finish(&l->peer);
    free(l);
}

static struct engage_link *link_open(struct engage_client *client, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct rpc *r = container_of(client, struct rpc, client);
    struct engage_link *l = calloc(1, sizeof(*l));

    if (!l) {
        return NULL;
    }
    l->rpc = r;
    l->refs = 1;
    l->cb = cb;
    l->ud = ud;
    LIST_INIT(&l->attempts);
    /* A link that nobody watches is for a question, of which there may be thousands a second. */
    if (peer_open(&l->peer, r, address, tls_name, r->identity, PEER_EAGER | (cb ? PEER_TOLD : 0),
                  on_changed) < 0) {
        free(l);
        return NULL;
    }
    LIST_INSERT_HEAD(&r->links, l, entry);
    l->probe_timer.cb = on_probe_timer;
    health_init(l);
    probe_again(l, env_now_ns(r->env) + r->config.probe_interval_ns);
    return l;
}

static void link_close(struct engage_link *l)
{
    /* Broken by an owner (core/place, core/npm) that closes a link twice. */
    assert(!l->closed);
    l->closed = true;
    env_timer_clear(l->rpc->env, &l->probe_timer);
    health_finish(l);
    readers_leave(l);
    walks_skip(&l->rpc->walks, l, LIST_NEXT(l, entry));
    LIST_REMOVE(l, entry);
    peer_close(&l->peer);
    link_unref(l);
}

static bool link_is_up(const struct engage_link *l)
{
    return l->peer.state == PEER_UP;
}

void rpc_client_init(struct rpc *r)
{
    r->client = (struct engage_client){
        .link_open = link_open,
        .link_close = link_close,
        .link_is_up = link_is_up,
        .attempt = attempt_open,
        .attempt_pause = attempt_pause,
        .attempt_close = attempt_close,
        .reader_open = reader_open,
        .reader_more = reader_more,
        .reader_close = reader_close,
    };
}

void rpc_client_close_all(struct rpc *r)
{
    struct engage_link *l;

    while ((l = LIST_FIRST(&r->links))) {
        link_ref(l);
        attempts_close(l);
        link_close(l);
        link_unref(l);
    }
}

struct engage_client *rpc_client(struct rpc *r)
{
    return &r->client;
}
