/* A connection of gRPC as a client may use it: a runner's port with RunnerProtocol and a method
 * beside it. The first byte says when the lines (h2.h) go out: 'w' all at once, 'l' one after the
 * other.
 *
 * What a session does is the first letter of its call: e answers the last piece of the body, n
 * refuses at once, r too, by its stream, h holds it until the lines are over, s sends SHOWN_BYTES,
 * a ends the stream; others answer the first piece of the body.
 *
 * Each session ends once, by us or by the client; so does each question. Nothing comes behind the
 * end of a stream, and no connection stays. */
#include "h2.h"

#include <errno.h>
#include <rpc/raw.h>
#include <rpc/server_int.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SHOWN_BYTES 200000u
#define PART_BYTES 10000u

struct session {
    struct engage_session *s;
    char does;
    size_t left;
    LIST_ENTRY(session) link;
};

static struct server {
    struct rpc *rpc;
    struct rpc_server *grpc;
    char path[64];
    LIST_HEAD(, session) sessions;
    struct engage_asks asks;
    struct engage_logs *logs; /* that are read; others are refused */
    struct rpc_incoming *held;
} sv;

/* ---- sessions -------------------------------------------------------------------------------- */

static void session_end(struct session *s)
{
    LIST_REMOVE(s, link);
    free(s);
}

static void finish(struct session *s, bool well)
{
    struct engage_finished fin = { .success = well,
                                   .error_code = well ? 0 : 503,
                                   .error_text = well ? NULL : "full" };

    rpc_server_table()->finish(s->s, &fin);
    session_end(s);
}

static void answer(struct session *s, const void *data, size_t len)
{
    static const struct header headers[] = { { "Content-Type", "text/plain" } };
    struct engage_start start = { .status = 200, .headers = headers, .n_headers = 1 };

    rpc_server_table()->send_start(s->s, &start);
    rpc_server_table()->send_data(s->s, data, len);
    finish(s, true);
}

static void show_more(struct session *s)
{
    static const char part[PART_BYTES];

    while (s->left > 0) {
        s->left -= PART_BYTES;
        if (rpc_server_table()->send_data(s->s, part, PART_BYTES) == 1 && s->left > 0) {
            return;
        }
    }
    finish(s, true);
}

static int on_try(void *ud, struct engage_session *session, const struct engage_try *t,
                  int64_t deadline_ns, void **ret_ud)
{
    struct session *s;

    (void)ud;
    (void)deadline_ns;
    wire.news++;
    if (t->call_json[0] == 'r') {
        return -GRPC_UNAVAILABLE;
    }
    s = calloc(1, sizeof(*s));
    fuzz_expect(s != NULL, "no memory");
    *s = (struct session){ .s = session, .does = t->call_json[0], .left = SHOWN_BYTES };
    LIST_INSERT_HEAD(&sv.sessions, s, link);
    *ret_ud = s;
    if (s->does == 'n') {
        finish(s, false);
    } else if (s->does == 'a') {
        rpc_server_table()->abort(session, GRPC_INTERNAL, "no");
        session_end(s);
    } else if (s->does == 's') {
        rpc_server_table()->send_start(session, &(struct engage_start){ .status = 200 });
        show_more(s);
    } else {
        rpc_server_table()->session_more(session);
    }
    return 0;
}

static void on_body(void *ud, const void *data, size_t len, bool eof)
{
    struct session *s = ud;

    wire.news++;
    if (s->does == 'h' && eof) {
        return;
    }
    if (eof || (s->does != 'e' && s->does != 'h')) {
        answer(s, data, len);
    } else {
        rpc_server_table()->session_more(s->s);
    }
}

static void on_writable(void *ud)
{
    wire.news++;
    show_more(ud);
}

static void on_gone(void *ud)
{
    wire.news++;
    session_end(ud);
}

static void end_sessions(void)
{
    struct session *s, *next;

    for (s = LIST_FIRST(&sv.sessions); s; s = next) {
        next = LIST_NEXT(s, link);
        if (s->does == 'h') {
            finish(s, true);
        }
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

static void on_status(void *ud, struct engage_ask *ask)
{
    (void)ud;
    wire.news++;
    if (ask->request_len % 2 == 0) {
        ask->answer(ask, &(struct engage_status){ .active = 1 });
    } else {
        TAILQ_INSERT_TAIL(&sv.asks, ask, link);
    }
}

static void on_status_gone(void *ud, struct engage_ask *ask)
{
    (void)ud;
    TAILQ_REMOVE(&sv.asks, ask, link);
}

static void answer_questions(void)
{
    struct engage_ask *ask;

    while ((ask = TAILQ_FIRST(&sv.asks))) {
        TAILQ_REMOVE(&sv.asks, ask, link);
        ask->answer(ask, &(struct engage_status){ .active = 2 });
    }
}

static void on_configure(void *ud, struct engage_config *config)
{
    (void)ud;
    wire.news++;
    for (uint32_t i = 0; i < config->n; i++) {
        fuzz_expect(config->keys[i].key && config->keys[i].value, "key %u is none", i);
    }
    config->answer(config, config->n > 2 ? GRPC_INTERNAL : 0, "too many");
}

static void on_configure_gone(void *ud, struct engage_config *config)
{
    (void)ud;
    (void)config;
    fuzz_expect(false, "it was answered");
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void send_line(struct engage_logs *logs)
{
    static const struct engage_line line = {
        .app_id = "a", .fn_id = "f", .container_id = "c", .call_id = "", .data = "hello", .len = 5
    };

    if (logs->wanted) {
        fuzz_expect(logs->send(logs, &line, 1) == 0, "no memory");
    }
}

static void on_logs(void *ud, struct engage_logs *logs)
{
    (void)ud;
    wire.news++;
    if (sv.logs) {
        logs->end(logs, GRPC_UNAVAILABLE, "one at a time");
        return;
    }
    sv.logs = logs;
    send_line(logs);
}

static void on_logs_wanted(void *ud, struct engage_logs *logs)
{
    (void)ud;
    wire.news++;
    send_line(logs);
}

static void on_logs_gone(void *ud, struct engage_logs *logs)
{
    (void)ud;
    fuzz_expect(sv.logs == logs, "logs that nobody reads are gone");
    sv.logs = NULL;
}

static const struct engage_server_cb server_cb = {
    .on_try = on_try,
    .on_body = on_body,
    .on_writable = on_writable,
    .on_gone = on_gone,
    .on_status = on_status,
    .on_status_gone = on_status_gone,
    .on_configure = on_configure,
    .on_configure_gone = on_configure_gone,
    .on_logs = on_logs,
    .on_logs_wanted = on_logs_wanted,
    .on_logs_gone = on_logs_gone,
};

/* ---- a method beside Engage ------------------------------------------------------------------ */

static void on_called(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    wire.news++;
    if (data && len > 0 && *(const char *)data == 'h' && !sv.held) {
        sv.held = in;
        return;
    }
    if (data) {
        fuzz_expect(rpc_incoming_send(in, data, len) == 0, "no memory");
    }
    rpc_incoming_end(in, 0, NULL);
}

static void on_called_gone(void *ud, struct rpc_incoming *in)
{
    (void)ud;
    fuzz_expect(sv.held == in, "a call that was answered is gone");
    sv.held = NULL;
}

static void end_held(void)
{
    struct rpc_incoming *in = sv.held;

    sv.held = NULL;
    if (in) {
        rpc_incoming_end(in, GRPC_CANCELLED, "no more lines");
    }
}

static const struct rpc_method methods[] = { { "/fuzz.Service/Call", on_called }, { NULL, NULL } };
static const struct rpc_service service = { .methods = methods, .gone = on_called_gone };

/* ---- the server ------------------------------------------------------------------------------ */

static void server_end(void)
{
    rpc_destroy(sv.rpc);
    loop_destroy(wire.calm.loop);
}

static void server_begin(void)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error err = { .size = sizeof(err) };
    char address[sizeof(sv.path) + 8];

    snprintf(sv.path, sizeof(sv.path), "/tmp/fnd-fuzz-grpc-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", sv.path);
    config.message_max_bytes = 65536;
    config.streams_max = 20;
    config.client_silence_ns = 0;
    config.answer_ns = 600 * ENV_S;
    config.first_message_ns = 600 * ENV_S;
    config.ack_ns = 600 * ENV_S;
    TAILQ_INIT(&sv.asks);
    wire_begin(NULL);
    fuzz_expect(rpc_create(wire.calm.loop, &config, &sv.rpc, &err) == 0, "%s", err.msg);
    fuzz_expect(rpc_server_open(sv.rpc, address, &server_cb, NULL, &sv.grpc, &err) == 0, "%s",
                err.msg);
    rpc_server_serve(sv.grpc, &service);
    atexit(server_end);
}

static void dial(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    memcpy(to.sun_path, sv.path, sizeof(sv.path));
    wire_open(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), false);
    fuzz_expect(connect(wire.fd, (struct sockaddr *)&to, sizeof(to)) == 0, "%s", strerror(errno));
}

static bool is_left(void)
{
    return !LIST_EMPTY(&sv.sessions) || !TAILQ_EMPTY(&sv.asks) || sv.logs || sv.held ||
           !LIST_EMPTY(&sv.grpc->conns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "wl");
    uint32_t turns = 0;

    if (!sv.rpc) {
        server_begin();
    }
    (void)fuzz_line(&in);
    dial();
    wire_send_lines(in, mode);
    loop_enter(wire.calm.loop);
    end_sessions();
    answer_questions();
    end_held();
    loop_leave(wire.calm.loop);
    calm_run(&wire.calm);
    wire_close();
    do {
        calm_run(&wire.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "something stays that belongs to nobody");
    } while (is_left());
    return 0;
}
