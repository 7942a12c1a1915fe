/* Unary calls of a link: the probe and Status. Freed when the end was told. */
#include <rpc/client_int.h>

#include <stdlib.h>

struct unary {
    struct engage_link *link;
    LIST_ENTRY(unary) entry;
    struct rpc_raw *call; /* NULL once its end came */
    unary_done_fn *done;
    void *ud;
    void *owned;
    bool answered;
    struct buf answer;
};

static void unary_release(struct unary *u)
{
    LIST_REMOVE(u, entry);
    buf_finish(&u->answer);
    link_unref(u->link);
    free(u->owned);
    free(u);
}

static void unary_on_end(void *ud, int status, const char *text)
{
    struct unary *u = ud;

    u->call = NULL;
    if (status == GRPC_OK && !u->answered) {
        status = GRPC_INTERNAL;
        text = "expected one message in answer, got none";
    }
    u->done(u->ud, status, text, status == GRPC_OK ? u->answer.data : NULL, u->answer.len);
    unary_release(u);
}

static void unary_fail(struct unary *u, int status, const char *text)
{
    rpc_raw_close(u->call);
    unary_on_end(u, status, text);
}

/* What follows the one message is not taken in: there may be no end of it. */
static void unary_on_message(void *ud, const void *data, size_t len)
{
    struct unary *u = ud;

    if (u->answered) {
        unary_fail(u, GRPC_INTERNAL, "expected one message in answer, got more");
    } else if (buf_add(&u->answer, data, len) < 0) {
        unary_fail(u, GRPC_EXHAUSTED, "out of memory");
    } else {
        u->answered = true;
    }
}

static const struct rpc_raw_cb raw_cb = { unary_on_message, unary_on_end };

int unary_start(struct engage_link *l, const char *method, int64_t deadline_ns,
                unary_done_fn *done, void *ud, void *owned)
{
    struct unary *u = calloc(1, sizeof(*u));

    if (!u) {
        return FN_E_EXHAUSTED;
    }
    u->link = l;
    u->done = done;
    u->ud = ud;
    if (raw_start(&l->peer, method, NULL, 0, deadline_ns, &raw_cb, u, &u->call, NULL) < 0) {
        free(u);
        return FN_E_EXHAUSTED;
    }
    u->owned = owned;
    link_ref(l);
    LIST_INSERT_HEAD(&l->rpc->unaries, u, entry);
    return 0;
}

void unary_close_all(struct rpc *r)
{
    struct unary *u;

    while ((u = LIST_FIRST(&r->unaries))) {
        if (u->call) {
            rpc_raw_close(u->call);
        }
        unary_release(u);
    }
}

/* ---- Status --------------------------------------------------------------------------------- */

struct status_ask {
    struct rpc *rpc;
    void (*cb)(void *ud, const struct rpc_status_result *);
    void *ud;
};

static void unary_on_status(void *ud, int grpc_status, const char *text, const void *answer,
                            size_t len)
{
    struct status_ask *ask = ud;
    struct rpc_status_result result = { .grpc_status = grpc_status, .text = text };

    if (grpc_status == GRPC_OK && wire_decode_status(&ask->rpc->in, answer, len, &result) < 0) {
        result = (struct rpc_status_result){ .grpc_status = GRPC_INTERNAL,
                                             .text = "the answer is not a RunnerStatus" };
    }
    ask->cb(ask->ud, &result);
}

int rpc_status(struct engage_link *link, int64_t deadline_ns,
               void (*cb)(void *ud, const struct rpc_status_result *), void *ud)
{
    struct status_ask *ask = malloc(sizeof(*ask));

    if (!ask) {
        return FN_E_EXHAUSTED;
    }
    *ask = (struct status_ask){ .rpc = link->rpc, .cb = cb, .ud = ud };
    if (unary_start(link, RPC_METHOD_STATUS, deadline_ns, unary_on_status, ask, ask) < 0) {
        free(ask);
        return FN_E_EXHAUSTED;
    }
    return 0;
}
