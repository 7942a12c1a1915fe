/* A connection of HTTP/2 as a client may use it: the server as it is, behind a handshake that chose
 * "h2". The first byte says when the lines (h2.h) go out: 'w' all at once, 'l' one after the other.
 *
 * The path says what the handler does: /l answers last, /s sends SHOWN_BYTES bit by bit, /x gives
 * up behind the head, /e is an error; others give the body back.
 *
 * A request holds nothing that HTTP/1.1 could read otherwise. The handler ends it or is told that
 * it is gone, once; nothing comes behind the end of a stream, and no memory of a body stays. */
#include "h2.h"

#include <errno.h>
#include <http/h2/h2.h>
#include <http/server_int.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHOWN_BYTES 200000u
#define PART_BYTES 10000u

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
                                           .out_bytes_high = 65536,
                                           .h2 = true,
                                           .h2_streams_max = 20 };

struct served {
    struct http_request *req;
    size_t left; /* of /s */
    LIST_ENTRY(served) link;
};

static struct server {
    struct http_server *http;
    struct budget bodies;
    char path[64];
    LIST_HEAD(, served) late, shown;
} sv;

/* ---- the handler ----------------------------------------------------------------------------- */

static void expect_line(const char *text, const char *what)
{
    fuzz_expect(!text || !strpbrk(text, "\r\n"), "%s of several lines: %s", what, text);
}

static void expect_length(const struct http_request *req, const struct header *h)
{
    if (strcmp(h->name, "Content-Length") == 0) {
        fuzz_expect(strtoull(h->value, NULL, 10) == req->body->bytes.len, "%s of %zu bytes",
                    h->value, req->body->bytes.len);
    }
}

static void expect_request(const struct http_request *req)
{
    fuzz_expect(req->h2 && req->method[0], "a request of HTTP/1.1");
    expect_line(req->method, "method");
    expect_line(req->target, "target");
    expect_line(req->host, "host");
    fuzz_expect(!strpbrk(req->method, " \t") && !strpbrk(req->target, " \t"), "%s|%s", req->method,
                req->target);
    for (uint32_t i = 0; i < req->headers.n; i++) {
        const struct header *h = &req->headers.items[i];

        expect_line(h->value, h->name);
        fuzz_expect(h->name[0] && !strpbrk(h->name, " \t\r\n:"), "header %s", h->name);
        fuzz_expect(strcmp(h->name, "Transfer-Encoding") != 0 && strcmp(h->name, "Connection") != 0,
                    "%s: %s", h->name, h->value);
        expect_length(req, h);
    }
    fuzz_expect(req->body->bytes.len <= (size_t)limits.body_bytes_max, "%zu bytes",
                req->body->bytes.len);
}

static void on_gone(struct http_request *req)
{
    struct served *s = req->ud;

    wire.news++;
    LIST_REMOVE(s, link);
    free(s);
    http_answer_end(req);
}

static void on_gone_late(struct http_request *req)
{
    fuzz_expect(false, "%s is gone behind its answer", req->path);
}

static void show_more(struct served *s)
{
    static const char part[PART_BYTES];
    struct http_request *req = s->req;

    while (s->left > 0) {
        s->left -= PART_BYTES;
        if (http_answer_data(req, part, PART_BYTES) == 1 && s->left > 0) {
            return;
        }
    }
    LIST_REMOVE(s, link);
    free(s);
    http_answer_end(req);
}

static void on_writable(struct http_request *req)
{
    wire.news++;
    show_more(req->ud);
}

static struct served *served_by(struct http_request *req)
{
    struct served *s = calloc(1, sizeof(*s));

    fuzz_expect(s != NULL, "no memory");
    s->req = req;
    req->ud = s;
    req->on_gone = on_gone;
    req->on_writable = on_writable;
    return s;
}

static void on_request(void *ud, struct http_request *req)
{
    struct served *s;

    (void)ud;
    wire.news++;
    expect_request(req);
    req->on_gone = on_gone_late;
    switch (req->path[0] == '/' ? req->path[1] : '\0') {
    case 'l':
        s = served_by(req);
        LIST_INSERT_HEAD(&sv.late, s, link);
        break;
    case 's':
        s = served_by(req);
        s->left = SHOWN_BYTES;
        LIST_INSERT_HEAD(&sv.shown, s, link);
        http_answer_head(req, 200, NULL, -1);
        show_more(s);
        break;
    case 'x':
        http_answer_head(req, 200, NULL, 10);
        http_answer_abort(req);
        break;
    case 'e':
        http_answer_error(req, 404, NULL, "not here");
        break;
    default:
        http_answer(req, 200, NULL, req->body->bytes.data, req->body->bytes.len);
        break;
    }
}

static void answer_late(void)
{
    struct served *s;

    while ((s = LIST_FIRST(&sv.late))) {
        struct http_request *req = s->req;

        LIST_REMOVE(s, link);
        free(s);
        req->on_gone = on_gone_late;
        http_answer(req, 200, NULL, "late", 4);
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static void server_end(void)
{
    loop_enter(wire.calm.loop);
    http_server_destroy(sv.http);
    loop_leave(wire.calm.loop);
    loop_destroy(wire.calm.loop);
}

static void server_begin(void)
{
    struct fn_error err = { .size = sizeof(err) };
    struct http_server_config config = {
        .name = "test",
        .limits = limits, .bodies = &sv.bodies, .h2 = &http_h2, .on_request = on_request
    };
    char address[sizeof(sv.path) + 8];

    snprintf(sv.path, sizeof(sv.path), "/tmp/fnd-fuzz-h2-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", sv.path);
    config.listen = address;
    wire_begin(NULL);
    fuzz_expect(http_server_create(wire.calm.loop, &config, &sv.http, &err) == 0, "%s", err.msg);
    sv.http->h2 = http_h2.open(sv.http); /* without certificates nobody could choose it */
    fuzz_expect(sv.http->h2 != NULL, "no memory");
    atexit(server_end);
}

/* As behind a handshake. */
static void dial(void)
{
    struct fn_error err = { .size = sizeof(err) };
    struct net_io *io;
    int fds[2];

    fuzz_expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0, "%s",
                strerror(errno));
    wire_open(fds[1], false);
    loop_enter(wire.calm.loop);
    fuzz_expect(net_io_create(wire.calm.loop, fds[0], "unix", &io, &err) == 0, "%s", err.msg);
    sv.http->conns_n++;
    http_h2.adopt(sv.http->h2, io, NULL, false);
    loop_leave(wire.calm.loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "wl");
    uint32_t turns = 0;

    if (!sv.http) {
        server_begin();
    }
    (void)fuzz_line(&in);
    dial();
    wire_send_lines(in, mode);
    loop_enter(wire.calm.loop);
    answer_late();
    loop_leave(wire.calm.loop);
    calm_run(&wire.calm);
    wire_close();
    while (http_server_connections(sv.http) > 0) {
        calm_run(&wire.calm);
        fuzz_expect(++turns < CALM_TRIES_MAX, "a connection stays");
    }
    fuzz_expect(LIST_EMPTY(&sv.late) && LIST_EMPTY(&sv.shown), "a request stays");
    fuzz_expect(sv.bodies.used_bytes == 0, "%llu bytes", (unsigned long long)sv.bodies.used_bytes);
    return 0;
}
