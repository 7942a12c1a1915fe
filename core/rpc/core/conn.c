/* Connections: their beginning, their signs of life, their end.
 *
 * Draining is done here, not by C core, whose server would refuse calls that were on their way:
 * GOAWAY that refuses nothing and a ping go out between its frames, and when the ping is answered
 * the GOAWAY that does. */
#include <rpc/core/core_int.h>

#include <assert.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LAST_STREAM_MAX 0x7fffffffu
#define CALLS_MAX       (1u << 30)
#define CALLS_SPARE     1000u

/* ---- life ------------------------------------------------------------------------------------ */

static void conn_on_stopped(struct core_op *op, bool ok)
{
    struct core_server *s = container_of(op, struct core_server, stop);

    (void)ok;
    grpc_server_destroy(s->server);
    grpc_call_details_destroy(&s->details);
    grpc_metadata_array_destroy(&s->metadata);
    free(s);
}

/* C core tells a request that waits before it tells this. */
static void server_stop(struct core_server *s)
{
    s->conn = NULL;
    core_op_began(s->t, &s->stop);
    grpc_server_shutdown_and_notify(s->server, s->t->cq, &s->stop);
    grpc_server_cancel_all_calls(s->server);
    core_wake(s->t);
}

static void core_conn_free(struct rpc_conn *l)
{
    struct core_conn *c = core_conn_of(l);

    if (c->dirty) {
        TAILQ_REMOVE(&c->t->dirty_conns, c, dirty_link);
    }
    pump_finish(c);
    if (c->channel) {
        grpc_channel_destroy(c->channel);
    }
    if (c->server) {
        server_stop(c->server);
    }
    life_finish(l);
    free(c);
}

/* ---- time ------------------------------------------------------------------------------------ */

void conn_call_counted(struct core_conn *c)
{
    uint32_t limit = c->t->base.limits.calls_max;
    uint32_t max = limit ? limit : CALLS_MAX - CALLS_SPARE;

    if (++c->calls_n >= max) {
        life_calls_out(&c->life);
    }
}

static void send_ping(struct core_conn *c, const char mark[8])
{
    unsigned char frame[FRAMES_PING_BYTES];

    pump_inject(c, frame, frames_make_ping(frame, mark));
}

static void ping(struct rpc_conn *l, bool asked)
{
    send_ping(core_conn_of(l), asked ? "asked\0\0" : "silence");
}

static void goaway(struct rpc_conn *l, bool final)
{
    struct core_conn *c = core_conn_of(l);
    unsigned char frame[FRAMES_GOAWAY_BYTES];

    l->served_max = c->last_stream;
    pump_inject(c, frame, frames_make_goaway(frame, final ? l->served_max : LAST_STREAM_MAX, 0));
    if (!final) {
        send_ping(c, "drain\0\0");
    }
}

/* ---- a server's calls ------------------------------------------------------------------------ */

/* One that does not fit is none. */
static void copy_slice(const grpc_slice *from, char *ret, size_t cap)
{
    size_t len = GRPC_SLICE_LENGTH(*from);

    len = len < cap ? len : 0;
    memcpy(ret, GRPC_SLICE_START_PTR(*from), len);
    ret[len] = '\0';
}

static void head_of(const struct core_server *s, struct rpc_head *head)
{
    copy_slice(&s->details.method, head->path, sizeof(head->path));
    head->request_id[0] = '\0';
    for (size_t i = 0; i < s->metadata.count; i++) {
        if (grpc_slice_str_cmp(s->metadata.metadata[i].key, "fn_request_id") == 0) {
            copy_slice(&s->metadata.metadata[i].value, head->request_id, sizeof(head->request_id));
        }
    }
}

static void conn_ask(struct core_server *s)
{
    core_op_began(s->t, &s->ask);
    if (grpc_server_request_call(s->server, &s->call, &s->details, &s->metadata, s->t->cq, s->t->cq,
                                 &s->ask) != GRPC_CALL_OK) {
        s->ask.busy = false;
        s->t->busy_ops--;
    }
}

static void take_call(struct core_server *s)
{
    struct core_conn *c = s->conn;
    struct core_stream *st = stream_accept(c, s->call, s->details.deadline);
    struct rpc_head head;

    if (!st) {
        return;
    }
    pump_name_arrival(c, st);
    head_of(s, &head);
    life_enter(&c->life);
    if (life_serves(&c->life, st->id)) {
        c->life.cb->request(c->life.ud, &st->base, &head);
    } else {
        rpc_stream_abort(&st->base, GRPC_UNAVAILABLE, "shutting down");
    }
    life_leave(&c->life);
}

static void on_call(struct core_op *op, bool ok)
{
    struct core_server *s = container_of(op, struct core_server, ask);

    if (ok && s->conn && !s->conn->life.dead) {
        take_call(s);
    } else if (ok) {
        grpc_call_cancel(s->call, NULL);
        grpc_call_unref(s->call);
    }
    if (ok) {
        grpc_slice_unref(s->details.method);
        grpc_slice_unref(s->details.host);
        grpc_call_details_init(&s->details);
        grpc_metadata_array_destroy(&s->metadata);
        grpc_metadata_array_init(&s->metadata);
    }
    if (ok && s->conn) {
        conn_ask(s);
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

static grpc_arg integer(const char *key, int value)
{
    return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value };
}

static grpc_arg conn_text(const char *key, const char *value)
{
    return (grpc_arg){ .type = GRPC_ARG_STRING, .key = (char *)key, .value.string = (char *)value };
}

#define ARGS_MAX 16

/* What both sides set: our windows and limits, and none of C core's own timers. */
static size_t common_args(const struct core *t, grpc_arg args[ARGS_MAX])
{
    size_t n = 0;

    args[n++] = integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)t->base.limits.message_max_bytes);
    args[n++] = integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    args[n++] = integer(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, RPC_STREAM_WINDOW_BYTES);
    args[n++] = integer(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args[n++] = integer(GRPC_ARG_MAX_METADATA_SIZE, RPC_HEADERS_MAX_BYTES);
    args[n++] = integer(GRPC_ARG_ENABLE_CHANNELZ, 0);
    args[n++] = integer(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);
    args[n++] = integer(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    args[n++] = integer(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    return n;
}

static bool make_channel(struct core_conn *c, int far, const char *authority, bool tls)
{
    grpc_arg args[ARGS_MAX];
    size_t n = common_args(c->t, args);
    grpc_channel_args all = { .args = args };

    args[n++] = conn_text(GRPC_ARG_DEFAULT_AUTHORITY, authority);
    args[n++] = conn_text(GRPC_ARG_PRIMARY_USER_AGENT_STRING, "fnd/" FND_VERSION);
    args[n++] = conn_text(GRPC_ARG_HTTP2_SCHEME, tls ? "https" : "http");
    args[n++] = integer(GRPC_ARG_ENABLE_RETRIES, 0);
    args[n++] = integer(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX);
    all.num_args = n;
    /* Broken by who adds a line above. */
    assert(n <= ARGS_MAX);
    c->channel = grpc_channel_create_from_fd(authority, far, c->t->channel_creds, &all);
    return c->channel != NULL;
}

static bool make_server(struct core_conn *c, int far)
{
    struct core_server *s = calloc(1, sizeof(*s));
    grpc_arg args[ARGS_MAX];
    size_t n = common_args(c->t, args);
    grpc_channel_args all = { .args = args };

    if (!s) {
        close(far);
        return false;
    }
    args[n++] = integer(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)c->t->base.limits.streams_max);
    args[n++] = integer(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0); /* pump.c counts */
    all.num_args = n;
    /* Broken by who adds a line above. */
    assert(n <= ARGS_MAX);
    s->t = c->t;
    s->conn = c;
    s->ask.done = on_call;
    s->stop.done = conn_on_stopped;
    grpc_call_details_init(&s->details);
    grpc_metadata_array_init(&s->metadata);
    s->server = grpc_server_create(&all, NULL);
    grpc_server_register_completion_queue(s->server, c->t->cq, NULL);
    grpc_server_start(s->server);
    grpc_server_add_channel_from_fd(s->server, far, c->t->server_creds);
    c->server = s;
    conn_ask(s);
    return true;
}

/* C core's end of the pair is C core's from the first moment. */
static bool connect_core(struct core_conn *c, const char *authority, bool tls)
{
    struct fn_error e = ERR_INIT;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
        return false;
    }
    c->near.fd = pair[0];
    if (c->t->host->fd_add(c->t->host->loop, &c->near, LOOP_READ, &e) < 0) {
        close(pair[0]);
        close(pair[1]);
        c->near.fd = -1;
        return false;
    }
    c->t->events++;
    return authority ? make_channel(c, pair[1], authority, tls) : make_server(c, pair[1]);
}

static bool is_full(const struct rpc_conn *l)
{
    return l->streams_n >= core_conn_of(l)->peer_streams_max;
}

/* Under TLS the last record may wait below. */
static bool has_output(const struct rpc_conn *l)
{
    const struct core_conn *c = core_conn_of(l);

    return c->blocked || c->t->host->io_writev(l->io, NULL, 0) == NET_AGAIN;
}

static const struct rpc_life_ops life_ops = { .open = core_stream_open,
                                              .is_full = is_full,
                                              .has_output = has_output,
                                              .ping = ping,
                                              .goaway = goaway,
                                              .free = core_conn_free };

struct rpc_conn *core_conn_create(struct transport *base, struct net_io *io, const char *authority,
                                  bool tls, const struct rpc_conn_cb *cb, void *ud)
{
    struct core *t = container_of(base, struct core, base);
    struct core_conn *c = calloc(1, sizeof(*c));

    if (!c) {
        t->host->io_close(io);
        return NULL;
    }
    life_init(&c->life, &life_ops, base, !authority);
    c->life.ud = ud;
    c->life.io = io;
    c->life.io_close = t->host->io_close;
    c->t = t;
    c->near = (struct loop_fd){ .fd = -1, .cb = pump_near };
    c->peer_streams_max = UINT32_MAX;
    TAILQ_INIT(&c->unnamed);
    TAILQ_INIT(&c->arrivals);
    pump_init(c, !authority);
    if (!connect_core(c, authority, tls)) {
        core_conn_free(&c->life);
        return NULL;
    }
    c->life.cb = cb;
    t->host->io_set(io, &pump_io_cb, c);
    core_dirty_conn(c);
    return &c->life;
}
