/* What sessions, calls of services and readers of logs have in common at a server: a stream, which
 * is waited for its first message, ended by its server, and let go behind whoever uses it. */
#include <rpc/server_int.h>

#include <assert.h>
#include <stdlib.h>

/* ---- life ----------------------------------------------------------------------------------- */

void server_ref(struct rpc_server *s)
{
    s->refs++;
}

void server_unref(struct rpc_server *s)
{
    /* Broken by this room, if it gave a reference back twice. */
    assert(s->refs > 0);
    if (--s->refs == 0 && s->closed) {
        /* Broken by this room: each of them has a reference. */
        assert(LIST_EMPTY(&s->calls) && LIST_EMPTY(&s->conns));
        free(s);
    }
}

void server_call_enter(struct server_call *c)
{
    c->entered++;
}

void server_call_leave(struct server_call *c)
{
    struct rpc_server *s = c->server;

    if (--c->entered == 0 && !c->stream && !c->owed) {
        server_call_heard(c);
        LIST_REMOVE(c, entry);
        c->kind->free(c);
        server_unref(s);
    }
}

/* ---- first messages -------------------------------------------------------------------------- */

static int64_t wait_end_ns(const struct server_call *c)
{
    return c->since_ns + c->server->rpc->config.first_message_ns;
}

void server_on_waits_timer(struct env_timer *t)
{
    struct rpc_server *s = container_of(t, struct rpc_server, waits_timer);
    int64_t now = env_now_ns(s->rpc->env);
    struct server_call *c;

    server_ref(s);
    while ((c = TAILQ_FIRST(&s->waits)) && wait_end_ns(c) <= now) {
        server_call_heard(c);
        server_call_enter(c);
        c->kind->expired(c);
        server_call_leave(c);
    }
    if (c) {
        env_timer_set(s->rpc->env, t, wait_end_ns(c));
    }
    server_unref(s);
}

void server_call_heard(struct server_call *c)
{
    if (c->waits) {
        c->waits = false;
        TAILQ_REMOVE(&c->server->waits, c, waiting);
    }
}

void server_call_begin(struct server_call *c, const struct server_call_kind *kind,
                       struct rpc_server *s, struct rpc_stream *st, size_t low_mark)
{
    c->kind = kind;
    c->server = s;
    c->stream = st;
    c->since_ns = env_now_ns(s->rpc->env);
    c->waits = true;
    server_ref(s);
    LIST_INSERT_HEAD(&s->calls, c, entry);
    TAILQ_INSERT_TAIL(&s->waits, c, waiting);
    if (!env_timer_is_set(&s->waits_timer)) {
        env_timer_set(s->rpc->env, &s->waits_timer, wait_end_ns(c));
    }
    rpc_stream_adopt(st, kind->stream_cb, c, low_mark);
}

/* ---- the end --------------------------------------------------------------------------------- */

void server_call_finish(struct server_call *c, int status, const char *text)
{
    struct rpc_stream *st = c->stream;

    c->stream = NULL;
    if (st) {
        rpc_stream_finish(st, status, text);
    }
}

void server_call_abort(struct server_call *c, int status, const char *text)
{
    if (c->stream) {
        rpc_stream_abort(c->stream, status, text);
        c->stream = NULL;
    }
}

static void server_call_drop(struct server_call *c)
{
    if (c->stream) {
        rpc_stream_close(c->stream);
        c->stream = NULL;
    }
}

void server_call_on_ended(void *ud, int status, const char *text, bool refused)
{
    struct server_call *c = ud;

    (void)status;
    (void)text;
    (void)refused;
    server_call_enter(c);
    c->kind->gone(c);
    server_call_drop(c);
    server_call_leave(c);
}

void server_calls_forget(struct rpc_server *s)
{
    struct server_call *c, *next;

    for (c = LIST_FIRST(&s->calls); c; c = next) {
        next = LIST_NEXT(c, entry);
        server_call_enter(c);
        c->kind->forget(c);
        server_call_drop(c);
        server_call_leave(c);
    }
}
