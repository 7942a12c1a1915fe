/* Client side of raw calls. A call is freed when its three batches (start, messages, status) have
 * come back; until then `closed` keeps it silent. */
#include <rpc/client_int.h>
#include <rpc/raw.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 512

struct rpc_channel {
    struct rpc *rpc;
    LIST_ENTRY(rpc_channel) entry;
    LIST_HEAD(, rpc_raw) calls;
    grpc_channel *channel;
    char *address, *tls_name;
    struct identity *identity;
    uint64_t generation; /* of the certificates that the channel was made with */
};

struct rpc_raw {
    struct rpc_tag start_tag, message_tag, status_tag;
    struct rpc *rpc;
    struct rpc_channel *channel; /* NULL once closed */
    LIST_ENTRY(rpc_raw) entry;
    grpc_call *call;
    const struct rpc_raw_cb *cb;
    void *ud;
    grpc_metadata_array initial_md, trailing_md;
    grpc_byte_buffer *message;
    grpc_status_code status;
    grpc_slice details;
    uint32_t out; /* batches that gRPC holds */
    bool read;    /* all messages were read */
    bool ended;   /* the status came */
};

/* ---- channels -------------------------------------------------------------------------------- */

static void channel_free(struct rpc_channel *ch)
{
    identity_unref(ch->identity);
    free(ch->address);
    free(ch->tls_name);
    free(ch);
}

int rpc_channel_open(struct rpc *r, const char *address, const struct rpc_tls *tls,
                     const char *tls_name, struct rpc_channel **ret, struct fn_error *reterr)
{
    struct rpc_channel *ch = calloc(1, sizeof(*ch));

    if (!ch) {
        return err_set(reterr, FN_E_EXHAUSTED, "grpc: out of memory");
    }
    ch->rpc = r;
    LIST_INIT(&ch->calls);
    ch->address = strdup(address);
    ch->tls_name = tls_name ? strdup(tls_name) : NULL;
    ch->identity = tls ? identity_create(tls) : identity_ref(r->identity);
    if (ch->address && ch->identity && (!tls_name || ch->tls_name)) {
        ch->generation = identity_generation(ch->identity);
        ch->channel = rpc_channel_create(r, address, ch->identity, tls_name);
    }
    if (!ch->channel) {
        channel_free(ch);
        return err_set(reterr, FN_E_EXHAUSTED, "grpc: out of memory");
    }
    LIST_INSERT_HEAD(&r->channels, ch, entry);
    *ret = ch;
    return 0;
}

/* A channel that is not connected would dial with certificates that were renewed. */
static void channel_refresh(struct rpc_channel *ch)
{
    uint64_t generation = identity_generation(ch->identity);
    grpc_channel *fresh;

    if (generation == ch->generation ||
        grpc_channel_check_connectivity_state(ch->channel, 0) == GRPC_CHANNEL_READY) {
        return;
    }
    fresh = rpc_channel_create(ch->rpc, ch->address, ch->identity, ch->tls_name);
    if (fresh) {
        grpc_channel_destroy(ch->channel);
        ch->channel = fresh;
        ch->generation = generation;
    }
}

void rpc_channel_close(struct rpc_channel *ch)
{
    struct rpc_raw *c;

    if (!ch) {
        return;
    }
    while ((c = LIST_FIRST(&ch->calls))) {
        rpc_raw_close(c);
    }
    LIST_REMOVE(ch, entry);
    grpc_channel_destroy(ch->channel);
    channel_free(ch);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void detach(struct rpc_raw *c)
{
    if (c->channel) {
        LIST_REMOVE(c, entry);
        c->channel = NULL;
    }
}

static void release(struct rpc_raw *c)
{
    struct rpc *r = c->rpc;

    grpc_metadata_array_destroy(&c->initial_md);
    grpc_metadata_array_destroy(&c->trailing_md);
    grpc_byte_buffer_destroy(c->message);
    grpc_slice_unref(c->details);
    grpc_call_unref(c->call);
    free(c);
    rpc_live_remove(r);
}

/* After each batch: tells the end once everything was read, frees when nothing is out. */
static void settle(struct rpc_raw *c)
{
    char text[TEXT_MAX];

    c->out--;
    if (c->channel && c->read && c->ended && !c->rpc->closing) {
        detach(c);
        rpc_slice_text(c->details, text, sizeof(text));
        c->cb->end(c->ud, (int)c->status, text);
    }
    if (c->out == 0) {
        detach(c);
        release(c);
    }
}

static void on_started(struct rpc_tag *tag, bool ok)
{
    (void)ok; /* a failure shows in the status */
    settle(container_of(tag, struct rpc_raw, start_tag));
}

static void on_status(struct rpc_tag *tag, bool ok)
{
    struct rpc_raw *c = container_of(tag, struct rpc_raw, status_tag);

    (void)ok;
    c->ended = true;
    settle(c);
}

static void read_next(struct rpc_raw *c)
{
    grpc_op op = rpc_op_recv_message(&c->message);

    c->out++;
    rpc_batch(c->call, &op, 1, &c->message_tag);
}

static void deliver(struct rpc_raw *c)
{
    grpc_byte_buffer_reader reader;
    grpc_slice all;

    if (!c->channel || c->rpc->closing || !grpc_byte_buffer_reader_init(&reader, c->message)) {
        return;
    }
    all = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    c->cb->message(c->ud, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
    grpc_slice_unref(all);
}

static void on_message(struct rpc_tag *tag, bool ok)
{
    struct rpc_raw *c = container_of(tag, struct rpc_raw, message_tag);

    if (!ok || !c->message) {
        c->read = true;
    } else {
        deliver(c);
        grpc_byte_buffer_destroy(c->message);
        c->message = NULL;
        read_next(c);
    }
    settle(c);
}

static void start(struct rpc_raw *c, grpc_byte_buffer *message)
{
    const grpc_op first[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        rpc_op_send_message(message, 0),
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &c->initial_md},
    };
    const grpc_op last = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                          .data.recv_status_on_client = {.trailing_metadata = &c->trailing_md,
                                                         .status = &c->status,
                                                         .status_details = &c->details}};

    c->out = 2;
    rpc_batch(c->call, first, 4, &c->start_tag);
    rpc_batch(c->call, &last, 1, &c->status_tag);
    read_next(c);
}

int rpc_raw_start(struct rpc_channel *ch, const char *method, const void *message, size_t len,
                  int64_t deadline_ns, const struct rpc_raw_cb *cb, void *ud, struct rpc_raw **ret,
                  struct fn_error *reterr)
{
    struct rpc_raw *c = calloc(1, sizeof(*c));
    grpc_slice slice, path;
    grpc_byte_buffer *bb;

    if (!c) {
        return err_set(reterr, FN_E_EXHAUSTED, "grpc: out of memory");
    }
    channel_refresh(ch);
    slice = grpc_slice_from_copied_buffer(message ? message : "", len);
    path = grpc_slice_from_copied_string(method);
    bb = grpc_raw_byte_buffer_create(&slice, 1);
    *c = (struct rpc_raw){.start_tag.fn = on_started,
                          .message_tag.fn = on_message,
                          .status_tag.fn = on_status,
                          .rpc = ch->rpc,
                          .channel = ch,
                          .cb = cb,
                          .ud = ud,
                          .details = grpc_empty_slice()};
    c->call = grpc_channel_create_call(ch->channel, NULL, GRPC_PROPAGATE_DEFAULTS, ch->rpc->cq,
                                       path, NULL, rpc_deadline(ch->rpc, deadline_ns), NULL);
    LIST_INSERT_HEAD(&ch->calls, c, entry);
    rpc_live_add(ch->rpc);
    start(c, bb);
    grpc_byte_buffer_destroy(bb);
    grpc_slice_unref(slice);
    grpc_slice_unref(path);
    *ret = c;
    return 0;
}

void rpc_raw_cancel(struct rpc_raw *c)
{
    grpc_call_cancel(c->call, NULL);
}

void rpc_raw_close(struct rpc_raw *c)
{
    detach(c);
    grpc_call_cancel(c->call, NULL);
}
