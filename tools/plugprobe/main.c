/* fnd-plugprobe: loads one plugin and says how far it came (core/plugin/trial.c).
 *
 * Descriptor 3 is the plugin, 4 the pipe to whoever asks. What a constructor needs is allowed; what
 * would reach another process or the network is not. Linked against the C library alone, so that
 * a symbol of a library that the plugin does not declare stays undefined here, as it would in a
 * tool of the vendor. The manifest is not looked into: the host does that, carefully. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPORT_FD 4
#define PLUGIN_NAME "/proc/self/fd/3"
#define MEMORY_BYTES (256UL * 1024 * 1024)
#define CPU_S 10

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define OTHER_ABI_BIT 0x40000000 /* x32: the same calls by other numbers */
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "expected x86-64 or arm64"
#endif

#if defined(__SANITIZE_ADDRESS__)
/* The search for leaks at exit() needs what set_filter() takes away. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

/* Younger than the headers of some systems. */
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif

static void report(const char *line)
{
    if (write(REPORT_FD, line, strlen(line)) < 0) {
        _exit(3); /* nobody listens any more */
    }
}

static void limit(int what, rlim_t value)
{
    struct rlimit l = { value, value };

    (void)setrlimit(what, &l);
}

/* A sanitizer reserves terabytes of addresses. */
static void set_limits(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    limit(RLIMIT_AS, MEMORY_BYTES);
#endif
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, CPU_S);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* ---- system calls ---------------------------------------------------------------------------- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (t), (f))
#define HAS(bits, t, f) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (t), (f))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define FAIL(err) ANSWER(SECCOMP_RET_ERRNO | (err))
#define DIE ANSWER(SECCOMP_RET_KILL_PROCESS)
#define KILLED(call) IS(__NR_##call, 0, 1), DIE
#define REFUSED(call) IS(__NR_##call, 0, 1), FAIL(EPERM)
#define CLONE_THREAD_BIT 0x00010000

/* Without it (an old kernel, a container that forbids it) the trial is weaker, not wrong. */
static void set_filter(void)
{
    struct sock_filter rules[] = {
        LOAD(arch),
        IS(OWN_ARCH, 1, 0),
        DIE,
        LOAD(nr),
#ifdef OTHER_ABI_BIT
        HAS(OTHER_ABI_BIT, 0, 1),
        FAIL(ENOSYS),
#endif
        REFUSED(socket),
        REFUSED(socketpair),
        REFUSED(io_uring_setup), /* would do what is refused here */
        REFUSED(io_uring_enter),
        REFUSED(io_uring_register),
        KILLED(execve),
        KILLED(execveat),
#ifdef __NR_fork
        KILLED(fork),
        KILLED(vfork),
#endif
        KILLED(ptrace),
        KILLED(process_vm_writev),
        KILLED(pidfd_send_signal),
        KILLED(pidfd_getfd),
        KILLED(setns),
        KILLED(unshare),
        KILLED(mount),
        KILLED(umount2),
        KILLED(pivot_root),
        KILLED(move_mount), /* the last step of the newer way to mount */
        KILLED(mount_setattr),
        /* glibc then takes clone, whose flags can be seen. */
        IS(__NR_clone3, 0, 1),
        FAIL(ENOSYS),
        IS(__NR_clone, 0, 4),
        LOAD(args[0]),
        HAS(CLONE_THREAD_BIT, 0, 1),
        ANSWER(SECCOMP_RET_ALLOW),
        DIE,
        /* Signals to itself only, also those of a descriptor that somebody else owns. */
        IS(__NR_fcntl, 0, 5),
        LOAD(args[1]),
        IS(F_SETOWN, 1, 0),
        IS(F_SETOWN_EX, 0, 1),
        FAIL(EPERM),
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
        DIE,
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), rules };

    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* ---- the trial ------------------------------------------------------------------------------- */

static void report_error(const char *why)
{
    char line[900];
    size_t skip = strlen(PLUGIN_NAME ": ");

    why = why ? why : "dlopen failed";
    if (strncmp(why, PLUGIN_NAME ": ", skip) == 0) {
        why += skip;
    }
    (void)snprintf(line, sizeof(line), "error %s", why);
    for (char *s = line; *s; s++) {
        *s = *s == '\n' ? ' ' : *s;
    }
    report(line);
    report("\n");
    _exit(2);
}

/* As the host does: the table of names may be damaged where only these are looked for. */
static void look_for_others(void *handle)
{
    char name[32];

    for (int v = 2; v < 10; v++) {
        (void)snprintf(name, sizeof(name), "fn_plugin_v%d", v);
        (void)dlsym(handle, name);
    }
}

int main(void)
{
    const void *(*entry)(void);
    void *handle;
    void *symbol;

    set_limits();
    set_filter();
    report("dlopen\n");
    handle = dlopen(PLUGIN_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        report_error(dlerror());
    }
    report("entry\n");
    symbol = dlsym(handle, "fn_plugin_v1");
    if (symbol) {
        memcpy(&entry, &symbol, sizeof(entry));
        (void)entry();
    } else {
        look_for_others(handle);
    }
    report("done\n");
    _exit(0);
}
