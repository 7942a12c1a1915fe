/* Streams: a call of C core each.
 *
 * Sending: messages are appended to `out` with their prefixes, as all transports take them, and
 * given to C core one at a time, which is its rule. Receiving: one message is asked for at a time,
 * none while the stream is paused, so that the windows stay closed. A connection that ends asks for
 * what is there all the same (stream_read_on); those messages wait here.
 *
 * Proofs. A call counts as sent from the moment C core has its first message, unless the connection
 * is dead and not a byte that was made later has left, or the peer's windows have kept it back. It
 * counts as refused when a frame said so about its id, and no answer had begun. */
#include <rpc/core/core_int.h>

#include <assert.h>
#include <base/alloc.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_MAX         999999
#define MESSAGE_COST_BYTES 512u /* of C core and ours for a message that waits, beside its bytes */

/* ---- life ------------------------------------------------------------------------------------ */

/* Of a stream without a name nothing is counted. */
static void count_taken(struct core_stream *st, grpc_byte_buffer *bytes)
{
    uint64_t len = RPC_PREFIX_BYTES + grpc_byte_buffer_length(bytes);

    if (st->id) {
        len = len < st->fed_bytes - st->taken_bytes ? len : st->fed_bytes - st->taken_bytes;
        st->taken_bytes += len;
        stream_release(&st->base, len);
    }
}

/* What C core still has for it is no owner's. */
static void forget_fed(struct core_stream *st)
{
    if (st->id) {
        stream_release(&st->base, st->fed_bytes - st->taken_bytes);
        st->taken_bytes = st->fed_bytes;
    }
}

/* The first message that waits, or NULL; the caller's. */
static grpc_byte_buffer *take_message(struct core_stream *st)
{
    struct core_message *m = STAILQ_FIRST(&st->messages);
    grpc_byte_buffer *bytes = m ? m->bytes : NULL;

    if (m) {
        STAILQ_REMOVE_HEAD(&st->messages, link);
        free(m);
        stream_release(&st->base, MESSAGE_COST_BYTES);
        count_taken(st, bytes);
    }
    return bytes;
}

static void drop_messages(struct rpc_stream *base)
{
    struct core_stream *st = core_stream_of(base);
    grpc_byte_buffer *bytes;

    while ((bytes = take_message(st))) {
        grpc_byte_buffer_destroy(bytes);
    }
    forget_fed(st);
}

/* NULL: it has none, or none any more. */
static struct core_conn *core_call_conn(const struct core_stream *st)
{
    return st->base.conn ? core_conn_of(st->base.conn) : NULL;
}

static bool core_call_is_used(const struct rpc_stream *base)
{
    const struct core_stream *st = core_stream_of(base);

    return st->send.busy || st->recv.busy || st->end.busy;
}

static void core_call_finish(struct rpc_stream *base)
{
    struct core_stream *st = core_stream_of(base);

    if (st->dirty) {
        TAILQ_REMOVE(&st->t->dirty_streams, st, dirty_link);
    }
    if (st->call) {
        grpc_call_unref(st->call);
    }
    grpc_metadata_array_destroy(&st->initial);
    grpc_metadata_array_destroy(&st->trailing);
    grpc_slice_unref(st->details);
    grpc_slice_unref(st->path);
    grpc_slice_unref(st->request_id.value);
}

/* Its HEADERS may come or not: those that come next may be another's. */
static void lose_name(struct core_stream *st)
{
    if (st->unnamed) {
        TAILQ_REMOVE(&core_call_conn(st)->unnamed, st, unnamed_link);
        st->unnamed = false;
        core_call_conn(st)->ids_lost = true;
    }
}

/* What C core wrote is looked at first. */
static void unname(struct core_stream *st)
{
    if (st->unnamed) {
        pump_read_made(core_call_conn(st));
    }
    lose_name(st);
}

static void core_call_cancel(struct rpc_stream *base, int status, const char *text)
{
    struct core_stream *st = core_stream_of(base);

    if (!st->begun && !base->server) {
        stream_forget(base); /* C core has not heard of it */
    } else if (st->call && st->end.busy) {
        stream_enter(base);
        if (base->conn) {
            unname(st);
        }
        grpc_call_cancel_with_status(st->call, (grpc_status_code)status, text, NULL);
        if (base->conn) {
            core_dirty_conn(core_call_conn(st));
        }
        core_wake(st->t);
        stream_leave(base);
    }
}

static void core_call_detach(struct rpc_stream *base)
{
    struct core_stream *st = core_stream_of(base);

    lose_name(st);
    if (st->id) {
        HASH_DELETE(hh, core_call_conn(st)->named, st);
        forget_fed(st);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* A call that has failed while its owner reads nothing still ends at its deadline: the peer's clock
 * may have been first. */
static void core_call_over(struct rpc_stream *base)
{
    if (base->status == GRPC_OK || base->server || !base->cb) {
        env_timer_clear(base->env, &base->deadline);
    }
}

/* An answer that is whole is its owner's, when it goes on. */
static void core_call_late(struct rpc_stream *base)
{
    struct core_stream *st = core_stream_of(base);

    if (!base->over && base->paused && !base->server) {
        stream_read_on(st);
        core_settle(st->t);
    }
}

/* C core hands on whatever number the peer wrote. */
static int status_of(grpc_status_code code)
{
    int status = (int)code;

    return status >= 0 && status <= STATUS_MAX ? status : GRPC_UNKNOWN;
}

/* C core is done with the call. */
static void core_call_on_end(struct core_op *op, bool ok)
{
    struct core_stream *st = container_of(op, struct core_stream, end);
    char text[512] = "the peer cancelled the call";

    (void)ok;
    stream_enter(&st->base);
    if (!st->base.server) {
        size_t len = GRPC_SLICE_LENGTH(st->details);

        len = len < sizeof(text) ? len : sizeof(text) - 1;
        memcpy(text, GRPC_SLICE_START_PTR(st->details), len);
        text[len] = '\0';
        stream_over(&st->base, status_of(st->code), text,
                    st->code != GRPC_STATUS_OK && st->refused_seen && !st->base.answered);
    } else {
        stream_over(&st->base, GRPC_CANCELLED, st->cancelled ? text : "", false);
    }
    stream_forget(&st->base);
    stream_leave(&st->base);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void hand_over(struct core_stream *st, grpc_byte_buffer *bytes)
{
    grpc_byte_buffer_reader reader;
    grpc_slice all;

    if (!grpc_byte_buffer_reader_init(&reader, bytes)) {
        return;
    }
    all = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    st->base.cb->message(st->base.ud, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
    grpc_slice_unref(all);
}

static void core_call_deliver(struct core_stream *st)
{
    grpc_byte_buffer *bytes;

    stream_enter(&st->base);
    st->base.delivering = true;
    while (stream_listens(&st->base) && (bytes = take_message(st))) {
        hand_over(st, bytes);
        grpc_byte_buffer_destroy(bytes);
    }
    st->base.delivering = false;
    if (!st->base.cb) {
        drop_messages(&st->base);
    }
    stream_leave(&st->base);
}

/* Messages without bytes cost memory too: five bytes of the wire are hundreds here. */
static void core_call_keep(struct core_stream *st, grpc_byte_buffer *bytes)
{
    struct core_message *m = malloc(sizeof(*m));

    if (!m) {
        count_taken(st, bytes);
        grpc_byte_buffer_destroy(bytes);
        stream_fail(&st->base, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    m->bytes = bytes;
    STAILQ_INSERT_TAIL(&st->messages, m, link);
    stream_hold(&st->base, MESSAGE_COST_BYTES);
    stream_make_room(&st->t->base, 0); /* it may end itself */
}

/* The next message is one that no owner may have, or is behind it. */
static bool is_bad(const struct core_stream *st)
{
    return (st->bad_bytes || st->bad_encoding) && st->read_bytes >= st->bad_from;
}

static void ask_for_message(struct core_stream *st)
{
    grpc_op ops[2] = { { .op = GRPC_OP_RECV_MESSAGE,
                         .data.recv_message.recv_message = &st->incoming } };
    size_t n = 1;

    if (!st->call || st->base.half || st->recv.busy || (st->base.paused && !st->read_on)) {
        return;
    }
    if (!st->base.server && !st->headers_asked) {
        st->headers_asked = true;
        ops[n++] = (grpc_op){ .op = GRPC_OP_RECV_INITIAL_METADATA,
                              .data.recv_initial_metadata.recv_initial_metadata = &st->initial };
    }
    if (!core_begin(st->t, &st->recv, st->call, ops, n)) {
        st->base.half = true;
    }
}

void stream_read_on(struct core_stream *st)
{
    st->read_on = true;
    if (st->begun) {
        ask_for_message(st);
    }
}

/* C core says the same when the peer closes its side and when it broke a rule of HTTP/2; of that,
 * its stream may have ended before C core made the call, which has no name then. */
static void no_more(struct core_stream *st)
{
    st->base.half = true;
    if (st->base.server && !st->closed_in) {
        core_call_cancel(&st->base, GRPC_CANCELLED, "the peer broke off");
        stream_over(&st->base, GRPC_CANCELLED, "the peer broke off", false);
    }
}

static void core_call_on_message(struct core_op *op, bool ok)
{
    struct core_stream *st = container_of(op, struct core_stream, recv);
    grpc_byte_buffer *bytes = st->incoming;

    stream_enter(&st->base);
    st->incoming = NULL;
    if (!ok || !bytes) {
        no_more(st);
        if (bytes) {
            grpc_byte_buffer_destroy(bytes);
        }
    } else if (st->base.cb && !st->base.told && !is_bad(st)) {
        st->read_bytes += RPC_PREFIX_BYTES + grpc_byte_buffer_length(bytes);
        core_call_keep(st, bytes);
        core_call_deliver(st);
    } else {
        count_taken(st, bytes);
        grpc_byte_buffer_destroy(bytes);
    }
    if (st->base.conn) {
        ask_for_message(st);
        core_dirty_conn(core_call_conn(st)); /* windows */
    }
    if (st->base.server && st->base.half) {
        /* the peer may have gone, which C core tells next */
        env_defer(st->base.env, &st->base.task);
    } else {
        stream_deliver_ends(&st->base);
    }
    stream_leave(&st->base);
}

static bool core_call_has_to_go_on(const struct rpc_stream *base)
{
    (void)base;
    return true;
}

static void core_call_go_on(struct rpc_stream *base)
{
    struct core_stream *st = core_stream_of(base);

    core_call_deliver(st);
    if (st->begun && base->conn && (!base->server || base->cb)) {
        ask_for_message(st);
        core_dirty_conn(core_call_conn(st));
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static void core_call_send(struct rpc_stream *base)
{
    core_dirty_stream(core_stream_of(base));
}

/* Of a stream whose id is known, or will be with its HEADERS, the bytes themselves are looked for.
 * What C core has not made it does not send behind the cancellation that follows; but a write that
 * its pair did not take may have the bytes in it, unless the windows forbid that. */
static bool core_call_is_sent(const struct rpc_stream *base)
{
    const struct core_stream *st = core_stream_of(base);
    struct core_conn *c = core_call_conn(st);

    if (!st->mark_given) {
        return false;
    }
    pump_read_made(c);
    if (st->id == 0 && c->ids_lost) {
        return !c->life.dead || c->written > st->mark_made;
    }
    if (st->mark_wire == 0) {
        return !c->life.dead && !pump_is_shut(st);
    }
    return !c->life.dead || c->written >= st->mark_wire;
}

static bool core_call_is_answered(const struct rpc_stream *base)
{
    const struct core_stream *st = core_stream_of(base);

    /* Of an id that is not known: if it may have left. */
    return st->base.answered || (st->id == 0 && rpc_stream_is_sent(base));
}

/* The next message of `out`, or NULL. */
static grpc_byte_buffer *next_message(struct core_stream *st)
{
    const unsigned char *at = (const unsigned char *)rpc_out_next(&st->base);
    grpc_byte_buffer *bytes;
    grpc_slice slice;
    size_t len;

    if (rpc_stream_queued(&st->base) < RPC_PREFIX_BYTES) {
        return NULL;
    }
    len = frames_u32(at + 1);
    /* Broken by core/rpc: what is queued are whole messages that it has framed. */
    assert(rpc_stream_queued(&st->base) >= RPC_PREFIX_BYTES + len);
    slice = grpc_slice_from_copied_buffer((const char *)at + RPC_PREFIX_BYTES, len);
    bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    rpc_out_take(&st->base, RPC_PREFIX_BYTES + len);
    if (rpc_out_is_marked(&st->base) && !st->mark_given) {
        st->mark_given = true;
        st->mark_made = core_call_conn(st)->made;
    }
    return bytes;
}

static grpc_op send_headers(struct core_stream *st)
{
    grpc_op op = { .op = GRPC_OP_SEND_INITIAL_METADATA };

    st->base.headers_out = true;
    if (GRPC_SLICE_LENGTH(st->request_id.value) > 0) {
        op.data.send_initial_metadata.count = 1;
        op.data.send_initial_metadata.metadata = &st->request_id;
    }
    return op;
}

static grpc_op send_end(struct core_stream *st, grpc_slice *details)
{
    grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };

    st->end_sent = true;
    if (st->base.server) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status = (grpc_status_code)st->base.end_status;
        if (st->base.end_text) {
            *details = grpc_slice_from_copied_string(st->base.end_text);
            op.data.send_status_from_server.status_details = details;
        }
    }
    return op;
}

/* One message and what belongs before and behind it. A server's headers with a message that may
 * wait for another would wait as well, and their batch with them. */
static void send_next(struct core_stream *st)
{
    grpc_slice details = grpc_empty_slice();
    grpc_byte_buffer *bytes;
    grpc_op ops[3];
    size_t n = 0;

    if (st->send.busy || st->end_sent) {
        return;
    }
    bytes = next_message(st);
    if (!st->base.headers_out && (bytes || st->base.end_wanted || !st->base.server)) {
        ops[n++] = send_headers(st);
    }
    if (bytes) {
        bool more = rpc_stream_queued(&st->base) > 0 && (n == 0 || !st->base.server);

        ops[n++] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE,
                              .flags = more ? GRPC_WRITE_BUFFER_HINT : 0,
                              .data.send_message.send_message = bytes };
    }
    if (st->base.end_wanted && rpc_stream_queued(&st->base) == 0) {
        ops[n++] = send_end(st, &details);
    }
    if (n > 0 && !core_begin(st->t, &st->send, st->call, ops, n)) {
        st->end_sent = true; /* the call is over; core_call_on_end() says how */
        lose_name(st);
    }
    if (bytes) {
        grpc_byte_buffer_destroy(bytes);
    }
    grpc_slice_unref(details);
}

static void core_call_on_sent(struct core_op *op, bool ok)
{
    struct core_stream *st = container_of(op, struct core_stream, send);

    stream_enter(&st->base);
    if (ok && st->base.conn) {
        core_dirty_stream(st);
    }
    if (rpc_out_is_low(&st->base) && st->base.cb) {
        env_defer(st->base.env, &st->base.task);
    }
    stream_leave(&st->base);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static const struct rpc_stream_ops stream_ops = { .send = core_call_send,
                                                  .is_sent = core_call_is_sent,
                                                  .is_answered = core_call_is_answered,
                                                  .go_on = core_call_go_on,
                                                  .has_to_go_on = core_call_has_to_go_on,
                                                  .drop_kept = drop_messages,
                                                  .cancel = core_call_cancel,
                                                  .over = core_call_over,
                                                  .late = core_call_late,
                                                  .detach = core_call_detach,
                                                  .is_used = core_call_is_used,
                                                  .finish = core_call_finish };

static struct core_stream *stream_create(struct core_conn *c)
{
    struct core_stream *st = alloc_zeroed(sizeof(*st));

    if (st) {
        stream_init(&st->base, &stream_ops, &c->life);
        st->t = c->t;
        st->send.done = core_call_on_sent;
        st->recv.done = core_call_on_message;
        st->end.done = core_call_on_end;
        st->details = st->path = st->request_id.value = grpc_empty_slice();
        STAILQ_INIT(&st->messages);
        grpc_metadata_array_init(&st->initial);
        grpc_metadata_array_init(&st->trailing);
        core_dirty_stream(st);
    }
    return st;
}

struct core_stream *stream_accept(struct core_conn *c, grpc_call *call, gpr_timespec deadline)
{
    struct core_stream *st = stream_create(c);
    grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
    gpr_timespec left;

    if (!st) {
        grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory", NULL);
        grpc_call_unref(call);
        return NULL;
    }
    st->call = call;
    st->begun = true;
    op.data.recv_close_on_server.cancelled = &st->cancelled;
    core_begin(st->t, &st->end, call, &op, 1);
    deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
    if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) != 0) {
        left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
        stream_set_deadline(&st->base,
                            env_now_ns(st->base.env) + left.tv_sec * ENV_S + left.tv_nsec);
    }
    return st;
}

static gpr_timespec deadline_of(const struct core_stream *st)
{
    int64_t left = st->base.deadline_ns - env_now_ns(st->base.env);

    if (!st->base.deadline_ns) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos(left > 0 ? left : 0, GPR_TIMESPAN));
}

/* The call and its first batches: what is sent first, so that it is the call's HEADERS that C core
 * makes next. */
static void begin_call(struct core_stream *st)
{
    struct core_conn *c = core_call_conn(st);
    grpc_op end = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };

    st->begun = true;
    st->unnamed = true;
    TAILQ_INSERT_TAIL(&c->unnamed, st, unnamed_link);
    st->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, st->t->cq,
                                        st->path, NULL, deadline_of(st), NULL);
    send_next(st);
    end.data.recv_status_on_client.trailing_metadata = &st->trailing;
    end.data.recv_status_on_client.status = &st->code;
    end.data.recv_status_on_client.status_details = &st->details;
    core_begin(st->t, &st->end, st->call, &end, 1);
}

void stream_begin(struct core_stream *st)
{
    if (!st->base.conn || st->base.conn->dead || (st->base.over && !st->base.server)) {
        return;
    }
    stream_enter(&st->base);
    if (!st->begun) {
        begin_call(st);
    } else {
        send_next(st);
    }
    if (st->base.cb) {
        ask_for_message(st);
    }
    core_dirty_conn(core_call_conn(st));
    stream_leave(&st->base);
}

struct rpc_stream *core_stream_open(struct rpc_conn *life, const struct rpc_call *call,
                                    const struct rpc_stream_cb *cb, void *ud)
{
    struct core_conn *c = core_conn_of(life);
    struct core_stream *st = stream_create(c);

    if (!st) {
        return NULL;
    }
    st->path = grpc_slice_from_copied_string(call->path);
    if (call->request_id && rpc_is_printable(call->request_id)) {
        st->request_id.key = grpc_slice_from_static_string("fn_request_id");
        st->request_id.value = grpc_slice_from_copied_string(call->request_id);
    }
    rpc_stream_adopt(&st->base, cb, ud, call->low_mark);
    if (call->deadline_ns) {
        stream_set_deadline(&st->base, call->deadline_ns);
    }
    conn_call_counted(c);
    return &st->base;
}
