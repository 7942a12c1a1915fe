/* A list of what is refused, not of what is allowed: plugins are other people's code, with run
 * times of their own, and a call that nobody thought of must not stop a node. The list is what
 * container engines refuse by default, and what would lead around the other measures. */
#include <process/filter.h>

#include <errno.h>
#include <process/harden.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct filter_call refused[] = {
    /* the kernel itself */
    { "kexec_load", 0 },
    { "kexec_file_load", 0 },
    { "init_module", 0 },
    { "finit_module", 0 },
    { "delete_module", 0 },
    { "reboot", 0 },
    { "swapon", 0 },
    { "swapoff", 0 },
    { "acct", 0 },
    { "settimeofday", 0 },
    { "clock_settime", 0 },
    { "clock_settime64", 0 },
    { "syslog", 0 },
    { "quotactl", 0 },
    { "quotactl_fd", 0 },
    { "iopl", 0 },
    { "ioperm", 0 },
    { "vhangup", 0 },
    { "nfsservctl", 0 },
    { "uselib", 0 },
    { "lookup_dcookie", 0 },
    /* parts of it with a long record of ways to root */
    { "perf_event_open", 0 },
    { "userfaultfd", 0 },
    { "open_by_handle_at", 0 },
    { "bpf", HARDEN_CHILDREN },
    { "add_key", HARDEN_CHILDREN },
    { "request_key", HARDEN_CHILDREN },
    { "keyctl", HARDEN_CHILDREN },
    { "io_uring_setup", FILTER_STRICT },
/* other processes; the leak check of a sanitizer traces its own */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    { "ptrace", HARDEN_CHILDREN },
#endif
    { "process_vm_writev", HARDEN_CHILDREN },
    { "pidfd_getfd", HARDEN_CHILDREN },
    { "kcmp", HARDEN_CHILDREN },
    /* file systems */
    { "mount", HARDEN_MOUNT | HARDEN_CHILDREN },
    { "umount", HARDEN_MOUNT | HARDEN_CHILDREN },
    { "umount2", HARDEN_MOUNT | HARDEN_CHILDREN },
    { "fsopen", HARDEN_CHILDREN },
    { "fspick", HARDEN_CHILDREN },
    { "fsmount", HARDEN_CHILDREN },
    { "fsconfig", HARDEN_CHILDREN },
    { "open_tree", HARDEN_CHILDREN },
    { "move_mount", HARDEN_CHILDREN },
    { "mount_setattr", HARDEN_CHILDREN },
    { "pivot_root", HARDEN_CHILDREN },
    { "chroot", HARDEN_CHILDREN },
    { "setns", HARDEN_CHILDREN },
    { "sethostname", HARDEN_CHILDREN },
    { "setdomainname", HARDEN_CHILDREN },
};

/* The bit of CLONE_NEWTIME is part of a signal's number for clone(), of none that there is. */
static const uint64_t namespaces[] = { CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS,
                                       CLONE_NEWIPC,  CLONE_NEWUSER,   CLONE_NEWPID,
                                       CLONE_NEWNET,  CLONE_NEWTIME };

/* Programs of the machine's other word size pass the same filter. */
#if defined(__x86_64__)
static const uint32_t also[] = { SCMP_ARCH_X86, SCMP_ARCH_X32 };
#elif defined(__aarch64__)
static const uint32_t also[] = { SCMP_ARCH_ARM };
#else
#error "expected x86-64 or arm64"
#endif

const struct filter_call *filter_calls(size_t *ret_n)
{
    *ret_n = sizeof(refused) / sizeof(refused[0]);
    return refused;
}

bool filter_refuses(const struct filter_call *call, uint32_t may, bool strict)
{
    return !(call->unless & may) && (strict || !(call->unless & FILTER_STRICT));
}

/* One that this kernel's headers do not know cannot be called by that name either. */
static int refuse_calls(scmp_filter_ctx f, uint32_t may, bool strict)
{
    int r = 0;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && r == 0; i++) {
        int nr = seccomp_syscall_resolve_name(refused[i].name);

        if (nr != __NR_SCMP_ERROR && filter_refuses(&refused[i], may, strict)) {
            r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), nr, 0);
        }
    }
    return r;
}

/* Of its own memory it may: the crash report reads a stack so that may end within a page. */
static int refuse_reading_others(scmp_filter_ctx f, uint32_t may)
{
    return may & HARDEN_CHILDREN
               ? 0
               : seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(process_vm_readv), 1,
                                  SCMP_A0(SCMP_CMP_NE, (uint64_t)getpid()));
}

/* clone3() has its flags in memory, where no filter looks: who gets ENOSYS takes clone(). */
static int refuse_namespaces(scmp_filter_ctx f, uint32_t may)
{
    int r;

    if (may & HARDEN_CHILDREN) {
        return 0;
    }
    r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]) && r == 0; i++) {
        const uint64_t flag = namespaces[i];

        r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
        r = r < 0 ? r
                  : seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
                                     SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
    }
    return r;
}

static bool is_common(int family)
{
    return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

static int refuse_families(scmp_filter_ctx f)
{
    int r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_GT, AF_NETLINK));

    for (int family = 0; family < AF_NETLINK && r == 0; family++) {
        if (!is_common(family)) {
            r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                                 SCMP_A0(SCMP_CMP_EQ, (uint64_t)family));
        }
    }
    return r;
}

int filter_apply(uint32_t may, bool strict)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    int r = f ? 0 : -ENOMEM;

    /* Whether no_new_privs is set is the caller's step, and speed is not to be paid for. */
    r = r < 0 ? r : seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, 0);
    r = r < 0 ? r : seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);
    r = r < 0 ? r : seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (size_t i = 0; i < sizeof(also) / sizeof(also[0]) && r == 0; i++) {
        r = seccomp_arch_add(f, also[i]);
    }
    r = r < 0 ? r : refuse_calls(f, may, strict);
    r = r < 0 ? r : refuse_reading_others(f, may);
    r = r < 0 ? r : refuse_namespaces(f, may);
    r = r < 0 || !strict ? r : refuse_families(f);
    r = r < 0 ? r : seccomp_load(f);
    if (f) {
        seccomp_release(f);
    }
    return r;
}
