/* The filter of system calls, tried call by call from its own list: what is added there is tried
 * without a further word. Each call is made twice in a process of its own, before the filter and
 * behind it, by each way into the kernel that a program of this machine has. The arguments make no
 * sense, so that a call that gets through changes nothing; what the kernel makes of them is the
 * answer that a call which is not refused has to get behind the filter, too. */
#include <process/filter.h>
#include <process/harden.h>

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N(list) (sizeof(list) / sizeof((list)[0]))

/* 0, or the errno */
static int plain(int nr)
{
    return syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L) < 0 ? errno : 0;
}

struct way {
    const char *name;
    uint32_t arch;
    int (*call)(int nr);
};

#if defined(__x86_64__)
/* The gate of 32-bit programs, which 64-bit ones may take too. */
static int gate32(int nr)
{
    long r;

    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(nr), "b"(-1), "c"(-1), "d"(-1), "S"(-1), "D"(-1)
                     : "memory", "cc", "r8", "r9", "r10", "r11");
    return (int)r < 0 && (int)r > -4096 ? -(int)r : 0;
}

static const struct way ways[] = { { "x86-64", SCMP_ARCH_X86_64, plain },
                                   { "x32", SCMP_ARCH_X32, plain },
                                   { "x86", SCMP_ARCH_X86, gate32 } };
#else
static const struct way ways[] = { { "arm64", SCMP_ARCH_AARCH64, plain } };
#endif

static int in_child(int (*what)(const void *), const void *arg)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        setsid(); /* vhangup() hangs up a terminal */
        _exit(what(arg));
    }
    ck_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int uses_way(const void *arg)
{
    const struct way *w = arg;

    w->call(seccomp_syscall_resolve_name_arch(w->arch, "getpid"));
    return 0;
}

/* A kernel may be built without the gate. */
static bool is_open(const struct way *w)
{
    bool open = in_child(uses_way, w) == 0;

    if (!open) {
        fprintf(stderr, "not tried: this kernel has no way in for %s\n", w->name);
    }
    return open;
}

/* ---- one combination of what a node may ------------------------------------------------------ */

struct rights {
    uint32_t may;
    bool strict;
};

static const struct rights all_rights[] = {
    { 0, false },
    { 0, true },
    { HARDEN_MOUNT, false },
    { HARDEN_MOUNT, true },
    { HARDEN_CHILDREN, false },
    { HARDEN_CHILDREN, true },
    { HARDEN_CHILDREN | HARDEN_MOUNT | HARDEN_SETUID, false },
    { HARDEN_CHILDREN | HARDEN_MOUNT | HARDEN_SETUID, true },
};

static bool load(const struct rights *r)
{
    int err;

    /* Only root loads a filter without; of itself it refuses nothing that is tried here. */
    if (geteuid() != 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    err = filter_apply(r->may, r->strict);
    if (err < 0) {
        fprintf(stderr, "no filter: %s\n", strerror(-err));
    }
    return err == 0;
}

/* What a call has to answer behind the filter, by what it answered before. */
static bool holds(const char *what, const char *way, const struct rights *r, bool refused,
                  int before, int after)
{
    int expected = refused ? EPERM : before;

    if (after == expected) {
        return true;
    }
    fprintf(stderr, "%s (%s), may %#x%s: got %s, expected %s\n", what, way, r->may,
            r->strict ? ", strict" : "", after ? strerrorname_np(after) : "an answer",
            expected ? strerrorname_np(expected) : "an answer");
    return false;
}

/* ---- calls by name --------------------------------------------------------------------------- */

struct by_name {
    const struct way *way;
    const struct rights *rights;
};

static int number(const struct way *w, const char *name)
{
    return seccomp_syscall_resolve_name_arch(w->arch, name);
}

static int try_names(const void *arg)
{
    const struct by_name *t = arg;
    size_t n;
    const struct filter_call *calls = filter_calls(&n);
    int before[256];
    int failed = 0;

    ck_assert_uint_le(n, N(before));
    for (size_t i = 0; i < n; i++) {
        int nr = number(t->way, calls[i].name);

        before[i] = nr >= 0 ? t->way->call(nr) : 0;
    }
    if (!load(t->rights)) {
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        int nr = number(t->way, calls[i].name);
        bool refused = filter_refuses(&calls[i], t->rights->may, t->rights->strict);

        if (nr >= 0 && !holds(calls[i].name, t->way->name, t->rights, refused, before[i],
                              t->way->call(nr))) {
            failed++;
        }
    }
    return failed > 0;
}

START_TEST(each_call_of_the_list_is_refused_or_let)
{
    for (size_t w = 0; w < N(ways); w++) {
        if (!is_open(&ways[w])) {
            continue;
        }
        for (size_t r = 0; r < N(all_rights); r++) {
            const struct by_name t = { &ways[w], &all_rights[r] };

            ck_assert_int_eq(in_child(try_names, &t), 0);
        }
    }
}
END_TEST

/* A name with a typing error would refuse nothing, in silence. */
START_TEST(each_name_is_one_of_the_kernels)
{
    size_t n;
    const struct filter_call *calls = filter_calls(&n);

    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(seccomp_syscall_resolve_name(calls[i].name) != __NR_SCMP_ERROR,
                      "%s is no system call", calls[i].name);
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(calls[k].name, calls[i].name);
        }
    }
}
END_TEST

/* What tells EPERM of the filter from that of a kernel which asks for rights. */
static int lacks_rights(const void *arg)
{
    size_t n;
    const struct filter_call *calls = filter_calls(&n);
    int by_kernel = 0;

    (void)arg;
    for (size_t i = 0; i < n; i++) {
        int nr = number(&ways[0], calls[i].name);

        if (nr >= 0 && plain(nr) == EPERM) {
            by_kernel++;
        }
    }
    return by_kernel;
}

START_TEST(most_refusals_are_the_filters_own)
{
    size_t n;
    int by_kernel = in_child(lacks_rights, NULL);

    filter_calls(&n);
    ck_assert_int_ge(by_kernel, 0);
    fprintf(stderr, "%zu calls; the kernel itself refuses %d to user %d\n", n, by_kernel,
            (int)geteuid());
    if (geteuid() == 0) {
        ck_assert_int_lt(by_kernel, (int)n / 2);
    }
}
END_TEST

/* ---- calls by their arguments ---------------------------------------------------------------- */

static const struct {
    const char *name;
    uint64_t flag;
} namespaces[] = {
    { "mount", CLONE_NEWNS }, { "cgroup", CLONE_NEWCGROUP }, { "uts", CLONE_NEWUTS },
    { "ipc", CLONE_NEWIPC },  { "user", CLONE_NEWUSER },     { "pid", CLONE_NEWPID },
    { "net", CLONE_NEWNET },  { "time", CLONE_NEWTIME },
};

/* A bit that unshare() does not know, and a thread without its process's handlers: EINVAL. */
static int try_unshare(uint64_t flag)
{
    return syscall(SYS_unshare, flag | 1) < 0 ? errno : 0;
}

static int try_clone(uint64_t flag)
{
    return syscall(SYS_clone, flag | CLONE_THREAD, 0, 0, 0, 0) < 0 ? errno : 0;
}

static int try_namespaces(const void *arg)
{
    const struct rights *r = arg;
    bool refused = !(r->may & HARDEN_CHILDREN);
    int failed = !load(r);

    for (size_t i = 0; i < N(namespaces); i++) {
        failed += !holds(namespaces[i].name, "unshare", r, refused, EINVAL,
                         try_unshare(namespaces[i].flag));
        failed += !holds(namespaces[i].name, "clone", r, refused, EINVAL,
                         try_clone(namespaces[i].flag));
    }
    failed += !holds("no namespace", "unshare", r, false, EINVAL, try_unshare(CLONE_FS));
    failed += !holds("no namespace", "clone", r, false, EINVAL, try_clone(CLONE_FS));
    return failed > 0;
}

START_TEST(each_namespace_is_refused_or_let)
{
    for (size_t r = 0; r < N(all_rights); r++) {
        ck_assert_int_eq(in_child(try_namespaces, &all_rights[r]), 0);
    }
}
END_TEST

static int try_family(int family)
{
    return socket(family, -1, -1) < 0 ? errno : 0;
}

static int try_families(const void *arg)
{
    const struct rights *r = arg;
    int before[AF_MAX + 2];
    int failed = 0;

    for (int f = 0; f < (int)N(before); f++) {
        before[f] = try_family(f);
    }
    if (!load(r)) {
        return 1;
    }
    for (int f = 0; f < (int)N(before); f++) {
        bool common = f == AF_UNIX || f == AF_INET || f == AF_INET6 || f == AF_NETLINK;
        char name[24];

        snprintf(name, sizeof(name), "family %d", f);
        failed += !holds(name, "socket", r, r->strict && !common, before[f], try_family(f));
    }
    return failed > 0;
}

START_TEST(each_family_of_sockets_is_refused_or_let)
{
    for (size_t r = 0; r < N(all_rights); r++) {
        ck_assert_int_eq(in_child(try_families, &all_rights[r]), 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("filter");
    TCase *tc = tcase_create("filter");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, each_name_is_one_of_the_kernels);
    tcase_add_test(tc, each_call_of_the_list_is_refused_or_let);
    tcase_add_test(tc, most_refusals_are_the_filters_own);
    tcase_add_test(tc, each_namespace_is_refused_or_let);
    tcase_add_test(tc, each_family_of_sockets_is_refused_or_let);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
