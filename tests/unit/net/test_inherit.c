/* Ports that a service manager holds: taken by address alone, kept, let go, and ended. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <net/bind.h>
#include <net/inherit.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *inherit_suite(void);

#define FD_MIN 100

static char kept[128], dropped[128];
static int kept_fd;

static void keep(int fd, const char *name)
{
    snprintf(kept, sizeof(kept), "%s", name);
    kept_fd = dup(fd);
}

static void drop(const char *name)
{
    snprintf(dropped, sizeof(dropped), "%s", name);
}

static const struct net_keeper manager = { keep, drop };

static int port_open(const char *address, char *ret_address, size_t cap)
{
    struct fn_error e = ERR_INIT;
    char *path = NULL;
    uint16_t port = 0;
    int fd = -1;

    ck_assert_int_eq(net_bind(address, false, &fd, &path, &port, &e), 0);
    snprintf(ret_address, cap, "127.0.0.1:%u", port);
    return fd;
}

/* As a manager does: the descriptors from 3 on, and what tells of them. */
static void hand_over(const int *fds, int n, const char *names, long pid)
{
    char text[32];

    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(dup2(fds[i], 3 + i), 3 + i);
    }
    snprintf(text, sizeof(text), "%ld", pid);
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof(text), "%d", n);
    setenv("LISTEN_FDS", text, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

/* 0, or the errno. */
static int knock(const char *address, int *ret_fd)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)) };

    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(*ret_fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : errno;
}

/* Where hand_over() puts them they would be in the way. */
static int moved(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);

    close(fd);
    return high;
}

START_TEST(who_waits_meets_the_next_process)
{
    char address[64], again[64];
    int caller, taken, in;
    int fd = moved(port_open("127.0.0.1:0", address, sizeof(address)));

    ck_assert_int_eq(knock(address, &caller), 0);
    hand_over(&fd, 1, "fnd port", (long)getpid());
    close(fd); /* of the process before */
    net_inherit_begin(0, FD_MIN);
    ck_assert_ptr_null(getenv("LISTEN_FDS"));
    taken = port_open(address, again, sizeof(again));
    ck_assert_int_ge(taken, FD_MIN);
    in = accept4(taken, NULL, NULL, SOCK_NONBLOCK);
    ck_assert_int_ge(in, 0);
    ck_assert_int_eq(write(caller, "x", 1), 1);
    net_inherit_end();
    ck_assert_int_eq(knock(address, &caller), ECONNREFUSED);
    ck_assert_str_eq(dropped, "");
}
END_TEST

START_TEST(a_port_of_nobody_is_let_go)
{
    char address[64], other[64];
    int caller;
    int fd = moved(port_open("127.0.0.1:0", address, sizeof(address)));

    hand_over(&fd, 1, _i ? "mine.socket" : "fnd old", (long)getpid());
    close(fd);
    net_inherit_begin(0, FD_MIN);
    net_inherit_keep(&manager);
    ck_assert_int_lt(port_open("127.0.0.1:0", other, sizeof(other)), FD_MIN);
    ck_assert_str_eq(kept, "fnd 127.0.0.1_0");
    net_inherit_settle();
    ck_assert_str_eq(dropped, _i ? "" : "fnd old");
    ck_assert_int_eq(knock(address, &caller), ECONNREFUSED);
    ck_assert_int_eq(knock(other, &caller), 0);
    net_inherit_end(); /* also for the one who keeps it */
    ck_assert_int_eq(knock(other, &caller), ECONNREFUSED);
}
END_TEST

/* The operator's page: it goes on while its node drains, and opens anew in the next process. */
START_TEST(a_port_behind_the_kept_ones_is_not_given)
{
    char address[64], own[64];
    int caller;
    int fd = moved(port_open("127.0.0.1:0", own, sizeof(own)));

    hand_over(&fd, 1, "fnd own", (long)getpid());
    close(fd);
    net_inherit_begin(0, FD_MIN);
    net_inherit_keep(&manager);
    net_inherit_keep_no_more();
    if (_i) { /* else nobody has it any more */
        ck_assert_int_ge(port_open(own, address, sizeof(address)), FD_MIN);
        ck_assert_str_eq(dropped, "fnd own");
    }
    port_open("127.0.0.1:0", address, sizeof(address));
    ck_assert_str_eq(kept, "");
    net_inherit_settle();
    ck_assert_str_eq(dropped, "fnd own");
    net_inherit_end();
    ck_assert_int_eq(knock(own, &caller), _i ? 0 : ECONNREFUSED);
    ck_assert_int_eq(knock(address, &caller), 0);
}
END_TEST

/* A unit of a socket begins nodes by it: it outlives the end of one. */
START_TEST(a_socket_of_a_unit_is_not_ended)
{
    char address[64], again[64];
    int caller;
    int fd = moved(port_open("127.0.0.1:0", address, sizeof(address)));

    hand_over(&fd, 1, "fnd@lb.socket", (long)getpid());
    net_inherit_begin(0, FD_MIN);
    net_inherit_keep(&manager);
    close(port_open(address, again, sizeof(again)));
    net_inherit_end();
    ck_assert_int_eq(knock(address, &caller), 0);
}
END_TEST

START_TEST(what_is_meant_for_others_stays)
{
    static const struct {
        long pid, above;
        bool mine;
    } rows[] = { { 1, 0, false }, { 0, 0, false }, { 1, 1, true } };
    char address[64], again[64];
    int fd = moved(port_open("127.0.0.1:0", address, sizeof(address)));
    struct fn_error e = ERR_INIT;
    char *path = NULL;
    uint16_t port = 0;
    int got = -1;

    hand_over(&fd, 1, "", rows[_i].pid);
    net_inherit_begin((int)rows[_i].above, FD_MIN);
    if (rows[_i].mine) {
        ck_assert_int_ge(port_open(address, again, sizeof(again)), FD_MIN);
    } else {
        ck_assert_int_eq(net_bind(address, false, &got, &path, &port, &e), FN_E_UNAVAILABLE);
    }
}
END_TEST

START_TEST(one_that_was_shut_down_is_opened_anew)
{
    char address[64], again[64];
    int caller;
    int fd = moved(port_open("127.0.0.1:0", address, sizeof(address)));

    shutdown(fd, SHUT_RDWR);
    hand_over(&fd, 1, "fnd port", (long)getpid());
    close(fd);
    net_inherit_begin(0, FD_MIN);
    port_open(address, again, sizeof(again));
    ck_assert_int_eq(knock(address, &caller), 0);
}
END_TEST

Suite *inherit_suite(void)
{
    Suite *s = suite_create("inherit");
    TCase *t = tcase_create("inherit");

    tcase_add_test(t, who_waits_meets_the_next_process);
    tcase_add_loop_test(t, a_port_of_nobody_is_let_go, 0, 2);
    tcase_add_loop_test(t, a_port_behind_the_kept_ones_is_not_given, 0, 2);
    tcase_add_test(t, a_socket_of_a_unit_is_not_ended);
    tcase_add_loop_test(t, what_is_meant_for_others_stays, 0, 3);
    tcase_add_test(t, one_that_was_shut_down_is_opened_anew);
    suite_add_tcase(s, t);
    return s;
}
