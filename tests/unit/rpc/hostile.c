/* Clients that mean harm, with raw HTTP/2 frames: their own connection ends, or costs a bounded
 * amount; everybody else is served. docs/security.md has the table of the limits. */
#include "../lib/sanitized.h"
#include "suites.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <rpc/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION };

#define ACK         1u
#define END_STREAM  1u
#define END_HEADERS 4u
#define ANY         UINT32_MAX /* stream */
#define FRAMES_MAX  200000 /* sent by a flood at most; the limits are far below */

static struct fixture *f;

/* ---- a client -------------------------------------------------------------------------------- */

static int dial(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 20 };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", f->address + strlen("unix:"));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return fd;
}

/* False: the server has closed the connection. */
static bool put(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n < 0) {
            ck_assert_msg(errno == EPIPE || errno == ECONNRESET, "send: %s", strerror(errno));
            return false;
        }
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static bool frame(int fd, unsigned type, unsigned flags, uint32_t stream, const void *data,
                  size_t len)
{
    unsigned char h[9] = { (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                           (unsigned char)len, (unsigned char)type, (unsigned char)flags,
                           (unsigned char)(stream >> 24), (unsigned char)(stream >> 16),
                           (unsigned char)(stream >> 8), (unsigned char)stream };

    return put(fd, h, sizeof(h)) && (len == 0 || put(fd, data, len));
}

/* It never says that it has read the server's settings. */
static int greet_deaf(const void *settings, size_t len)
{
    int fd = dial();

    ck_assert(put(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24));
    ck_assert(frame(fd, SETTINGS, 0, 0, settings, len));
    return fd;
}

static int greet(const void *settings, size_t len)
{
    int fd = greet_deaf(settings, len);

    ck_assert(frame(fd, SETTINGS, ACK, 0, NULL, 0)); /* the server's are sent when it accepts */
    return fd;
}

/* One that is not indexed; value of any length below 16 384. */
static size_t field(unsigned char *out, const char *name, const char *value, size_t len)
{
    size_t n = 0;

    out[n++] = 0x00;
    out[n++] = (unsigned char)strlen(name);
    memcpy(out + n, name, strlen(name));
    n += strlen(name);
    if (len < 127) {
        out[n++] = (unsigned char)len;
    } else {
        out[n++] = 127;
        out[n++] = (unsigned char)(0x80 | ((len - 127) & 0x7f));
        out[n++] = (unsigned char)((len - 127) >> 7);
    }
    memcpy(out + n, value, len);
    return n + len;
}

static size_t request_to(unsigned char *out, const char *path, const char *method,
                         const char *type)
{
    const char *const fields[][2] = {
        { ":method", method },  { ":scheme", "http" },
        { ":path", path },      { ":authority", "x" },
        { "te", "trailers" },   { "content-type", type },
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        n += field(out + n, fields[i][0], fields[i][1], strlen(fields[i][1]));
    }
    return n;
}

static size_t request_as(unsigned char *out, const char *method, const char *type)
{
    return request_to(out, "/RunnerProtocol/Engage", method, type);
}

static size_t request(unsigned char *out)
{
    return request_as(out, "POST", "application/grpc");
}

static bool call(int fd, uint32_t stream)
{
    unsigned char b[512];

    return frame(fd, HEADERS, END_HEADERS, stream, b, request(b));
}

static bool try_call(int fd, uint32_t stream, const char *json)
{
    unsigned char b[64] = { 0, 0, 0, 0, (unsigned char)(strlen(json) + 4), 0x0a,
                            (unsigned char)(strlen(json) + 2), 0x0a,
                            (unsigned char)strlen(json) };

    memcpy(b + 9, json, strlen(json));
    return call(fd, stream) && frame(fd, DATA, 0, stream, b, 9 + strlen(json));
}

static bool take(int fd, void *data, size_t len)
{
    char *p = data;

    while (len > 0) {
        ssize_t n = recv(fd, p, len, 0);

        ck_assert_msg(n >= 0 || errno == ECONNRESET, "recv: %s", strerror(errno));
        if (n <= 0) {
            return false;
        }
        p += n;
        len -= (size_t)n;
    }
    return true;
}

struct got {
    unsigned type, flags;
    uint32_t stream;
    size_t len;
    unsigned char payload[16384];
};

static bool take_frame(int fd, struct got *ret)
{
    unsigned char h[9];

    if (!take(fd, h, 9)) {
        return false;
    }
    ret->len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    ret->type = h[3];
    ret->flags = h[4];
    ret->stream = (uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];
    ck_assert_uint_le(ret->len, sizeof(ret->payload));
    return take(fd, ret->payload, ret->len);
}

/* Reads until such a frame of the stream comes. False: the connection ended. */
static bool wait_frame(int fd, unsigned type, unsigned flags, uint32_t stream)
{
    struct got g;

    while (take_frame(fd, &g)) {
        if (g.type == type && (g.flags & flags) == flags &&
            (g.stream == stream || stream == ANY)) {
            return true;
        }
    }
    return false;
}

struct end {
    char status[16]; /* grpc-status, grpc-message; "" when absent */
    char text[256];
};

/* The inflater has to see every header block of the connection. */
static void take_end(nghttp2_hd_inflater *hd, const struct got *g, struct end *ret)
{
    const unsigned char *at = g->payload;
    size_t left = g->len;
    nghttp2_nv nv;
    int flags = 0;

    memset(ret, 0, sizeof(*ret));
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        ssize_t n = nghttp2_hd_inflate_hd2(hd, &nv, &flags, at, left, 1);

        ck_assert_int_ge(n, 0);
        at += n;
        left -= (size_t)n;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT)) {
            continue;
        }
        if (nv.namelen == 11 && memcmp(nv.name, "grpc-status", 11) == 0) {
            snprintf(ret->status, sizeof(ret->status), "%.*s", (int)nv.valuelen, nv.value);
        } else if (nv.namelen == 12 && memcmp(nv.name, "grpc-message", 12) == 0) {
            snprintf(ret->text, sizeof(ret->text), "%.*s", (int)nv.valuelen, nv.value);
        }
    }
    nghttp2_hd_inflate_end_headers(hd);
}

static void expect_end(int fd, nghttp2_hd_inflater *hd, uint32_t stream, const char *status,
                       const char *text)
{
    struct end end;
    struct got g;

    do {
        ck_assert(take_frame(fd, &g));
        if (g.type == HEADERS) {
            take_end(hd, &g, &end);
        }
    } while (g.stream != stream || g.type != HEADERS || !(g.flags & END_STREAM));
    ck_assert_str_eq(end.status, status);
    ck_assert_str_eq(end.text, text);
}

static void others_are_served(void)
{
    struct told t = { 0 };

    told_run(&t, f, "echo", "abc", 3);
    ck_assert_msg(t.grpc_status == 0, "status %d: %s", t.grpc_status, t.text);
    ck_assert_uint_eq(t.data_bytes, 3);
}

static bool nothing_held(void *ud)
{
    (void)ud;
    return f->gone + f->finished == f->tries;
}

static void finish(int fd)
{
    others_are_served();
    close(fd);
    WAIT(f, nothing_held, NULL);
    fixture_destroy(f);
}

/* Calls wait that long for their first message. */
static void open_waiting(int64_t first_message_ms)
{
    struct rpc_config config = RPC_CONFIG_INIT;

    config.first_message_ns = first_message_ms * ENV_MS;
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
}

/* Of the process, at its peak; 0 where a sanitizer holds memory of its own. */
static long peak_kb(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return SANITIZED ? 0 : used.ru_maxrss;
}

/* ---- floods ---------------------------------------------------------------------------------- */

struct flood {
    const char *what;
    unsigned type, flags;
    uint32_t stream; /* 1: of a call that was begun */
    const char *data;
    size_t len;
};

static const struct flood floods[] = {
    { "SETTINGS", SETTINGS, 0, 0, "\0\4\0\1\0\0", 6 },
    { "empty SETTINGS", SETTINGS, 0, 0, NULL, 0 },
    { "PING", PING, 0, 0, "12345678", 8 },
    { "PRIORITY", PRIORITY, 0, 5, "\0\0\0\0\20", 5 },
    { "empty DATA", DATA, 0, 1, NULL, 0 },
    { "RST_STREAM", RST, 0, 1, "\0\0\0\10", 4 },
    { "CONTINUATION", CONTINUATION, 0, 7, "\0\1x\1y", 5 },
};

START_TEST(test_flood)
{
    const struct flood *x = &floods[_i];
    unsigned char b[512];
    bool open = true;
    int fd;

    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    ck_assert(call(fd, 1));
    if (x->type == CONTINUATION) {
        frame(fd, HEADERS, 0, x->stream, b, request(b));
    }
    for (int i = 0; i < FRAMES_MAX && open; i++) {
        open = frame(fd, x->type, x->flags, x->stream, x->data, x->len);
    }
    ck_assert_msg(!wait_frame(fd, GOAWAY, 0xff, 0), "%s", x->what); /* until it is closed */
    finish(fd);
}
END_TEST

/* Calls that are cancelled at once, as fast as they come. */
START_TEST(test_rapid_reset)
{
    bool open = true;
    int fd;

    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    for (uint32_t i = 0; i < 20000 && open; i++) {
        open = try_call(fd, 2 * i + 1, "hold") && frame(fd, RST, 0, 2 * i + 1, "\0\0\0\10", 4);
    }
    finish(fd);
}
END_TEST

/* Calls that are answered at once, beyond those that may run or of another kind, by a client that
 * reads none of the answers. C core has a queue of its own. */
START_TEST(test_answers_that_nobody_reads)
{
    static const char *const types[] = { "application/grpc", "text/plain" };
    struct rpc_config config = RPC_CONFIG_INIT;
    unsigned char b[512];
    size_t n = request_as(b, "POST", types[_i]);
    bool open = true;
    long before_kb;
    int fd;

    if (fixture_over_core()) {
        return;
    }
    config.streams_max = 4;
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    before_kb = peak_kb();
    fd = greet_deaf(NULL, 0);
    for (uint32_t i = 0; i < FRAMES_MAX && open; i++) {
        open = frame(fd, HEADERS, END_HEADERS, 2 * i + 1, b, n);
    }
    ck_assert(!open);
    finish(fd);
    ck_assert_int_lt(peak_kb() - before_kb, 8 << 10);
}
END_TEST

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A header list above 32 KiB is refused, the connection goes on; one without an end ends it. */
START_TEST(test_large_headers)
{
    char *big = malloc(8000);
    unsigned char *b = malloc(16384);
    bool open = true;
    size_t n;
    int fd;

    memset(big, 'x', 8000);
    open_waiting(500); /* C core makes a call of such headers, which ends when no message comes */
    fd = greet(NULL, 0);
    n = request(b);
    n += field(b + n, "big", big, 8000);
    ck_assert(frame(fd, HEADERS, 0, 1, b, n));
    for (int i = 0; i < 4; i++) {
        n = field(b, "big", big, 8000);
        ck_assert(frame(fd, CONTINUATION, i == 3 ? END_HEADERS : 0, 1, b, n));
    }
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, 1));
    n = field(b, "big", big, 8000);
    n += field(b + n, "big", big, 8000);
    open = frame(fd, HEADERS, 0, 3, b, request(b));
    for (int i = 0; i < 1000 && open; i++) {
        n = field(b, "big", big, 8000);
        open = frame(fd, CONTINUATION, 0, 3, b, n);
    }
    ck_assert(!wait_frame(fd, GOAWAY, 0xff, 0));
    ck_assert_uint_eq(f->tries, 0);
    free(big);
    free(b);
    finish(fd);
}
END_TEST

/* The length alone is the end of the stream; no memory is taken for it. */
/* Each ends its call alone; the connection serves the next. */
START_TEST(test_messages_that_cannot_be_read)
{
    unsigned char b[512];
    nghttp2_hd_inflater *hd;
    size_t n;
    int fd;

    ck_assert_int_eq(nghttp2_hd_inflate_new(&hd), 0);
    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    ck_assert(call(fd, 1));
    ck_assert(frame(fd, DATA, 0, 1, "\0\377\377\377\377", 5));
    expect_end(fd, hd, 1, "8", "RUN402 received message larger than max (4294967295 vs. 4194304)");
    ck_assert(wait_frame(fd, RST, 0, 1));
    ck_assert(call(fd, 3));
    ck_assert(frame(fd, DATA, 0, 3, "\1\0\0\0\4", 5));
    expect_end(fd, hd, 3, "13", "RUN403 a message is compressed; expected identity");
    n = request(b);
    n += field(b + n, "grpc-encoding", "gzip", 4);
    ck_assert(frame(fd, HEADERS, END_HEADERS, 5, b, n));
    if (fixture_over_core()) { /* it judges messages only */
        ck_assert(frame(fd, DATA, 0, 5, "\1\0\0\0\4", 5));
        expect_end(fd, hd, 5, "13", "RUN403 a message is compressed; expected identity");
    } else {
        expect_end(fd, hd, 5, "12", "messages are compressed; expected identity");
    }
    n = request(b);
    n += field(b + n, "grpc-encoding", "identity", 8);
    ck_assert(frame(fd, HEADERS, END_HEADERS, 7, b, n));
    ck_assert(frame(fd, DATA, 0, 7, "\1\0\0\0\4", 5));
    expect_end(fd, hd, 7, "13", "RUN403 a message is compressed; expected identity");
    nghttp2_hd_inflate_del(hd);
    finish(fd);
}
END_TEST

/* Fields of unknown numbers: cheap to send, dear to unpack. The connection goes on. */
START_TEST(test_many_fields)
{
    enum { FIELDS = 8193 };
    unsigned char *b = malloc(5 + 2 * FIELDS);
    nghttp2_hd_inflater *hd;
    int fd;

    ck_assert_int_eq(nghttp2_hd_inflate_new(&hd), 0);
    memcpy(b, (unsigned char[]){ 0, 0, 0, 2 * FIELDS / 256, 2 * FIELDS % 256 }, 5);
    for (int i = 0; i < FIELDS; i++) {
        b[5 + 2 * i] = 0x78;
        b[6 + 2 * i] = 0x01;
    }
    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    ck_assert(call(fd, 1));
    ck_assert(frame(fd, DATA, 0, 1, b, 16384));
    ck_assert(frame(fd, DATA, 0, 1, b + 16384, 5 + 2 * FIELDS - 16384));
    expect_end(fd, hd, 1, "8", "RUN402 a message of more than 8192 fields");
    loop_enter(f->loop);
    ck_assert_uint_eq(f->tries, 0);
    loop_leave(f->loop);
    nghttp2_hd_inflate_del(hd);
    free(b);
    finish(fd);
}
END_TEST

/* A newer client's messages behind TryCall, without an end. */
START_TEST(test_unknown_messages_without_end)
{
    nghttp2_hd_inflater *hd;
    int fd;

    ck_assert_int_eq(nghttp2_hd_inflate_new(&hd), 0);
    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    ck_assert(try_call(fd, 1, "echo"));
    for (int i = 0; i < 17; i++) {
        ck_assert(frame(fd, DATA, 0, 1, "\0\0\0\0\4\x1a\2\10\1", 9));
    }
    expect_end(fd, hd, 1, "3", "Protocol failure: expected ClientMsg_Data");
    nghttp2_hd_inflate_del(hd);
    finish(fd);
}
END_TEST

/* What is not gRPC is answered in HTTP, and the connection goes on. C core minds the method only: it
 * makes calls of the others, which end when no message comes. */
START_TEST(test_no_grpc)
{
    unsigned char b[512];
    int fd;

    open_waiting(500);
    fd = greet(NULL, 0);
    ck_assert(frame(fd, HEADERS, END_HEADERS | END_STREAM, 1, b,
                    request_as(b, "GET", "application/grpc")));
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, 1));
    ck_assert(frame(fd, HEADERS, END_HEADERS, 3, b, request_as(b, "POST", "text/plain")));
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, 3));
    ck_assert(frame(fd, HEADERS, END_HEADERS, 5, b, request_as(b, "POST", "application/grpcx")));
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, 5));
    ck_assert(try_call(fd, 7, "nack"));
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, 7));
    loop_enter(f->loop);
    ck_assert_uint_eq(f->tries, 1);
    loop_leave(f->loop);
    finish(fd);
}
END_TEST

/* Reads until the connection's window lets a frame of that size out. *ended: the stream whose end
 * came meanwhile. */
static void wait_window(int fd, int64_t *window, int64_t len, uint32_t *ended)
{
    struct got g;

    while (*window < len) {
        ck_assert(take_frame(fd, &g));
        *ended = g.type == HEADERS && g.flags & END_STREAM ? g.stream : *ended;
        if (g.type == WINDOW && g.stream == 0) {
            *window += g.payload[0] << 24 | g.payload[1] << 16 | g.payload[2] << 8 | g.payload[3];
        }
    }
    *window -= len;
}

/* Many calls whose bodies nobody wants: what is held is bounded by all together, also when they are
 * messages without bytes, and their client goes. */
START_TEST(test_held_memory)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    char *chunk = calloc(1, 16384);
    int64_t window = 65535;
    uint32_t ended = 0;
    struct got g;
    long before_kb;
    int fd;

    config.memory_max_bytes = 16u << 20;
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    fd = greet(NULL, 0);
    before_kb = peak_kb();
    for (uint32_t i = 0; i < 18; i++) { /* 1 MB each, which is their window */
        wait_window(fd, &window, 64, &ended);
        ck_assert(try_call(fd, 2 * i + 1, "never"));
        for (int k = 0; k < 60; k++) {
            wait_window(fd, &window, 16384, &ended);
            ck_assert(frame(fd, DATA, 0, 2 * i + 1, chunk, 16384));
        }
    }
    while (ended == 0) {
        ck_assert(take_frame(fd, &g));
        ended = g.type == HEADERS && g.flags & END_STREAM ? g.stream : 0;
    }
    free(chunk);
    finish(fd);
    ck_assert_int_lt(peak_kb() - before_kb, 64 << 10);
}
END_TEST

/* Reads until so many bytes of DATA came. */
static size_t take_data(int fd, size_t bytes)
{
    size_t got = 0;
    struct got g;

    while (got < bytes && take_frame(fd, &g)) {
        got += g.type == DATA ? g.len : 0;
    }
    return got;
}

static void call_with_id(int fd, uint32_t stream, const char *id)
{
    static const char nack[] = "\0\0\0\0\10\12\6\12\4nack";
    unsigned char b[1024];
    size_t n = request(b);

    n += field(b + n, "fn_request_id", id, strlen(id));
    ck_assert(frame(fd, HEADERS, END_HEADERS, stream, b, n));
    ck_assert(frame(fd, DATA, 0, stream, nack, sizeof(nack) - 1));
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, stream));
}

/* A request id that is too long is none, not another one. */
START_TEST(test_long_request_id)
{
    char id[301];
    int fd;

    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    call_with_id(fd, 1, "short");
    loop_enter(f->loop);
    ck_assert_str_eq(f->last_request_id, "short");
    loop_leave(f->loop);
    call_with_id(fd, 3, id);
    loop_enter(f->loop);
    ck_assert_uint_eq(f->tries, 2);
    ck_assert_str_eq(f->last_request_id, "");
    loop_leave(f->loop);
    finish(fd);
}
END_TEST

static bool is_wanted(void *ud)
{
    return f->logs_wanted >= (uintptr_t)ud;
}

/* A reader of logs that asks for a thousand messages and lets none in: the second waits for room,
 * and the others are not asked for. When it reads, it gets them all. */
START_TEST(test_acks_ahead)
{
    enum { ACKS = 1000, LINE_BYTES = 64 << 10 };
    unsigned char b[7 + 7 * ACKS];
    size_t n = 7;
    int fd;

    f = fixture_create(OVER_UNIX);
    f->logs_bytes = LINE_BYTES;
    fd = greet("\0\4\0\0\0\0", 6);
    ck_assert(frame(fd, HEADERS, END_HEADERS, 1, b,
                    request_to(b, "/RunnerProtocol/StreamLogs", "POST", "application/grpc")));
    memcpy(b, "\0\0\0\0\2\12", 7);
    for (int i = 0; i < ACKS; i++) {
        memcpy(b + n, "\0\0\0\0\2\22", 7);
        n += 7;
    }
    ck_assert(frame(fd, DATA, 0, 1, b, n));
    WAIT(f, is_wanted, (void *)(uintptr_t)1);
    others_are_served();
    loop_enter(f->loop);
    ck_assert_uint_le(f->logs_wanted, 3);
    loop_leave(f->loop);
    ck_assert(frame(fd, SETTINGS, 0, 0, "\0\4\177\377\377\377", 6));
    ck_assert(frame(fd, WINDOW, 0, 0, "\177\0\0\0", 4));
    ck_assert_uint_ge(take_data(fd, (size_t)LINE_BYTES * ACKS), (size_t)LINE_BYTES * ACKS);
    WAIT(f, is_wanted, (void *)(uintptr_t)ACKS);
    finish(fd);
}
END_TEST

/* ---- stalls ---------------------------------------------------------------------------------- */

static bool has_tries(void *ud)
{
    return f->tries == (uintptr_t)ud;
}

/* A client that never opens its window keeps what waits for it, and no more. */
START_TEST(test_window_of_zero)
{
    int fd;

    f = fixture_create(OVER_UNIX);
    fd = greet("\0\4\0\0\0\0", 6);
    for (uint32_t i = 0; i < 50; i++) {
        ck_assert(try_call(fd, 2 * i + 1, "big:30000000"));
        ck_assert(frame(fd, DATA, 0, 2 * i + 1, "\0\0\0\0\4\22\2\20\1", 9)); /* eof */
    }
    WAIT(f, has_tries, (void *)(uintptr_t)50);
    others_are_served();
    loop_enter(f->loop);
    ck_assert_uint_eq(f->writables, 0);
    loop_leave(f->loop);
    finish(fd);
}
END_TEST

#define BLOCKED_ROUNDS 16 /* whether C core has a thread of its own poll is a matter of moments */

/* One that does not read while its calls are cancelled: of what was queued it gets the frame that was
 * begun, then the ends, and nothing that was not meant for it. */
START_TEST(test_cancelled_while_blocked)
{
    enum { CALLS = 8 };
    int fd;

    f = fixture_create(OVER_UNIX);
    fd = greet("\0\4\177\377\377\377", 6);
    ck_assert(frame(fd, WINDOW, 0, 0, "\177\0\0\0", 4));
    loop_enter(f->loop); /* all of it is one read */
    for (uint32_t i = 0; i < CALLS; i++) {
        ck_assert(try_call(fd, 2 * i + 1, "big:30000000"));
        ck_assert(frame(fd, DATA, 0, 2 * i + 1, "\0\0\0\0\4\22\2\20\1", 9)); /* eof */
    }
    loop_leave(f->loop);
    WAIT(f, has_tries, (void *)(uintptr_t)CALLS);
    loop_enter(f->loop);
    fixture_abort_all(f);
    loop_leave(f->loop);
    for (uint32_t i = 0; i < CALLS; i++) {
        ck_assert(wait_frame(fd, HEADERS, END_STREAM, ANY));
    }
    close(fd);
    fixture_destroy(f);
}
END_TEST

static bool is_finished(void *ud)
{
    (void)ud;
    return f->finished == 1;
}

static void on_drained(void *ud)
{
    (void)ud;
    f->drained = true;
    fixture_notify(f);
}

static bool is_drained(void *ud)
{
    (void)ud;
    return f->drained;
}

/* Reads until the server closes; the bytes of DATA, and whether the stream ended well. */
static size_t take_answer(int fd, bool *ret_ended)
{
    size_t bytes = 0;
    struct got g;

    *ret_ended = false;
    while (take_frame(fd, &g)) {
        bytes += g.type == DATA ? g.len : 0;
        *ret_ended = *ret_ended || (g.type == HEADERS && g.flags & END_STREAM);
    }
    return bytes;
}

#define DRAINED_SIZES 5 /* what a socket takes is not known */

/* Its answer is whole, and most of it waits for the socket: none of it is lost however long that
 * takes, though its stream has ended and the server's patience with idle clients is over. */
START_TEST(test_drained_while_blocked)
{
    const size_t size = 200000 + 30000 * (size_t)_i;
    char json[32];
    bool ended;
    size_t got;
    int fd;

    f = fixture_create(OVER_UNIX);
    fd = greet("\0\4\177\377\377\377", 6);
    ck_assert(frame(fd, WINDOW, 0, 0, "\177\0\0\0", 4));
    snprintf(json, sizeof(json), "big:%zu", size);
    ck_assert(try_call(fd, 1, json));
    ck_assert(frame(fd, DATA, 0, 1, "\0\0\0\0\4\22\2\20\1", 9)); /* eof */
    WAIT(f, is_finished, NULL);
    loop_enter(f->loop);
    rpc_server_drain(f->server, on_drained, f);
    loop_leave(f->loop);
    ck_assert(frame(fd, PING, ACK, 0, "drain\0\0", 8));
    usleep((RPC_PART_MS + 700) * 1000); /* in which nothing may happen */
    got = take_answer(fd, &ended);
    ck_assert(ended);
    ck_assert_uint_ge(got, size);
    close(fd);
    WAIT(f, is_drained, NULL);
    fixture_destroy(f);
}
END_TEST

/* A half-close in one read with what lets its call go on: the body that was kept comes first. */
START_TEST(test_half_close_behind_a_pause)
{
    static const char body[] = "\0\0\0\0\7\22\5\12\1x\20\1"; /* Data{"x", eof} */
    int fd;

    f = fixture_create(OVER_UNIX);
    fd = greet(NULL, 0);
    loop_enter(f->loop); /* all of it is one read */
    ck_assert(try_call(fd, 1, "hold"));
    ck_assert(frame(fd, DATA, 0, 1, body, sizeof(body) - 1));
    ck_assert(try_call(fd, 3, "resume"));
    ck_assert(frame(fd, DATA, END_STREAM, 1, NULL, 0));
    ck_assert(frame(fd, DATA, END_STREAM, 3, body, sizeof(body) - 1));
    loop_leave(f->loop);
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, ANY));
    ck_assert(wait_frame(fd, HEADERS, END_STREAM, ANY));
    loop_enter(f->loop);
    ck_assert_uint_eq(f->finished, 2);
    ck_assert_uint_eq(f->gone, 0);
    loop_leave(f->loop);
    finish(fd);
}
END_TEST

/* One that never says a word, and one that does not answer pings. */
START_TEST(test_half_open)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    int mute, deaf;

    config.client_silence_ns = 50 * ENV_MS;
    config.answer_ns = ENV_S / 2;
    f = fixture_create_with(OVER_UNIX, &config);
    fixture_server_open(f);
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    mute = dial();
    deaf = greet(NULL, 0);
    ck_assert(try_call(deaf, 1, "hold"));
    ck_assert(wait_frame(deaf, PING, 0, 0));
    ck_assert(!wait_frame(deaf, GOAWAY, 0xff, 0));
    ck_assert(!wait_frame(mute, GOAWAY, 0xff, 0));
    close(mute);
    finish(deaf);
}
END_TEST

/* Streams that never bring a message, with methods that want one. */
START_TEST(test_no_message)
{
    nghttp2_hd_inflater *hd;
    unsigned char b[512];
    size_t n = 0;
    int fd;

    ck_assert_int_eq(nghttp2_hd_inflate_new(&hd), 0);
    open_waiting(50);
    fd = greet(NULL, 0);
    ck_assert(try_call(fd, 1, "hold"));
    ck_assert(call(fd, 3));
    expect_end(fd, hd, 3, "4", "RUN401 expected TryCall first, none came within 50 ms");
    n += field(b, ":method", "POST", 4);
    n += field(b + n, ":scheme", "http", 4);
    n += field(b + n, ":path", "/RunnerProtocol/Status", 22);
    n += field(b + n, ":authority", "x", 1);
    n += field(b + n, "te", "trailers", 8);
    n += field(b + n, "content-type", "application/grpc", 16);
    ck_assert(frame(fd, HEADERS, END_HEADERS, 5, b, n));
    expect_end(fd, hd, 5, "4", "no message came");
    loop_enter(f->loop);
    ck_assert_uint_eq(f->gone, 0); /* the call that was tried goes on */
    loop_leave(f->loop);
    nghttp2_hd_inflate_del(hd);
    finish(fd);
}
END_TEST

TCase *hostile_case(void)
{
    TCase *tc = tcase_create("hostile");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_flood, 0, (int)(sizeof(floods) / sizeof(floods[0])));
    tcase_add_test(tc, test_rapid_reset);
    tcase_add_loop_test(tc, test_answers_that_nobody_reads, 0, 2);
    tcase_add_test(tc, test_large_headers);
    tcase_add_test(tc, test_messages_that_cannot_be_read);
    tcase_add_test(tc, test_many_fields);
    tcase_add_test(tc, test_unknown_messages_without_end);
    tcase_add_test(tc, test_no_grpc);
    tcase_add_test(tc, test_held_memory);
    tcase_add_test(tc, test_acks_ahead);
    tcase_add_test(tc, test_long_request_id);
    tcase_add_test(tc, test_window_of_zero);
    tcase_add_loop_test(tc, test_cancelled_while_blocked, 0, BLOCKED_ROUNDS);
    tcase_add_loop_test(tc, test_drained_while_blocked, 0, DRAINED_SIZES);
    tcase_add_test(tc, test_half_close_behind_a_pause);
    tcase_add_test(tc, test_half_open);
    tcase_add_test(tc, test_no_message);
    return tc;
}
