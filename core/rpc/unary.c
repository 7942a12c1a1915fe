/* Unary calls of the client: the probe and Status. One batch each, freed by its completion. */
#include <rpc/client_int.h>

#include <grpc/byte_buffer.h>
#include <stdlib.h>

#define TEXT_MAX 512

struct unary {
    struct rpc_tag tag;
    struct engage_link *link;
    grpc_call *call;
    unary_done_fn *done;
    void *ud;
    grpc_metadata_array initial_md;
    grpc_metadata_array trailing_md;
    grpc_byte_buffer *answer;
    grpc_status_code status;
    grpc_slice details;
};

static void on_done(struct rpc_tag *tag, bool ok)
{
    struct unary *u = container_of(tag, struct unary, tag);
    struct rpc *r = u->link->rpc;
    char text[TEXT_MAX];
    int status = (int)u->status;

    (void)ok;
    if (status == GRPC_STATUS_OK && !u->answer) {
        status = GRPC_STATUS_INTERNAL;
    }
    rpc_slice_text(u->details, text, sizeof(text));
    if (!r->closing) {
        u->done(u->ud, status, text, u->answer);
    }
    grpc_metadata_array_destroy(&u->initial_md);
    grpc_metadata_array_destroy(&u->trailing_md);
    grpc_byte_buffer_destroy(u->answer);
    grpc_slice_unref(u->details);
    grpc_call_unref(u->call);
    link_unref(u->link);
    free(u);
    rpc_live_remove(r);
}

int unary_start(struct engage_link *l, const char *method, int64_t deadline_ns,
                unary_done_fn *done, void *ud)
{
    struct unary *u = calloc(1, sizeof(*u));
    grpc_byte_buffer *question = wire_encode_nothing();
    grpc_op ops[6] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };

    if (!u || !question) {
        free(u);
        grpc_byte_buffer_destroy(question);
        return FN_E_EXHAUSTED;
    }
    u->tag.fn = on_done;
    u->link = l;
    u->done = done;
    u->ud = ud;
    u->details = grpc_empty_slice();
    u->call = link_call(l, method, rpc_deadline(l->rpc, deadline_ns));
    link_ref(l);
    rpc_live_add(l->rpc);
    ops[1] = rpc_op_send_message(question, 0);
    ops[2] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
    ops[3] = (grpc_op){ .op = GRPC_OP_RECV_INITIAL_METADATA,
                        .data.recv_initial_metadata.recv_initial_metadata = &u->initial_md };
    ops[4] = rpc_op_recv_message(&u->answer);
    ops[5] = (grpc_op){ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                        .data.recv_status_on_client = { .trailing_metadata = &u->trailing_md,
                                                        .status = &u->status,
                                                        .status_details = &u->details } };
    rpc_batch(u->call, ops, 6, &u->tag);
    grpc_byte_buffer_destroy(question);
    return 0;
}

/* ---- Status --------------------------------------------------------------------------------- */

struct status_ask {
    struct rpc *rpc;
    void (*cb)(void *ud, const struct rpc_status_result *);
    void *ud;
};

static void on_status(void *ud, int grpc_status, const char *text, grpc_byte_buffer *answer)
{
    struct status_ask *ask = ud;
    struct rpc_status_result result = { .grpc_status = grpc_status, .text = text };

    if (grpc_status == 0 && wire_decode_status(&ask->rpc->in, answer, &result) < 0) {
        result = (struct rpc_status_result){ .grpc_status = GRPC_STATUS_INTERNAL,
                                             .text = "the answer is not a RunnerStatus" };
    }
    ask->cb(ask->ud, &result);
    free(ask);
}

int rpc_status(struct engage_link *link, int64_t deadline_ns,
               void (*cb)(void *ud, const struct rpc_status_result *), void *ud)
{
    struct status_ask *ask = malloc(sizeof(*ask));

    if (!ask) {
        return FN_E_EXHAUSTED;
    }
    *ask = (struct status_ask){ .rpc = link->rpc, .cb = cb, .ud = ud };
    if (unary_start(link, RPC_METHOD_STATUS, deadline_ns, on_status, ask) < 0) {
        free(ask);
        return FN_E_EXHAUSTED;
    }
    return 0;
}
