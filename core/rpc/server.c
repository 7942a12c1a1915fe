/* Listening, and who serves what. */
#include <rpc/server_int.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEER_NAME_MAX     256
#define METHOD_MAX        128
#define HANDSHAKE_MS      5000
#define SILENCE_MS        2000 /* of who wants to shake hands */
#define HANDSHAKES_MAX    256
#define STATUS_REQUEST_MAX (1u << 20) /* as JSON, for the status image */

/* ---- the end of a server --------------------------------------------------------------------- */

static void look_whether_drained(struct rpc_server *s)
{
    if (s->draining && !s->closed && s->drained && LIST_EMPTY(&s->conns)) {
        env_defer(s->rpc->env, &s->drained_task);
    }
}

static void on_drained(struct env_task *t)
{
    struct rpc_server *s = container_of(t, struct rpc_server, drained_task);
    void (*done)(void *ud) = s->drained;

    s->drained = NULL;
    done(s->drained_ud);
}

void rpc_server_drain(struct rpc_server *s, void (*done)(void *ud), void *ud)
{
    struct server_conn *sc;

    /* Broken by core/node, which drains once. */
    assert(!s->draining);
    s->draining = true;
    s->drained = done;
    s->drained_ud = ud;
    net_listener_close(s->listener);
    s->listener = NULL;
    LIST_FOREACH(sc, &s->conns, entry) {
        rpc_conn_drain(sc->conn);
    }
    look_whether_drained(s);
}

static void conn_release(struct server_conn *sc)
{
    LIST_REMOVE(sc, entry);
    free(sc);
}

void rpc_server_close(struct rpc_server *s)
{
    struct server_conn *sc;

    /* Broken by core/node, which closes once. */
    assert(!s->closed);
    server_ref(s);
    s->closed = true;
    LIST_REMOVE(s, entry);
    env_undefer(s->rpc->env, &s->drained_task);
    env_timer_clear(s->rpc->env, &s->waits_timer);
    net_listener_close(s->listener);
    server_calls_forget(s);
    while ((sc = LIST_FIRST(&s->conns))) {
        struct rpc_conn *c = sc->conn;

        conn_release(sc);
        rpc_conn_close(c);
    }
    server_unref(s);
}

/* ---- small methods of RunnerProtocol --------------------------------------------------------- */

/* Both are freed as what they begin with, in incoming_forget() of service.c too. */
struct status_call {
    struct engage_ask ask; /* first */
    struct rpc_incoming *in;
    struct rpc *rpc;
    char request[];
};

struct config_call {
    struct engage_config config; /* first */
    struct rpc_incoming *in;
};

/* Appends to what is sent; the message has its prefix. */
static void status_answer(struct engage_ask *ask, const struct engage_status *st)
{
    struct status_call *call = container_of(ask, struct status_call, ask);
    struct buf out = BUF_INIT(0);
    int r = wire_encode_status(&call->rpc->out, st, &out);

    if (r == 0) {
        r = rpc_incoming_send(call->in, out.data + WIRE_PREFIX_BYTES, out.len - WIRE_PREFIX_BYTES);
    }
    buf_finish(&out);
    rpc_incoming_end(call->in, r < 0 ? GRPC_EXHAUSTED : GRPC_OK, r < 0 ? "out of memory" : NULL);
    free(call);
}

static void status_ask(struct rpc_server *s, struct rpc_incoming *in, const char *request,
                       size_t len)
{
    struct status_call *call = malloc(sizeof(*call) + len);

    if (!call) {
        rpc_incoming_end(in, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    *call = (struct status_call){
        .ask = { .request = call->request, .request_len = len, .answer = status_answer },
        .in = in,
        .rpc = s->rpc,
    };
    memcpy(call->request, request, len);
    rpc_incoming_set(in, call);
    s->cb->on_status(s->ud, &call->ask);
}

static void server_on_status(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)data;
    (void)len;
    status_ask(ud, in, "{}", 2);
}

static void on_status2(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct buf json = BUF_INIT(STATUS_REQUEST_MAX);
    int r = wire_struct_to_json(data, len, &json);

    if (r < 0) {
        rpc_incoming_end(in, r == FN_E_EXHAUSTED ? GRPC_EXHAUSTED : GRPC_INVALID,
                         r == FN_E_EXHAUSTED ? "RUN412 the request is larger than 1 MiB"
                                             : "RUN403 the request is not a Struct");
    } else {
        status_ask(ud, in, json.data, json.len);
    }
    buf_finish(&json);
}

static void config_answer(struct engage_config *config, int grpc_status, const char *text)
{
    struct config_call *call = container_of(config, struct config_call, config);

    if (grpc_status == GRPC_OK) {
        rpc_incoming_send(call->in, "", 0); /* ConfigStatus has no fields */
    }
    rpc_incoming_end(call->in, grpc_status, text);
    free(call);
}

static void on_configure(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct rpc_server *s = ud;
    struct config_call *call = calloc(1, sizeof(*call));
    struct fn_kv *keys = NULL;
    uint32_t n = 0;
    int r = call ? wire_decode_config(&s->rpc->in, data, len, &keys, &n) : FN_E_EXHAUSTED;

    if (r < 0) {
        rpc_incoming_end(in, r == FN_E_EXHAUSTED ? GRPC_EXHAUSTED : GRPC_INVALID,
                         r == FN_E_EXHAUSTED ? "out of memory" : "RUN403 not a ConfigMsg");
        free(call);
        return;
    }
    *call = (struct config_call){ { keys, n, config_answer }, in };
    rpc_incoming_set(in, call);
    s->cb->on_configure(s->ud, &call->config);
}

static void server_on_gone(void *ud, struct rpc_incoming *in)
{
    struct rpc_server *s = ud;
    void *call = rpc_incoming_get(in);

    if (strcmp(rpc_incoming_path(in), RPC_METHOD_CONFIGURE) == 0) {
        s->cb->on_configure_gone(s->ud, &((struct config_call *)call)->config);
    } else {
        s->cb->on_status_gone(s->ud, &((struct status_call *)call)->ask);
    }
    free(call);
}

static const struct rpc_method runner_methods[] = {
    { RPC_METHOD_STATUS, server_on_status },
    { RPC_METHOD_STATUS2, on_status2 },
    { RPC_METHOD_CONFIGURE, on_configure },
    { NULL, NULL },
};

/* ---- dispatch -------------------------------------------------------------------------------- */

/* In the words of Go servers. */
static void refuse_unknown(struct rpc_stream *st, const char *method)
{
    char path[METHOD_MAX];
    char text[2 * METHOD_MAX];
    char *slash;

    snprintf(path, sizeof(path), "%s", method);
    slash = strrchr(path, '/');
    if (path[0] != '/' || slash == path) {
        snprintf(text, sizeof(text), "malformed method name: %s", path);
    } else {
        *slash = '\0';
        if (strcmp(path + 1, "RunnerProtocol") == 0) {
            snprintf(text, sizeof(text), "unknown method %s for service RunnerProtocol",
                     slash + 1);
        } else {
            snprintf(text, sizeof(text), "unknown service %s", path + 1);
        }
    }
    rpc_stream_finish(st, GRPC_UNIMPLEMENTED, text);
}

/* With a list of peers only they may call. */
static bool refuse_stranger(struct rpc_server *s, struct rpc_stream *st)
{
    char name[PEER_NAME_MAX], text[PEER_NAME_MAX + 64];

    if (net_io_peer_allowed(rpc_stream_io(st), name, sizeof(name))) {
        return false;
    }
    snprintf(text, sizeof(text), "TLS805 peer %.200s may not use this port", name[0] ? name : "?");
    log_write_gated(&s->stranger_gate, 1, FN_LOG_WARN, text, (char *)NULL);
    rpc_stream_finish(st, GRPC_PERMISSION, text);
    return true;
}

static void server_on_request(void *ud, struct rpc_stream *st, const struct rpc_head *head)
{
    struct server_conn *sc = ud;
    struct rpc_server *s = sc->server;

    if (refuse_stranger(s, st)) {
        return;
    } else if (s->cb && strcmp(head->path, RPC_METHOD_ENGAGE) == 0) {
        session_begin(s, st, head->request_id[0] ? head->request_id : NULL);
    } else if (s->cb && strcmp(head->path, RPC_METHOD_LOGS) == 0) {
        logs_begin(s, st);
    } else if (!(s->cb && incoming_begin(s, st, head->path, &s->runner)) &&
               !(s->service && incoming_begin(s, st, head->path, s->service))) {
        refuse_unknown(st, head->path);
    }
}

static void on_closed(void *ud, const char *why)
{
    struct server_conn *sc = ud;
    struct rpc_server *s = sc->server;

    (void)why;
    conn_release(sc);
    look_whether_drained(s);
}

static const struct rpc_conn_cb conn_cb = { .request = server_on_request, .closed = on_closed };

static void on_accepted(void *ud, struct net_io *io)
{
    struct rpc_server *s = ud;
    struct server_conn *sc = calloc(1, sizeof(*sc));

    if (!sc) {
        net_io_close(io);
        return;
    }
    sc->server = s;
    sc->conn = rpc_conn_create(s->rpc, io, NULL, false, &conn_cb, sc);
    if (!sc->conn) {
        free(sc);
        return;
    }
    LIST_INSERT_HEAD(&s->conns, sc, entry);
}

/* ---- listening ------------------------------------------------------------------------------ */

static int listen_at(struct rpc_server *s, const char *address, struct fn_error *reterr)
{
    const struct rpc_config *c = &s->rpc->config;
    struct net_listen_config config = { .name = "grpc",
                                        .address = address,
                                        .identity = s->rpc->server_identity,
                                        .alpn = "h2",
                                        .handshake_timeout_ms = HANDSHAKE_MS,
                                        .silence_timeout_ms = SILENCE_MS,
                                        .handshakes_max = HANDSHAKES_MAX,
                                        .connections_max = c->connections_max,
                                        .connections_per_ip_max = c->connections_per_ip_max,
                                        .refuse_interfaces = &c->refuse_interfaces };
    struct fn_error e = ERR_INIT;
    int r;

    r = net_listen(s->rpc->loop, &config, on_accepted, s, &s->listener, &e);
    if (r == FN_E_UNAVAILABLE) {
        r = FN_E_EXISTS; /* somebody else listens there */
    } else if (r == FN_E_NOT_FOUND) {
        r = FN_E_INVALID; /* no such host */
    }
    return r < 0 ? err_set(reterr, r, "%s", e.msg) : 0;
}

int rpc_server_open(struct rpc *r, const char *address, const struct engage_server_cb *cb,
                    void *ud, struct rpc_server **ret, struct fn_error *reterr)
{
    struct rpc_server *s = calloc(1, sizeof(*s));
    int result;

    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "grpc server: out of memory");
    }
    s->rpc = r;
    s->cb = cb;
    s->ud = ud;
    s->runner = (struct rpc_service){ runner_methods, server_on_gone, s, NULL };
    s->drained_task.cb = on_drained;
    s->waits_timer.cb = server_on_waits_timer;
    TAILQ_INIT(&s->waits);
    LIST_INIT(&s->conns);
    LIST_INIT(&s->calls);
    result = listen_at(s, address, reterr);
    if (result < 0) {
        free(s);
        return result;
    }
    s->port = net_listener_port(s->listener);
    LIST_INSERT_HEAD(&r->servers, s, entry);
    *ret = s;
    return 0;
}

int rpc_server_port(const struct rpc_server *s)
{
    return s->port;
}
