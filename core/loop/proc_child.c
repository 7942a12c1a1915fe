/* The child's side of a spawn: from clone(2) to the program.
 *
 * The child runs on a stack of its own in the parent's memory while the parent's thread waits
 * (CLONE_VM | CLONE_VFORK): starting a program costs no copy of the node's page tables, and an
 * error needs no pipe. So the child only makes system calls, and makes them directly: functions of
 * libc may keep state (setuid(3) tells all threads), and a race detector would book what the child
 * does on the parent's thread. */
#include <loop/proc.h>
#include <loop/proc_int.h>
#include <base/err.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_STACK (256 * 1024)
#define FAILED_EXIT 127

/* clone(2) under glibc's other name: a race detector replaces the one and takes the child, which
 * has our memory, for a fork. */
extern int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

#define IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

IN_CHILD static int child_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

IN_CHILD static long child_mount(const char *from, const char *to, const char *type,
                                 unsigned long flags, const char *data)
{
    return syscall(SYS_mount, from, to, type, flags, data);
}

IN_CHILD static _Noreturn void child_exit(int code)
{
    for (;;) {
        syscall(SYS_exit_group, code);
    }
}

IN_CHILD static int step(struct launch *l, const char *what, long r)
{
    if (r < 0) {
        l->step = what;
        l->err = errno;
        return -1;
    }
    return 0;
}

IN_CHILD static int enter_cgroups(struct launch *l)
{
    for (int i = 0; i < CGROUP_DIRS_MAX; i++) {
        int fd;

        if (!l->procs[i][0]) {
            continue;
        }
        fd = child_open(l->procs[i], O_WRONLY);
        if (step(l, "enter its cgroup", fd) < 0 ||
            step(l, "enter its cgroup", syscall(SYS_write, fd, "0", 1)) < 0) {
            return -1;
        }
        syscall(SYS_close, fd);
    }
    return 0;
}

/* Makes the parents of bind_to and itself inside the fresh /tmp. */
IN_CHILD static void make_bind_dir(struct launch *l)
{
    for (char *p = l->bind_parts + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            syscall(SYS_mkdirat, AT_FDCWD, l->bind_parts, 0755);
            *p = '/';
        }
    }
    syscall(SYS_mkdirat, AT_FDCWD, l->bind_parts, 0755);
}

IN_CHILD static int bind_dir(struct launch *l, int from_fd)
{
    char path[] = "/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    char *p = path + sizeof("/proc/self/fd/") - 1;
    int digits = 1;
    int rest;

    for (rest = from_fd; rest >= 10; rest /= 10) {
        digits++;
    }
    for (rest = from_fd; digits > 0; rest /= 10) {
        p[--digits] = (char)('0' + rest % 10);
    }
    make_bind_dir(l);
    if (step(l, "mount its socket directory",
             child_mount(path, l->spec->bind_to, NULL, MS_BIND, NULL)) < 0) {
        return -1;
    }
    /* A bind of a read-only mount is read-only itself. The flags given here are all that are left:
     * those of the mount beneath are not inherited, and it may be a plain folder of the disk. */
    return step(l, "mount its socket directory writable",
                child_mount(NULL, l->spec->bind_to, NULL,
                            MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
}

IN_CHILD static int make_mounts(struct launch *l)
{
    struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
    int from_fd = -1;

    if (!(l->flags & FN_PROC_NEW_MOUNT)) {
        return 0;
    }
    if (step(l, "make its mounts private",
             child_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) < 0) {
        return -1;
    }
    if (l->spec->bind_from) {
        from_fd = child_open(l->spec->bind_from, O_PATH | O_DIRECTORY);
        if (step(l, "open its socket directory", from_fd) < 0) {
            return -1;
        }
    }
    if ((l->flags & FN_PROC_READONLY) &&
        step(l, "make file systems read-only",
             syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &read_only,
                     sizeof(read_only))) < 0) {
        return -1;
    }
    if (step(l, "mount /tmp",
             child_mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, l->tmp_options)) < 0) {
        return -1;
    }
    if (from_fd >= 0 && bind_dir(l, from_fd) < 0) {
        return -1;
    }
    if (l->flags & FN_PROC_NEW_PID) {
        child_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    }
    return 0;
}

IN_CHILD static void raise_loopback(void)
{
    struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    int fd = (int)syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        syscall(SYS_ioctl, fd, SIOCSIFFLAGS, &ifr);
        syscall(SYS_close, fd);
    }
}

IN_CHILD static int limit(struct launch *l, int what, uint64_t value)
{
    struct rlimit lim = { value, value };
    struct rlimit old;

    /* Only lowering is always allowed. */
    if (syscall(SYS_prlimit64, 0, what, NULL, &old) == 0 && old.rlim_max != RLIM_INFINITY &&
        value > old.rlim_max) {
        lim.rlim_cur = lim.rlim_max = old.rlim_max;
    }
    return step(l, "set a limit", syscall(SYS_prlimit64, 0, what, &lim, NULL));
}

IN_CHILD static int set_limits(struct launch *l)
{
    if (limit(l, RLIMIT_CORE, 0) < 0 ||
        (l->spec->nofile_max && limit(l, RLIMIT_NOFILE, l->spec->nofile_max) < 0) ||
        (l->limit_as && limit(l, RLIMIT_AS, l->spec->mem_bytes) < 0)) {
        return -1;
    }
    return 0;
}

IN_CHILD static int drop_rights(struct launch *l)
{
    const struct fn_proc_spec *s = l->spec;

    if (s->gid && (step(l, "drop its groups", syscall(SYS_setgroups, 0, NULL)) < 0 ||
                   step(l, "set its group", syscall(SYS_setresgid, s->gid, s->gid, s->gid)) < 0)) {
        return -1;
    }
    if (s->uid && step(l, "set its user", syscall(SYS_setresuid, s->uid, s->uid, s->uid)) < 0) {
        return -1;
    }
    if ((l->flags & FN_PROC_NO_NEW_PRIVS) &&
        step(l, "forbid new privileges", syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0) {
        return -1;
    }
    /* After the change of user, which clears it. */
    return step(l, "tie it to the node", syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
}

/* Default handlers, then nothing blocked. */
IN_CHILD static void reset_signals(void)
{
    static const uint64_t nothing[8]; /* a zeroed kernel sigaction, and an empty set */

    for (int i = 1; i < 65; i++) {
        syscall(SYS_rt_sigaction, i, nothing, NULL, sizeof(uint64_t));
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, NULL, sizeof(uint64_t));
}

IN_CHILD static int set_files(struct launch *l)
{
    for (int i = 0; i < 3; i++) {
        if (step(l, "set its files", syscall(SYS_dup3, l->fd[i], i, 0)) < 0) {
            return -1;
        }
    }
    return step(l, "close other files", syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC));
}

IN_CHILD static int child(void *arg)
{
    struct launch *l = arg;
    const struct fn_proc_spec *s = l->spec;
    int exec_fd;

    syscall(SYS_setsid);
    exec_fd = child_open(s->argv[0], O_PATH);
    if (step(l, "find the program", exec_fd) < 0 || enter_cgroups(l) < 0 || make_mounts(l) < 0) {
        child_exit(FAILED_EXIT);
    }
    if (l->flags & FN_PROC_NEW_NET) {
        raise_loopback();
    }
    if (step(l, "enter its directory", syscall(SYS_chdir, s->cwd ? s->cwd : "/")) < 0 ||
        set_limits(l) < 0 || set_files(l) < 0 || drop_rights(l) < 0) {
        child_exit(FAILED_EXIT);
    }
    reset_signals();
    syscall(SYS_execveat, exec_fd, "", s->argv, s->env, AT_EMPTY_PATH);
    if (errno == ENOENT) { /* a script: its interpreter needs a path */
        syscall(SYS_execve, s->argv[0], s->argv, s->env);
    }
    step(l, "run the program", -1);
    l->not_a_program = true;
    child_exit(FAILED_EXIT);
}

static int clone_flags(uint32_t flags)
{
    return (flags & FN_PROC_NEW_PID ? CLONE_NEWPID : 0) |
           (flags & FN_PROC_NEW_MOUNT ? CLONE_NEWNS : 0) |
           (flags & FN_PROC_NEW_NET ? CLONE_NEWNET : 0) |
           (flags & FN_PROC_NEW_IPC ? CLONE_NEWIPC : 0) |
           (flags & FN_PROC_NEW_UTS ? CLONE_NEWUTS : 0);
}

/* pid, or -errno. All signals are blocked while two processes share one memory. */
static pid_t clone_child(int (*fn)(void *), void *arg, int flags, int *ret_pidfd)
{
    sigset_t all, old;
    void *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid;
    int err;

    if (stack == MAP_FAILED) {
        return -errno;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = __clone(fn, (char *)stack + CHILD_STACK,
                  CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD | flags, arg, ret_pidfd);
    err = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    munmap(stack, CHILD_STACK);
    return pid < 0 ? -err : pid;
}

/* A file that is not executable for us, no program, or one without its interpreter stays so. */
static int launch_code(const struct launch *l)
{
    int code = err_from_errno(l->err);

    if (!l->not_a_program || code == FN_E_EXHAUSTED) {
        return code;
    }
    return l->err == ETXTBSY ? FN_E_UNAVAILABLE : FN_E_PRECONDITION;
}

int launch_run(struct launch *l, pid_t *ret_pid, int *ret_pidfd, struct fn_error *reterr)
{
    int pidfd = -1;
    pid_t pid;

    l->step = NULL;
    l->err = 0;
    l->not_a_program = false;
    pid = clone_child(child, l, l->can_namespaces ? clone_flags(l->flags) : 0, &pidfd);
    if (pid < 0) {
        return err_set(reterr, err_from_errno(-pid), "%.100s: cannot start a process: %s",
                       l->spec->argv[0], strerror(-pid));
    }
    if (l->step) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        close(pidfd);
        return err_set(reterr, launch_code(l), "%.100s: cannot %s: %s", l->spec->argv[0],
                       l->step, strerror(l->err));
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

IN_CHILD static int do_nothing(void *arg)
{
    (void)arg;
    child_exit(child_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : 1);
}

int launch_can_namespaces(bool *ret, struct fn_error *reterr)
{
    int pidfd = -1;
    int status = 1;
    pid_t pid = clone_child(do_nothing, NULL,
                            CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC, &pidfd);

    *ret = false;
    if (pid < 0) {
        return err_passes(-pid) ? err_set(reterr, FN_E_EXHAUSTED,
                                          "namespaces: cannot start a process to try them: %s",
                                          strerror(-pid))
                                : 0;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(pidfd);
    *ret = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return 0;
}
