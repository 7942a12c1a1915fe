/* HTTPS: the same server over TLS streams. */
#include "../net/certs.h"
#include "client.h"
#include "suites.h"

#include <http/server_int.h>

#include <net/tls.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIG 3000000

static struct authority ca, other;
static struct pair node, caller;
static struct http_limits limits;

/* peer NULL: everybody; demand: a certificate of ca from clients. */
static struct net_identity *identity_of(const struct pair *p, bool demand, const char *peer)
{
    struct net_tls tls = { .cert_pem = p->cert,
                           .key_pem = p->key,
                           .ca_pem = demand ? ca.pem : NULL,
                           .peers = &peer,
                           .n_peers = peer ? 1 : 0 };
    struct fn_error e = ERR_INIT;
    struct net_identity *i;

    ck_assert_msg(net_identity_create(&tls, &i, &e) == 0, "%s", e.msg);
    return i;
}

static void setup(void)
{
    signal(SIGPIPE, SIG_IGN); /* a server may refuse while we write */
    memset(&fx, 0, sizeof(fx));
    limits = default_limits();
    authority_make(&ca, "test-ca");
    authority_make(&other, "other-ca");
    node = pair_make(&ca, "node-1", "IP:127.0.0.1", -1, 10);
    caller = pair_make(&ca, "client-1", "URI:spiffe://fnd/client-1", -1, 10);
}

static void teardown(void)
{
    net_identity_unref(fx.identity);
    pair_free(&node);
    pair_free(&caller);
    authority_free(&ca);
    authority_free(&other);
}

static void start(bool demand, const char *peer)
{
    fx.identity = identity_of(&node, demand, peer);
    server_start("127.0.0.1:0", &limits);
}

START_TEST(big_bodies_go_both_ways)
{
    struct buf b = BUF_INIT(0);
    char *head, *got;
    size_t len;
    int fd;

    start(false, NULL);
    buf_printf(&b, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", BIG);
    for (int i = 0; i < BIG / 10; i++) {
        buf_printf(&b, "%010d", i);
    }
    fd = dial_tls(ca.pem, NULL);
    ck_assert_int_ge(fd, 0);
    for (int round = 0; round < 2; round++) { /* on one connection */
        send_all(fd, b.data, b.len);
        ck_assert(read_answer(fd, &head, &got, &len));
        ck_assert_uint_gt(len, BIG);
        ck_assert_int_eq(memcmp(got + len - BIG, b.data + b.len - BIG, BIG), 0);
        free(head);
        free(got);
    }
    hang_up(fd);
    buf_finish(&b);
    server_stop();
}
END_TEST

START_TEST(streams_wait_for_slow_readers)
{
    int fd;

    start(false, NULL);
    fd = dial_tls(ca.pem, NULL);
    expect_slow_reader_is_waited_for(fd, _i);
    hang_up(fd);
    server_stop();
}
END_TEST

/* Many requests in few records: what OpenSSL has read ahead is served without another event. */
START_TEST(pipelined_requests_are_all_answered)
{
    struct buf b = BUF_INIT(0);
    int fd;

    start(false, NULL);
    fd = dial_tls(ca.pem, NULL);
    for (int i = 0; i < 2000; i++) {
        buf_add_str(&b, i % 50 ? GET("/turn") : GET("/later"));
    }
    send_all(fd, b.data, b.len);
    for (int i = 0; i < 2000; i++) {
        expect_answer(fd, "200", "ok");
    }
    ck_assert_int_le(atomic_load(&fx.in_turn_max), 2 * TURN_REQUESTS_MAX);
    hang_up(fd);
    buf_finish(&b);
    server_stop();
}
END_TEST

/* The last record of an answer may wait for the socket when the connection is to close. */
START_TEST(the_last_answer_is_whole)
{
    struct buf b = BUF_INIT(0);
    char *text;
    size_t len;
    int fd;

    start(false, NULL);
    fd = dial_tls(ca.pem, NULL);
    buf_add_str(&b, "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                    "Content-Length: 6000000\r\n\r\n");
    memset(buf_reserve(&b, 6000000), 'x', 6000000);
    b.len += 6000000;
    send_all(fd, b.data, b.len);
    await(&fx.requests, 1);
    text = read_to_end(fd, &len);
    ck_assert_uint_gt(len, 6000000);
    ck_assert_int_eq(text[len - 1], 'x');
    free(text);
    buf_finish(&b);
    hang_up(fd);
    server_stop();
}
END_TEST

START_TEST(an_aborted_answer_never_looks_whole)
{
    char *text;
    int fd;

    start(false, NULL);
    fd = dial_tls(ca.pem, NULL);
    send_text(fd, GET("/abort"));
    text = read_to_end(fd, NULL);
    ck_assert_ptr_nonnull(strstr(text, "4\r\npart\r\n"));
    ck_assert_ptr_null(strstr(text, "0\r\n\r\n"));
    free(text);
    hang_up(fd);
    server_stop();
}
END_TEST

START_TEST(a_client_that_goes_away_or_does_not_read_is_noticed)
{
    int fd;

    limits.write_stall_ns = 200 * ENV_MS;
    start(false, NULL);
    fd = dial_tls(ca.pem, NULL);
    send_text(fd, GET("/park"));
    await(&fx.requests, 1);
    hang_up(fd);
    await(&fx.gone, 1);
    fd = dial_tls(ca.pem, NULL);
    send_text(fd, GET("/stream?n=100000000"));
    await(&fx.gone, 2);
    hang_up(fd);
    server_stop();
}
END_TEST

START_TEST(plain_text_is_told_where_it_is)
{
    char *text;
    int fd;

    start(false, NULL);
    fd = dial();
    send_text(fd, GET("/plain"));
    text = read_to_end(fd, NULL);
    ck_assert_msg(strncmp(text, "HTTP/1.1 400 ", 13) == 0 && strstr(text, "HTTP119"), "%s", text);
    free(text);
    close(fd);
    fd = dial();
    send_text(fd, "not even HTTP, but long enough to be looked at\r\n");
    text = read_to_end(fd, NULL);
    ck_assert_ptr_null(strstr(text, "HTTP/1.1"));
    free(text);
    close(fd);
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    server_stop();
}
END_TEST

START_TEST(silence_before_the_handshake_ends)
{
    char *text;
    size_t len;
    int fd;

    limits.header_timeout_ns = 200 * ENV_MS;
    start(false, NULL);
    fd = dial();
    text = read_to_end(fd, &len);
    ck_assert_uint_eq(len, 0);
    free(text);
    close(fd);
    server_stop();
}
END_TEST

START_TEST(clients_show_certificates_where_they_are_demanded)
{
    struct pair strange = pair_make(&other, "client-1", "URI:spiffe://fnd/client-1", -1, 10);
    char *text;
    size_t len;
    int fd;

    start(true, NULL);
    ck_assert_int_eq(dial_tls(other.pem, &caller), -1); /* it does not believe us */
    for (int i = 0; i < 2; i++) {
        fd = dial_tls(ca.pem, i ? &strange : NULL);
        if (fd >= 0) { /* under TLS 1.3 the refusal comes after the client's part is done */
            send_text(fd, GET("/plain"));
            text = read_to_end(fd, &len);
            ck_assert_uint_eq(len, 0);
            free(text);
            hang_up(fd);
        }
    }
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    fd = dial_tls(ca.pem, &caller);
    send_text(fd, GET("/plain"));
    expect_answer(fd, "200", "ok");
    hang_up(fd);
    pair_free(&strange);
    server_stop();
}
END_TEST

START_TEST(clients_that_are_no_peers_are_told_so)
{
    char *head, *body;
    int fd;

    start(true, "spiffe://fnd/admin-*");
    fd = dial_tls(ca.pem, &caller);
    send_text(fd, GET("/plain"));
    ck_assert(read_answer(fd, &head, &body, NULL));
    ck_assert_int_eq(strncmp(head + 9, "403", 3), 0);
    ck_assert_ptr_nonnull(strstr(body, "TLS805"));
    free(head);
    free(body);
    hang_up(fd);
    ck_assert_int_eq(atomic_load(&fx.requests), 0);
    server_stop();
}
END_TEST

START_TEST(renewing_loses_no_connection)
{
    struct pair next = pair_make(&other, "node-1", "IP:127.0.0.1", -1, 10);
    struct net_tls tls = { .cert_pem = next.cert, .key_pem = next.key };
    int old, fd;

    start(false, NULL);
    old = dial_tls(ca.pem, NULL);
    send_text(old, GET("/plain"));
    expect_answer(old, "200", "ok");
    loop_enter(fx.loop);
    ck_assert_int_eq(net_identity_renew(fx.identity, &tls, NULL), 0);
    loop_leave(fx.loop);
    ck_assert_int_eq(dial_tls(ca.pem, NULL), -1);
    fd = dial_tls(other.pem, NULL);
    send_text(fd, GET("/plain"));
    expect_answer(fd, "200", "ok");
    send_text(old, GET("/plain"));
    expect_answer(old, "200", "ok");
    hang_up(fd);
    hang_up(old);
    pair_free(&next);
    server_stop();
}
END_TEST

void add_tls(Suite *s)
{
    TCase *c = tcase_create("tls");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, big_bodies_go_both_ways);
    tcase_add_loop_test(c, streams_wait_for_slow_readers, 0, 2);
    tcase_add_test(c, pipelined_requests_are_all_answered);
    tcase_add_test(c, the_last_answer_is_whole);
    tcase_add_test(c, an_aborted_answer_never_looks_whole);
    tcase_add_test(c, a_client_that_goes_away_or_does_not_read_is_noticed);
    tcase_add_test(c, plain_text_is_told_where_it_is);
    tcase_add_test(c, silence_before_the_handshake_ends);
    tcase_add_test(c, clients_show_certificates_where_they_are_demanded);
    tcase_add_test(c, clients_that_are_no_peers_are_told_so);
    tcase_add_test(c, renewing_loses_no_connection);
    suite_add_tcase(s, c);
}
