/* The table of a transport itself (rpc/transport.h), at both: owners that close in the middle of a
 * peer's bytes, and what a thousand connections leave behind. */
#include "../lib/sanitized.h"
#include "diff.h"

#include <dirent.h>
#include <malloc.h>
#include <net/io.h>
#include <rpc/rpc_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HELLO "\0\0\0\0\5hello"

static struct fixture *f; /* of which the loop is used */
static struct rpc_transport_host host;
static struct transport *transport;
static const struct rpc_transport *table;

static void open_transport(enum diff_transport t)
{
    static const struct rpc_limits limits = { .message_max_bytes = 4u << 20,
                                              .memory_max_bytes = 16u << 20,
                                              .streams_max = 100,
                                              .answer_ms = 5000 };
    struct fn_error err = ERR_INIT;

    f = diff_fixture(t);
    ck_assert_msg(rpc_transport_find(getenv("FND_TRANSPORTS"), t == DIFF_CORE ? "core" : "nghttp2",
                                     &table, &err) == 0,
                  "%s", err.msg);
    rpc_transport_host_init(&host, f->loop);
    loop_enter(f->loop);
    ck_assert_int_eq(table->create(&host, &limits, &transport), 0);
    loop_leave(f->loop);
}

static void close_transport(void)
{
    loop_enter(f->loop);
    table->destroy(transport);
    loop_leave(f->loop);
    fixture_destroy(f);
}

/* ---- an owner -------------------------------------------------------------------------------- */

enum moment { READY, GOING, REQUEST, MESSAGE, HALF_CLOSED, ENDED, NEVER };

/* Of a connection and of its calls. */
struct owner {
    struct rpc_conn *conn;
    struct rpc_stream *stream, *other; /* other: closed when the peer goes */
    enum moment closes;                /* the connection is closed then */
    uint32_t told[NEVER];
    uint32_t late; /* callbacks behind that */
    bool closed, done;
    int status;
    char text[32];
};

static void tell(struct owner *o, enum moment m)
{
    o->told[m]++;
    o->late += o->done;
    if (o->closes == m && !o->done) {
        o->done = true;
        o->stream = o->other = NULL;
        rpc_conn_close(o->conn);
        o->conn = NULL;
    }
    fixture_notify(f);
}

static void on_message(void *ud, const void *data, size_t len)
{
    struct owner *o = ud;

    snprintf(o->text, sizeof(o->text), "%.*s", (int)len, (const char *)data);
    tell(o, MESSAGE);
}

static void on_half_closed(void *ud)
{
    tell(ud, HALF_CLOSED);
}

static void on_ended(void *ud, int status, const char *text, bool refused)
{
    struct owner *o = ud;
    struct rpc_stream *st = o->stream;

    (void)text;
    (void)refused;
    o->status = status;
    tell(o, ENDED);
    if (!o->done) {
        o->stream = NULL;
        rpc_stream_close(st);
    }
}

static const struct rpc_stream_cb stream_cb = { .message = on_message,
                                                .half_closed = on_half_closed,
                                                .ended = on_ended };

/* Of calls whose end nobody minds. */
static void on_no_message(void *ud, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
}

static void on_no_end(void *ud, int status, const char *text, bool refused)
{
    (void)status;
    (void)text;
    (void)refused;
    rpc_stream_close(*(struct rpc_stream **)ud);
    *(struct rpc_stream **)ud = NULL;
}

static const struct rpc_stream_cb quiet_cb = { .message = on_no_message, .ended = on_no_end };

static void on_ready(void *ud)
{
    tell(ud, READY);
}

static void on_going(void *ud)
{
    struct owner *o = ud;

    if (o->other) {
        rpc_stream_close(o->other);
        o->other = NULL;
    }
    tell(o, GOING);
}

static void on_request(void *ud, struct rpc_stream *st, const struct rpc_head *head)
{
    struct owner *o = ud;

    (void)head;
    o->stream = st;
    rpc_stream_adopt(st, &stream_cb, o, 1000);
    tell(o, REQUEST);
}

static void on_closed(void *ud, const char *why)
{
    struct owner *o = ud;

    (void)why;
    o->late += o->done;
    o->closed = true;
    o->conn = NULL;
    fixture_notify(f);
}

static const struct rpc_conn_cb conn_cb = { .ready = on_ready,
                                            .going = on_going,
                                            .request = on_request,
                                            .closed = on_closed };

/* In the loop. */
static void own(struct owner *o, int fd, bool server, enum moment closes)
{
    struct fn_error err = ERR_INIT;
    struct net_io *io;

    *o = (struct owner){ .closes = closes, .status = -1 };
    ck_assert_int_eq(net_io_create(f->loop, fd, "peer", &io, &err), 0);
    o->conn = table->conn_create(transport, io, server ? NULL : "x", false, &conn_cb, o);
    ck_assert_ptr_nonnull(o->conn);
}

static struct rpc_stream *call(struct owner *o, const struct rpc_stream_cb *cb, void *ud,
                               const void *data, size_t len)
{
    struct rpc_call c = { .path = "/x/y", .low_mark = 1000 };
    struct rpc_stream *st = rpc_stream_open(o->conn, &c, cb, ud);

    ck_assert_ptr_nonnull(st);
    ck_assert_int_eq(rpc_stream_send(st, data, len), 0);
    return st;
}

static bool is_ready(void *ud)
{
    return ((struct owner *)ud)->told[READY] > 0;
}

static bool is_done(void *ud)
{
    struct owner *o = ud;

    return o->done || o->told[ENDED] > 0 || o->closed;
}

static void pair_of(int fds[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
}

/* ---- closed in between ----------------------------------------------------------------------- */

static void on_frame(void *ud, const struct raw_frame *fr)
{
    *(bool *)ud = *(bool *)ud || fr->type == RAW_HEADERS;
}

static bool is_true(void *ud)
{
    return *(bool *)ud;
}

static void put_answer(struct raw_peer *p, uint32_t id)
{
    unsigned char b[64];
    size_t n = raw_field(b, ":status", "200");

    n += raw_field(b + n, "content-type", "application/grpc");
    raw_put(p, RAW_HEADERS, RAW_END_HEADERS, id, b, n);
    raw_put(p, RAW_DATA, 0, id, HELLO, sizeof(HELLO) - 1);
    raw_put(p, RAW_DATA, 0, id, HELLO, sizeof(HELLO) - 1);
    raw_put(p, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, id, b,
            raw_field(b, "grpc-status", "0"));
}

/* All that is gathered is one read. */
static void send_at_once(struct raw_peer *p)
{
    loop_enter(f->loop);
    ck_assert_int_eq(send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL), (ssize_t)p->out.len);
    buf_clear(&p->out);
    loop_leave(f->loop);
}

static const enum moment client_moments[] = { READY, GOING, MESSAGE, ENDED };

/* The owner of a client's connection closes it inside of each callback, and more is to come. */
START_TEST(test_client_closes_in_between)
{
    enum moment m = client_moments[_i / DIFF_TRANSPORTS_N];
    bool came = false;
    struct raw_peer p;
    struct owner o;
    int fds[2];

    open_transport((enum diff_transport)(_i % DIFF_TRANSPORTS_N));
    pair_of(fds);
    raw_peer_init(&p, fds[1], false);
    p.frame = on_frame;
    p.ud = &came;
    loop_enter(f->loop);
    own(&o, fds[0], false, m);
    loop_leave(f->loop);
    raw_put(&p, RAW_SETTINGS, 0, 0, NULL, 0);
    raw_put(&p, RAW_PING, 0, 0, "whatever", 8);
    send_at_once(&p);
    WAIT(f, is_ready, &o);
    if (m != READY) {
        loop_enter(f->loop);
        o.stream = call(&o, &stream_cb, &o, "x", 1);
        loop_leave(f->loop);
        raw_run(&p, is_true, &came);
        raw_put(&p, RAW_GOAWAY, 0, 0, "\177\377\377\377\0\0\0\0", 8);
        put_answer(&p, 1);
        raw_put(&p, RAW_PING, 0, 0, "whatever", 8);
        send_at_once(&p);
    }
    WAIT(f, is_done, &o);
    ck_assert(o.done);
    raw_close(&p);
    ck_assert_uint_eq(o.late, 0);
    ck_assert_uint_eq(o.told[m], 1);
    raw_peer_finish(&p);
    close_transport();
}
END_TEST

static const enum moment server_moments[] = { REQUEST, MESSAGE, HALF_CLOSED, ENDED };

/* The same of a server's. */
START_TEST(test_server_closes_in_between)
{
    enum moment m = server_moments[_i / DIFF_TRANSPORTS_N];
    unsigned char b[256];
    struct raw_peer p;
    struct owner o;
    int fds[2];
    size_t n = 0;

    open_transport((enum diff_transport)(_i % DIFF_TRANSPORTS_N));
    pair_of(fds);
    raw_peer_init(&p, fds[1], true);
    loop_enter(f->loop);
    own(&o, fds[0], true, m);
    loop_leave(f->loop);
    raw_put(&p, RAW_SETTINGS, 0, 0, NULL, 0);
    raw_sync(&p);
    n += raw_field(b, ":method", "POST");
    n += raw_field(b + n, ":scheme", "http");
    n += raw_field(b + n, ":path", "/x/y");
    n += raw_field(b + n, ":authority", "x");
    n += raw_field(b + n, "te", "trailers");
    n += raw_field(b + n, "content-type", "application/grpc");
    raw_put(&p, RAW_HEADERS, RAW_END_HEADERS, 1, b, n);
    raw_put(&p, RAW_DATA, 0, 1, HELLO, sizeof(HELLO) - 1);
    raw_put(&p, RAW_DATA, m == HALF_CLOSED ? RAW_END_STREAM : 0, 1, HELLO, sizeof(HELLO) - 1);
    send_at_once(&p);
    if (m == ENDED) {
        raw_sync(&p);
        raw_put(&p, RAW_RST, 0, 1, "\0\0\0\10", 4);
        raw_put(&p, RAW_PING, 0, 0, "whatever", 8);
        send_at_once(&p);
    }
    WAIT(f, is_done, &o);
    raw_close(&p);
    ck_assert_uint_eq(o.late, 0);
    ck_assert_uint_eq(o.told[m], 1);
    raw_peer_finish(&p);
    close_transport();
}
END_TEST

/* A client that is blocked, with a call that has not been made into frames yet. When its peer goes,
 * the owner closes that call in the middle of the peer's bytes; those that follow are an answer. */
START_TEST(test_output_is_looked_at_in_between)
{
    static char large[100000];
    static const char settings[] = "\0\4\177\377\377\377";
    struct rpc_stream *big[20];
    bool came = false;
    struct raw_peer p;
    struct owner o;
    int fds[2];

    open_transport((enum diff_transport)_i);
    pair_of(fds);
    raw_peer_init(&p, fds[1], false);
    p.frame = on_frame;
    p.ud = &came;
    loop_enter(f->loop);
    own(&o, fds[0], false, NEVER);
    loop_leave(f->loop);
    raw_put(&p, RAW_SETTINGS, 0, 0, settings, 6);
    raw_put(&p, RAW_WINDOW, 0, 0, "\177\0\0\0", 4);
    raw_sync(&p);
    WAIT(f, is_ready, &o);
    loop_enter(f->loop);
    o.stream = call(&o, &stream_cb, &o, "x", 1);
    loop_leave(f->loop);
    raw_run(&p, is_true, &came);
    for (int i = 0; i < 20; i++) {
        loop_enter(f->loop);
        big[i] = call(&o, &quiet_cb, &big[i], large, sizeof(large));
        loop_leave(f->loop);
    }
    loop_enter(f->loop);
    o.other = call(&o, &quiet_cb, &o.other, "y", 1);
    loop_leave(f->loop);
    raw_put(&p, RAW_GOAWAY, 0, 0, "\177\377\377\377\0\0\0\0", 8);
    put_answer(&p, 1);
    send_at_once(&p);
    WAIT(f, is_done, &o);
    ck_assert_int_eq(o.status, 0);
    ck_assert_uint_eq(o.told[MESSAGE], 2);
    ck_assert_str_eq(o.text, "hello");
    loop_enter(f->loop);
    rpc_conn_close(o.conn);
    loop_leave(f->loop);
    raw_peer_finish(&p);
    close_transport();
}
END_TEST

/* ---- many connections ------------------------------------------------------------------------ */

#define MANY    150
#define AT_ONCE 50
#define SOON_MS 3000 /* it took 6 s */

static bool got_message(void *ud)
{
    return ((struct owner *)ud)->told[MESSAGE] > 0;
}

static void open_some(struct owner clients[AT_ONCE], struct owner servers[AT_ONCE])
{
    loop_enter(f->loop);
    for (int i = 0; i < AT_ONCE; i++) {
        int fds[2];

        pair_of(fds);
        own(&clients[i], fds[0], false, NEVER);
        own(&servers[i], fds[1], true, i % 4 == 0 ? MESSAGE : NEVER);
    }
    loop_leave(f->loop);
    for (int i = 0; i < AT_ONCE; i++) {
        WAIT(f, is_ready, &clients[i]);
    }
}

/* Whatever was done on one leaves an event for the library, which must not keep a call waiting. */
START_TEST(test_many_connections)
{
    static struct owner clients[MANY], servers[MANY];
    int64_t began_ns;

    open_transport((enum diff_transport)_i);
    for (int n = 0; n < MANY; n += AT_ONCE) {
        open_some(clients + n, servers + n);
    }
    began_ns = env_now_ns(f->env);
    loop_enter(f->loop);
    clients[1].stream = call(&clients[1], &stream_cb, &clients[1], "x", 1);
    loop_leave(f->loop);
    WAIT(f, got_message, &servers[1]);
    loop_enter(f->loop);
    rpc_stream_finish(servers[1].stream, 0, NULL);
    loop_leave(f->loop);
    WAIT(f, is_done, &clients[1]);
    ck_assert_int_lt((env_now_ns(f->env) - began_ns) / ENV_MS, SOON_MS);
    close_transport();
}
END_TEST

/* ---- what is left ---------------------------------------------------------------------------- */

#define CONNS_MAX  1000
#define LEFT_BYTES (64u << 10)

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

/* In use; 0 where a sanitizer has its own heap, which looks for leaks at the end. */
static size_t heap_bytes(void)
{
    return SANITIZED ? 0 : mallinfo2().uordblks;
}

static bool is_closed(void *ud)
{
    return !((struct owner *)ud)->conn;
}

/* The server's side has the call; a quarter is closed there already. */
static void close_one(struct owner *client, struct owner *server, int how)
{
    struct rpc_stream *st = server->stream;

    loop_enter(f->loop);
    if (how == 1) {
        rpc_conn_close(client->conn);
        client->conn = NULL;
    } else if (how > 1) {
        server->stream = NULL;
        rpc_stream_finish(st, 0, NULL);
    }
    if (how == 2) {
        rpc_conn_drain(server->conn);
    }
    loop_leave(f->loop);
    if (how > 1) {
        WAIT(f, is_done, client);
        loop_enter(f->loop);
        if (client->conn) {
            rpc_conn_leave(client->conn);
            client->conn = NULL;
        }
        loop_leave(f->loop);
    }
}

static void one_round(void)
{
    static struct owner clients[AT_ONCE], servers[AT_ONCE];

    open_some(clients, servers); /* the servers of a quarter close when a message comes */
    for (int i = 0; i < AT_ONCE; i++) {
        loop_enter(f->loop);
        clients[i].stream = call(&clients[i], &stream_cb, &clients[i], "x", 1);
        loop_leave(f->loop);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        WAIT(f, got_message, &servers[i]);
        close_one(&clients[i], &servers[i], i % 4);
        WAIT(f, is_closed, &clients[i]);
        WAIT(f, is_closed, &servers[i]);
    }
}

START_TEST(test_a_thousand_connections)
{
    int fds = 0;
    size_t bytes = 0;

    open_transport((enum diff_transport)_i);
    for (int n = 0; n < CONNS_MAX; n += AT_ONCE) {
        one_round();
        if (n + AT_ONCE == CONNS_MAX / 2) {
            fds = descriptors();
            bytes = heap_bytes();
        }
    }
    ck_assert_int_le(descriptors(), fds);
    ck_assert_uint_le(heap_bytes(), bytes + LEFT_BYTES);
    close_transport();
}
END_TEST

TCase *seam_case(void)
{
    TCase *tc = tcase_create("seam");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_client_closes_in_between, 0, 4 * DIFF_TRANSPORTS_N);
    tcase_add_loop_test(tc, test_server_closes_in_between, 0, 4 * DIFF_TRANSPORTS_N);
    tcase_add_loop_test(tc, test_output_is_looked_at_in_between, 0, DIFF_TRANSPORTS_N);
    tcase_add_loop_test(tc, test_many_connections, 0, DIFF_TRANSPORTS_N);
    tcase_add_loop_test(tc, test_a_thousand_connections, 0, DIFF_TRANSPORTS_N);
    return tc;
}
