/* What one connection or one address can take from the others: turns of the loop, time of those
 * that are turned away, connections, memory of bodies. */
#include "client.h"
#include "suites.h"

#include <arpa/inet.h>
#include <http/server_int.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct http_limits limits;

static void setup(void)
{
    memset(&fx, 0, sizeof(fx));
    limits = default_limits();
}

static void send_many(int fd, const char *request, int times)
{
    struct buf b = BUF_INIT(0);

    for (int i = 0; i < times; i++) {
        buf_add_str(&b, request);
    }
    send_all(fd, b.data, b.len);
    buf_finish(&b);
}

/* What came in one read is not served in one turn of the loop. */
START_TEST(pipelined_requests_have_turns)
{
    int fds[20];

    server_start("127.0.0.1:0", &limits);
    for (int i = 0; i < 20; i++) {
        fds[i] = dial();
        send_many(fds[i], GET("/turn"), 1000);
    }
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 1000; k++) {
            expect_answer(fds[i], "200", "ok");
        }
        close(fds[i]);
    }
    /* the first requests of all, and one turn of the ring */
    ck_assert_int_le(atomic_load(&fx.in_turn_max),
                     (20 + TURN_CONNECTIONS_MAX) * TURN_REQUESTS_MAX);
    server_stop();
}
END_TEST

/* An end of input behind them does not lose the requests that were read ahead. */
START_TEST(the_end_of_input_waits_for_its_turn)
{
    char *text;
    int fd, n = 0;

    server_start(NULL, &limits);
    fd = dial();
    send_many(fd, GET("/plain"), 50);
    shutdown(fd, SHUT_WR);
    text = read_to_end(fd, NULL);
    for (const char *p = text; (p = strstr(p, "HTTP/1.1 200 ")); p++) {
        n++;
    }
    ck_assert_int_eq(n, 50);
    free(text);
    close(fd);
    server_stop();
}
END_TEST

/* A bad one among them ends the connection in its turn, behind the answers to those before. */
START_TEST(a_refusal_waits_for_its_turn)
{
    char *text;
    int fd;

    server_start(NULL, &limits);
    fd = dial();
    send_many(fd, GET("/plain"), 30);
    send_text(fd, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    send_many(fd, GET("/plain"), 30);
    text = read_to_end(fd, NULL);
    ck_assert_int_eq(atomic_load(&fx.requests), 30);
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 405 "));
    free(text);
    close(fd);
    server_stop();
}
END_TEST

/* What a connection that is turned away sends is read a little, so that the answer is not lost. */
START_TEST(who_is_turned_away_is_read_a_little)
{
    static struct http_server server;
    static char much[64 * 1024];
    struct buf answer = BUF_INIT(0);
    int size = 16 << 20, pair[2], before = 0, left = 0;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    if (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0) {
        setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* may be enough */
    }
    for (int i = 0; i < 2 * LAST_READS_MAX; i++) {
        ck_assert_int_gt(send(pair[0], much, sizeof(much), MSG_DONTWAIT), 0);
    }
    ck_assert_int_eq(ioctl(pair[1], FIONREAD, &before), 0);
    buf_add_str(&answer, "no");
    server_send_last(&server, pair[1], &answer);
    ck_assert_int_eq(ioctl(pair[1], FIONREAD, &left), 0);
    ck_assert_int_ge(left, before - LAST_READS_MAX * SCRATCH_BYTES);
    ck_assert_int_eq(recv(pair[0], much, sizeof(much), 0), 2);
    buf_finish(&answer);
    close(pair[0]);
    close(pair[1]);
}
END_TEST

static struct visitor *take(struct http_server *s, const char *address)
{
    struct sockaddr_storage addr = { .ss_family = strchr(address, ':') ? AF_INET6 : AF_INET };
    void *to = addr.ss_family == AF_INET6
                   ? (void *)&((struct sockaddr_in6 *)(void *)&addr)->sin6_addr
                   : (void *)&((struct sockaddr_in *)(void *)&addr)->sin_addr;

    ck_assert_int_eq(inet_pton(addr.ss_family, address, to), 1);
    return peer_count_take(s, (struct sockaddr *)&addr);
}

START_TEST(addresses_are_counted_as_customers_have_them)
{
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        { "10.0.0.1", "10.0.0.1", true },
        { "10.0.0.1", "10.0.0.2", false },
        { "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true },
        { "2001:db8:1:2::1", "2001:db8:1:3::1", false },
        { "::ffff:10.0.0.1", "10.0.0.1", true },
        { "::ffff:10.0.0.1", "::ffff:10.0.0.2", false },
        { "::1", "::2", true },
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct http_server s = { 0 };
        struct visitor *a = take(&s, pairs[i].a);
        struct visitor *b = take(&s, pairs[i].b);

        ck_assert_msg((a == b) == pairs[i].same, "%s and %s", pairs[i].a, pairs[i].b);
        visitor_leave(a);
        visitor_leave(b);
        ck_assert_ptr_null(s.peers.table);
    }
}
END_TEST

/* A line before it is too late, with the option that helps. */
START_TEST(who_comes_near_the_limit_of_one_address_is_told)
{
    static char lines[65536];
    int log = memfd_create("log", MFD_CLOEXEC);
    int fds[3];

    log_setup(&(struct log_config){ .level = FN_LOG_WARN, .fd = log });
    limits.connections_per_ip_max = 4;
    server_start("127.0.0.1:0", &limits);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(strstr(lines, "http.proxies"));
        fds[i] = dial();
        send_text(fds[i], GET("/plain"));
        expect_answer(fds[i], "200", "ok");
        ck_assert_int_ge(pread(log, lines, sizeof(lines) - 1, 0), 0);
    }
    ck_assert_ptr_nonnull(strstr(lines, "an address has more than half"));
    ck_assert_ptr_nonnull(strstr(lines, "http.proxies"));
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
    server_stop();
    close(log);
}
END_TEST

START_TEST(proxies_are_not_held_to_the_limit_of_one_address)
{
    static const char *const networks[] = { "127.0.0.0/30", "fd00::/8" };
    int fds[6];

    limits.connections_per_ip_max = 2;
    limits.proxies = (struct fn_strlist){ networks, 2 };
    server_start("127.0.0.1:0", &limits);
    for (int i = 0; i < 6; i++) {
        fds[i] = dial();
        send_text(fds[i], GET("/plain"));
        expect_answer(fds[i], "200", "ok");
    }
    for (int i = 0; i < 6; i++) {
        close(fds[i]);
    }
    server_stop();
}
END_TEST

/* header, its fields (a NULL ends them) and who is the client, NULL = it is not said. */
static const struct {
    const char *word;
    const char *fields[3];
    const char *client;
} behind[] = {
    { "connection", { "203.0.113.7" }, NULL },
    { "x-forwarded-for", { "203.0.113.7" }, "203.0.113.7" },
    { "x-forwarded-for", { "198.51.100.1, 203.0.113.7" }, "203.0.113.7" },
    { "x-forwarded-for", { "198.51.100.1,203.0.113.7 ,\t10.1.0.9, 10.1.0.8" }, "203.0.113.7" },
    { "x-forwarded-for", { "198.51.100.1", "203.0.113.7", "10.1.0.9" }, "203.0.113.7" },
    { "x-forwarded-for", { "203.0.113.7:51234" }, "203.0.113.7" },
    { "x-forwarded-for", { "2001:db8::7" }, "2001:db8::7" },
    { "x-forwarded-for", { "[2001:db8::7]:443" }, "2001:db8::7" },
    { "x-forwarded-for", { "::ffff:203.0.113.7" }, "203.0.113.7" },
    { "x-forwarded-for", { "10.1.0.9, 10.1.0.8" }, NULL },
    { "x-forwarded-for", { "203.0.113.7, unknown" }, NULL },
    { "x-forwarded-for", { "203.0.113.7," }, NULL },
    { "x-forwarded-for", { "203.0.113.0/24" }, NULL },
    { "x-forwarded-for", { "203.0.113.7, 10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,"
                           "10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1,"
                           "10.1.0.1,10.1.0.1,10.1.0.1,10.1.0.1" }, NULL },
    { "x-forwarded-for", { "" }, NULL },
    { "x-forwarded-for", { "[" }, NULL },
    { "x-forwarded-for", { "[]" }, NULL },
    { "x-forwarded-for", { "\"" }, NULL },
    { "forwarded", { "for=203.0.113.7" }, "203.0.113.7" },
    { "forwarded", { "by=10.1.0.8;proto=https; For=\"203.0.113.7:1\"" }, "203.0.113.7" },
    { "forwarded", { "for=198.51.100.1, for=\"[2001:db8::7]:4711\", for=10.1.0.9" },
      "2001:db8::7" },
    { "forwarded", { "for=_hidden" }, NULL },
    { "forwarded", { "proto=https" }, NULL },
    { "forwarded", { "for=" }, NULL },
    { "forwarded", { "203.0.113.7" }, NULL },
};

START_TEST(a_proxy_says_who_its_client_is)
{
    static const char *const networks[] = { "10.1.0.0/16" };
    struct http_server s = { .config.limits.proxies = { networks, 1 } };
    struct net_address client = { { 0 } };
    struct headers h;
    struct arena arena;
    char text[64] = "";

    arena_init(&arena, 0);
    headers_init(&h, &arena);
    headers_add(&h, "Host", "x");
    for (int i = 0; i < 3 && behind[_i].fields[i]; i++) {
        headers_add(&h, behind[_i].word[0] == 'f' ? "Forwarded" : "X-Forwarded-For",
                    behind[_i].fields[i]);
    }
    headers_add(&h, "X-Forwarded-Host", "10.9.9.9");
    ck_assert_int_eq(peers_set_proxies(&s), 0);
    client_header_set(&s, behind[_i].word);
    if (client_behind(&s, &h, &client)) {
        net_address_print(&client, text, sizeof(text));
    }
    ck_assert_str_eq(text, behind[_i].client ? behind[_i].client : "");
    free(s.proxies);
    arena_finish(&arena);
}
END_TEST

/* What the handler is told of a client, whose proxy is the test itself. */
START_TEST(a_client_is_named_as_its_proxy_does)
{
    static const char *const networks[] = { "127.0.0.0/8" };
    static const char get[] = "GET /client HTTP/1.1\r\nHost: a\r\n"
                              "X-Forwarded-For: 192.0.2.9, 2001:db8::1:2:3:4\r\n\r\n";
    int fd;

    limits.proxies = (struct fn_strlist){ networks, 1 };
    limits.client_from = "x-forwarded-for";
    server_start("127.0.0.1:0", &limits);
    fd = dial();
    send_text(fd, get);
    expect_answer(fd, "200", "2001:db8::1:2:3:4 held with 2001:db8::");
    close(fd);
    server_stop();
}
END_TEST

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define SAID(text) text, sizeof(text) - 1

/* What a proxy says before everything else, and who the client is then; NULL: hung up. */
static const struct {
    const char *said;
    size_t len;
    const char *client;
} introductions[] = {
    { SAID("PROXY TCP4 192.0.2.9 10.1.0.1 51234 80\r\n"), "192.0.2.9:51234 held with 192.0.2.9" },
    { SAID("PROXY TCP6 2001:db8::1:2:3:4 ::1 51234 80\r\n"),
      "[2001:db8::1:2:3:4]:51234 held with 2001:db8::" },
    { SAID("PROXY UNKNOWN\r\n"), "127.0.0.1:" },
    { SAID("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"), "127.0.0.1:" },
    { SAID(V2 "\x21\x11\0\x0c\xc0\0\x02\x09\x0a\1\0\1\xc8\x22\0\x50"),
      "192.0.2.9:51234 held with 192.0.2.9" },
    { SAID(V2 "\x21\x11\0\x10\xc0\0\x02\x09\x0a\1\0\1\xc8\x22\0\x50" "\4\0\1x"), /* more */
      "192.0.2.9:51234 held with 192.0.2.9" },
    { SAID(V2 "\x21\x21\0\x24" "\x20\1\x0d\xb8\0\0\0\0\0\1\0\2\0\3\0\4"
           "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1" "\xc8\x22\0\x50"),
      "[2001:db8::1:2:3:4]:51234 held with 2001:db8::" },
    { SAID(V2 "\x20\0\0\0"), "127.0.0.1:" },     /* LOCAL */
    { SAID(V2 "\x21\x31\0\3abc"), "127.0.0.1:" }, /* a unix socket's */
    { SAID(V2 "\x21\x11\0\4abcd"), NULL },       /* too short for two addresses */
    { SAID(V2 "\x31\x11\0\0"), NULL },           /* version 3 */
    { SAID(V2 "\x21\x11\x7f\0"), NULL },          /* longer than anybody's */
    { SAID("\r\n\r\nabc"), NULL },
    { SAID("PROXY TCP4 192.0.2.9 10.1.0.1 51234\r\n"), NULL },
    { SAID("PROXY TCP4 2001:db8::1 ::1 51234 80\r\n"), NULL },
    { SAID("PROXY TCP4 192.0.2.9 10.1.0.1 70000 80\r\n"), NULL },
    { SAID("PROXY TCP4 192.0.2.9 10.1.0.1 1 80 and more\r\n"), NULL },
    { SAID("PROXY TCP4 192.0.2.9 10.1.0.1                                                        "
           "                                   1 2\r\n"), NULL },
    { SAID(""), NULL }, /* the request at once */
};

static void start_introduced(void)
{
    static const char *const networks[] = { "127.0.0.0/8" };

    limits.proxies = (struct fn_strlist){ networks, 1 };
    limits.client_from = "proxy-protocol";
    server_start("127.0.0.1:0", &limits);
}

/* Whole, and then byte by byte. */
START_TEST(a_proxy_introduces_its_client)
{
    char *head, *body;
    size_t len;

    start_introduced();
    for (size_t piece = 256; piece > 0; piece /= 256) {
        size_t n = introductions[_i].len;
        int fd = dial();

        for (size_t at = 0; at < n; at += piece) {
            send_all(fd, introductions[_i].said + at, n - at < piece ? n - at : piece);
        }
        send_text(fd, GET("/client"));
        if (introductions[_i].client) {
            ck_assert(read_answer(fd, &head, &body, &len));
            ck_assert_msg(strncmp(body, introductions[_i].client,
                                  strlen(introductions[_i].client)) == 0, "%s", body);
            free(head);
        } else {
            body = read_to_end(fd, &len);
            ck_assert_uint_eq(len, 0);
        }
        free(body);
        close(fd);
    }
    server_stop();
}
END_TEST

START_TEST(who_is_not_introduced_in_time_is_hung_up_on)
{
    size_t len;
    char *answer;
    int fd, other;

    limits.header_timeout_ns = 50 * ENV_MS;
    start_introduced();
    fd = dial();
    send_text(fd, "PROXY ");
    answer = read_to_end(fd, &len);
    ck_assert_uint_eq(len, 0);
    free(answer);
    close(fd);
    fd = dial();
    other = dial();
    send_text(other, "PROXY ");
    server_stop(); /* nothing of the two is left: sanitizers and descriptors say so */
    close(fd);
    close(other);
}
END_TEST

static uint64_t used_bytes(void)
{
    uint64_t n;

    loop_enter(fx.loop);
    n = fx.bodies.used_bytes;
    loop_leave(fx.loop);
    return n;
}

/* The same server, from another address of this machine. */
static int dial_from(const char *address)
{
    struct sockaddr_in from = { .sin_family = AF_INET };
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(http_server_port(fx.server)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(inet_pton(AF_INET, address, &from.sin_addr), 1);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* One address that brings bodies slowly leaves room for those of others: a part of the body is
 * never brought. With and without a length. */
START_TEST(bodies_of_one_address_have_a_share_of_the_memory)
{
    static const char length[] = "POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n";
    static const char chunked[] = "POST /plain HTTP/1.1\r\nHost: a\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n65\r\n";
    static const char part[100];
    int fds[8], fd;
    char *text;

    fx.bodies.limit_bytes = 1000;
    server_start("127.0.0.1:0", &limits);
    for (int i = 0; i < 8; i++) {
        fds[i] = dial();
        send_text(fds[i], _i ? chunked : length);
        send_all(fds[i], part, sizeof(part));
    }
    while (used_bytes() < 800) {
        sched_yield();
    }
    fd = dial();
    send_text(fd, _i ? chunked : length);
    send_all(fd, part, 1);
    text = read_to_end(fd, NULL);
    ck_assert_msg(strstr(text, "HTTP118 request bodies of this address"), "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "Retry-After: 1\r\n"));
    free(text);
    close(fd);
    fd = dial_from("127.0.0.2");
    send_text(fd, "POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    expect_answer(fd, "200", "ok");
    close(fd);
    for (int i = 0; i < 8; i++) {
        close(fds[i]);
    }
    server_stop();
}
END_TEST

/* Nor does it help to have all heads judged before the first byte of a body. */
START_TEST(bodies_have_a_share_also_where_their_heads_were_first)
{
    static const char head[] = "POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n"
                               "Expect: 100-continue\r\n\r\n";
    static const char part[100];
    char go_on[25]; /* of the answer: the head was judged */
    int fds[9];
    char *text;

    fx.bodies.limit_bytes = 1000;
    server_start("127.0.0.1:0", &limits);
    for (int i = 0; i < 9; i++) {
        fds[i] = dial();
        send_text(fds[i], head);
        ck_assert_int_eq(recv(fds[i], go_on, sizeof(go_on), MSG_WAITALL), sizeof(go_on));
    }
    for (uint64_t i = 0; i < 8; i++) {
        send_all(fds[i], part, sizeof(part));
        while (used_bytes() < (i + 1) * sizeof(part)) {
            sched_yield();
        }
    }
    send_all(fds[8], part, sizeof(part));
    text = read_to_end(fds[8], NULL);
    ck_assert_msg(strstr(text, "HTTP118 request bodies of this address"), "%s", text);
    free(text);
    for (int i = 0; i < 9; i++) {
        close(fds[i]);
    }
    server_stop();
}
END_TEST

void add_fair(Suite *s)
{
    TCase *t = tcase_create("fair");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, pipelined_requests_have_turns);
    tcase_add_test(t, the_end_of_input_waits_for_its_turn);
    tcase_add_test(t, a_refusal_waits_for_its_turn);
    tcase_add_test(t, who_is_turned_away_is_read_a_little);
    tcase_add_test(t, addresses_are_counted_as_customers_have_them);
    tcase_add_test(t, who_comes_near_the_limit_of_one_address_is_told);
    tcase_add_test(t, proxies_are_not_held_to_the_limit_of_one_address);
    tcase_add_loop_test(t, a_proxy_says_who_its_client_is, 0, sizeof(behind) / sizeof(behind[0]));
    tcase_add_test(t, a_client_is_named_as_its_proxy_does);
    tcase_add_loop_test(t, a_proxy_introduces_its_client, 0,
                        sizeof(introductions) / sizeof(introductions[0]));
    tcase_add_test(t, who_is_not_introduced_in_time_is_hung_up_on);
    tcase_add_loop_test(t, bodies_of_one_address_have_a_share_of_the_memory, 0, 2);
    tcase_add_test(t, bodies_have_a_share_also_where_their_heads_were_first);
    suite_add_tcase(s, t);
}
