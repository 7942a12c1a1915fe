/* Listening, accepting calls, unary methods.
 *
 * A fixed number of request tags per method waits inside of gRPC; each comes back with a call (and
 * its first message), is handed on and waits again. */
#include <rpc/server_int.h>

#include <assert.h>
#include <base/log.h>
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ENGAGE_REQUESTS 64 /* calls that gRPC can hand over before a tag is back */
#define METADATA_MAX    (32 << 10)
#define REQUEST_ID_MAX  256
#define METHOD_MAX      128
#define PEER_NAME_MAX   256
#define PING_ANSWER_MS  5000
#define PING_RECV_MIN_MS 1000 /* a client that pings more often without data is told off */

enum method { METHOD_ENGAGE, METHOD_STATUS, METHOD_STATUS2, METHOD_CONFIGURE, METHOD_LOGS,
              METHOD_OTHER, METHODS_N };

struct request {
    struct rpc_tag tag;
    struct rpc_server *server;
    enum method method;
    void *registered; /* NULL for METHOD_OTHER */
    grpc_call *call;
    grpc_metadata_array md;
    grpc_byte_buffer *payload;
    gpr_timespec deadline;
    grpc_call_details details; /* METHOD_OTHER */
};

/* ---- life ----------------------------------------------------------------------------------- */

void server_ref(struct rpc_server *s)
{
    s->refs++;
}

static void maybe_free(struct rpc_server *s)
{
    struct rpc *r = s->rpc;

    if (s->refs > 0 || !s->down || !s->closed) {
        return;
    }
    assert(LIST_EMPTY(&s->sessions) && LIST_EMPTY(&s->incoming));
    grpc_server_destroy(s->server);
    free(s);
    rpc_live_remove(r);
}

void server_unref(struct rpc_server *s)
{
    assert(s->refs > 0);
    s->refs--;
    maybe_free(s);
}

static void on_down(struct rpc_tag *tag, bool ok)
{
    struct rpc_server *s = container_of(tag, struct rpc_server, down_tag);

    (void)ok;
    s->down = true;
    if (s->drained && !s->closed) {
        server_ref(s);
        s->drained(s->drained_ud);
        server_unref(s);
    } else {
        maybe_free(s);
    }
}

void rpc_server_drain(struct rpc_server *s, void (*done)(void *ud), void *ud)
{
    assert(!s->draining);
    s->draining = true;
    s->drained = done;
    s->drained_ud = ud;
    grpc_server_shutdown_and_notify(s->server, s->rpc->cq, &s->down_tag);
}

void rpc_server_cancel(struct rpc_server *s)
{
    if (!s->draining) {
        rpc_server_drain(s, NULL, NULL);
    }
    s->cancelled = true;
    grpc_server_cancel_all_calls(s->server);
}

void rpc_server_close(struct rpc_server *s)
{
    assert(!s->closed);
    s->closed = true;
    LIST_REMOVE(s, entry);
    sessions_forget(s);
    incoming_forget(s);
    server_ref(s);
    if (!s->down) {
        rpc_server_cancel(s);
    }
    server_unref(s);
}

/* ---- unary answers -------------------------------------------------------------------------- */

struct reply {
    struct rpc_tag tag;
    struct rpc_server *server;
    grpc_call *call;
    int cancelled;
};

static void on_replied(struct rpc_tag *tag, bool ok)
{
    struct reply *p = container_of(tag, struct reply, tag);
    struct rpc_server *s = p->server;

    (void)ok;
    grpc_call_unref(p->call);
    free(p);
    server_unref(s);
}

/* Ends the call with bb, or without a message when bb is NULL; takes over call and bb. */
static void reply(struct rpc_server *s, grpc_call *call, grpc_byte_buffer *bb, int status,
                  const char *text)
{
    struct reply *p = calloc(1, sizeof(*p));
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_op ops[4] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };
    size_t n = 1;

    if (!p) {
        grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory", NULL);
        grpc_call_unref(call);
    } else {
        p->tag.fn = on_replied;
        p->server = s;
        p->call = call;
        server_ref(s);
        if (bb) {
            ops[n++] = rpc_op_send_message(bb, 0);
        }
        ops[n++] = (grpc_op){ .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                              .data.send_status_from_server = { .status = status,
                                                                .status_details = &details } };
        ops[n++] = (grpc_op){ .op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                              .data.recv_close_on_server.cancelled = &p->cancelled };
        rpc_batch(call, ops, n, &p->tag);
    }
    grpc_slice_unref(details);
    grpc_byte_buffer_destroy(bb);
}

static void reply_status(struct rpc_server *s, grpc_call *call)
{
    struct engage_status st = { 0 };

    if (!s->closed && s->cb->on_status) {
        s->cb->on_status(s->ud, &st);
    }
    reply(s, call, wire_encode_status(&st), GRPC_STATUS_OK, "");
}

/* A method of the node's own service, or an answer in the words of Go servers. */
static void serve_other(struct rpc_server *s, const struct request *q)
{
    char path[METHOD_MAX];
    char text[2 * METHOD_MAX];
    char *slash;

    rpc_slice_text(q->details.method, path, sizeof(path));
    if (incoming_begin(s, q->call, path)) {
        return;
    }
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
    reply(s, q->call, NULL, GRPC_STATUS_UNIMPLEMENTED, text);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void request_wait(struct request *q)
{
    struct rpc_server *s = q->server;
    grpc_call_error err;

    if (q->registered) {
        grpc_byte_buffer **payload = q->method == METHOD_LOGS ? NULL : &q->payload;

        err = grpc_server_request_registered_call(s->server, q->registered, &q->call, &q->deadline,
                                                  &q->md, payload, s->rpc->cq, s->rpc->cq, &q->tag);
    } else {
        err = grpc_server_request_call(s->server, &q->call, &q->details, &q->md, s->rpc->cq,
                                       s->rpc->cq, &q->tag);
    }
    if (err != GRPC_CALL_OK) {
        abort();
    }
}

static void begin_engage(struct request *q)
{
    struct rpc_server *s = q->server;
    int64_t deadline_ns = 0;
    char id[REQUEST_ID_MAX];
    const char *request_id = NULL;

    for (size_t i = 0; i < q->md.count && !request_id; i++) {
        if (grpc_slice_str_cmp(q->md.metadata[i].key, RPC_REQUEST_ID) == 0) {
            rpc_slice_text(q->md.metadata[i].value, id, sizeof(id));
            request_id = id;
        }
    }
    if (gpr_time_cmp(q->deadline, gpr_inf_future(q->deadline.clock_type)) != 0) {
        gpr_timespec left = gpr_time_sub(q->deadline, gpr_now(q->deadline.clock_type));

        deadline_ns = env_now_ns(s->rpc->env) + left.tv_sec * ENV_S + left.tv_nsec;
    }
    session_begin(s, q->call, q->payload, request_id, deadline_ns);
    q->payload = NULL;
}

#define LOG_INTERVAL_NS (10 * ENV_S)

/* With a list of peers only they may call. */
static bool refuse_stranger(struct request *q)
{
    struct rpc_server *s = q->server;
    char name[PEER_NAME_MAX], text[PEER_NAME_MAX + 64];
    uint32_t suppressed;

    if (identity_allows(s->rpc->server_identity, q->call, name, sizeof(name))) {
        return false;
    }
    snprintf(text, sizeof(text), "TLS805 peer %.200s may not use this port", name[0] ? name : "?");
    if (log_gate_open(&s->stranger_gate, env_now_ns(s->rpc->env), LOG_INTERVAL_NS, 1,
                      &suppressed)) {
        log_warn(text, "suppressed", log_num(suppressed));
    }
    reply(s, q->call, NULL, GRPC_STATUS_PERMISSION_DENIED, text);
    return true;
}

static void serve(struct request *q)
{
    struct rpc_server *s = q->server;

    if (s->closed) {
        reply(s, q->call, NULL, GRPC_STATUS_UNAVAILABLE, "shutting down");
        return;
    }
    if (refuse_stranger(q)) {
        return;
    }
    switch (q->method) {
    case METHOD_ENGAGE:
        begin_engage(q);
        break;
    case METHOD_STATUS:
    case METHOD_STATUS2:
        reply_status(s, q->call);
        break;
    case METHOD_CONFIGURE:
        reply(s, q->call, wire_encode_nothing(), GRPC_STATUS_OK, "");
        break;
    case METHOD_LOGS:
        reply(s, q->call, NULL, GRPC_STATUS_UNKNOWN, "runner not configured with logStreamer");
        break;
    default:
        serve_other(s, q);
    }
}

static void request_release(struct request *q)
{
    struct rpc_server *s = q->server;

    grpc_metadata_array_destroy(&q->md);
    grpc_call_details_destroy(&q->details);
    free(q);
    server_unref(s);
}

static void on_request(struct rpc_tag *tag, bool ok)
{
    struct request *q = container_of(tag, struct request, tag);

    if (!ok) {
        request_release(q);
        return;
    }
    serve(q);
    if (q->payload) {
        grpc_byte_buffer_destroy(q->payload);
        q->payload = NULL;
    }
    grpc_metadata_array_destroy(&q->md);
    grpc_metadata_array_init(&q->md);
    if (q->method == METHOD_OTHER) {
        grpc_call_details_destroy(&q->details);
        grpc_call_details_init(&q->details);
    }
    q->call = NULL;
    request_wait(q);
}

static int request_create(struct rpc_server *s, enum method method, void *registered)
{
    struct request *q = calloc(1, sizeof(*q));

    if (!q) {
        return FN_E_EXHAUSTED;
    }
    q->tag.fn = on_request;
    q->server = s;
    q->method = method;
    q->registered = registered;
    grpc_metadata_array_init(&q->md);
    grpc_call_details_init(&q->details);
    server_ref(s);
    request_wait(q);
    return 0;
}

/* ---- listening ------------------------------------------------------------------------------ */

static grpc_server *server_create(struct rpc *r)
{
    const struct rpc_config *c = &r->config;
    grpc_arg args[16];
    grpc_channel_args list = { .args = args };

    /* Two daemons on one port must not share it silently. */
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_ALLOW_REUSEPORT, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, RPC_WINDOW_BYTES);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_MAX_CONCURRENT_STREAMS, c->streams_max);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, c->message_max_bytes);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_MAX_METADATA_SIZE, METADATA_MAX);
    args[list.num_args++] =
        rpc_arg_int(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_RECV_MIN_MS);
    if (c->client_silence_ms > 0) {
        args[list.num_args++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_TIME_MS, c->client_silence_ms);
        args[list.num_args++] = rpc_arg_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PING_ANSWER_MS);
        args[list.num_args++] = rpc_arg_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    }
    args[list.num_args++] = rpc_arg_quota(r);
    return grpc_server_create(&list, NULL);
}

/* Whether somebody answers at this unix socket; gRPC would take the name away from him. */
static bool unix_in_use(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    bool used;
    int fd;

    if (strlen(path) >= sizeof(un.sun_path)) {
        return false;
    }
    memcpy(un.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    used = connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0;
    close(fd);
    return used;
}

static int check_unix(const char *address, struct fn_error *reterr)
{
    const char *path = address + strlen("unix:");
    struct sockaddr_un un;

    if (path[0] != '/' || strlen(path) >= sizeof(un.sun_path)) {
        return err_set(reterr, FN_E_INVALID,
                       "grpc listen address, got \"%s\"; expected unix:/absolute/path of less than "
                       "%zu bytes", address, sizeof(un.sun_path));
    }
    if (unix_in_use(path)) {
        return err_set(reterr, FN_E_EXISTS, "%s is in use", address);
    }
    return 0;
}

/* host:port in the form of gRPC; an empty host means every address. */
static int listen_address(const char *address, char *ret, size_t cap, struct fn_error *reterr)
{
    const char *colon = strrchr(address, ':');
    char *rest = NULL;
    long port = -1;

    if (strncmp(address, "unix:", 5) == 0) {
        snprintf(ret, cap, "%s", address);
        return check_unix(address, reterr);
    }
    if (colon && colon[1] >= '0' && colon[1] <= '9') {
        port = strtol(colon + 1, &rest, 10);
    }
    if (port < 0 || port > 65535 || *rest || strlen(address) + 8 > cap) {
        return err_set(reterr, FN_E_INVALID,
                       "grpc listen address, got \"%.64s\"; expected host:port, :port or "
                       "unix:/path with a port of 0..65535", address);
    }
    snprintf(ret, cap, "%s%s", colon == address ? "[::]" : "", address);
    return 0;
}

/* gRPC only says that it could not listen; a bind of our own tells why. */
static int listen_failure(const char *address, struct fn_error *reterr)
{
    struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    char host[256] = "";
    int err = 0;
    int fd;

    if (colon && colon[1] && strncmp(address, "unix:", 5) != 0) {
        int skip = address[0] == '[';

        snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - 2 * skip, address + skip);
        if (getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &found) != 0) {
            return err_set(reterr, FN_E_INVALID, "grpc listen address %s: no such host", address);
        }
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0) {
            err = errno;
        }
        if (fd >= 0) {
            close(fd);
        }
        freeaddrinfo(found);
    }
    if (err == EADDRINUSE) {
        return err_set(reterr, FN_E_EXISTS, "%s is in use", address);
    }
    return err_set(reterr, FN_E_UNAVAILABLE, "cannot listen at %s%s%s", address, err ? ": " : "",
                   err ? strerror(err) : "");
}

static int server_listen(struct rpc_server *s, const char *address, struct fn_error *reterr)
{
    grpc_server_credentials *creds;
    char name[300];
    int r = listen_address(address, name, sizeof(name), reterr);

    if (r < 0) {
        return r;
    }
    s->seen.identity = s->rpc->server_identity;
    creds = identity_server_credentials(&s->seen);
    if (!creds) {
        return err_set(reterr, FN_E_INVALID, "grpc: certificate or key cannot be read");
    }
    s->port = grpc_server_add_http2_port(s->server, name, creds);
    grpc_server_credentials_release(creds);
    if (s->port == 0) {
        return listen_failure(address, reterr);
    }
    if (strncmp(address, "unix:", 5) == 0) {
        s->port = 0;
    }
    return 0;
}

static int serve_methods(struct rpc_server *s, void *const registered[METHODS_N])
{
    for (int m = s->cb ? 0 : METHOD_OTHER; m < METHODS_N; m++) {
        int n = m == METHOD_ENGAGE || !s->cb ? ENGAGE_REQUESTS : 2;

        for (int i = 0; i < n; i++) {
            if (request_create(s, m, registered[m]) < 0) {
                return FN_E_EXHAUSTED;
            }
        }
    }
    return 0;
}

int rpc_server_open(struct rpc *r, const char *address, const struct engage_server_cb *cb,
                    void *ud, struct rpc_server **ret, struct fn_error *reterr)
{
    static const char *const paths[METHODS_N] = { RPC_METHOD_ENGAGE,  RPC_METHOD_STATUS,
                                                  RPC_METHOD_STATUS2, RPC_METHOD_CONFIGURE,
                                                  RPC_METHOD_LOGS,    NULL };
    struct rpc_server *s = calloc(1, sizeof(*s));
    void *registered[METHODS_N] = { 0 };
    int result;

    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "grpc server: out of memory");
    }
    s->rpc = r;
    s->cb = cb;
    s->ud = ud;
    s->down_tag.fn = on_down;
    LIST_INIT(&s->sessions);
    LIST_INIT(&s->incoming);
    s->server = server_create(r);
    grpc_server_register_completion_queue(s->server, r->cq, NULL);
    for (int m = 0; cb && m < METHOD_OTHER; m++) {
        registered[m] = grpc_server_register_method(
            s->server, paths[m], NULL,
            m == METHOD_LOGS ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
            0);
    }
    LIST_INSERT_HEAD(&r->servers, s, entry);
    rpc_live_add(r);
    result = server_listen(s, address, reterr);
    if (result == 0) {
        grpc_server_start(s->server);
        if (serve_methods(s, registered) < 0) {
            result = err_set(reterr, FN_E_EXHAUSTED, "grpc server: out of memory");
        }
    }
    if (result < 0) {
        rpc_server_close(s);
        return result;
    }
    *ret = s;
    return 0;
}

int rpc_server_port(const struct rpc_server *s)
{
    return s->port;
}
