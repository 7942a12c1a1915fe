/* What the service manager hears: over a path, over an abstract name, and as often as it asks. */
#include "../lib/fake_env.h"

#include <check.h>
#include <process/notify.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PERIOD_NS 1000000000LL

static int manager; /* the socket of the one who listens */

/* `name` begins with an @ for an abstract one. */
static void listen_at(const char *name)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    memcpy(at.sun_path, name, strlen(name));
    at.sun_path[0] = name[0] == '@' ? '\0' : name[0];
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))), 0);
    setenv("NOTIFY_SOCKET", name, 1);
}

static void hears(const char *expected)
{
    char text[64] = "";
    ssize_t n = recv(manager, text, sizeof(text) - 1, 0);

    ck_assert_int_eq(n < 0, expected == NULL);
    if (expected) {
        ck_assert_str_eq(text, expected);
    }
}

START_TEST(states)
{
    char name[64];

    snprintf(name, sizeof(name), _i ? "@fnd-test-notify-%d" : "/tmp/fnd-test-notify-%d",
             (int)getpid());
    listen_at(name);
    notify_tell("READY=1");
    notify_tell("STOPPING=1");
    hears("READY=1");
    hears("STOPPING=1");
    hears(NULL);
    close(manager);
    unlink(name);
    notify_tell("READY=1"); /* nobody is there any more */
}
END_TEST

START_TEST(a_descriptor_is_kept_and_dropped)
{
    char name[64], text[64] = "", control[64];
    struct iovec iov = { text, sizeof(text) - 1 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                        .msg_controllen = sizeof(control) };
    int ends[2], got = -1;

    snprintf(name, sizeof(name), "@fnd-test-notify-%d", (int)getpid());
    listen_at(name);
    ck_assert_int_eq(pipe(ends), 0);
    notify_keep(ends[1], "fnd _80");
    ck_assert_int_gt(recvmsg(manager, &m, 0), 0);
    ck_assert_str_eq(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=fnd _80");
    ck_assert_ptr_nonnull(CMSG_FIRSTHDR(&m));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
    ck_assert_int_eq(write(got, "x", 1), 1);
    ck_assert_int_eq(read(ends[0], text, 1), 1);
    notify_drop("fnd _80");
    hears("FDSTOREREMOVE=1\nFDNAME=fnd _80");
}
END_TEST

START_TEST(nobody_asks)
{
    static const char *const wrong[] = { "", "relative", "/" };

    for (int i = 0; i < 3; i++) {
        setenv("NOTIFY_SOCKET", wrong[i], 1);
        notify_tell("READY=1");
    }
    unsetenv("NOTIFY_SOCKET");
    notify_tell("READY=1");
}
END_TEST

START_TEST(watchdog)
{
    struct fake_env *env = fake_env_create();
    char name[64];

    snprintf(name, sizeof(name), "@fnd-test-notify-%d", (int)getpid());
    listen_at(name);
    setenv("WATCHDOG_USEC", "2000000", 1);
    notify_begin_watchdog(&env->env);
    hears("WATCHDOG=1");
    fake_env_advance(env, PERIOD_NS - 1);
    hears(NULL);
    fake_env_advance(env, 1);
    hears("WATCHDOG=1");
    fake_env_advance(env, PERIOD_NS);
    hears("WATCHDOG=1");
    hears(NULL);
}
END_TEST

START_TEST(watchdog_without_a_descriptor)
{
    struct fake_env *env = fake_env_create();
    struct rlimit old;
    char name[64];

    snprintf(name, sizeof(name), "@fnd-test-notify-%d", (int)getpid());
    listen_at(name);
    setenv("WATCHDOG_USEC", "2000000", 1);
    notify_begin_watchdog(&env->env);
    hears("WATCHDOG=1");
    getrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, old.rlim_max }), 0);
    fake_env_advance(env, PERIOD_NS);
    setrlimit(RLIMIT_NOFILE, &old);
    hears("WATCHDOG=1");
}
END_TEST

START_TEST(watchdog_of_another)
{
    static const char *const usec[] = { "0", "-5", "x", "999999999999999999" };
    struct fake_env *env = fake_env_create();
    char name[64];

    snprintf(name, sizeof(name), "@fnd-test-notify-%d", (int)getpid());
    listen_at(name);
    for (int i = 0; i < 4; i++) {
        setenv("WATCHDOG_USEC", usec[i], 1);
        notify_begin_watchdog(&env->env);
    }
    setenv("WATCHDOG_USEC", "2000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    notify_begin_watchdog(&env->env);
    hears(NULL);
    fake_env_destroy(env);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("notify");
    TCase *t = tcase_create("notify");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_loop_test(t, states, 0, 2);
    tcase_add_test(t, a_descriptor_is_kept_and_dropped);
    tcase_add_test(t, nobody_asks);
    tcase_add_test(t, watchdog);
    tcase_add_test(t, watchdog_without_a_descriptor);
    tcase_add_test(t, watchdog_of_another);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
