/* Harden, each time in a process of its own, which cannot take it back. What the kernel then
 * answers is what counts; the report has to say the same. */
#include "../lib/skip.h"

#include <process/harden.h>

#include <base/err.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define OK     0

/* The number of the line that did not hold. */
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno));                \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int apart(int (*what)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        _exit(what());
    }
    ck_assert(waitpid(pid, &status, 0) == pid);
    ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int harden(const struct harden_plan *plan, struct harden_report *ret, struct fn_error *e)
{
    int r = harden_user(plan, ret, e);

    return r < 0 ? r : harden_apply(plan, ret, e);
}

static bool refused(long r)
{
    return r < 0 && errno == EPERM;
}

static bool applied(const struct harden_report *r, enum harden_step s)
{
    return r->steps[s].applied && !r->steps[s].why[0];
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int basic(void)
{
    const struct harden_plan plan = { .mode = "basic" };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == OK);
    MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    MUST(applied(&r, HARDEN_PRIVS_STEP) && applied(&r, HARDEN_SECCOMP_STEP));
    MUST(applied(&r, HARDEN_CAPABILITIES_STEP) && r.capabilities == 0);
    MUST(!applied(&r, HARDEN_USER_STEP) && !applied(&r, HARDEN_LANDLOCK_STEP));
    MUST(refused(syscall(SYS_bpf, 4711, NULL, 0)));
    MUST(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) == 0);
    MUST(refused(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0)));
    MUST(refused(syscall(SYS_mount, NULL, NULL, NULL, 0, NULL)));
    MUST(refused(syscall(SYS_unshare, CLONE_NEWUSER)));
    MUST(refused(syscall(SYS_unshare, CLONE_FS | CLONE_NEWNET)));
    MUST(syscall(SYS_unshare, CLONE_FS) == 0);
    MUST(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
    MUST(!refused(socket(AF_ALG, SOCK_RAW, 0))); /* strict alone */
    return 0;
}

START_TEST(basic_refuses_what_no_node_needs)
{
    ck_assert_int_eq(apart(basic), 0);
}
END_TEST

static int children(void)
{
    const struct harden_plan plan = { .mode = "basic", .may = HARDEN_CHILDREN };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == OK);
    MUST(syscall(SYS_clone3, NULL, 0) < 0 && errno == EINVAL);
    MUST(syscall(SYS_keyctl, 4711, 0, 0, 0, 0) < 0 && errno == EOPNOTSUPP);
    MUST(syscall(SYS_pidfd_getfd, -1, 0, 0) < 0 && errno == EBADF);
    MUST(refused(syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0)));
    return 0;
}

START_TEST(what_children_need_passes)
{
    ck_assert_int_eq(apart(children), 0);
}
END_TEST

static int setuid_programs(void)
{
    const struct harden_plan plan = { .mode = "basic",
                                      .capabilities = ~UINT64_C(0),
                                      .may = HARDEN_CHILDREN | HARDEN_SETUID };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == OK);
    MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    MUST(strstr(r.steps[HARDEN_PRIVS_STEP].why, "gain rights"));
    /* Without no_new_privs the kernel takes filters of CAP_SYS_ADMIN alone. */
    MUST(applied(&r, HARDEN_SECCOMP_STEP) == (r.capabilities >> CAP_SYS_ADMIN & 1));
    return 0;
}

START_TEST(programs_that_gain_rights_are_let)
{
    ck_assert_int_eq(apart(setuid_programs), 0);
}
END_TEST

static int memory(void)
{
    struct harden_plan plan = { .mode = "basic", .core_files = true };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == OK);
    MUST(prctl(PR_GET_DUMPABLE) == 1);
    MUST(r.steps[HARDEN_MEMORY_STEP].why[0]);
    plan.core_files = false;
    MUST(harden_apply(&plan, &r, &e) == OK);
    MUST(prctl(PR_GET_DUMPABLE) == (applied(&r, HARDEN_MEMORY_STEP) ? 0 : 1));
    return 0;
}

START_TEST(memory_is_private_unless_core_files_are_wanted)
{
    ck_assert_int_eq(apart(memory), 0);
}
END_TEST

static int off(void)
{
    const struct harden_plan plan = { .mode = "off" };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == OK);
    MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && prctl(PR_GET_SECCOMP) == 0);
    for (int s = 0; s < HARDEN_STEPS_N; s++) {
        MUST(!applied(&r, (enum harden_step)s) && r.steps[s].why[0]);
    }
    return 0;
}

START_TEST(off_takes_nothing)
{
    ck_assert_int_eq(apart(off), 0);
}
END_TEST

/* ---- strict ---------------------------------------------------------------------------------- */

static int write_to(const char *dir)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/fnd-harden.%d", dir, (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return fd < 0 ? -errno : 0;
}

static int strict(void)
{
    static const char *const writable[] = { "/dev/null", "/tmp", "/not/there", NULL };
    const struct harden_plan plan = { .mode = "strict", .writable = writable };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == OK);
    MUST(refused(socket(AF_ALG, SOCK_SEQPACKET, 0)) && refused(socket(AF_VSOCK, SOCK_STREAM, 0)));
    MUST(socket(AF_INET6, SOCK_STREAM, 0) >= 0 && socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    MUST(write_to("/tmp") == 0);
    MUST(open("/dev/null", O_RDWR) >= 0);
    MUST(open("/etc/passwd", O_RDONLY) >= 0);
    if (!applied(&r, HARDEN_LANDLOCK_STEP)) {
        MUST(strstr(r.steps[HARDEN_LANDLOCK_STEP].why, "kernel does not have it"));
        return 77;
    }
    MUST(write_to("/var/tmp") == -EACCES);
    return 0;
}

START_TEST(strict_writes_where_it_may)
{
    int r = apart(strict);

    ck_assert(r == 0 || r == 77);
    if (r == 77) {
        SKIP("this kernel has no Landlock");
    }
}
END_TEST

static int strict_with_setuid(void)
{
    const struct harden_plan plan = { .mode = "strict", .may = HARDEN_SETUID };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden(&plan, &r, &e) == FN_E_UNAVAILABLE);
    MUST(strstr(e.msg, "RUN423 process.hardening: strict: no_new_privs cannot be applied"));
    return 0;
}

START_TEST(strict_is_all_or_no_start)
{
    ck_assert_int_eq(apart(strict_with_setuid), 0);
}
END_TEST

/* ---- user ------------------------------------------------------------------------------------ */

static int another_user(void)
{
    const struct harden_plan plan = { .mode = "basic",
                                      .user = "65534",
                                      .capabilities = HARDEN_CAP(NET_BIND_SERVICE) };
    struct harden_report r;
    struct fn_error e = ERR_INIT;
    int signo = 0;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    MUST(harden(&plan, &r, &e) == OK);
    MUST(getuid() == NOBODY && geteuid() == NOBODY && getegid() == NOBODY && r.uid == NOBODY);
    MUST(refused(setuid(0)) && refused(setgid(0)));
    MUST(applied(&r, HARDEN_USER_STEP) && r.capabilities == HARDEN_CAP(NET_BIND_SERVICE));
    MUST(prctl(PR_GET_PDEATHSIG, &signo) == 0 && signo == SIGTERM);
    return 0;
}

static int no_such_user(void)
{
    const struct harden_plan plan = { .mode = "basic", .user = "no-such-user" };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(harden_user(&plan, &r, &e) == FN_E_INVALID);
    MUST(strstr(e.msg, "RUN422 process.user, got no-such-user"));
    return 0;
}

static int not_by_root(void)
{
    struct harden_plan plan = { .mode = "off", .user = "0" };
    struct harden_report r;
    struct fn_error e = ERR_INIT;

    MUST(setresuid(NOBODY, NOBODY, NOBODY) == 0);
    MUST(harden_user(&plan, &r, &e) == FN_E_UNAVAILABLE);
    MUST(strstr(e.msg, "expected a start by root"));
    plan.user = "65534"; /* that it is already */
    MUST(harden_user(&plan, &r, &e) == OK);
    return 0;
}

START_TEST(a_user_is_taken_for_good)
{
    ck_assert_int_eq(apart(no_such_user), 0);
    if (geteuid() != 0) {
        SKIP("only root can become another user");
    }
    ck_assert_int_eq(apart(another_user), 0);
    ck_assert_int_eq(apart(not_by_root), 0);
}
END_TEST

START_TEST(names_are_those_of_the_kernel)
{
    ck_assert_str_eq(harden_capability_name(CAP_SYS_ADMIN), "sys_admin");
    ck_assert_str_eq(harden_capability_name(CAP_AUDIT_READ), "audit_read");
    ck_assert_str_eq(harden_capability_name(CAP_LAST_CAP), "checkpoint_restore");
    ck_assert_ptr_null(harden_capability_name(CAP_LAST_CAP + 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("harden");
    TCase *tc = tcase_create("harden");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, basic_refuses_what_no_node_needs);
    tcase_add_test(tc, what_children_need_passes);
    tcase_add_test(tc, programs_that_gain_rights_are_let);
    tcase_add_test(tc, memory_is_private_unless_core_files_are_wanted);
    tcase_add_test(tc, off_takes_nothing);
    tcase_add_test(tc, strict_writes_where_it_may);
    tcase_add_test(tc, strict_is_all_or_no_start);
    tcase_add_test(tc, a_user_is_taken_for_good);
    tcase_add_test(tc, names_are_those_of_the_kernel);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
