/* Who comes in at a port: how many, from where, and for how long silent. */
#include "rig.h"

#include <errno.h>
#include <net/bind.h>
#include <net/port_counts.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *listen_suite(void);

#define CALLERS_MAX 64

static struct authority ca;
static struct pair node;
static struct net_identity *both;
static int callers[CALLERS_MAX];
static int n_callers;

static void setup(void)
{
    rig_start();
    authority_make(&ca, "test-ca");
    node = pair_make(&ca, "node-1", "IP:127.0.0.1,DNS:localhost", -1, 10);
    both = identity_of(&node, ca.pem, NULL, NULL);
}

static void teardown(void)
{
    while (n_callers > 0) {
        close(callers[--n_callers]);
    }
    rig_stop();
    net_identity_unref(both);
    pair_free(&node);
    authority_free(&ca);
}

/* One more that connects and says nothing; from 127.0.0.`host`. */
static int call_from(uint32_t host)
{
    struct sockaddr_in from = { .sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host) };
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons((uint16_t)net_listener_port(rig.listener)) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_lt(n_callers, CALLERS_MAX);
    callers[n_callers++] = fd;
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* The other side has ended it, softly or hard. */
static bool is_over(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static uint32_t n_over(void)
{
    uint32_t n = 0;

    for (int i = 0; i < n_callers; i++) {
        n += is_over(callers[i]);
    }
    return n;
}

START_TEST(connections_of_one_address_and_of_all_are_bounded)
{
    rig.limits.connections_per_ip_max = 2;
    rig.limits.connections_max = 3;
    rig_listen(NULL, both, NULL);
    for (int i = 0; i < 3; i++) {
        call_from(1);
    }
    UNTIL(n_over() == 1 && is_over(callers[2]));
    call_from(2);
    call_from(3);
    UNTIL(n_over() == 2 && is_over(callers[4]));
    close(callers[0]); /* gives its place back */
    callers[0] = socket(AF_INET, SOCK_STREAM, 0);
    rig_turn();
    rig_dial(rig.address, both, NULL, NULL, 20000);
    UNTIL(rig.dialled && rig.server.io);
    ck_assert_msg(rig.client.io, "%s", rig.error);
}
END_TEST

/* Those that were handed over count as long as they live. */
START_TEST(connections_count_until_they_are_closed)
{
    struct port_counts counts;

    port_counts_init(&counts, "test");
    rig.limits.connections_per_ip_max = 1;
    rig_listen(NULL, NULL, NULL);
    rig_connect(NULL);
    call_from(1);
    UNTIL(is_over(callers[0]));
    ck_assert_int_eq(metric_value(counts.open), 1);
    ck_assert_int_eq(metric_value(counts.turned_away), 1);
    end_close(&rig.server);
    ck_assert_int_eq(metric_value(counts.open), 0);
    call_from(1);
    UNTIL(rig.accepted == 2);
    ck_assert(!is_over(callers[1]));
    ck_assert_int_eq(metric_value(counts.accepted), 3);
}
END_TEST

/* One address cannot hold all places, whatever it does. */
START_TEST(handshakes_of_one_address_leave_room)
{
    rig.handshakes_max = 8;
    rig.handshake_timeout_ms = 20000;
    rig_listen(NULL, both, NULL);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(send(call_from(1), "\x16", 1, MSG_NOSIGNAL), 1); /* not silent */
    }
    UNTIL(n_over() >= 12);
    ck_assert_uint_lt(n_over(), 20);
    call_from(2);
    for (int i = 0; i < 5; i++) {
        rig_turn();
    }
    ck_assert(!is_over(callers[20]));
}
END_TEST

/* Silence from everywhere costs those that have something to say nothing. */
START_TEST(silent_ones_make_room)
{
    struct port_counts counts;

    port_counts_init(&counts, "test");
    rig.handshakes_max = 4;
    rig.handshake_timeout_ms = 20000;
    rig_listen(NULL, both, NULL);
    for (uint32_t i = 0; i < 30; i++) {
        call_from(2 + i);
    }
    rig_dial(rig.address, both, NULL, NULL, 10000);
    UNTIL(rig.dialled && rig.server.io);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    ck_assert_uint_ge(n_over(), 26);
    ck_assert_int_ge(metric_value(counts.unshaken), 26);
}
END_TEST

START_TEST(silence_has_a_time_of_its_own)
{
    rig.handshake_timeout_ms = 20000;
    rig.handshakes_max = 4;
    rig.limits.silence_timeout_ms = 50;
    rig_listen(NULL, both, NULL);
    call_from(1);
    ck_assert_int_eq(send(call_from(2), "\x16", 1, MSG_NOSIGNAL), 1);
    UNTIL(is_over(callers[0]));
    ck_assert(!is_over(callers[1]));
}
END_TEST

START_TEST(the_last_tenth_of_descriptors_is_kept)
{
    struct rlimit old, small;
    int first = dup(0);

    close(first);
    rig_listen(NULL, NULL, NULL);
    getrlimit(RLIMIT_NOFILE, &old);
    small = (struct rlimit){ (rlim_t)(first + 30) * 10 / 9, old.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
    for (int i = 0; i < 28; i++) {
        call_from(1);
    }
    UNTIL(n_over() > 0); /* both ends of a connection are in this process */
    ck_assert_int_ge(dup2(0, (int)small.rlim_cur - 2), 0);
    close((int)small.rlim_cur - 2);
    setrlimit(RLIMIT_NOFILE, &old);
}
END_TEST

/* "lo" is the only one that is everywhere; this machine itself comes by none. */
START_TEST(interfaces_are_refused)
{
    static const char *const names[] = { "no-such", "l*" };
    struct fn_strlist list = { .items = names, .n = (uint64_t)_i + 1 };

    rig.limits.refuse_interfaces = &list;
    rig_listen(NULL, NULL, NULL);
    call_from(2); /* calls 127.0.0.1 */
    call_from(1);
    UNTIL(rig.accepted == (_i == 0 ? 2 : 1));
    if (_i == 1) {
        UNTIL(is_over(callers[0]));
    }
}
END_TEST

/* By "lo", which is not on the list; only the name of an interface is asked by a descriptor. */
START_TEST(what_cannot_be_told_is_refused)
{
    static const char *const names[] = { "no-such" };
    const struct fn_strlist list = { .items = names, .n = 1 };
    struct sockaddr_storage at;
    struct sockaddr *peer = (struct sockaddr *)&at;
    socklen_t len = sizeof(struct sockaddr_in);
    struct sockaddr_in self = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM, 0), caller = socket(AF_INET, SOCK_STREAM, 0), fd;
    struct rlimit old;

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&self, sizeof(self)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&self, &len), 0);
    ck_assert_int_eq(bind(caller, (struct sockaddr *)&(struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1) }, len), 0);
    ck_assert_int_eq(connect(caller, (struct sockaddr *)&self, sizeof(self)), 0);
    len = sizeof(at);
    fd = accept(listener, peer, &len);
    ck_assert(!net_came_by(fd, peer, &list));
    getrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, old.rlim_max }), 0);
    ck_assert(net_came_by(fd, peer, &list));
    setrlimit(RLIMIT_NOFILE, &old);
    close(fd);
    close(caller);
    close(listener);
}
END_TEST

Suite *listen_suite(void)
{
    Suite *s = suite_create("listen");
    TCase *tc = tcase_create("who comes in");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, connections_of_one_address_and_of_all_are_bounded);
    tcase_add_test(tc, connections_count_until_they_are_closed);
    tcase_add_test(tc, handshakes_of_one_address_leave_room);
    tcase_add_test(tc, silent_ones_make_room);
    tcase_add_test(tc, silence_has_a_time_of_its_own);
    tcase_add_test(tc, the_last_tenth_of_descriptors_is_kept);
    tcase_add_loop_test(tc, interfaces_are_refused, 0, 2);
    tcase_add_test(tc, what_cannot_be_told_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
