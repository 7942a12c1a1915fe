/* The life of a connection: see life.h. In the program for nghttp2, and in the file of C core. */
#include <rpc/life.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void set_timer(struct rpc_conn *l, enum life_timer what, int64_t at_ns)
{
    l->timer_for = what;
    env_timer_set(l->env, &l->timer, at_ns);
}

/* ---- the end --------------------------------------------------------------------------------- */

void life_enter(struct rpc_conn *l)
{
    l->entered++;
}

void life_leave(struct rpc_conn *l)
{
    if (--l->entered == 0 && l->doomed) {
        l->ops->free(l);
    }
}

void rpc_conn_break(struct rpc_conn *l, const char *why)
{
    if (!l->dead) {
        l->dead = true;
        l->going = true;
        l->why = strdup(why);
        env_timer_clear(l->env, &l->timer);
        env_defer(l->env, &l->death);
    }
}

/* UNAVAILABLE and this text; why NULL: without a word. */
static void end_streams(struct rpc_conn *l, const char *why)
{
    struct rpc_stream *st;

    while ((st = LIST_FIRST(&l->streams))) {
        if (why) {
            stream_orphan(st, why);
        } else {
            stream_drop(st);
        }
    }
}

static void hang_up(struct rpc_conn *l)
{
    l->io_close(l->io);
    l->io = NULL;
}

static void on_death(struct env_task *t)
{
    struct rpc_conn *l = container_of(t, struct rpc_conn, death);
    const char *why = l->why ? l->why : "out of memory";

    life_enter(l);
    hang_up(l);
    if (l->cb) {
        const struct rpc_conn_cb *cb = l->cb;

        l->cb = NULL;
        cb->closed(l->ud, why);
    }
    end_streams(l, why);
    l->doomed = true;
    life_leave(l);
}

void rpc_conn_close(struct rpc_conn *l)
{
        l->cb = NULL;
    end_streams(l, NULL);
    l->dead = l->doomed = true;
    env_undefer(l->env, &l->death);
    life_enter(l);
    life_leave(l);
}

void life_idle(struct rpc_conn *l)
{
    if (l->streams_n > 0 || l->dead) {
        return;
    }
    if (l->left) {
        rpc_conn_break(l, "nobody needs the connection any more");
    } else if (l->goaway_final) {
        /* The client closes when it has read everything; a connection that we close first could
         * lose what is on its way. */
        set_timer(l, LIFE_PART, env_now_ns(l->env) + RPC_PART_MS * ENV_MS);
    }
}

/* ---- what the peer lets hear ----------------------------------------------------------------- */

void life_heard(struct rpc_conn *l)
{
    l->heard_ns = env_now_ns(l->env);
    l->pinged = false;
}

void life_settings(struct rpc_conn *l)
{
    if (!l->ready) {
        l->ready = true;
        if (l->server) {
            set_timer(l, LIFE_SILENCE, l->heard_ns); /* it is counted from now */
        } else if (l->cb) {
            l->cb->ready(l->ud);
        }
    }
}

void life_going(struct rpc_conn *l)
{
    if (!l->going) {
        l->going = true;
        if (l->cb) {
            l->cb->going(l->ud);
        }
    }
}

static bool too_many(struct rpc_conn *l, uint32_t *n, uint32_t max)
{
    int64_t now = env_now_ns(l->env);

    if (now - l->window_ns >= ENV_S) {
        l->window_ns = now;
        l->controls = l->resets = 0;
    }
    return ++*n == max;
}

bool life_too_many_controls(struct rpc_conn *l)
{
    return too_many(l, &l->controls, RPC_CONTROLS_MAX);
}

bool life_too_many_pings(struct rpc_conn *l)
{
    if (l->said) {
        l->said = false;
        return false;
    }
    return life_too_many_controls(l);
}

bool life_too_many_resets(struct rpc_conn *l)
{
    return too_many(l, &l->resets, RPC_RESETS_MAX);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t next_ping_ns(const struct rpc_conn *l)
{
    const struct rpc_limits *limits = &l->transport->limits;
    int64_t ms = l->left ? limits->left_silence_ms : limits->client_silence_ms;
    int64_t silent = l->heard_ns + ms * ENV_MS;
    int64_t apart = l->pinged_ns ? l->pinged_ns + RPC_PINGS_APART_MS * ENV_MS : 0;

    return l->left && apart > silent ? apart : silent;
}

static void look_at_silence(struct rpc_conn *l)
{
    int64_t now = env_now_ns(l->env);

    if (!l->ready) {
        rpc_conn_break(l, "no HTTP/2 preface came");
    } else if (l->pinged) {
        rpc_conn_break(l, "the peer does not answer a ping");
    } else if (!l->left && l->transport->limits.client_silence_ms == 0) {
        return;
    } else if (now >= next_ping_ns(l)) {
        l->pinged = true;
        l->pinged_ns = now;
        l->ops->ping(l, false);
        set_timer(l, LIFE_SILENCE, now + l->transport->limits.answer_ms * ENV_MS);
    } else {
        set_timer(l, LIFE_SILENCE, next_ping_ns(l));
    }
}

/* A client that reads slowly gets the rest of its answers, for as long as whoever drains waits: a
 * node's drain_timeout. */
static void look_at_parting(struct rpc_conn *l)
{
    if (l->ops->has_output(l)) {
        set_timer(l, LIFE_PART, env_now_ns(l->env) + RPC_PART_MS * ENV_MS);
    } else {
        rpc_conn_break(l, "drained");
    }
}

static void life_on_timer(struct env_timer *t)
{
    struct rpc_conn *l = container_of(t, struct rpc_conn, timer);

    life_enter(l);
    switch (l->timer_for) {
    case LIFE_CALLS_OUT:
        if (l->cb && l->cb->going) {
            l->cb->going(l->ud);
        }
        break;
    case LIFE_PART:
        look_at_parting(l);
        break;
    case LIFE_DRAIN:
        life_drain_heard(l); /* it said nothing, but had its time */
        if (env_timer_is_set(&l->timer)) {
            break; /* LIFE_PART */
        }
        /* fall through */
    case LIFE_SILENCE:
        look_at_silence(l);
        break;
    }
    life_leave(l);
}

void life_calls_out(struct rpc_conn *l)
{
    if (!l->going) {
        l->going = true;
        set_timer(l, LIFE_CALLS_OUT, env_now_ns(l->env));
    }
}

void rpc_conn_leave(struct rpc_conn *l)
{
        l->cb = NULL;
    l->left = true;
    life_idle(l);
    if (!l->dead && l->transport->limits.left_silence_ms > 0) {
        set_timer(l, LIFE_SILENCE, next_ping_ns(l));
    }
}

void rpc_conn_drain(struct rpc_conn *l)
{
        if (l->dead || l->draining) {
        return;
    }
    if (!l->ready) {
        rpc_conn_break(l, "shutting down");
        return;
    }
    l->draining = true;
    l->ops->goaway(l, false);
    set_timer(l, LIFE_DRAIN, env_now_ns(l->env) + RPC_PART_MS * ENV_MS);
}

void life_drain_heard(struct rpc_conn *l)
{
    if (l->draining && !l->goaway_final) {
        l->goaway_final = true;
        l->ops->goaway(l, true);
        life_idle(l);
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

void life_init(struct rpc_conn *l, const struct rpc_life_ops *ops, struct transport *t, bool server)
{
    l->ops = ops;
    l->env = t->env;
    l->transport = t;
    l->server = server;
    LIST_INIT(&l->streams);
    LIST_INSERT_HEAD(&t->conns, l, entry);
    l->death.cb = on_death;
    l->timer.cb = life_on_timer;
    l->heard_ns = env_now_ns(l->env);
    if (server) {
        set_timer(l, LIFE_SILENCE, l->heard_ns + l->transport->limits.answer_ms * ENV_MS);
    }
}

void life_finish(struct rpc_conn *l)
{
    /* Broken by a transport that forgets a connection before its streams. */
    assert(l->streams_n == 0);
    LIST_REMOVE(l, entry);
    if (l->io) {
        hang_up(l);
    }
    env_undefer(l->env, &l->death);
    env_timer_clear(l->env, &l->timer);
    free(l->why);
}

void life_end_all(struct transport *t)
{
    struct rpc_conn *l;

    while ((l = LIST_FIRST(&t->conns))) {
        /* Broken by core/node, if it destroyed the rpc from a callback. */
        assert(l->entered == 0);
        rpc_conn_close(l);
    }
}

bool rpc_conn_takes_calls(const struct rpc_conn *l)
{
    return l->ready && !l->going;
}

int64_t rpc_conn_heard_ns(const struct rpc_conn *l)
{
    return l->heard_ns;
}

bool rpc_conn_is_full(const struct rpc_conn *l)
{
    return l->ops->is_full(l);
}

void rpc_conn_ping(struct rpc_conn *l)
{
    l->ops->ping(l, true);
}
