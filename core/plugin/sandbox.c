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
#define ANSWER_OF(uc) ((uc)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#define ANSWER_OF(uc) ((uc)->uc_mcontext.regs[0])
#else
#error "expected x86-64 or arm64"
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
    case __NR_openat:
#ifdef __NR_open
    case __NR_open:
    case __NR_creat:
    case __NR_mkdir:
    case __NR_rmdir:
    case __NR_unlink:
    case __NR_rename:
    case __NR_symlink:
#endif
    case __NR_mkdirat:
    case __NR_unlinkat:
    case __NR_renameat2:
    case __NR_renameat:
    case __NR_symlinkat:
    case __NR_mount:
        return WANT_FILES;
    default:
        return WANT_PROGRAM;
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
        REFUSED(socket),
        REFUSED(socketpair),
        REFUSED(connect),
        REFUSED(execve),
        REFUSED(execveat),
        REFUSED(ptrace),
        REFUSED(process_vm_writev),
        REFUSED(pidfd_send_signal),
        REFUSED(setns),
        REFUSED(unshare),
        REFUSED(io_uring_setup),
        REFUSED(mount),
        REFUSED(mkdirat),
        REFUSED(unlinkat),
        REFUSED(renameat2),
        REFUSED(renameat), /* what rename() is on arm64 */
        REFUSED(symlinkat),
#ifdef __NR_open
        REFUSED(fork),
        REFUSED(vfork),
        REFUSED(creat),
        REFUSED(mkdir),
        REFUSED(rmdir),
        REFUSED(unlink),
        REFUSED(rename),
        REFUSED(symlink),
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
        /* Signals to itself only. */
        IS(__NR_kill, 1, 0),
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
