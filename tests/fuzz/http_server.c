/* A connection of HTTP/1.1 as a client may use it: the server as it is, over a socket; the first byte
 * says in which pieces the rest comes (fuzz_pieces()).
 *
 * The requests that the handler gets do not depend on the pieces. Each has one answer that
 * http-parser reads as one, a refusal is the last, and no memory of a body stays. */
#include "calm.h"
#include "fuzz.h"

#include <errno.h>
#include <http/server.h>
#include <http_parser.h>
#include <linux/sockios.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWERS_MAX (1 << 20)

static const struct http_limits limits = { .header_bytes_max = 2048,
                                           .headers_max = 20,
                                           .request_line_max = 512,
                                           .body_bytes_max = 1024,
                                           .header_timeout_ns = 600 * ENV_S,
                                           .body_timeout_ns = 600 * ENV_S,
                                           .write_stall_ns = 600 * ENV_S,
                                           .idle_timeout_ns = 600 * ENV_S,
                                           .connections_max = 100,
                                           .connections_per_ip_max = 100,
                                           .requests_per_connection_max = 1000,
                                           .out_bytes_high = 65536 };

/* What came of an input: the requests as a sum, and the bytes that were answered. */
struct told {
    uint64_t sum;
    uint32_t requests;
    bool head; /* http-parser cannot know that the answer has no body */
    bool closed;
    struct buf answers;
};

static struct server {
    struct calm calm;
    struct http_server *http;
    struct budget bodies;
    char path[64];
    int fd;
    struct told *told;
} sv;

static void add_bytes(struct told *t, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        t->sum = (t->sum ^ p[i]) * 1099511628211u;
    }
}

static void add_text(struct told *t, const char *text)
{
    add_bytes(t, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void on_request(void *ud, struct http_request *req)
{
    struct told *t = sv.told;

    (void)ud;
    t->requests++;
    t->head = t->head || strcmp(req->method, "HEAD") == 0;
    add_text(t, req->method);
    add_text(t, req->target);
    add_text(t, req->path);
    add_text(t, req->query);
    add_text(t, req->host);
    for (uint32_t i = 0; i < req->headers.n; i++) {
        add_text(t, req->headers.items[i].name);
        add_text(t, req->headers.items[i].value);
    }
    add_bytes(t, req->body->bytes.data, req->body->bytes.len);
    fuzz_expect(req->body->bytes.len <= (size_t)limits.body_bytes_max, "%zu bytes",
                req->body->bytes.len);
    http_answer(req, 200, NULL, req->body->bytes.data, req->body->bytes.len);
}

/* ---- until the server is calm ---------------------------------------------------------------- */

static void take_answers(struct told *t)
{
    char bytes[16384];
    ssize_t n;

    while ((n = recv(sv.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        buf_add(&t->answers, bytes, (size_t)n);
    }
    t->closed = t->closed || n == 0 || errno != EAGAIN;
    fuzz_expect(t->answers.len < ANSWERS_MAX, "%zu bytes of answers", t->answers.len);
}

static uint64_t look(void)
{
    int unread = 0;

    take_answers(sv.told);
    if (!sv.told->closed && ioctl(sv.fd, SIOCOUTQ, &unread) < 0) {
        unread = 0;
    }
    return (uint64_t)sv.told->requests * ANSWERS_MAX + sv.told->answers.len + (uint64_t)unread;
}

static void server_end(void)
{
    loop_enter(sv.calm.loop);
    http_server_destroy(sv.http);
    loop_leave(sv.calm.loop);
    loop_destroy(sv.calm.loop);
}

static void server_begin(void)
{
    struct fn_error err = { .size = sizeof(err) };
    struct http_server_config config = { .name = "test", .limits = limits,
                                         .bodies = &sv.bodies,
                                         .on_request = on_request };
    char address[sizeof(sv.path) + 8];

    snprintf(sv.path, sizeof(sv.path), "/tmp/fnd-fuzz-http-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", sv.path);
    config.listen = address;
    sv.calm.look = look;
    fuzz_expect(loop_create(NULL, &sv.calm.loop, &err) == 0, "%s", err.msg);
    fuzz_expect(http_server_create(sv.calm.loop, &config, &sv.http, &err) == 0, "%s", err.msg);
    atexit(server_end);
}

static void dial(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    memcpy(to.sun_path, sv.path, sizeof(sv.path));
    sv.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_expect(connect(sv.fd, (struct sockaddr *)&to, sizeof(to)) == 0, "%s", strerror(errno));
}

static void talk(struct fuzz_pieces pieces, struct fuzz_in in, struct told *t)
{
    uint32_t turns = 0;

    sv.told = t;
    dial();
    calm_run(&sv.calm);
    while (in.len > 0 && !t->closed) {
        size_t n = fuzz_piece(&pieces, in.len);
        ssize_t sent = send(sv.fd, in.at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            in.at += sent;
            in.len -= (size_t)sent;
        }
        calm_run(&sv.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "%zu bytes are never read", in.len);
    }
    close(sv.fd);
    while (http_server_connections(sv.http) > 0) {
        calm_run(&sv.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "a connection stays");
    }
    fuzz_expect(sv.bodies.used_bytes == 0, "%llu bytes", (unsigned long long)sv.bodies.used_bytes);
}

/* ---- what the client makes of it ------------------------------------------------------------- */

struct answers {
    uint32_t whole;
    bool refused;
    bool open; /* one has begun and not ended */
};

static int on_begin(http_parser *p)
{
    struct answers *a = p->data;

    fuzz_expect(!a->refused, "an answer behind a refusal");
    a->open = true;
    return 0;
}

static int on_complete(http_parser *p)
{
    struct answers *a = p->data;

    a->open = false;
    a->whole += p->status_code >= 200;
    a->refused = p->status_code >= 400;
    return 0;
}

static void expect_answers(const struct told *t)
{
    static const http_parser_settings callbacks = { .on_message_begin = on_begin,
                                                    .on_message_complete = on_complete };
    struct answers a = { 0 };
    http_parser p;

    http_parser_init(&p, HTTP_RESPONSE);
    p.data = &a;
    fuzz_expect(http_parser_execute(&p, &callbacks, t->answers.data, t->answers.len) ==
                        t->answers.len &&
                    HTTP_PARSER_ERRNO(&p) == HPE_OK,
                "%s: %.*s", http_errno_description(HTTP_PARSER_ERRNO(&p)), (int)t->answers.len,
                t->answers.data);
    fuzz_expect(!a.open, "half of an answer: %.*s", (int)t->answers.len, t->answers.data);
    fuzz_expect(a.whole == t->requests + a.refused, "%u answers to %u requests: %.*s", a.whole,
                t->requests, (int)t->answers.len, t->answers.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    struct fuzz_pieces pieces = fuzz_pieces(&in), one = { .state = 1, .fixed = SIZE_MAX };
    struct told whole = { 0 }, cut = { 0 };

    if (!sv.http) {
        server_begin();
    }
    talk(one, in, &whole);
    talk(pieces, in, &cut);
    fuzz_expect(whole.requests == cut.requests && whole.sum == cut.sum,
                "%u requests, in pieces %u: %.*s", whole.requests, cut.requests, (int)in.len,
                in.at);
    if (!whole.head) {
        expect_answers(&whole);
        expect_answers(&cut);
    }
    buf_finish(&whole.answers);
    buf_finish(&cut.answers);
    return 0;
}
