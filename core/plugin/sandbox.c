/* Installs a seccomp filter that answers EPERM, and notes which kinds of calls were refused. */
#include <plugin/sandbox.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
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
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_removexattrat 466
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
#define REFUSED(call) IS(__NR_##call, 0, 1), REFUSE
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define THREAD 0x00010000 /* CLONE_THREAD */

static bool filter(void)
{
    struct sock_filter rules[] = {
        LOAD(arch),
        IS(OWN_ARCH, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#ifdef OTHER_ABI_BIT
        HAS(OTHER_ABI_BIT, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
#endif
        REFUSED(socket),
        REFUSED(socketpair),
        REFUSED(connect),
        REFUSED(execve),
        REFUSED(execveat),
        REFUSED(ptrace),
        REFUSED(process_vm_writev),
        REFUSED(pidfd_send_signal),
        REFUSED(pidfd_getfd),
        REFUSED(setns),
        REFUSED(unshare),
        REFUSED(io_uring_setup),
        REFUSED(mount),
        REFUSED(mkdirat),
        REFUSED(unlinkat),
        REFUSED(renameat2),
        REFUSED(renameat), /* what rename() is on arm64 */
        REFUSED(symlinkat),
        REFUSED(openat2), /* its flags cannot be seen */
        REFUSED(open_by_handle_at),
        REFUSED(truncate),
        REFUSED(fchmod),
        REFUSED(fchmodat),
        REFUSED(fchmodat2),
        REFUSED(fchown),
        REFUSED(fchownat),
        REFUSED(linkat),
        REFUSED(mknodat),
        REFUSED(utimensat),
        REFUSED(setxattr),
        REFUSED(lsetxattr),
        REFUSED(fsetxattr),
        REFUSED(setxattrat),
        REFUSED(removexattr),
        REFUSED(lremovexattr),
        REFUSED(fremovexattr),
        REFUSED(removexattrat),
#ifdef __NR_open
        REFUSED(fork),
        REFUSED(vfork),
        REFUSED(creat),
        REFUSED(mkdir),
        REFUSED(rmdir),
        REFUSED(unlink),
        REFUSED(rename),
        REFUSED(symlink),
        REFUSED(link),
        REFUSED(mknod),
        REFUSED(chmod),
        REFUSED(chown),
        REFUSED(lchown),
        REFUSED(utime),
        REFUSED(utimes),
        REFUSED(futimesat),
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
    struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), rules };

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
