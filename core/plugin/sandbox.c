/* Installs a seccomp filter that answers EPERM, and notes which kinds of calls were refused. */
#include <plugin/sandbox.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define OTHER_ABI_BIT 0x40000000 /* x32: the same calls by other numbers */
#define ANSWER_OF(uc) ((uc)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#define ANSWER_OF(uc) ((uc)->uc_mcontext.regs[0])
#else
#error "expected x86-64 or arm64"
#endif

/* Younger than the headers of some systems. */
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_removexattrat 466
#endif
#ifndef __NR_file_setattr
#define __NR_file_setattr 469
#endif

enum want { WANT_NOTHING, WANT_NETWORK, WANT_PROGRAM, WANT_FILES };

static enum want wanted; /* atomic: set by threads of plugins, too */

static enum want want_of(int call)
{
    switch (call) {
    case __NR_socket:
    case __NR_socketpair:
    case __NR_connect:
        return WANT_NETWORK;
    case __NR_execve:
    case __NR_execveat:
    case __NR_ptrace:
    case __NR_process_vm_writev:
    case __NR_pidfd_send_signal:
    case __NR_pidfd_getfd:
    case __NR_setns:
    case __NR_unshare:
    case __NR_io_uring_setup:
#ifdef __NR_fork
    case __NR_fork:
    case __NR_vfork:
#endif
    case __NR_clone:
    case __NR_fcntl:
    case __NR_kill:
    case __NR_tkill:
    case __NR_tgkill:
    case __NR_rt_sigqueueinfo:
    case __NR_rt_tgsigqueueinfo:
    case __NR_prlimit64:
        return WANT_PROGRAM;
    default:
        return WANT_FILES;
    }
}

static void on_refused(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    __atomic_store_n(&wanted, want_of(info->si_syscall), __ATOMIC_RELAXED);
    ANSWER_OF((ucontext_t *)context) = -EPERM;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (t), (f))
#define HAS(bits, t, f) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (t), (f))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE ANSWER(SECCOMP_RET_TRAP)
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define THREAD 0x00010000 /* CLONE_THREAD */

/* Whatever their arguments. */
static const int refused[] = {
    __NR_socket, __NR_socketpair, __NR_connect, __NR_execve, __NR_execveat, __NR_ptrace,
    __NR_process_vm_writev, __NR_pidfd_send_signal, __NR_pidfd_getfd, __NR_setns, __NR_unshare,
    __NR_io_uring_setup, __NR_mount, __NR_umount2, __NR_pivot_root, __NR_mount_setattr,
    __NR_move_mount, /* the last step of the newer way to mount */
    __NR_mkdirat, __NR_unlinkat, __NR_renameat2,
    __NR_renameat, /* what rename() is on arm64 */
    __NR_symlinkat,
    __NR_openat2, /* its flags cannot be seen */
    __NR_open_by_handle_at, __NR_truncate, __NR_fchmod, __NR_fchmodat, __NR_fchmodat2,
    __NR_fchown, __NR_fchownat, __NR_linkat, __NR_mknodat, __NR_utimensat, __NR_setxattr,
    __NR_lsetxattr, __NR_fsetxattr, __NR_setxattrat, __NR_removexattr, __NR_lremovexattr,
    __NR_fremovexattr, __NR_removexattrat, __NR_file_setattr,
#ifdef __NR_open
    __NR_fork, __NR_vfork, __NR_creat, __NR_mkdir, __NR_rmdir, __NR_unlink, __NR_rename,
    __NR_symlink, __NR_link, __NR_mknod, __NR_chmod, __NR_chown, __NR_lchown, __NR_utime,
    __NR_utimes, __NR_futimesat,
#endif
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool filter(void)
{
    const struct sock_filter head[] = {
        LOAD(arch),
        IS(OWN_ARCH, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#ifdef OTHER_ABI_BIT
        HAS(OTHER_ABI_BIT, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
#endif
    };
    /* What depends on how it is called; the number is still loaded. */
    const struct sock_filter tail[] = {
#ifdef __NR_open
        IS(__NR_open, 0, 4),
        LOAD(args[1]),
        HAS(WRITES, 0, 1),
        REFUSE,
        ANSWER(SECCOMP_RET_ALLOW),
#endif
        IS(__NR_openat, 0, 4),
        LOAD(args[2]),
        HAS(WRITES, 0, 1),
        REFUSE,
        ANSWER(SECCOMP_RET_ALLOW),
        /* glibc then takes clone, whose flags can be seen. */
        IS(__NR_clone3, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        IS(__NR_clone, 0, 4),
        LOAD(args[0]),
        HAS(THREAD, 1, 0),
        REFUSE,
        ANSWER(SECCOMP_RET_ALLOW),
        /* Signals to itself only, also those of a descriptor that somebody else owns. */
        IS(__NR_fcntl, 0, 5),
        LOAD(args[1]),
        IS(F_SETOWN, 1, 0),
        IS(F_SETOWN_EX, 0, 1),
        REFUSE,
        ANSWER(SECCOMP_RET_ALLOW),
        /* A limit of time ends a process, too; 0 is whoever asks. */
        IS(__NR_prlimit64, 0, 2),
        LOAD(args[0]),
        IS(0, 8, 6),
        IS(__NR_kill, 4, 0),
        IS(__NR_tkill, 3, 0),
        IS(__NR_rt_sigqueueinfo, 2, 0),
        IS(__NR_rt_tgsigqueueinfo, 1, 0),
        IS(__NR_tgkill, 0, 3),
        LOAD(args[0]),
        IS((unsigned)getpid(), 1, 0),
        REFUSE,
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_filter rules[COUNT(head) + 2 * COUNT(refused) + COUNT(tail)];
    struct sock_fprog program = { COUNT(rules), rules };
    struct sock_filter *to = rules;

    memcpy(to, head, sizeof(head));
    to += COUNT(head);
    for (size_t i = 0; i < COUNT(refused); i++) {
        *to++ = (struct sock_filter)IS((unsigned)refused[i], 0, 1);
        *to++ = (struct sock_filter)REFUSE;
    }
    memcpy(to, tail, sizeof(tail));
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

bool sandbox_enter(void)
{
    struct sigaction act = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct sigaction before;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || sigaction(SIGSYS, &act, &before) < 0) {
        return false;
    }
    if (!filter()) {
        sigaction(SIGSYS, &before, NULL);
        return false;
    }
    return true;
}

const char *sandbox_wanted(void)
{
    static const char *const words[] = { NULL, "the network", "another program", "to write files" };

    return words[__atomic_exchange_n(&wanted, WANT_NOTHING, __ATOMIC_RELAXED)];
}
