/* Streams, dialling, listening. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/bind.h>
#include <net/home.h>
#include <net/network.h>
#include <net/port_counts.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BIG (8u << 20)

Suite *peers_suite(void);
Suite *listen_suite(void);
Suite *inherit_suite(void);

static struct authority ca;
static struct pair node;
static struct net_identity *both; /* mutual */

static void setup(void)
{
    rig_start();
    authority_make(&ca, "test-ca");
    node = pair_make(&ca, "node-1", "IP:127.0.0.1,DNS:localhost", -1, 10);
    both = identity_of(&node, ca.pem, NULL, NULL);
}

static void teardown(void)
{
    rig_stop();
    net_identity_unref(both);
    pair_free(&node);
    authority_free(&ca);
}

static struct net_identity *kind(int i)
{
    return i ? both : NULL;
}

/* After that many more the socket is broken; < 0: never. */
static int sends_left = -1;

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    if (sends_left == 0) {
        errno = EPIPE;
        return -1;
    }
    sends_left -= sends_left > 0;
    return __real_send(fd, data, len, flags);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A call whose bytes left in the first record may run: it must not look unsent because a later one
 * failed. */
START_TEST(what_left_before_an_error_counts)
{
    static char data[40000];
    struct iovec iov = { data, sizeof(data) };

    rig_listen(NULL, both, NULL);
    rig_connect(both);
    sends_left = 1;
    ck_assert_int_eq(net_io_writev(rig.client.io, &iov, 1), 16384);
    ck_assert_int_eq(net_io_writev(rig.client.io, &iov, 1), NET_ERROR);
    sends_left = -1;
    UNTIL(rig.server.in.len == 16384);
}
END_TEST

START_TEST(bytes_go_both_ways)
{
    struct port_counts counts;

    port_counts_init(&counts, "test");
    rig_listen(NULL, kind(_i), NULL);
    rig_connect(kind(_i));
    end_send(&rig.client, "question", 8);
    UNTIL(rig.server.in.len == 8);
    end_send(&rig.server, "answer", 6);
    UNTIL(rig.client.in.len == 6);
    ck_assert_str_eq(buf_text(&rig.server.in), "question");
    ck_assert_str_eq(buf_text(&rig.client.in), "answer");
    ck_assert_str_eq(net_io_peer(rig.client.io), rig.address);
    ck_assert_int_eq(metric_value(counts.received), 8);
    ck_assert_int_eq(metric_value(counts.sent), 6);
    end_close(&rig.client);
    UNTIL(rig.server.eof);
}
END_TEST

START_TEST(unix_sockets_too)
{
    char address[64];
    struct stat st;

    snprintf(address, sizeof(address), "unix:/tmp/fnd-net-%d.sock", (int)getpid());
    rig_listen(address, kind(_i), NULL);
    rig_connect(kind(_i)); /* under TLS its name is localhost */
    end_send(&rig.client, "question", 8);
    UNTIL(rig.server.in.len == 8);
    ck_assert_str_eq(net_io_peer(rig.server.io), "unix");
    net_listener_close(rig.listener);
    rig.listener = NULL;
    ck_assert_int_eq(stat(address + 5, &st), -1);
}
END_TEST

START_TEST(a_slow_reader_gets_everything)
{
    unsigned *data = malloc(BIG);
    unsigned *got;

    for (unsigned i = 0; i < BIG / sizeof(*data); i++) {
        data[i] = i * 2654435761u;
    }
    rig_listen(NULL, kind(_i), NULL);
    rig_connect(kind(_i));
    net_io_want_read(rig.server.io, false);
    end_send(&rig.client, data, BIG);
    UNTIL(rig.client.stuck);
    ck_assert_uint_eq(rig.server.in.len, 0);
    net_io_want_read(rig.server.io, true);
    UNTIL(rig.server.in.len == BIG);
    got = (unsigned *)(void *)rig.server.in.data;
    ck_assert_int_eq(memcmp(got, data, BIG), 0);
    ck_assert_uint_eq(rig.client.out_len, 0);
    free(data);
}
END_TEST

/* Both sides write at once through small sockets, and stop reading now and then. */
START_TEST(both_sides_write_at_once)
{
    struct end *ends[] = { &rig.client, &rig.server };
    unsigned *data = malloc(BIG);
    int small = 8192;

    for (unsigned i = 0; i < BIG / sizeof(*data); i++) {
        data[i] = i * 2654435761u;
    }
    rig_listen(NULL, kind(_i), NULL);
    rig_connect(kind(_i));
    for (int k = 0; k < 2; k++) {
        setsockopt(net_io_fd(ends[k]->io), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        end_send(ends[k], data, BIG / 4);
    }
    for (unsigned turn = 1; rig.client.in.len < BIG / 4 || rig.server.in.len < BIG / 4; turn++) {
        net_io_want_read(rig.client.io, turn % 3 != 0);
        net_io_want_read(rig.server.io, turn % 5 != 0);
        rig_turn();
        ck_assert_uint_lt(turn, 30000);
    }
    for (int k = 0; k < 2; k++) {
        ck_assert_uint_eq(ends[k]->in.len, BIG / 4);
        ck_assert_int_eq(memcmp(ends[k]->in.data, data, BIG / 4), 0);
    }
    free(data);
}
END_TEST

/* The client ends its side behind a lot of data; the answer comes after that. */
START_TEST(one_side_ends_before_the_other)
{
    char *data = calloc(1, BIG);

    rig_listen(NULL, kind(_i), NULL);
    rig_connect(kind(_i));
    end_send(&rig.client, data, BIG);
    UNTIL(rig.client.out_len == 0);
    net_io_end(rig.client.io); /* with a record that waits here, under TLS */
    UNTIL(rig.server.eof);
    ck_assert_uint_eq(rig.server.in.len, BIG);
    ck_assert_int_eq(net_io_read(rig.server.io, data, 1), 0);
    end_send(&rig.server, data, 100000);
    UNTIL(rig.client.in.len == 100000);
    ck_assert(!rig.client.eof);
    end_close(&rig.server);
    UNTIL(rig.client.eof);
    free(data);
}
END_TEST

START_TEST(a_reset_is_an_error)
{
    rig_listen(NULL, kind(_i), NULL);
    rig_connect(kind(_i));
    net_io_reset(rig.server.io);
    rig.server.io = NULL;
    UNTIL(rig.client.failed);
    ck_assert_str_eq(rig.client.error, "Connection reset by peer");
    ck_assert_int_eq(net_io_writev(rig.client.io, NULL, 0), NET_ERROR);
}
END_TEST

START_TEST(a_hang_up_is_told_once_while_reading_is_off)
{
    rig_listen(NULL, kind(_i), NULL);
    rig_connect(kind(_i));
    rig.client.readable_n = 0;
    rig.client.manual = true;
    net_io_want_read(rig.client.io, false);
    net_io_reset(rig.server.io);
    rig.server.io = NULL;
    UNTIL(rig.client.readable_n == 1);
    for (int i = 0; i < 10; i++) {
        rig_turn();
    }
    ck_assert_int_eq(rig.client.readable_n, 1);
    rig.client.manual = false;
    net_io_want_read(rig.client.io, true);
    UNTIL(rig.client.failed);
}
END_TEST

/* Without close_notify the end of the socket is no end of the stream. */
START_TEST(a_cut_stream_does_not_look_whole)
{
    rig_listen(NULL, both, NULL);
    rig_connect(both);
    shutdown(net_io_fd(rig.server.io), SHUT_WR);
    UNTIL(rig.client.failed);
    ck_assert_str_eq(rig.client.error, "the peer hung up");
    ck_assert(!rig.client.eof);
}
END_TEST

/* ---- dialling -------------------------------------------------------------------------------- */

static void fails(const char *address, struct net_identity *i, int64_t ms, const char *text)
{
    rig_dial(address, i, NULL, NULL, ms);
    UNTIL(rig.dialled);
    ck_assert(!rig.client.io);
    ck_assert_msg(strstr(rig.error, text) && strncmp(rig.error, address, strlen(address)) == 0,
                  "%s", rig.error);
}

/* A TCP port that takes connections and says nothing; with `full` its backlog takes none. */
static int silent_port(char *ret, size_t size, bool full)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(listen(fd, full ? 0 : 16), 0);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    for (int i = 0; full && i < 4; i++) { /* stay open until the test's process ends */
        int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        ck_assert(connect(c, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EINPROGRESS);
    }
    snprintf(ret, size, "127.0.0.1:%u", ntohs(addr.sin_port));
    return fd;
}

START_TEST(a_closed_port_refuses)
{
    char address[64];
    int fd = silent_port(address, sizeof(address), false);

    close(fd);
    fails(address, NULL, 20000, "Connection refused");
    fails("unix:/tmp/no-such-socket", NULL, 20000, "No such file or directory");
}
END_TEST

START_TEST(silence_ends_at_the_deadline)
{
    char address[64];
    int fd = silent_port(address, sizeof(address), true);
    int talks = silent_port(address, sizeof(address), false);

    fails(address, both, 1000, "the TLS handshake was not complete within");
    close(fd);
    fd = silent_port(address, sizeof(address), true);
    fails(address, NULL, 100, "no connection within 100 ms");
    close(talks);
    close(fd);
}
END_TEST

START_TEST(names_are_resolved)
{
    char address[64];

    rig_listen(NULL, both, NULL);
    snprintf(address, sizeof(address), "localhost:%d", net_listener_port(rig.listener));
    rig_dial(address, both, NULL, NULL, 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error); /* also where ::1, which nobody hears, is first */
    end_close(&rig.client);
    rig_dial("no-such-host.invalid:80", NULL, NULL, NULL, 300);
    UNTIL(rig.dialled);
    ck_assert_int_eq(strncmp(rig.error, "no-such-host.invalid:80: ", 25), 0);
}
END_TEST

/* ---- a resolver of our own ------------------------------------------------------------------- */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);

START_TEST(urls_that_lead_home)
{
    static const char *const home[] = {
        "tcp://127.0.0.1:514", "udp://127.9.9.9", "tcp+tls://localhost:6514", "tcp://[::1]:514",
        "tcp://[::ffff:127.0.0.1]:514", "tcp://169.254.169.254/x", "tcp://0.0.0.0:1",
        "tcp://2130706433:514", "tcp://0x7f.1:514", "tcp://foreign@127.0.0.1:514",
        "tcp://203.0.113.1@[::1]", "tcp://[fe80::1%25eth0]:514", "tcp://127.0.0.1?x", "tcp://two.test",
        "unix:///dev/log", "unixgram:///run/x", "unix://",
        "tcp://", "tcp://:514", "udp:///x", "tcp://user@:514", "tcp://[]:514", "tcp://[",
        "tcp://100.100.100.200", "tcp://[fd00:ec2::254]", "tcp://[64:ff9b::a9fe:a9fe]:80",
        "tcp://[::127.0.0.1]:1",
    };
    static const char *const foreign[] = {
        "tcp://203.0.113.7:514", "tcp://[2001:db8::7]:514", "tcp://203.0.113.7/127.0.0.1",
        "tcp://203.0.113.7#@127.0.0.1", "127.0.0.1:514", "",
    };

    for (size_t i = 0; i < sizeof(home) / sizeof(home[0]); i++) {
        ck_assert_msg(net_url_leads_home(home[i]) == 1, "%s", home[i]);
    }
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        ck_assert_msg(net_url_leads_home(foreign[i]) == 0, "%s", foreign[i]);
    }
}
END_TEST

START_TEST(without_a_descriptor_nobody_knows_what_is_home)
{
    struct rlimit old;

    getrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, old.rlim_max }), 0);
    ck_assert_int_eq(net_url_leads_home("tcp://203.0.113.7:514"), FN_E_EXHAUSTED);
    setrlimit(RLIMIT_NOFILE, &old);
}
END_TEST

START_TEST(what_is_beside_an_interface_is_home)
{
    struct ifaddrs *list;
    char url[80], host[64];

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        bool v6 = i->ifa_addr && i->ifa_addr->sa_family == AF_INET6;

        if (v6 || (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)) {
            ck_assert_int_eq(getnameinfo(i->ifa_addr, v6 ? sizeof(struct sockaddr_in6)
                                                         : sizeof(struct sockaddr_in),
                                         host, sizeof(host), NULL, 0, NI_NUMERICHOST), 0);
            snprintf(url, sizeof(url), v6 ? "tcp://[%s]:514" : "tcp://%s:514", host);
            ck_assert_msg(net_url_leads_home(url) == 1, "%s", url);
        }
    }
    freeifaddrs(list);
}
END_TEST

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, answered;
    bool open; /* whoever asks for slow.test is answered */
} resolver = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* slow.test: answered when the test wants it; two.test: an address where nobody listens, then ours. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    int r;

    if (hints->ai_flags & AI_NUMERICHOST) {
        return __real_getaddrinfo(host, port, hints, ret);
    }
    if (strcmp(host, "two.test") == 0) {
        r = __real_getaddrinfo("127.0.0.2", port, hints, ret);
        return r ? r : __real_getaddrinfo("127.0.0.1", port, hints, &(*ret)->ai_next);
    }
    if (strcmp(host, "slow.test") != 0) {
        return __real_getaddrinfo(host, port, hints, ret);
    }
    pthread_mutex_lock(&resolver.lock);
    resolver.asked++;
    pthread_cond_broadcast(&resolver.changed);
    while (!resolver.open) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    r = __real_getaddrinfo("127.0.0.1", port, hints, ret);
    resolver.answered++;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
    return r;
}

/* Until everybody who asked has an answer. */
static void resolver_open(void)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.open = true;
    pthread_cond_broadcast(&resolver.changed);
    while (resolver.answered < resolver.asked) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    pthread_mutex_unlock(&resolver.lock);
}

static int asked(void)
{
    int n;

    pthread_mutex_lock(&resolver.lock);
    n = resolver.asked;
    pthread_mutex_unlock(&resolver.lock);
    return n;
}

START_TEST(the_addresses_of_a_name_are_tried_in_turn)
{
    char address[64];

    rig_listen(NULL, NULL, NULL);
    snprintf(address, sizeof(address), "two.test:%d", net_listener_port(rig.listener));
    rig_dial(address, NULL, NULL, NULL, 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    ck_assert_str_eq(net_io_peer(rig.client.io), rig.address);
    net_listener_close(rig.listener);
    rig.listener = NULL;
    end_close(&rig.client);
    fails(address, NULL, 20000, "Connection refused");
}
END_TEST

/* Neither the loop nor the next name waits for a resolver that says nothing, nor does the end. */
START_TEST(a_slow_resolver_holds_nobody_up)
{
    char address[64];
    int before;

    rig_listen(NULL, NULL, NULL);
    fails("slow.test:80", NULL, 100, "the name was not resolved within 100 ms");
    fails("slow.test:80", NULL, 100, "the name was not resolved within 100 ms");
    fails("slow.test:80", NULL, 100, "the name was not resolved within 100 ms");
    snprintf(address, sizeof(address), "two.test:%d", net_listener_port(rig.listener));
    rig_dial(address, NULL, NULL, NULL, 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    end_close(&rig.client);
    before = asked();
    rig_dial("slow.test:80", NULL, NULL, NULL, 3000);
    UNTIL(asked() > before);
    net_dial_cancel(rig.dial); /* while it is asked */
    resolver_open();
}
END_TEST

START_TEST(bad_addresses_are_refused)
{
    static const char *const bad[] = { "", "host", "host:", ":80", "host:x", "host:70000",
                                       "a:b:80", "[::1]", "unix:" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct net_dial_config config = { bad[i], NULL, NULL, NULL, 1000 };
        struct net_dial *d;

        ck_assert_int_eq(net_dial(rig.loop, &config, NULL, NULL, &d, NULL), FN_E_INVALID);
    }
}
END_TEST

START_TEST(a_dial_can_be_cancelled_in_each_state)
{
    char full[64], silent[64];
    int fd = silent_port(full, sizeof(full), true);
    int talks = silent_port(silent, sizeof(silent), false);
    const char *const addresses[] = { "no-such-host.invalid:80", full, silent };

    for (int turns = 0; turns < 4; turns++) {
        for (int i = 0; i < 3; i++) {
            rig_dial(addresses[i], both, NULL, NULL, 60000);
            for (int k = 0; k < turns && !rig.dialled; k++) {
                rig_turn();
            }
            if (!rig.dialled) { /* the name may be known as bad by now */
                net_dial_cancel(rig.dial);
            }
            rig.dialled = false;
            rig_turn();
            ck_assert(!rig.dialled);
        }
    }
    close(talks);
    close(fd);
}
END_TEST

/* ---- listening ------------------------------------------------------------------------------- */

START_TEST(a_port_in_use_names_who_has_it)
{
    struct fn_error e = ERR_INIT;
    char expected[256], *path;
    uint16_t port;
    int fd;

    rig_listen(NULL, NULL, NULL);
    snprintf(expected, sizeof(expected), "CFG707 %s is in use by pid %d (", rig.address,
             (int)getpid());
    ck_assert_int_eq(net_bind(rig.address, false, &fd, &path, &port, &e), FN_E_UNAVAILABLE);
    ck_assert_msg(strncmp(e.msg, expected, strlen(expected)) == 0, "%s", e.msg);
}
END_TEST

START_TEST(a_stale_unix_socket_is_replaced)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    struct fn_error e = ERR_INIT;
    char address[64], *path;
    struct stat st;
    uint16_t port;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address, sizeof(address), "unix:/tmp/fnd-net-%d.sock", (int)getpid());
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", address + 5);
    unlink(addr.sun_path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    close(fd);
    ck_assert_msg(net_bind(address, true, &fd, &path, &port, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    free(path);
    ck_assert_int_eq(net_bind(address, true, &(int){ -1 }, &path, &port, &e), FN_E_UNAVAILABLE);
    ck_assert_msg(strncmp(e.msg, "CFG707 unix:", 12) == 0 && strstr(e.msg, "is in use"), "%s",
                  e.msg);
    close(fd);
    unlink(addr.sun_path);
    fclose(fopen(addr.sun_path, "w"));
    ck_assert_int_eq(net_bind(address, true, &fd, &path, &port, &e), FN_E_EXISTS);
    unlink(addr.sun_path);
}
END_TEST

/* Who does not shake hands keeps a place for as long as the time-out only; silent, not even that
 * long (test_listen.c). */
START_TEST(handshakes_are_bounded_in_time_and_number)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int64_t begun_ns = env_now_ns(rig.env);
    int mute = socket(AF_INET, SOCK_STREAM, 0);
    char byte;

    rig.handshakes_max = 1;
    rig.handshake_timeout_ms = 200;
    rig_listen(NULL, both, NULL);
    addr.sin_port = htons((uint16_t)net_listener_port(rig.listener));
    ck_assert_int_eq(connect(mute, (struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(send(mute, "\x16", 1, 0), 1);
    for (int i = 0; i < 10; i++) {
        rig_turn(); /* it has the only place, and is not silent */
    }
    rig_dial(rig.address, both, NULL, NULL, 20000);
    UNTIL(rig.server.io);
    ck_assert_int_ge(env_now_ns(rig.env) - begun_ns, 200 * ENV_MS);
    ck_assert_int_eq(recv(mute, &byte, 1, 0), 0);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    close(mute);
}
END_TEST

START_TEST(no_descriptor_left_is_waited_for_without_turning)
{
    struct rlimit old, small;
    clock_t used;
    int fd;

    rig_listen(NULL, NULL, NULL);
    rig_dial(rig.address, NULL, NULL, NULL, 20000);
    fd = dup(0);
    getrlimit(RLIMIT_NOFILE, &old);
    small = (struct rlimit){ (rlim_t)fd + 1, old.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0); /* the one that is left is the client's */
    close(fd);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    used = clock();
    for (int64_t end = env_now_ns(rig.env) + 400 * ENV_MS; env_now_ns(rig.env) < end;) {
        struct timespec nap = { 0, 20000000 };

        rig_turn();
        nanosleep(&nap, NULL);
    }
    used = clock() - used;
    ck_assert(!rig.server.io);
    ck_assert_msg(used < CLOCKS_PER_SEC / 10, "%ld us of processor time", (long)used);
    setrlimit(RLIMIT_NOFILE, &old);
    UNTIL(rig.server.io);
}
END_TEST

START_TEST(networks_are_understood)
{
    static const struct {
        const char *network, *inside, *outside; /* inside NULL: not understood */
    } cases[] = {
        { "10.1.0.0/16", "10.1.255.255", "10.2.0.0" },
        { "10.1.2.3", "10.1.2.3", "10.1.2.2" },
        { "192.168.4.0/22", "192.168.7.1", "192.168.8.0" },
        { "0.0.0.0/0", "1.2.3.4", "fd00::1" },
        { "fd00::/8", "fdff::1", "fe00::1" },
        { "2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::" },
        { "::1", "::1", "::2" },
        { "10.1.2.3/16", NULL, NULL },
        { "10.1.0.0/33", NULL, NULL },
        { "10.1.0.0/", NULL, NULL },
        { "10.1.0.0/+8", NULL, NULL },
        { "10.1.0.0/8x", NULL, NULL },
        { "10.1.0/16", NULL, NULL },
        { "fd00::/129", NULL, NULL },
        { "proxy.example", NULL, NULL },
        { "", NULL, NULL },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct net_network n, in, out;
        int r = net_network_parse(cases[i].network, &n);

        ck_assert_msg((r == 0) == (cases[i].inside != NULL), "%s", cases[i].network);
        if (r == 0) {
            ck_assert_int_eq(net_network_parse(cases[i].inside, &in), 0);
            ck_assert_int_eq(net_network_parse(cases[i].outside, &out), 0);
            ck_assert_msg(net_network_has(&n, &in.address), "%s", cases[i].inside);
            ck_assert_msg(!net_network_has(&n, &out.address), "%s", cases[i].outside);
        }
    }
}
END_TEST

static Suite *net_suite(void)
{
    Suite *s = suite_create("net");
    TCase *streams = tcase_create("streams");
    TCase *dialling = tcase_create("dialling");
    TCase *listening = tcase_create("listening");

    tcase_add_checked_fixture(streams, setup, teardown);
    tcase_add_loop_test(streams, bytes_go_both_ways, 0, 2);
    tcase_add_test(streams, what_left_before_an_error_counts);
    tcase_add_loop_test(streams, unix_sockets_too, 0, 2);
    tcase_add_loop_test(streams, a_slow_reader_gets_everything, 0, 2);
    tcase_add_loop_test(streams, both_sides_write_at_once, 0, 2);
    tcase_add_loop_test(streams, one_side_ends_before_the_other, 0, 2);
    tcase_add_loop_test(streams, a_reset_is_an_error, 0, 2);
    tcase_add_loop_test(streams, a_hang_up_is_told_once_while_reading_is_off, 0, 2);
    tcase_add_test(streams, a_cut_stream_does_not_look_whole);
    suite_add_tcase(s, streams);
    tcase_add_checked_fixture(dialling, setup, teardown);
    tcase_add_test(dialling, a_closed_port_refuses);
    tcase_add_test(dialling, silence_ends_at_the_deadline);
    tcase_add_test(dialling, names_are_resolved);
    tcase_add_test(dialling, the_addresses_of_a_name_are_tried_in_turn);
    tcase_add_test(dialling, a_slow_resolver_holds_nobody_up);
    tcase_add_test(dialling, bad_addresses_are_refused);
    tcase_add_test(dialling, networks_are_understood);
    tcase_add_test(dialling, a_dial_can_be_cancelled_in_each_state);
    suite_add_tcase(s, dialling);
    tcase_add_checked_fixture(listening, setup, teardown);
    tcase_add_test(listening, a_port_in_use_names_who_has_it);
    tcase_add_test(listening, a_stale_unix_socket_is_replaced);
    tcase_add_test(listening, handshakes_are_bounded_in_time_and_number);
    tcase_add_test(listening, urls_that_lead_home);
    tcase_add_test(listening, without_a_descriptor_nobody_knows_what_is_home);
    tcase_add_test(listening, what_is_beside_an_interface_is_home);
    tcase_add_test(listening, no_descriptor_left_is_waited_for_without_turning);
    suite_add_tcase(s, listening);
    return s;
}

/* Where a service manager hands its descriptors over (test_inherit.c); Check opens its own behind them,
 * whoever runs this. */
static void keep_room_for_a_manager(void)
{
    enum { LAST = 7 };
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } while (fd >= 0 && fd < LAST);
}

int main(void)
{
    SRunner *r = srunner_create(net_suite());
    int failed;

    keep_room_for_a_manager();
    srunner_add_suite(r, peers_suite());
    srunner_add_suite(r, listen_suite());
    srunner_add_suite(r, inherit_suite());
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
