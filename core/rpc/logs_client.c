/* StreamLogs at a client: a reader is one stream, which ends with its link.
 *
 * Freed by reader_close(); `call` is NULL once the stream's end is known, which the owner may yet
 * have to hear. */
#include <rpc/client_int.h>

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX 256

struct engage_reader {
    struct rpc *rpc;
    struct engage_link *link; /* NULL: closed */
    LIST_ENTRY(engage_reader) entry;
    struct rpc_raw *call;
    const struct engage_reader_cb *cb;
    void *ud;
    bool asked; /* a message is to come */
    struct env_task task;
    int status; /* that the task tells */
    char text[TEXT_MAX];
};

static void reader_on_task(struct env_task *t)
{
    struct engage_reader *rd = container_of(t, struct engage_reader, task);

    rd->cb->on_end(rd->ud, rd->status, rd->text);
}

/* The end comes from the loop. */
static void reader_fail(struct engage_reader *rd, int status, const char *text)
{
    if (rd->call) {
        rpc_raw_close(rd->call);
        rd->call = NULL;
        rd->status = status;
        snprintf(rd->text, sizeof(rd->text), "%s", text);
        env_defer(rd->rpc->env, &rd->task);
    }
}

static void reader_on_message(void *ud, const void *data, size_t len)
{
    struct engage_reader *rd = ud;
    struct engage_line *lines;
    uint32_t n;

    if (!rd->asked) {
        reader_fail(rd, GRPC_INTERNAL, "a message that nobody asked for");
    } else if (wire_decode_lines(&rd->rpc->in, data, len, &lines, &n) < 0) {
        reader_fail(rd, GRPC_INTERNAL, "a message is not a LogResponseMsg");
    } else {
        rd->asked = false;
        rd->cb->on_lines(rd->ud, lines, n);
    }
}

static void reader_on_end(void *ud, int status, const char *text)
{
    struct engage_reader *rd = ud;

    rd->call = NULL;
    rd->cb->on_end(rd->ud, status, text);
}

static const struct rpc_raw_cb raw_cb = { reader_on_message, reader_on_end };

struct engage_reader *reader_open(struct engage_link *l, const struct fn_kv *keys, uint32_t n,
                                  const struct engage_reader_cb *cb, void *ud)
{
    struct engage_reader *rd = calloc(1, sizeof(*rd));
    struct buf start = BUF_INIT(0);

    if (!rd) {
        return NULL;
    }
    *rd = (struct engage_reader){ .rpc = l->rpc, .link = l, .cb = cb, .ud = ud,
                                  .task.cb = reader_on_task };
    if (wire_encode_logs_start(&l->rpc->out, keys, n, &start) == 0) {
        rd->call = raw_open(&l->peer, RPC_METHOD_LOGS, &start, 0, true, &raw_cb, rd);
    }
    buf_finish(&start);
    if (!rd->call) {
        free(rd);
        return NULL;
    }
    LIST_INSERT_HEAD(&l->rpc->readers, rd, entry);
    return rd;
}

void reader_more(struct engage_reader *rd)
{
    struct buf ack = BUF_INIT(0);

    rd->asked = true;
    if (rd->call &&
        (wire_encode_logs_ack(&ack) < 0 || raw_more(rd->call, &ack) < 0)) {
        reader_fail(rd, GRPC_EXHAUSTED, "out of memory");
    }
    buf_finish(&ack);
}

void reader_close(struct engage_reader *rd)
{
    env_undefer(rd->rpc->env, &rd->task);
    if (rd->call) {
        rpc_raw_close(rd->call);
    }
    LIST_REMOVE(rd, entry);
    free(rd);
}

void readers_leave(struct engage_link *l)
{
    struct engage_reader *rd;

    LIST_FOREACH(rd, &l->rpc->readers, entry) {
        if (rd->link == l) {
            rd->link = NULL;
            reader_fail(rd, GRPC_UNAVAILABLE, "the runner is not used any more");
        }
    }
}

void readers_close_all(struct rpc *r)
{
    struct engage_reader *rd;

    while ((rd = LIST_FIRST(&r->readers))) {
        reader_close(rd);
    }
}
