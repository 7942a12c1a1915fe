/* Directories, what functions publish there, and links that are swapped. */
#include "fnsock_rig.h"
#include "suites.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- publishing the socket ------------------------------------------------------------------ */

START_TEST(a_linked_a_renamed_and_a_plain_socket_become_ready)
{
    char from[160], to[160];
    int fd;

    rig_open();
    if (_i == 0) {
        fd = publish();
    } else if (_i == 1) {
        fd = bind_at(io.dir(sock), "new", true);
        snprintf(from, sizeof(from), "%s/new", io.dir(sock));
        snprintf(to, sizeof(to), "%s/lsnr.sock", io.dir(sock));
        ck_assert_int_eq(rename(from, to), 0);
    } else {
        fd = bind_at(io.dir(sock), "lsnr.sock", true);
    }
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
    close(fd);
}
END_TEST

START_TEST(a_socket_without_listener_is_probed_until_somebody_listens)
{
    int fd;

    rig_open();
    fd = bind_at(io.dir(sock), "phonylsnr.sock", false);
    link_to("phonylsnr.sock");
    rig_run_for(50 * ENV_MS);
    ck_assert(!got.ready);
    ck_assert_int_eq(listen(fd, 8), 0);
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
    close(fd);
}
END_TEST

static const struct {
    const char *what;
    const char *text;
} bad_links[] = {
    { "file", "lsnr.sock is not a socket" },
    { "fifo", "lsnr.sock is not a socket" },
    { "directory", "lsnr.sock is not a socket" },
    { "nowhere", "lsnr.sock is a dangling link to \"nowhere\"" },
    { "../outside.sock", "FN604 socket leaves its directory" },
    { "/run/docker.sock", "FN604 socket leaves its directory" },
    { "chain", "lsnr.sock is a link to \"chain\"; expected a socket beside it" },
    { "sub/real.sock", "lsnr.sock is a link to \"sub/real.sock\"; expected a socket beside it" },
    { "lsnr.sock", "FN604 socket leaves its directory" },
    { "gone", "the socket directory was removed" },
};

START_TEST(bad_sockets_are_named)
{
    const char *what = bad_links[_i].what;
    char path[200];
    int fd = -1;

    rig_open();
    snprintf(path, sizeof(path), "%s/lsnr.sock", io.dir(sock));
    if (strcmp(what, "file") == 0) {
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    } else if (strcmp(what, "fifo") == 0) {
        ck_assert_int_eq(mkfifo(path, 0666), 0);
    } else if (strcmp(what, "directory") == 0) {
        ck_assert_int_eq(mkdir(path, 0777), 0);
    } else if (strcmp(what, "gone") == 0) {
        ck_assert_int_eq(rmdir(io.dir(sock)), 0);
    } else {
        fd = bind_at(io.dir(sock), "real.sock", true);
        snprintf(path, sizeof(path), "%s/chain", io.dir(sock));
        ck_assert_int_eq(symlink("real.sock", path), 0);
        snprintf(path, sizeof(path), "%s/sub", io.dir(sock));
        ck_assert_int_eq(mkdir(path, 0777), 0);
        if (strncmp(what, "sub", 3) == 0) {
            close(bind_at(path, "real.sock", true));
        }
        link_to(what);
    }
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, bad_links[_i].text);
    if (fd >= 0) {
        close(fd);
    }
}
END_TEST

/* ---- swapped links -------------------------------------------------------------------------- */

START_TEST(a_link_swapped_between_calls_reaches_nothing_outside)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1,
                          .close_after = true };
    char target[200];
    int outside, r;

    rig_open();
    outside = bind_at(base, "foreign.sock", true);
    fcntl(outside, F_SETFL, O_NONBLOCK);
    function_start(&f);
    rig_call("a");
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    while (atomic_load(&f.closed) < 1) {
        sched_yield();
    }
    snprintf(target, sizeof(target), _i == 0 ? "%s/foreign.sock" : "../../foreign.sock", base);
    link_to(target);
    rig_call("b");
    ck_assert_int_eq(got.result.end, FNSOCK_ESCAPE);
    ck_assert_str_eq(got.result.text, "FN604 socket leaves its directory");
    ck_assert_uint_eq(got.result.request_bytes, 0);
    r = accept(outside, NULL, NULL);
    ck_assert(r < 0 && errno == EAGAIN);
    close(outside);
    snprintf(target, sizeof(target), "%s/foreign.sock", base);
    unlink(target);
    function_stop(&f);
}
END_TEST

struct swapper {
    char link[160], fresh[160];
    atomic_bool stop;
    atomic_int swaps;
};

/* Lets the name point out of the directory and back, as fast as it can. */
static void *swap(void *arg)
{
    struct swapper *s = arg;

    while (!atomic_load(&s->stop)) {
        bool outside = atomic_fetch_add(&s->swaps, 1) % 2 == 0;

        if (symlink(outside ? "../../foreign.sock" : "phonylsnr.sock", s->fresh) < 0 ||
            rename(s->fresh, s->link) < 0) {
            return arg;
        }
    }
    return NULL;
}

START_TEST(a_link_swapped_all_the_time_reaches_nothing_outside)
{
    static const char answer[] = OK_HEAD "Connection: close\r\nContent-Length: 0\r\n\r\n";
    struct function f = { .answer = answer, .answer_len = sizeof(answer) - 1,
                          .close_after = true };
    struct swapper s = { 0 };
    int outside, r, ok = 0, escapes = 0;
    pthread_t thread;
    char path[160];
    void *failed;

    rig_open();
    outside = bind_at(base, "foreign.sock", true);
    fcntl(outside, F_SETFL, O_NONBLOCK);
    function_start(&f);
    snprintf(s.link, sizeof(s.link), "%.100s/lsnr.sock", io.dir(sock));
    snprintf(s.fresh, sizeof(s.fresh), "%.100s/fresh", io.dir(sock));
    ck_assert_int_eq(pthread_create(&thread, NULL, swap, &s), 0);
    while (atomic_load(&s.swaps) < 10000 || ok < 100 || escapes < 100) {
        rig_call("a");
        ok += got.result.end == FNSOCK_OK;
        escapes += got.result.end == FNSOCK_ESCAPE;
        ck_assert(got.result.end == FNSOCK_OK || got.result.end == FNSOCK_ESCAPE ||
                  (got.result.end == FNSOCK_CONNECT && got.result.request_bytes == 0));
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, &failed);
    ck_assert_ptr_null(failed);
    r = accept(outside, NULL, NULL);
    ck_assert(r < 0 && errno == EAGAIN);
    close(outside);
    snprintf(path, sizeof(path), "%s/foreign.sock", base);
    unlink(path);
    function_stop(&f);
}
END_TEST

START_TEST(a_socket_of_another_uid_is_refused)
{
    struct function f = { .answer = OK_ANSWER, .answer_len = sizeof(OK_ANSWER) - 1 };

    rig_open();
    function_start(&f);
    loop_enter(loop);
    io.expect_uid(sock, (uint32_t)getuid());
    loop_leave(loop);
    rig_call("a");
    ck_assert_int_eq(got.result.end, FNSOCK_OK);
    loop_enter(loop);
    io.expect_uid(sock, (uint32_t)getuid() + 1);
    loop_leave(loop);
    rig_call("b");
    ck_assert_int_eq(got.result.end, FNSOCK_ESCAPE);
    ck_assert_ptr_nonnull(strstr(got.result.text, "FN604 socket belongs to uid"));
    ck_assert_uint_eq(got.result.request_bytes, 0);
    ck_assert_int_eq(atomic_load(&f.requests), 1);
    function_stop(&f);
}
END_TEST

/* ---- directories ---------------------------------------------------------------------------- */

START_TEST(the_directory_is_open_to_the_function_and_known_to_the_engine)
{
    char expected[160];
    struct stat st;

    config.engine_path = "/host/iofs";
    rig_open();
    ck_assert_int_eq(stat(io.dir(sock), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0777);
    snprintf(expected, sizeof(expected), "/host/iofs%s", io.dir(sock) + strlen(base));
    ck_assert_str_eq(io.engine_dir(sock), expected);
    ck_assert_ptr_nonnull(strstr(expected, "/iofsc_1."));
}
END_TEST

static void fill_tree(const char *top)
{
    char path[300];
    char name[48];
    int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof(path), "%s/file%d", top, i);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
    for (int depth = 0; depth < 300; depth++) { /* deeper than any path may be long */
        int next;

        snprintf(name, sizeof(name), "a-directory-with-a-long-name-%d", depth);
        ck_assert_int_eq(mkdirat(fd, name, 0777), 0);
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(openat(next, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
        close(fd);
        fd = next;
    }
    close(fd);
}

START_TEST(whatever_a_function_leaves_is_removed)
{
    char path[200];

    rig_open();
    snprintf(path, sizeof(path), "%s", io.dir(sock));
    fill_tree(path);
    loop_enter(loop);
    io.close(sock);
    sock = NULL;
    loop_leave(loop);
    while (access(path, F_OK) == 0) {
        rig_run_for(ENV_MS);
    }
}
END_TEST

/* Few entries are removed at once, on the loop; entries count wherever they are. */
START_TEST(a_full_subdirectory_does_not_hold_the_loop)
{
    char path[200], sub[240], file[280];

    rig_open();
    snprintf(path, sizeof(path), "%s", io.dir(sock));
    snprintf(sub, sizeof(sub), "%s/sub", path);
    ck_assert_int_eq(mkdir(sub, 0777), 0);
    for (int i = 0; i < 100; i++) {
        snprintf(file, sizeof(file), "%s/%d", sub, i);
        close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
    loop_enter(loop);
    io.close(sock);
    sock = NULL;
    ck_assert_int_eq(access(path, F_OK), 0);
    loop_leave(loop);
    while (access(path, F_OK) == 0) {
        rig_run_for(ENV_MS);
    }
}
END_TEST

START_TEST(mount_options_may_be_long)
{
    struct statvfs st;
    char opts[1024] = "";

    if (geteuid() != 0) {
        return;
    }
    for (size_t i = 0; i < 90; i++) {
        strcat(opts, "mode=0700,");
    }
    strcat(opts, "size=65536");
    config.tmpfs = true;
    config.tmpfs_opts = opts;
    rig_open();
    ck_assert_int_eq(statvfs(io.dir(sock), &st), 0);
    ck_assert_uint_eq(st.f_blocks * st.f_frsize, 65536);
}
END_TEST

START_TEST(a_tmpfs_bounds_what_a_function_can_write)
{
    static char data[1 << 16];
    char path[200];
    size_t total = 0;
    ssize_t n;
    int fd;

    if (geteuid() != 0) {
        return;
    }
    config.tmpfs = true;
    config.tmpfs_bytes = 1 << 20;
    rig_open();
    snprintf(path, sizeof(path), "%s/fill", io.dir(sock));
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    while ((n = write(fd, data, sizeof(data))) > 0) {
        total += (size_t)n;
    }
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_uint_le(total, 1 << 20);
    close(fd);
    fd = publish();
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
    close(fd);
}
END_TEST

START_TEST(the_sweep_takes_what_the_dead_left_and_nothing_else)
{
    struct fn_error err = ERR_INIT;
    char path[200];
    pid_t child;
    int status;

    rig_open(); /* the living one */
    ck_assert_int_eq(fnsock_sweep(&config, &err), 0);
    child = fork();
    if (child == 0) {
        struct fnsock_if theirs;
        struct loop *l;
        struct fnsock *s;

        if (loop_create(NULL, &l, NULL) < 0) {
            _exit(1);
        }
        config.tmpfs = geteuid() == 0;
        loop_enter(l);
        if (fnsock_create(l, &config, &theirs, NULL) < 0 ||
            theirs.open(theirs.impl, "dead", rig_on_ready, NULL, &s, NULL) < 0) {
            _exit(1);
        }
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    snprintf(path, sizeof(path), "%s/not-ours", base);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    ck_assert_int_eq(fnsock_sweep(&config, &err), 1);
    ck_assert_int_eq(fnsock_sweep(&config, &err), 0);
    ck_assert_int_eq(access(io.dir(sock), F_OK), 0);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

void add_fnsock_dir(Suite *s)
{
    TCase *t = tcase_create("fnsock directories");

    tcase_add_checked_fixture(t, rig_start, rig_stop);
    tcase_add_loop_test(t, a_linked_a_renamed_and_a_plain_socket_become_ready, 0, 3);
    tcase_add_test(t, a_socket_without_listener_is_probed_until_somebody_listens);
    tcase_add_loop_test(t, bad_sockets_are_named, 0,
                        (int)(sizeof(bad_links) / sizeof(bad_links[0])));
    tcase_add_loop_test(t, a_link_swapped_between_calls_reaches_nothing_outside, 0, 2);
    tcase_add_test(t, a_link_swapped_all_the_time_reaches_nothing_outside);
    tcase_add_test(t, a_socket_of_another_uid_is_refused);
    tcase_add_test(t, the_directory_is_open_to_the_function_and_known_to_the_engine);
    tcase_add_test(t, whatever_a_function_leaves_is_removed);
    tcase_add_test(t, a_full_subdirectory_does_not_hold_the_loop);
    tcase_add_test(t, mount_options_may_be_long);
    tcase_add_test(t, a_tmpfs_bounds_what_a_function_can_write);
    tcase_add_test(t, the_sweep_takes_what_the_dead_left_and_nothing_else);
    suite_add_tcase(s, t);
}
