/* A connection of gRPC as a runner may use it, or a node pool manager: the first byte says when the
 * lines (h2.h) go out behind the first one, 'w' all at once, 'l' one after the other; the second
 * who calls, 'e' a load balancer, which has two attempts (streams 1 and 3), reads lines (5) and
 * asks for the status (7), 'r' somebody with two calls of any method (1 and 3). The first line,
 * which should be SETTINGS, goes out in front of the calls.
 *
 * Each call ends once. An attempt may be sent again only on a proof: its TryCall did not come here
 * as a whole, or RST_STREAM or GOAWAY refused it and nothing was answered. */
#include "h2.h"

#include <errno.h>
#include <rpc/raw.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ATTEMPTS_N 2
#define TRY_BYTES 11u /* of a TryCall with "{}" and its prefix */
#define BODY_BYTES 100000u

struct attempt {
    struct engage_attempt *a;
    uint32_t id; /* of its stream */
    uint32_t starts, finishes, ends;
    bool heard;
};

static struct client {
    struct rpc *rpc;
    char path[64];
    int listener;
    struct engage_link *link;
    bool up, begun;
    struct attempt attempts[ATTEMPTS_N];
    struct engage_reader *reader;
    uint32_t reader_ends, statuses;
    bool asked;
    struct rpc_channel *channel;
    struct rpc_raw *raw[ATTEMPTS_N];
    struct budget bodies;
    struct body *body;
} cl;

/* ---- attempts -------------------------------------------------------------------------------- */

static void on_start(void *ud, const struct engage_start *start)
{
    struct attempt *a = ud;

    wire.news++;
    a->heard = true;
    fuzz_expect(++a->starts == 1 && a->finishes == 0 && a->ends == 0, "a start too many");
    for (uint32_t i = 0; i < start->n_headers; i++) {
        fuzz_expect(start->headers[i].name && start->headers[i].value, "header %u is none", i);
    }
    if (start->status % 2) {
        rpc_client(cl.rpc)->attempt_pause(a->a, true);
        rpc_client(cl.rpc)->attempt_pause(a->a, false);
    }
}

static void on_data(void *ud, const void *data, size_t len)
{
    struct attempt *a = ud;

    (void)data;
    wire.news++;
    a->heard = true;
    fuzz_expect(len > 0 && a->starts == 1 && a->finishes == 0 && a->ends == 0, "%zu bytes", len);
}

static void on_finished(void *ud, const struct engage_finished *f)
{
    struct attempt *a = ud;

    wire.news++;
    a->heard = true;
    fuzz_expect(++a->finishes == 1 && a->ends == 0, "finished twice");
    fuzz_expect(f->refusal.reason < ENGAGE_REASONS_N, "reason %d", (int)f->refusal.reason);
}

static void expect_proof(const struct attempt *a, enum engage_proof proof)
{
    const struct h2_seen_stream *out = &wire.out.streams[a->id];

    if (proof == ENGAGE_PROOF_REFUSED) {
        fuzz_expect(!a->heard, "refused behind an answer");
        fuzz_expect(out->refused || wire.out.taken_max < a->id,
                    "a proof that nobody gave for stream %u", a->id);
    }
}

static void on_end(void *ud, int grpc_status, const char *text, enum engage_proof proof, bool legal)
{
    struct attempt *a = ud;

    wire.news++;
    fuzz_expect(++a->ends == 1, "ended twice");
    fuzz_expect(text && (grpc_status == 0) <= (proof == ENGAGE_PROOF_NONE), "%d", grpc_status);
    fuzz_expect(legal || !(proof == ENGAGE_PROOF_REFUSED), "refused out of order");
    expect_proof(a, proof);
    a->id = proof == ENGAGE_PROOF_NOT_SENT || proof == ENGAGE_PROOF_FULL ? a->id : 0;
}

static const struct engage_client_cb attempt_cb = { on_start, on_data, on_finished, on_end };

static void begin_attempts(void)
{
    struct engage_client *client = rpc_client(cl.rpc);
    struct engage_try t = { .call_json = "{}", .call_json_len = 2, .slot_hash_id = "" };

    for (uint32_t i = 0; i < ATTEMPTS_N; i++) {
        struct attempt *a = &cl.attempts[i];

        *a = (struct attempt){ .id = 2 * i + 1 };
        a->a = client->attempt(cl.link, &t, i ? cl.body : NULL, 0, &attempt_cb, a);
        fuzz_expect(a->a != NULL, "no memory");
    }
}

/* Whatever is told to be not sent did not come. */
static void end_attempts(void)
{
    for (uint32_t i = 0; i < ATTEMPTS_N; i++) {
        const struct attempt *a = &cl.attempts[i];

        fuzz_expect(a->ends == 1, "attempt %u has not ended", i);
        fuzz_expect(a->id == 0 || wire.in.streams[a->id].data_bytes < TRY_BYTES,
                    "stream %u came, and was told to be not sent", a->id);
        rpc_client(cl.rpc)->attempt_close(a->a);
    }
}

/* ---- lines, status --------------------------------------------------------------------------- */

static void on_lines(void *ud, const struct engage_line *lines, uint32_t n)
{
    (void)ud;
    wire.news++;
    for (uint32_t i = 0; i < n; i++) {
        fuzz_expect(lines[i].app_id && lines[i].fn_id && lines[i].container_id &&
                        lines[i].call_id && (lines[i].data || lines[i].len == 0),
                    "line %u has no texts", i);
    }
    rpc_client(cl.rpc)->reader_more(cl.reader);
}

static void on_reader_end(void *ud, int grpc_status, const char *text)
{
    (void)ud;
    (void)grpc_status;
    wire.news++;
    fuzz_expect(text && ++cl.reader_ends == 1, "lines end twice");
}

static const struct engage_reader_cb reader_cb = { on_lines, on_reader_end };

static void on_status(void *ud, const struct rpc_status_result *result)
{
    (void)ud;
    wire.news++;
    fuzz_expect(result->text && ++cl.statuses == 1, "a second status");
}

/* ---- the link -------------------------------------------------------------------------------- */

static void on_state(void *ud, bool up)
{
    (void)ud;
    wire.news++;
    cl.up = up;
}

static const struct engage_link_cb link_cb = { .on_state = on_state };

static void begin_link(void)
{
    static const struct fn_kv keys[] = { { "app_id", "a" } };
    struct engage_client *client = rpc_client(cl.rpc);
    int64_t deadline_ns = env_now_ns(loop_env(wire.calm.loop)) + 600 * ENV_S;

    begin_attempts();
    cl.reader_ends = cl.statuses = 0;
    cl.reader = client->reader_open(cl.link, keys, 1, &reader_cb, NULL);
    fuzz_expect(cl.reader != NULL, "no memory");
    client->reader_more(cl.reader);
    cl.asked = rpc_status(cl.link, deadline_ns, on_status, NULL) == 0;
}

static void end_link(void)
{
    if (cl.begun) {
        end_attempts();
        fuzz_expect(cl.reader_ends == 1, "lines have not ended");
        fuzz_expect(!cl.asked || cl.statuses == 1, "no status");
        rpc_client(cl.rpc)->reader_close(cl.reader);
    }
    rpc_client(cl.rpc)->link_close(cl.link);
    cl.link = NULL;
}

/* ---- calls of any method --------------------------------------------------------------------- */

static void on_message(void *ud, const void *data, size_t len)
{
    struct rpc_raw **raw = ud;

    wire.news++;
    fuzz_expect(*raw && (data || len == 0), "a message behind the end");
}

static void on_raw_end(void *ud, int grpc_status, const char *text)
{
    struct rpc_raw **raw = ud;

    (void)grpc_status;
    wire.news++;
    fuzz_expect(*raw && text, "ended twice");
    *raw = NULL;
}

static const struct rpc_raw_cb raw_cb = { on_message, on_raw_end };

static void begin_raw(void)
{
    struct fn_error err = { .size = sizeof(err) };

    for (uint32_t i = 0; i < ATTEMPTS_N; i++) {
        fuzz_expect(rpc_raw_start(cl.channel, "/any/Method", "m", 1, 0, &raw_cb, &cl.raw[i],
                                  &cl.raw[i], &err) == 0,
                    "%s", err.msg);
    }
}

static void end_raw(void)
{
    for (uint32_t i = 0; i < ATTEMPTS_N; i++) {
        fuzz_expect(!cl.raw[i], "call %u has not ended", i);
    }
    rpc_channel_close(cl.channel);
    cl.channel = NULL;
}

/* ---- an input -------------------------------------------------------------------------------- */

static void client_end(void)
{
    close(cl.listener);
    unlink(cl.path);
    body_unref(cl.body);
    rpc_destroy(cl.rpc);
    loop_destroy(wire.calm.loop);
}

/* Takes the connection when it comes. Another one is not dialled within an input. */
static void look(void)
{
    int fd = wire.fd < 0 ? accept4(cl.listener, NULL, NULL, SOCK_CLOEXEC) : -1;

    if (fd >= 0) {
        wire_open(fd, true);
        wire.news++;
    }
}

static void client_begin(void)
{
    static const char bytes[BODY_BYTES];
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error err = { .size = sizeof(err) };
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    snprintf(cl.path, sizeof(cl.path), "/tmp/fnd-fuzz-peer-%d.sock", (int)getpid());
    memcpy(at.sun_path, cl.path, sizeof(cl.path));
    config.message_max_bytes = 65536;
    config.reconnect_first_ns = config.reconnect_max_ns = 600 * ENV_S;
    config.probe_interval_ns = config.status_interval_ns = 0;
    config.connect_timeout_ns = config.answer_ns = config.end_timeout_ns = 600 * ENV_S;
    wire_begin(look);
    fuzz_expect(rpc_create(wire.calm.loop, &config, &cl.rpc, &err) == 0, "%s", err.msg);
    unlink(cl.path); /* of a finding, which ends without cleaning up */
    cl.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_expect(bind(cl.listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
                    listen(cl.listener, 16) == 0,
                "%s", strerror(errno));
    cl.body = body_create(&cl.bodies, BODY_BYTES);
    fuzz_expect(cl.body && body_append(cl.body, bytes, sizeof(bytes)) == 0, "no memory");
    atexit(client_end);
}

static void dial(bool raw)
{
    struct fn_error err = { .size = sizeof(err) };
    char address[sizeof(cl.path) + 8];
    uint32_t turns = 0;

    snprintf(address, sizeof(address), "unix:%s", cl.path);
    cl.begun = false;
    cl.up = false;
    loop_enter(wire.calm.loop);
    if (raw) {
        fuzz_expect(rpc_channel_open(cl.rpc, address, NULL, NULL, &cl.channel, &err) == 0, "%s",
                    err.msg);
        begin_raw();
    } else {
        cl.link = rpc_client(cl.rpc)->link_open(rpc_client(cl.rpc), address, NULL, &link_cb, NULL);
        fuzz_expect(cl.link != NULL, "no memory");
    }
    loop_leave(wire.calm.loop);
    while (wire.fd < 0) {
        calm_run(&wire.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "nobody dials");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "wl");
    bool raw = fuzz_mode(&in, "er") == 'r';

    if (!cl.rpc) {
        client_begin();
    }
    (void)fuzz_line(&in);
    dial(raw);
    wire_send_line(&in);
    if (!raw && cl.up) {
        cl.begun = true;
        loop_enter(wire.calm.loop);
        begin_link();
        loop_leave(wire.calm.loop);
        calm_run(&wire.calm);
    }
    wire_send_lines(in, mode);
    calm_run(&wire.calm);
    shutdown(wire.fd, SHUT_WR);
    calm_run(&wire.calm);
    loop_enter(wire.calm.loop);
    if (raw) {
        end_raw();
    } else {
        end_link();
    }
    loop_leave(wire.calm.loop);
    wire_close();
    calm_run(&wire.calm);
    return 0;
}
