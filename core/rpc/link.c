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
    return l->peer.up ? h2_conn_heard_ns(l->peer.conn) : 0;
}

static void on_changed(struct peer *p, bool up)
{
    struct engage_link *l = container_of(p, struct engage_link, peer);

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
             (long long)l->rpc->config.probe_timeout_ms);
    log_warn("connection given up", "runner_addr", l->peer.address, "error", text);
    peer_break(&l->peer, text);
}

static void probe_again(struct engage_link *l, int64_t at_ns)
{
    if (!l->closed && l->rpc->config.probe_interval_ms > 0) {
        env_timer_set(l->rpc->env, &l->probe_timer, at_ns);
    }
}

static void on_probed(void *ud, int grpc_status, const char *text, const void *answer, size_t len)
{
    struct engage_link *l = ud;
    const struct rpc_config *c = &l->rpc->config;
    int64_t now = env_now_ns(l->rpc->env);

    (void)text;
    (void)answer;
    (void)len;
    l->probing = false;
    if (l->closed) {
        return;
    }
    probe_again(l, now + c->probe_interval_ms * ENV_MS);
    if (grpc_status == H2_DEADLINE && l->peer.up && heard_ns(l) < l->probe_started_ns &&
        now - l->probe_started_ns < c->probe_timeout_ms * ENV_MS + LATE_NS) {
        link_break(l);
    }
}

static void on_probe_timer(struct env_timer *t)
{
    struct engage_link *l = container_of(t, struct engage_link, probe_timer);
    const struct rpc_config *c = &l->rpc->config;
    int64_t interval = c->probe_interval_ms * ENV_MS;
    int64_t now = env_now_ns(l->rpc->env);

    if (!l->peer.up || l->probing || now - t->at_ns > LATE_NS) {
        probe_again(l, now + interval);
        return;
    }
    if (now - heard_ns(l) < interval) {
        probe_again(l, heard_ns(l) + interval);
        return;
    }
    l->probe_started_ns = now;
    l->probing = unary_start(l, RPC_METHOD_PROBE, now + c->probe_timeout_ms * ENV_MS, on_probed, l,
                             NULL) == 0;
    if (!l->probing) {
        probe_again(l, now + interval);
    }
}

/* ---- links ---------------------------------------------------------------------------------- */

void link_ref(struct engage_link *l)
{
    l->refs++;
}

void link_unref(struct engage_link *l)
{
    assert(l->refs > 0);
    if (--l->refs > 0) {
        return;
    }
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
    if (peer_open(&l->peer, r, address, tls_name, r->identity, true, on_changed) < 0) {
        free(l);
        return NULL;
    }
    LIST_INSERT_HEAD(&r->links, l, entry);
    l->probe_timer.cb = on_probe_timer;
    probe_again(l, env_now_ns(r->env) + r->config.probe_interval_ms * ENV_MS);
    return l;
}

static void link_close(struct engage_link *l)
{
    assert(!l->closed);
    l->closed = true;
    env_timer_clear(l->rpc->env, &l->probe_timer);
    LIST_REMOVE(l, entry);
    peer_close(&l->peer);
    link_unref(l);
}

static bool link_is_up(const struct engage_link *l)
{
    return l->peer.up;
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
