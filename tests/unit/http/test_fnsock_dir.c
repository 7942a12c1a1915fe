/* Directories, what functions publish there, and links that are swapped. */
#include "../lib/poor.h"
#include "../lib/skip.h"
#include "fnsock_rig.h"
#include "suites.h"

#include <errno.h>
#include <fcntl.h>
#include <http/fnsock_dirs.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
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

/* AddressSanitizer says what is lost of what was made before. */
START_TEST(without_memory_nothing_is_opened_and_nothing_is_lost)
{
    struct fn_error err = ERR_INIT;
    struct fnsock *another;
    bool failed = true;
    int r;

    rig_open();
    for (unsigned n = 1; failed; n++) {
        poor_begin(n);
        loop_enter(loop);
        r = io.open(io.impl, "c/2", rig_on_ready, NULL, &another, &err);
        failed = poor_end();
        ck_assert_int_eq(r, failed ? FN_E_EXHAUSTED : 0);
        if (r == 0) {
            io.close(another);
        }
        loop_leave(loop);
    }
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

/* The name is no secret: /proc/mounts tells it, where a tmpfs lies on the directory. */
START_TEST(nobody_else_passes_who_does_not_have_to)
{
    char instance[160];
    struct stat st;

    config.by_path = _i == 1;
    rig_open();
    snprintf(instance, sizeof(instance), "%s", io.dir(sock));
    *strrchr(instance, '/') = '\0';
    ck_assert_int_eq(stat(instance, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, config.by_path ? 0711 : 0700);
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

#define NOBODY 65534

/* A directory that its owner cannot empty, which needs another user than root. */
static void leave_closed(const char *top, int i)
{
    char sub[128], file[160];

    snprintf(sub, sizeof(sub), "%s/%d", top, i);
    snprintf(file, sizeof(file), "%s/f", sub);
    ck_assert_int_eq(mkdir(sub, 0755), 0);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    ck_assert_int_eq(chmod(sub, 0555), 0);
}

/* The bin's thread went on with it for ever. */
START_TEST(what_cannot_be_removed_is_given_up)
{
    char top[] = "/tmp/fnd-test-tree-XXXXXX";
    char sub[128];
    uid_t user = geteuid();
    int r = FN_E_EXHAUSTED;

    ck_assert_ptr_nonnull(mkdtemp(top));
    for (int i = 0; i < 10; i++) {
        leave_closed(top, i);
    }
    ck_assert(user != 0 || (chmod(top, 0777) == 0 && seteuid(NOBODY) == 0));
    for (int i = 0; i < 100 && r == FN_E_EXHAUSTED; i++) {
        r = tree_remove(AT_FDCWD, top, 4, NULL);
    }
    ck_assert_int_eq(seteuid(user), 0);
    ck_assert_int_eq(r, FN_E_ABORTED);
    for (int i = 0; i < 10; i++) {
        snprintf(sub, sizeof(sub), "%s/%d", top, i);
        chmod(sub, 0755);
    }
    ck_assert_int_eq(tree_remove(AT_FDCWD, top, ALL_ENTRIES, NULL), 0);
}
END_TEST

/* ---- what a function may leave costs the loop nothing ------------------------------------------ */

static int64_t thread_cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * ENV_S + ts.tv_nsec;
}

/* A byte in every fourth block: the kernel frees one extent for each inside of unlink(). */
static void leave_fragments(const char *dir)
{
    char path[240];
    int fd;

    snprintf(path, sizeof(path), "%s/f", dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    for (off_t i = 0; i < 4000; i++) {
        ck_assert_int_eq(pwrite(fd, "x", 1, i * 16384), 1);
    }
    ck_assert_int_eq(fsync(fd), 0);
    close(fd);
}

static void leave_full_subdirectory(const char *dir)
{
    char sub[220], file[280];

    snprintf(sub, sizeof(sub), "%s/sub", dir);
    ck_assert_int_eq(mkdir(sub, 0777), 0);
    for (int i = 0; i < 5000; i++) {
        snprintf(file, sizeof(file), "%s/%d", sub, i);
        close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
}

static void leave_full_tmpfs(const char *dir)
{
    static char data[1 << 16];
    char path[240];
    int fd;

    snprintf(path, sizeof(path), "%s/f", dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    while (write(fd, data, sizeof(data)) > 0) {
    }
    ck_assert_int_eq(errno, ENOSPC);
    close(fd);
}

static const struct {
    void (*leave)(const char *dir);
    enum fnsock_tmpfs tmpfs;
} leavings[] = {
    { leave_fragments, FNSOCK_TMPFS_OFF },
    { leave_full_subdirectory, FNSOCK_TMPFS_OFF },
    { leave_full_tmpfs, FNSOCK_TMPFS_ON },
};

START_TEST(what_a_function_leaves_costs_the_loop_nothing)
{
    char path[200];
    int64_t cpu_ns;

    if (leavings[_i].tmpfs == FNSOCK_TMPFS_ON && geteuid() != 0) {
        SKIP(NOT_ROOT);
    }
    config.tmpfs = leavings[_i].tmpfs;
    config.dir_bytes_max = 64 << 20;
    config.dir_inodes_max = 1000000;
    rig_open();
    snprintf(path, sizeof(path), "%s", io.dir(sock));
    leavings[_i].leave(path);
    loop_enter(loop);
    cpu_ns = thread_cpu_ns();
    io.close(sock);
    cpu_ns = thread_cpu_ns() - cpu_ns;
    sock = NULL;
    loop_leave(loop);
    ck_assert_int_lt(cpu_ns, 5 * ENV_MS);
    while (access(path, F_OK) == 0) {
        rig_run_for(ENV_MS);
    }
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

static void fill(const char *dir, int files, size_t bytes)
{
    char path[240];
    int fd;

    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof(path), "%s/file%d", dir, i);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        ck_assert_int_eq(posix_fallocate(fd, 0, (off_t)bytes), 0);
        close(fd);
    }
}

START_TEST(a_directory_that_nothing_bounds_is_measured)
{
    int fd;

    config.dir_bytes_max = 1 << 20;
    config.dir_inodes_max = 32;
    rig_open();
    fd = publish();
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
    got.ready = false;
    if (_i == 0) {
        fill(io.dir(sock), 1, 2 << 20);
    } else if (_i == 1) {
        fill(io.dir(sock), 40, 1);
    } else {
        fill_tree(io.dir(sock));
    }
    rig_wait(&got.ready);
    ck_assert_ptr_nonnull(strstr(got.ready_text, "socket directory is full: more than 1048576 "
                                                 "bytes or 32 files in iofsc_1."));
    close(fd);
}
END_TEST

/* The directory as an engine in another mount namespace sees it. */
static void beneath(char *ret, size_t cap, const char *other, const char *dir)
{
    snprintf(ret, cap, "%s%s", other, dir + strlen(base));
}

START_TEST(functions_that_see_no_mounts_are_served_without)
{
    char other[80], path[200];
    struct statfs st;
    int fd;

    if (geteuid() != 0) {
        SKIP(NOT_ROOT);
    }
    snprintf(other, sizeof(other), "%s-other", base);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    ck_assert_int_eq(mount(base, other, NULL, MS_BIND, NULL), 0);
    ck_assert_int_eq(mount(NULL, other, NULL, MS_PRIVATE, NULL), 0);
    config.tmpfs = FNSOCK_TMPFS_AUTO;
    rig_open();
    ck_assert_int_eq(statfs(io.dir(sock), &st), 0);
    ck_assert_int_eq(st.f_type, TMPFS_MAGIC);
    beneath(path, sizeof(path), other, io.dir(sock));
    fd = bind_at(path, "lsnr.sock", true);
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
    ck_assert_int_eq(statfs(io.dir(sock), &st), 0);
    ck_assert_int_ne(st.f_type, TMPFS_MAGIC);
    close(fd);
    ck_assert_int_eq(umount2(other, MNT_DETACH), 0);
    ck_assert_int_eq(rmdir(other), 0);
}
END_TEST

START_TEST(mount_options_may_be_long)
{
    struct statvfs st;
    char opts[1024] = "";

    if (geteuid() != 0) {
        SKIP(NOT_ROOT);
    }
    for (size_t i = 0; i < 90; i++) {
        strcat(opts, "mode=0700,");
    }
    strcat(opts, "size=65536");
    config.tmpfs = FNSOCK_TMPFS_ON;
    config.tmpfs_opts = opts;
    rig_open();
    ck_assert_int_eq(statvfs(io.dir(sock), &st), 0);
    ck_assert_uint_eq(st.f_blocks * st.f_frsize, 65536);
}
END_TEST

#define NO_SYMLINKS 256 /* MS_NOSYMFOLLOW of Linux 5.10, which no header has */

static const struct {
    const char *target, *text;
} unfollowed[] = {
    { "real.sock", "" },
    { "./real.sock", "" },
    { "nowhere", "lsnr.sock is a dangling link to \"nowhere\"" },
    { "../outside.sock", "FN604 socket leaves its directory" },
    { "chain", "FN604 socket leaves its directory" },
    { "lsnr.sock", "FN604 socket leaves its directory" },
};

START_TEST(the_contracts_link_is_read_where_none_is_followed)
{
    char path[200];
    int fd;

    if (geteuid() != 0) {
        SKIP(NOT_ROOT);
    }
    config.tmpfs = FNSOCK_TMPFS_ON;
    rig_open();
    ck_assert_int_eq(mount(NULL, io.dir(sock), NULL, MS_REMOUNT | MS_BIND | NO_SYMLINKS, NULL), 0);
    fd = bind_at(io.dir(sock), "real.sock", true);
    snprintf(path, sizeof(path), "%s/chain", io.dir(sock));
    ck_assert_int_eq(symlink("real.sock", path), 0);
    ck_assert_int_eq(open(path, O_PATH | O_CLOEXEC), -1);
    ck_assert_int_eq(errno, ELOOP);
    link_to(unfollowed[_i].target);
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, unfollowed[_i].text);
    close(fd);
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
        SKIP(NOT_ROOT);
    }
    config.tmpfs = FNSOCK_TMPFS_ON;
    config.dir_bytes_max = 1 << 20;
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
    char path[200];
    pid_t child;
    int status;

    rig_open(); /* the living one */
    ck_assert_int_eq(sweep_dead(base, NULL), 0);
    child = fork();
    if (child == 0) {
        struct fnsock_if theirs;
        struct loop *l;
        struct fnsock *s;

        if (loop_create(NULL, &l, NULL) < 0) {
            _exit(1);
        }
        config.tmpfs = geteuid() == 0 ? FNSOCK_TMPFS_ON : FNSOCK_TMPFS_OFF;
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
    ck_assert_int_eq(sweep_dead(base, NULL), 1);
    ck_assert_int_eq(sweep_dead(base, NULL), 0);
    ck_assert_int_eq(access(io.dir(sock), F_OK), 0);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

void add_fnsock_dir(Suite *s)
{
    TCase *t = tcase_create("fnsock directories");

    tcase_add_checked_fixture(t, rig_start, rig_stop);
    tcase_set_timeout(t, 60); /* of disks */
    tcase_add_loop_test(t, a_linked_a_renamed_and_a_plain_socket_become_ready, 0, 3);
    tcase_add_test(t, without_memory_nothing_is_opened_and_nothing_is_lost);
    tcase_add_test(t, a_socket_without_listener_is_probed_until_somebody_listens);
    tcase_add_loop_test(t, bad_sockets_are_named, 0,
                        (int)(sizeof(bad_links) / sizeof(bad_links[0])));
    tcase_add_loop_test(t, a_link_swapped_between_calls_reaches_nothing_outside, 0, 2);
    tcase_add_test(t, a_link_swapped_all_the_time_reaches_nothing_outside);
    tcase_add_test(t, a_socket_of_another_uid_is_refused);
    tcase_add_test(t, the_directory_is_open_to_the_function_and_known_to_the_engine);
    tcase_add_loop_test(t, nobody_else_passes_who_does_not_have_to, 0, 2);
    tcase_add_test(t, whatever_a_function_leaves_is_removed);
    tcase_add_test(t, what_cannot_be_removed_is_given_up);
    tcase_add_loop_test(t, what_a_function_leaves_costs_the_loop_nothing, 0,
                        (int)(sizeof(leavings) / sizeof(leavings[0])));
    tcase_add_loop_test(t, a_directory_that_nothing_bounds_is_measured, 0, 3);
    tcase_add_test(t, functions_that_see_no_mounts_are_served_without);
    tcase_add_test(t, mount_options_may_be_long);
    tcase_add_loop_test(t, the_contracts_link_is_read_where_none_is_followed, 0,
                        (int)(sizeof(unfollowed) / sizeof(unfollowed[0])));
    tcase_add_test(t, a_tmpfs_bounds_what_a_function_can_write);
    tcase_add_test(t, the_sweep_takes_what_the_dead_left_and_nothing_else);
    suite_add_tcase(s, t);
}
