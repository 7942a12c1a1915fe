/* The system calls that a function may make: what container engines allow a container without
 * capabilities. All else fails with EPERM; calls of another word size are none. */
#include "config.h"

#define NAMESPACE_FLAGS 0x7e020000 /* of clone(): CLONE_NEW... */
#define ERR_PERM        1
#define ERR_NOSYS       38

static const char *const allowed[] = {
    "accept", "accept4", "access", "adjtimex", "alarm", "arch_prctl", "bind", "brk", "capget",
    "capset", "chdir", "chmod", "chown", "chroot", "clock_adjtime", "clock_getres", "clock_gettime",
    "clock_nanosleep", "close", "close_range", "connect", "copy_file_range", "creat", "dup", "dup2",
    "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "execve", "execveat",
    "exit", "exit_group", "faccessat", "faccessat2", "fadvise64", "fallocate", "fanotify_mark",
    "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync",
    "fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs",
    "fsync", "ftruncate", "futex", "futex_waitv", "futimesat", "get_robust_list",
    "get_thread_area", "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid",
    "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp", "getpid", "getppid",
    "getpriority", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid",
    "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "getxattr",
    "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "io_cancel",
    "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit", "ioctl", "ioprio_get",
    "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "lchown", "lgetxattr", "link", "linkat", "listen", "listxattr",
    "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "madvise", "membarrier",
    "memfd_create", "memfd_secret", "mincore", "mkdir", "mkdirat", "mknod", "mknodat", "mlock",
    "mlock2", "mlockall", "mmap", "modify_ldt", "mprotect", "mq_getsetattr", "mq_notify", "mq_open",
    "mq_timedreceive", "mq_timedsend", "mq_unlink", "mremap", "msgctl", "msgget", "msgrcv",
    "msgsnd", "msync", "munlock", "munlockall", "munmap", "name_to_handle_at", "nanosleep",
    "newfstatat", "open", "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal", "pipe",
    "pipe2", "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64",
    "preadv", "preadv2", "prlimit64", "process_mrelease", "process_vm_readv",
    "process_vm_writev", "pselect6", "ptrace", "pwrite64", "pwritev", "pwritev2", "read",
    "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg",
    "remap_file_pages", "removexattr", "rename", "renameat", "renameat2", "restart_syscall",
    "rmdir", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
    "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select",
    "semctl", "semget", "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto",
    "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid",
    "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid",
    "setreuid", "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "shmat", "shmctl",
    "shmdt", "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4", "socketpair",
    "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range",
    "syncfs", "sysinfo", "tee", "tgkill", "time", "timer_create", "timer_delete",
    "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime",
    "timerfd_settime", "times", "tkill", "truncate", "umask", "uname", "unlink", "unlinkat",
    "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4", "waitid", "waitpid", "write",
    "writev", NULL
};

/* Of personality(): what programs ask for that are not for another system. */
static const json_int_t personalities[] = { 0x0, 0x8, 0x20000, 0x20008, 0xffffffff };

static json_t *names_of(const char *const *names)
{
    json_t *list = json_array();

    for (; *names; names++) {
        json_array_append_new(list, json_string(*names));
    }
    return list;
}

/* A rule for one call whose argument `index` compares so. */
static json_t *rule_for(const char *name, int index, json_int_t value, json_int_t value_two,
                        const char *op)
{
    return json_pack("{s:[s], s:s, s:[{s:i, s:I, s:I, s:s}]}", "names", name, "action",
                     "SCMP_ACT_ALLOW", "args", "index", index, "value", value, "valueTwo",
                     value_two, "op", op);
}

json_t *config_seccomp(void)
{
    json_t *rules = json_array();

    json_array_append_new(rules, json_pack("{s:o, s:s}", "names", names_of(allowed), "action",
                                           "SCMP_ACT_ALLOW"));
    for (size_t i = 0; i < sizeof(personalities) / sizeof(personalities[0]); i++) {
        json_array_append_new(rules, rule_for("personality", 0, personalities[i], 0,
                                              "SCMP_CMP_EQ"));
    }
    json_array_append_new(rules, rule_for("clone", 0, NAMESPACE_FLAGS, 0, "SCMP_CMP_MASKED_EQ"));
    json_array_append_new(rules, rule_for("socket", 0, 40 /* AF_VSOCK */, 0, "SCMP_CMP_NE"));
    /* Its flags are in memory, where no filter sees them: libraries then use clone(). */
    json_array_append_new(rules, json_pack("{s:[s], s:s, s:i}", "names", "clone3", "action",
                                           "SCMP_ACT_ERRNO", "errnoRet", ERR_NOSYS));
    return json_pack("{s:s, s:i, s:o}", "defaultAction", "SCMP_ACT_ERRNO", "defaultErrnoRet",
                     ERR_PERM, "syscalls", rules);
}
