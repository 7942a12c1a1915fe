/* The life of a stream, which is the same for each transport: see life.h. In the program for
 * nghttp2, and in the file of C core.
 *
 * The end as the owner sees it is in order behind the messages at a client; a server's owner hears
 * at once that its peer is gone. */
#include <rpc/life.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

void stream_enter(struct rpc_stream *st)
{
    st->entered++;
}

void stream_leave(struct rpc_stream *st)
{
    if (--st->entered > 0 || st->cb || st->conn || (st->ops->is_used && st->ops->is_used(st))) {
        return;
    }
    env_undefer(st->env, &st->task);
    env_timer_clear(st->env, &st->deadline);
    st->ops->drop_kept(st);
    /* Broken by a transport whose drop_kept() leaves something. */
    assert(st->held_bytes == 0);
    if (st->ops->finish) {
        st->ops->finish(st);
    }
    buf_finish(&st->out.bytes);
    free(st->text);
    free(st->end_text);
    free(st);
}

/* Its connection does not count it any more. */
static void detach(struct rpc_stream *st)
{
    st->was_sent = st->ops->is_sent(st);
    if (st->ops->detach) {
        st->ops->detach(st);
    }
    LIST_REMOVE(st, entry);
    st->conn->streams_n--;
    st->conn = NULL;
    if (!st->cb) {
        env_timer_clear(st->env, &st->deadline);
        env_undefer(st->env, &st->task);
    }
}

void stream_forget(struct rpc_stream *st)
{
    struct rpc_conn *c = st->conn;

    if (c) {
        stream_enter(st);
        detach(st);
        life_idle(c);
        stream_leave(st);
    }
}

void stream_orphan(struct rpc_stream *st, const char *why)
{
    stream_enter(st);
    detach(st);
    st->ops->cancel(st, GRPC_UNAVAILABLE, "the connection is gone");
    stream_over(st, GRPC_UNAVAILABLE, why, false);
    stream_leave(st);
}

void stream_drop(struct rpc_stream *st)
{
    stream_enter(st);
    st->cb = NULL;
    detach(st);
    st->ops->cancel(st, GRPC_CANCELLED, "closed");
    stream_leave(st);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* In order behind the messages; an owner that reads nothing at the moment, or whose task has yet to
 * hand over what was kept, hears of it later, a server's at once. */
void stream_tell_end(struct rpc_stream *st)
{
    if (!st->over || st->told || !st->cb || st->delivering ||
        (!st->server && (st->paused || st->task.queued))) {
        return;
    }
    st->told = true;
    st->ops->drop_kept(st);
    env_timer_clear(st->env, &st->deadline);
    st->cb->ended(st->ud, st->status, st->text ? st->text : "", st->refused);
}

void stream_deliver_ends(struct rpc_stream *st)
{
    if (st->server && st->half && !st->half_told && !st->task.queued && stream_listens(st)) {
        st->half_told = true;
        if (st->ops->has_rest && st->ops->has_rest(st)) {
            stream_fail(st, GRPC_INTERNAL, "the stream ended inside of a message");
        } else if (st->cb->half_closed) {
            st->cb->half_closed(st->ud);
        }
    }
    stream_tell_end(st);
}

void stream_over(struct rpc_stream *st, int status, const char *text, bool refused)
{
    if (st->over) {
        return;
    }
    stream_enter(st);
    st->over = true;
    st->status = status;
    st->refused = refused;
    st->text = text[0] ? strdup(text) : NULL;
    st->ops->over(st);
    stream_tell_end(st);
    stream_leave(st);
}

void stream_fail(struct rpc_stream *st, int status, const char *text)
{
    stream_enter(st);
    st->paused = false;
    st->ops->drop_kept(st);
    if (st->over && !st->told) {
        st->over = false;
        free(st->text);
        st->text = NULL;
    }
    if (st->server) {
        const struct rpc_stream_cb *cb = st->cb;

        st->cb = NULL;
        rpc_stream_abort(st, status, text);
        st->cb = cb;
    } else {
        st->ops->cancel(st, GRPC_CANCELLED, text);
    }
    stream_over(st, status, text, false);
    stream_leave(st);
}

/* The rest of the answer will not come, also to a stream that is paused. */
static void stream_on_deadline(struct env_timer *t)
{
    struct rpc_stream *st = container_of(t, struct rpc_stream, deadline);

    stream_enter(st);
    if (st->ops->late) {
        st->ops->late(st);
    }
    if (!st->over || st->status != GRPC_OK) {
        st->paused = false;
        st->ops->cancel(st, GRPC_DEADLINE, "deadline exceeded");
        st->ops->drop_kept(st);
        stream_over(st, GRPC_DEADLINE, "deadline exceeded", false);
        stream_tell_end(st);
    }
    stream_leave(st);
}

void stream_set_deadline(struct rpc_stream *st, int64_t deadline_ns)
{
    st->deadline_ns = deadline_ns;
    env_timer_set(st->env, &st->deadline, deadline_ns);
}

/* ---- what waits for its owner ---------------------------------------------------------------- */

void stream_hold(struct rpc_stream *st, uint64_t bytes)
{
    if (st->held_bytes == 0 && bytes > 0) {
        LIST_INSERT_HEAD(&st->transport->holders, st, holder);
    }
    st->held_bytes += bytes;
    st->transport->held_bytes += bytes;
}

void stream_release(struct rpc_stream *st, uint64_t bytes)
{
    /* Broken by a transport that counts what came in another way than what it hands over. */
    assert(bytes <= st->held_bytes);
    st->held_bytes -= bytes;
    st->transport->held_bytes -= bytes;
    if (st->held_bytes == 0 && bytes > 0) {
        LIST_REMOVE(st, holder);
    }
}

static bool holds_more(const struct rpc_stream *st, const struct rpc_stream *than)
{
    return !than || (st->paused != than->paused ? st->paused : st->held_bytes > than->held_bytes);
}

/* NULL: none that can be ended. */
static struct rpc_stream *holds_most(struct transport *t)
{
    struct rpc_stream *st, *most = NULL;

    LIST_FOREACH(st, &t->holders, holder) {
        if (st->cb && !st->told && !st->delivering && holds_more(st, most)) {
            most = st;
        }
    }
    return most;
}

/* Whoever receives next may hold nothing: those that made it so much end. */
void stream_make_room(struct transport *t, uint64_t bytes)
{
    struct rpc_stream *st;

    while (t->held_bytes + bytes > t->limits.memory_max_bytes && (st = holds_most(t))) {
        stream_fail(st, GRPC_EXHAUSTED, RPC_TOO_MUCH_HELD);
    }
}

/* ---- what its owner does --------------------------------------------------------------------- */

struct rpc_stream *rpc_stream_open(struct rpc_conn *c, const struct rpc_call *call,
                                   const struct rpc_stream_cb *cb, void *ud)
{
    /* Broken by core/rpc: it asks in the same turn, in which no GOAWAY can come. */
    assert(rpc_conn_takes_calls(c));
    return c->ops->open(c, call, cb, ud);
}

void rpc_stream_adopt(struct rpc_stream *st, const struct rpc_stream_cb *cb, void *ud,
                      size_t low_mark)
{
    st->cb = cb;
    st->ud = ud;
    st->out.low_mark = low_mark;
}

static void let_go(struct rpc_stream *st)
{
    st->cb = NULL;
    env_undefer(st->env, &st->task);
}

void rpc_stream_close(struct rpc_stream *st)
{
    /* Broken by an owner in core/rpc that closes a stream twice. */
    assert(st->cb);
    stream_enter(st);
    let_go(st);
    if (!st->over) {
        st->ops->cancel(st, GRPC_CANCELLED, "cancelled");
    }
    if (!st->delivering) {
        st->ops->drop_kept(st);
    }
    stream_leave(st);
}

void rpc_stream_wrote(struct rpc_stream *st)
{
    st->out.was_full = st->out.was_full || rpc_stream_queued(st) > st->out.low_mark;
    st->ops->send(st);
}

bool rpc_stream_is_sent(const struct rpc_stream *st)
{
    return st->conn ? st->ops->is_sent(st) : st->was_sent;
}

bool rpc_stream_is_answered(const struct rpc_stream *st)
{
    return st->ops->is_answered ? st->ops->is_answered(st) : st->answered;
}

void rpc_stream_half_close(struct rpc_stream *st)
{
    st->end_wanted = true;
    st->ops->send(st);
}

void rpc_stream_finish(struct rpc_stream *st, int status, const char *text)
{
    stream_enter(st);
    let_go(st);
    if (!st->end_wanted) {
        st->end_wanted = true;
        st->end_status = status;
        st->end_text = text && text[0] ? strdup(text) : NULL;
        st->ops->send(st);
    }
    stream_leave(st);
}

void rpc_stream_abort(struct rpc_stream *st, int status, const char *text)
{
    st->out.bytes.len = st->out.taken + st->out.promised;
    rpc_stream_finish(st, status, text);
}

void rpc_stream_pause(struct rpc_stream *st, bool paused)
{
    st->paused = paused;
    if (!paused && !st->delivering && st->ops->has_to_go_on(st)) {
        env_defer(st->env, &st->task);
    }
}

const struct net_io *rpc_stream_io(const struct rpc_stream *st)
{
    return st->conn ? st->conn->io : NULL;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* After a pause, and when the owner may send again. */
static void stream_on_task(struct env_task *t)
{
    struct rpc_stream *st = container_of(t, struct rpc_stream, task);

    stream_enter(st);
    st->ops->go_on(st);
    stream_deliver_ends(st);
    if (rpc_out_is_low(st) && st->cb && !st->over) {
        st->out.was_full = false;
        if (st->cb->writable) {
            st->cb->writable(st->ud);
        }
    }
    stream_leave(st);
}

void stream_init(struct rpc_stream *st, const struct rpc_stream_ops *ops, struct rpc_conn *c)
{
    st->ops = ops;
    st->env = c->env;
    st->conn = c;
    st->transport = c->transport;
    st->server = c->server;
    st->task.cb = stream_on_task;
    st->deadline.cb = stream_on_deadline;
    LIST_INSERT_HEAD(&c->streams, st, entry);
    c->streams_n++;
}
