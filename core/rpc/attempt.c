/* Attempts: one Engage stream of the client.
 *
 * Two machines that do not wait for each other. Sending: TryCall with the headers, then the body in
 * frames, the last one with eof and the half-close; one batch at a time. Receiving: one message at
 * a time; a NULL message or CallFinished is followed by the status, which ends the attempt. They
 * never share a batch, because gRPC throws a received message away when the send of its batch
 * fails, and the runner may answer (NACK) before it has read everything.
 *
 * Freed when its owner closed it and gRPC has given both batches back. */
#include <rpc/client_int.h>

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 512

enum recv_phase {
    RECV_FIRST,  /* initial metadata and first message */
    RECV_NEXT,   /* one more message */
    RECV_STATUS, /* the end */
};

struct engage_attempt {
    struct rpc_tag send_tag;
    struct rpc_tag recv_tag;
    struct rpc *rpc;
    struct engage_link *link;
    LIST_ENTRY(engage_attempt) entry;
    grpc_call *call; /* NULL: the link was down, nothing was ever sent */
    const struct engage_client_cb *cb;
    void *ud;
    struct env_task task;
    struct env_timer end_timer;

    struct body *body;
    size_t sent;
    bool sending;   /* a batch is out */
    bool try_known; /* the first batch is back: try_sent is valid */
    bool try_sent;

    enum recv_phase phase;
    bool receiving; /* a batch is out */
    bool paused;
    grpc_byte_buffer *message; /* received; kept while paused */
    grpc_metadata_array initial_md;
    grpc_metadata_array trailing_md;
    grpc_status_code status;
    grpc_slice details;
    bool status_known; /* the end waits only for try_known */

    bool heard; /* a message came */
    bool started;
    bool finished;
    const char *illegal; /* why the peer's messages are not legal, NULL = they are */
    char *broken;        /* the link gave up; text for on_end */
    bool ended;
    bool closed;
    uint32_t entered; /* depth of our own frames that still use it */
};

/* ---- life ----------------------------------------------------------------------------------- */

static void release(struct engage_attempt *a)
{
    struct rpc *r = a->rpc;

    env_undefer(r->env, &a->task);
    env_timer_clear(r->env, &a->end_timer);
    LIST_REMOVE(a, entry);
    if (a->call) {
        grpc_call_unref(a->call);
    }
    body_unref(a->body);
    grpc_byte_buffer_destroy(a->message);
    grpc_metadata_array_destroy(&a->initial_md);
    grpc_metadata_array_destroy(&a->trailing_md);
    grpc_slice_unref(a->details);
    free(a->broken);
    link_unref(a->link);
    free(a);
    rpc_live_remove(r);
}

static void enter(struct engage_attempt *a)
{
    a->entered++;
}

static void leave(struct engage_attempt *a)
{
    a->entered--;
    if (a->entered == 0 && a->closed && !a->sending && !a->receiving) {
        release(a);
    }
}

void attempt_close(struct engage_attempt *a)
{
    assert(!a->closed);
    enter(a);
    a->closed = true;
    env_undefer(a->rpc->env, &a->task);
    env_timer_clear(a->rpc->env, &a->end_timer);
    if (a->call && !a->ended) {
        grpc_call_cancel(a->call, NULL);
    }
    leave(a);
}

void attempts_close(struct engage_link *l)
{
    struct engage_attempt *a = LIST_FIRST(&l->attempts);

    while (a) {
        struct engage_attempt *next = LIST_NEXT(a, entry);

        if (!a->closed) {
            attempt_close(a);
        }
        a = next;
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

/* The batch with TryCall succeeds as soon as its last byte was given to the connection, and only
 * then; so its failure proves that no runner has a whole TryCall. That a stream was refused
 * (RST_STREAM with REFUSED_STREAM, or GOAWAY with a lower stream id) is known from the texts that
 * gRPC makes up for those two, there is no other trace of it. A runner that sends such a text in
 * its own trailers gains nothing over one that sends a false NACK. */
static enum engage_proof proof_of(const struct engage_attempt *a, int status, const char *text)
{
    static const char refused[] = "Received RST_STREAM with error code 7";
    static const char goaway[] = "GOAWAY received";

    if (!a->call || !a->try_sent) {
        return ENGAGE_PROOF_NOT_SENT;
    }
    if (status == GRPC_STATUS_UNAVAILABLE && !a->heard && !a->broken &&
        (strcmp(text, refused) == 0 || strncmp(text, goaway, strlen(goaway)) == 0)) {
        return ENGAGE_PROOF_REFUSED;
    }
    return ENGAGE_PROOF_NONE;
}

static void end(struct engage_attempt *a, int status, const char *text)
{
    enum engage_proof proof = status ? proof_of(a, status, text) : ENGAGE_PROOF_NONE;

    a->ended = true;
    env_timer_clear(a->rpc->env, &a->end_timer);
    if (a->closed || a->rpc->closing) {
        return;
    }
    a->cb->on_end(a->ud, status, text, proof, !a->illegal);
}

static void end_by_status(struct engage_attempt *a)
{
    char text[TEXT_MAX];

    if (a->message && !a->illegal) {
        a->illegal = "a message came after CallFinished";
    }
    if (a->illegal) {
        snprintf(text, sizeof(text), "runner %s: %s", a->link->address, a->illegal);
        end(a, GRPC_STATUS_INTERNAL, text);
    } else if (a->broken) {
        end(a, GRPC_STATUS_UNAVAILABLE, a->broken);
    } else if (a->status == GRPC_STATUS_OK && !a->finished) {
        /* Not held against the runner: gRPC may drop a message when the connection breaks behind
         * the trailers. */
        snprintf(text, sizeof(text), "runner %s: the stream ended without CallFinished",
                 a->link->address);
        end(a, GRPC_STATUS_INTERNAL, text);
    } else {
        rpc_slice_text(a->details, text, sizeof(text));
        end(a, (int)a->status, text);
    }
}

static void give_up(struct engage_attempt *a, const char *illegal)
{
    a->illegal = illegal;
    grpc_call_cancel(a->call, NULL);
}

static void on_end_timer(struct env_timer *t)
{
    struct engage_attempt *a = container_of(t, struct engage_attempt, end_timer);

    give_up(a, "the stream did not end after CallFinished");
}

void attempts_break(struct engage_link *l, const char *text)
{
    struct engage_attempt *a;

    LIST_FOREACH(a, &l->attempts, entry) {
        if (a->call && !a->ended && !a->broken) {
            a->broken = strdup(text);
            grpc_call_cancel(a->call, NULL);
        }
    }
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void recv_batch(struct engage_attempt *a, enum recv_phase phase, bool with_message)
{
    grpc_op ops[2];
    size_t n = 0;

    a->phase = phase;
    if (phase == RECV_FIRST) {
        ops[n++] = (grpc_op){ .op = GRPC_OP_RECV_INITIAL_METADATA,
                              .data.recv_initial_metadata.recv_initial_metadata =
                                  &a->initial_md };
    }
    if (with_message) {
        ops[n++] = rpc_op_recv_message(&a->message);
    }
    if (phase == RECV_STATUS) {
        ops[n++] = (grpc_op){ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                              .data.recv_status_on_client = {
                                  .trailing_metadata = &a->trailing_md,
                                  .status = &a->status,
                                  .status_details = &a->details } };
    }
    a->receiving = true;
    rpc_batch(a->call, ops, n, &a->recv_tag);
}

/* Hands one message to the owner; the reason if it is not a legal one. */
static const char *deliver(struct engage_attempt *a, const struct wire_runner_msg *m)
{
    switch (m->kind) {
    case WIRE_START:
        if (a->started) {
            return "a second CallResultStart came";
        }
        a->started = true;
        a->cb->on_start(a->ud, &m->start);
        return NULL;
    case WIRE_DATA:
        if (!a->started) {
            return "data came before CallResultStart";
        }
        if (m->data.len > WIRE_FRAME_MAX_BYTES) {
            return "a data frame is larger than 64 KiB";
        }
        if (m->data.len > 0) {
            a->cb->on_data(a->ud, m->data.data, m->data.len);
        }
        return NULL;
    case WIRE_FINISHED:
        a->finished = true;
        a->cb->on_finished(a->ud, &m->finished);
        return NULL;
    case WIRE_UNKNOWN:
        return "a message of unknown kind came";
    default:
        return "a message cannot be decoded";
    }
}

static void process(struct engage_attempt *a)
{
    grpc_byte_buffer *bb = a->message;
    struct wire_runner_msg m;
    const char *illegal;

    a->message = NULL;
    a->heard = true;
    wire_decode_runner(&a->rpc->in, bb, &m);
    illegal = deliver(a, &m);
    grpc_byte_buffer_destroy(bb);
    if (a->closed) {
        return;
    }
    if (illegal) {
        give_up(a, illegal);
        recv_batch(a, RECV_STATUS, false);
    } else if (a->finished) {
        env_timer_set(a->rpc->env, &a->end_timer,
                      env_now_ns(a->rpc->env) + a->rpc->config.end_timeout_ms * ENV_MS);
        recv_batch(a, RECV_STATUS, true);
    } else if (!a->paused) {
        recv_batch(a, RECV_NEXT, true);
    }
}

static void on_received(struct rpc_tag *tag, bool ok)
{
    struct engage_attempt *a = container_of(tag, struct engage_attempt, recv_tag);

    (void)ok; /* a failed batch shows as no message */
    enter(a);
    a->receiving = false;
    if (a->phase == RECV_STATUS) {
        a->status_known = true;
        if (a->try_known) {
            end_by_status(a);
        }
    } else if (!a->closed) {
        if (!a->message) {
            recv_batch(a, RECV_STATUS, false);
        } else {
            link_heard(a->link);
            if (!a->paused) {
                process(a);
            }
        }
    }
    leave(a);
}

/* Goes on after a pause, or ends an attempt that never began. */
static void on_task(struct env_task *t)
{
    struct engage_attempt *a = container_of(t, struct engage_attempt, task);
    char text[TEXT_MAX];

    enter(a);
    if (!a->call) {
        snprintf(text, sizeof(text), "runner %s: not connected", a->link->address);
        end(a, GRPC_STATUS_UNAVAILABLE, text);
    } else if (!a->paused && !a->receiving && !a->ended) {
        if (a->message) {
            process(a);
        } else {
            recv_batch(a, RECV_NEXT, true);
        }
    }
    leave(a);
}

void attempt_pause(struct engage_attempt *a, bool paused)
{
    a->paused = paused;
    if (!paused && a->call && !a->receiving && !a->ended) {
        env_defer(a->rpc->env, &a->task);
    }
}

/* ---- sending -------------------------------------------------------------------------------- */

static void send_frame(struct engage_attempt *a)
{
    size_t len = a->body ? a->body->bytes.len - a->sent : 0;
    bool last = len <= WIRE_FRAME_BYTES;
    grpc_op ops[2] = { 0 };
    grpc_byte_buffer *bb;

    if (!last) {
        len = WIRE_FRAME_BYTES;
    }
    bb = wire_encode_client_data(len ? a->body->bytes.data + a->sent : NULL, len, last);
    a->sent += len;
    /* More follows at once in either case: a frame, or the half-close, which flushes. */
    ops[0] = rpc_op_send_message(bb, GRPC_WRITE_BUFFER_HINT);
    ops[1].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    a->sending = true;
    rpc_batch(a->call, ops, last ? 2 : 1, &a->send_tag);
    grpc_byte_buffer_destroy(bb);
    if (last) {
        body_unref(a->body);
        a->body = NULL;
        a->sent = SIZE_MAX;
    }
}

static void on_sent(struct rpc_tag *tag, bool ok)
{
    struct engage_attempt *a = container_of(tag, struct engage_attempt, send_tag);

    enter(a);
    a->sending = false;
    if (!a->try_known) {
        a->try_known = true;
        a->try_sent = ok;
    }
    if (a->status_known && !a->ended) {
        end_by_status(a);
    }
    /* A failed send says nothing more by itself: the stream's status does. */
    if (ok && a->sent != SIZE_MAX && !a->closed && !a->ended) {
        send_frame(a);
    }
    leave(a);
}

static void send_try(struct engage_attempt *a, grpc_byte_buffer *try_call, const char *request_id)
{
    grpc_metadata md = { 0 };
    grpc_op ops[2] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };

    if (request_id) {
        md.key = grpc_slice_from_static_string(RPC_REQUEST_ID);
        md.value = grpc_slice_from_copied_string(request_id);
        if (grpc_header_nonbin_value_is_legal(md.value)) {
            ops[0].data.send_initial_metadata.count = 1;
            ops[0].data.send_initial_metadata.metadata = &md;
        }
    }
    ops[1] = rpc_op_send_message(try_call, 0);
    a->sending = true;
    rpc_batch(a->call, ops, 2, &a->send_tag);
    grpc_slice_unref(md.value);
}

struct engage_attempt *attempt_open(struct engage_link *l, const struct engage_try *t,
                                    struct body *body, int64_t deadline_ns,
                                    const struct engage_client_cb *cb, void *ud)
{
    struct engage_attempt *a = calloc(1, sizeof(*a));
    grpc_byte_buffer *try_call = NULL;

    if (!a) {
        return NULL;
    }
    if (l->up) {
        try_call = wire_encode_try(&l->rpc->out, t);
        if (!try_call) {
            free(a);
            return NULL;
        }
    }
    a->send_tag.fn = on_sent;
    a->recv_tag.fn = on_received;
    a->task.cb = on_task;
    a->end_timer.cb = on_end_timer;
    a->rpc = l->rpc;
    a->link = l;
    a->cb = cb;
    a->ud = ud;
    a->details = grpc_empty_slice();
    link_ref(l);
    rpc_live_add(l->rpc);
    LIST_INSERT_HEAD(&l->attempts, a, entry);
    if (!l->up) {
        env_defer(l->rpc->env, &a->task);
        return a;
    }
    a->body = body ? body_ref(body) : NULL;
    a->call = link_call_engage(l, rpc_deadline(l->rpc, deadline_ns));
    send_try(a, try_call, t->request_id);
    grpc_byte_buffer_destroy(try_call);
    recv_batch(a, RECV_FIRST, true);
    return a;
}
