/* What plugins may not do while `fnd check` asks them: whoever asks is a process of its own, since a
 * filter stays. */
#include "../lib/skip.h"
#include "testing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <plugin/sandbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_FILTER 99

static char dir[] = "/tmp/test-sandbox-XXXXXX";
static char file[64], other[64];
static const struct open_how how = { .flags = O_WRONLY | O_CREAT | O_TRUNC, .mode = 0644 };

struct attempt {
    const char *wanted;
    long call;
    long args[5];
};

#define A(text) ((long)(intptr_t)(text))
#define FILES   "to write files"
#define PROGRAM "another program"

/* The first that is not refused, from 1; 0: none. */
static int first_allowed(void)
{
    const struct attempt attempts[] = {
        { FILES, SYS_openat, { AT_FDCWD, A(other), O_WRONLY | O_CREAT, 0644 } },
        { FILES, SYS_openat2, { AT_FDCWD, A(other), A(&how), sizeof(how) } },
        { FILES, SYS_truncate, { A(file), 0 } },
        { FILES, SYS_fchmodat, { AT_FDCWD, A(file), 0777 } },
        { FILES, 452 /* fchmodat2 */, { AT_FDCWD, A(file), 0777, 0 } },
        { FILES, SYS_fchownat, { AT_FDCWD, A(file), -1, -1, 0 } },
        { FILES, SYS_linkat, { AT_FDCWD, A(file), AT_FDCWD, A(other), 0 } },
        { FILES, SYS_mknodat, { AT_FDCWD, A(other), S_IFIFO | 0666, 0 } },
        { FILES, SYS_utimensat, { AT_FDCWD, A(file), 0, 0 } },
        { FILES, SYS_setxattr, { A(file), A("user.a"), A("b"), 1, 0 } },
        { FILES, SYS_removexattr, { A(file), A("user.a") } },
        { FILES, 469 /* file_setattr */, { AT_FDCWD, A(file), 0, 0, 0 } },
        { FILES, SYS_umount2, { A(file), 0 } },
        { FILES, SYS_pivot_root, { A(file), A(file) } },
        { FILES, SYS_move_mount, { -1, A(file), -1, A(file), 0 } },
        { FILES, 442 /* mount_setattr */, { -1, A(file), 0, 0, 0 } },
#ifdef SYS_open
        { FILES, SYS_chmod, { A(file), 0777 } },
        { FILES, SYS_chown, { A(file), -1, -1 } },
        { FILES, SYS_link, { A(file), A(other) } },
        { FILES, SYS_mknod, { A(other), S_IFIFO | 0666, 0 } },
        { FILES, SYS_utime, { A(file), 0 } },
#endif
        { PROGRAM, SYS_kill, { getppid(), 0 } },
        { PROGRAM, SYS_tkill, { getppid(), 0 } },
        { PROGRAM, SYS_rt_sigqueueinfo, { getppid(), 0, 0 } },
        { PROGRAM, SYS_rt_tgsigqueueinfo, { getppid(), getppid(), 0, 0 } },
        { PROGRAM, SYS_fcntl, { 0, F_SETOWN, getppid() } },
        { PROGRAM, SYS_prlimit64, { getppid(), 0 /* RLIMIT_CPU */, 0, 0 } },
    };
    const int n = (int)(sizeof(attempts) / sizeof(attempts[0]));
    struct rlimit l;

    if (!sandbox_enter()) {
        return NO_FILTER;
    }
    for (int i = 0; i < n; i++) {
        const struct attempt *a = &attempts[i];
        const char *wanted;
        long r = syscall(a->call, a->args[0], a->args[1], a->args[2], a->args[3], a->args[4]);
        int e = errno;

        wanted = sandbox_wanted();
        if (r >= 0 || e != EPERM || !wanted || strcmp(wanted, a->wanted) != 0) {
            return i + 1;
        }
    }
#if defined(__x86_64__)
    if (syscall(0x40000000 | SYS_truncate, file, 0) >= 0 || errno != ENOSYS) { /* x32 */
        return n + 1;
    }
#endif
    if (prlimit(0, RLIMIT_CPU, NULL, &l) < 0 || prlimit(getpid(), RLIMIT_CPU, NULL, &l) < 0) {
        return n + 2;
    }
    return tgkill(getpid(), gettid(), 0) == 0 ? 0 : n + 3; /* as abort() does it */
}

START_TEST(what_would_write_or_reach_others_is_refused)
{
    struct stat st;
    int fd, status;
    pid_t pid;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/file", dir);
    snprintf(other, sizeof(other), "%s/other", dir);
    fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_int_eq(write(fd, "precious", 8), 8);
    close(fd);
    pid = fork();
    if (pid == 0) {
        _exit(first_allowed());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(stat(file, &st), 0);
    unlink(file);
    unlink(other);
    rmdir(dir);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER) {
        SKIP("no filter of system calls is allowed here");
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_eq(st.st_size, 8);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
}
END_TEST

TCase *sandbox_tests(void)
{
    TCase *t = tcase_create("sandbox");

    tcase_add_test(t, what_would_write_or_reach_others_is_refused);
    return t;
}
