/* Each step tells its own failure and the next one is tried all the same: half a fence is better
 * than none, and /status says which half. */
#include <process/harden.h>

#include <base/err.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <process/confine.h>
#include <process/filter.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In the order of <linux/capability.h>. */
static const char *const capability_names[] = {
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
};

#define CAPS_KNOWN (sizeof(capability_names) / sizeof(capability_names[0]))
#define CAPS_MAX   64u

const char *harden_capability_name(uint32_t cap)
{
    return cap < CAPS_KNOWN ? capability_names[cap] : NULL;
}

const char *harden_step_name(enum harden_step s)
{
    static const char *const names[HARDEN_STEPS_N] = { "user",           "capabilities",
                                                       "no_new_privs",   "private_memory",
                                                       "landlock",       "seccomp" };

    return names[s];
}

/* why: not, and the kernel's reason or what stands behind it; NULL: it is applied. */
static void step_end(struct harden_report *rep, enum harden_step s, const char *why)
{
    rep->steps[s].applied = !why;
    snprintf(rep->steps[s].why, sizeof(rep->steps[s].why), "%s", why ? why : "");
}

/* ---- user ------------------------------------------------------------------------------------ */

struct identity {
    uid_t uid;
    gid_t gid;
    const char *name; /* of the user database; NULL: a number that nobody has */
};

static int find_user(const char *user, struct identity *ret, struct fn_error *reterr)
{
    char *end;
    unsigned long number = strtoul(user, &end, 10);
    bool is_number = *user >= '0' && *user <= '9' && !*end && number <= 0xfffffffeUL;
    const struct passwd *pw;

    errno = 0;
    pw = is_number ? getpwuid((uid_t)number) : getpwnam(user);
    if (pw) {
        *ret = (struct identity){ pw->pw_uid, pw->pw_gid, pw->pw_name };
        return 0;
    }
    if (is_number) {
        *ret = (struct identity){ (uid_t)number, (gid_t)number, NULL };
        return 0;
    }
    return err_set(reterr, FN_E_INVALID,
                   "RUN422 process.user, got %.63s; expected a user of this machine, or a number",
                   user);
}

/* The signal of a parent that died, which the kernel forgets with the user. */
static int become(const struct identity *id)
{
    int pdeath = 0;
    int r = id->name ? initgroups(id->name, id->gid) : setgroups(0, NULL);

    prctl(PR_GET_PDEATHSIG, &pdeath);
    if (r < 0 || setresgid(id->gid, id->gid, id->gid) < 0 || prctl(PR_SET_KEEPCAPS, 1) < 0 ||
        setresuid(id->uid, id->uid, id->uid) < 0) {
        return -errno;
    }
    prctl(PR_SET_KEEPCAPS, 0);
    return pdeath == 0 || prctl(PR_SET_PDEATHSIG, pdeath) == 0 ? 0 : -errno;
}

static int change_user(const struct harden_plan *plan, struct harden_report *rep,
                       struct fn_error *reterr)
{
    struct identity id = { 0 };
    int r;

    if (!plan->user) {
        step_end(rep, HARDEN_USER_STEP, "process.user is not set");
        return 0;
    }
    r = find_user(plan->user, &id, reterr);
    if (r == 0 && (id.uid != geteuid() || id.uid != getuid())) {
        r = become(&id);
        if (r < 0) {
            return err_set(reterr, FN_E_UNAVAILABLE,
                           "RUN422 process.user: cannot become %.63s: %s; expected a start by root",
                           plan->user, strerror(-r));
        }
    }
    step_end(rep, HARDEN_USER_STEP, NULL);
    return r;
}

/* ---- capabilities ---------------------------------------------------------------------------- */

static uint64_t capabilities_left(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct sets[2] = { { 0 } };

    return syscall(SYS_capget, &head, sets) < 0
               ? 0
               : sets[0].permitted | (uint64_t)sets[1].permitted << 32;
}

/* What programs that the node starts can have at most; only who may do so can lower it, and who may
 * not has nothing to lose. */
static void bound(uint64_t keep)
{
    for (uint32_t cap = 0; cap < CAPS_MAX && prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
        if (!(keep >> cap & 1)) {
            (void)prctl(PR_CAPBSET_DROP, cap);
        }
    }
}

static void drop_capabilities(uint64_t keep, struct harden_report *rep)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    uint64_t left = capabilities_left() & keep;
    struct __user_cap_data_struct sets[2] = {
        { .effective = (uint32_t)left, .permitted = (uint32_t)left },
        { .effective = (uint32_t)(left >> 32), .permitted = (uint32_t)(left >> 32) },
    };

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    step_end(rep, HARDEN_CAPABILITIES_STEP,
             syscall(SYS_capset, &head, sets) < 0 ? strerror(errno) : NULL);
}

/* ---- the other steps ------------------------------------------------------------------------- */

static void forbid_privs(const struct harden_plan *plan, struct harden_report *rep)
{
    const char *why = NULL;

    if (plan->may & HARDEN_SETUID) {
        why = "a plugin may start programs that gain rights";
    } else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        why = strerror(errno);
    }
    step_end(rep, HARDEN_PRIVS_STEP, why);
}

/* Also against others of the same user, whom a function of the process driver may be. The change of
 * user has made it private, so it is set either way. */
static void close_memory(const struct harden_plan *plan, struct harden_report *rep)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    bool open = true;
    const char *why = "built with a sanitizer";
#else
    bool open = plan->core_files;
    const char *why = "process.core_files";
#endif

    (void)plan;
    if (prctl(PR_SET_DUMPABLE, open ? 1 : 0) < 0) {
        why = strerror(errno);
    } else if (!open) {
        why = NULL;
    }
    step_end(rep, HARDEN_MEMORY_STEP, why);
}

/* False: strict has to refuse. */
static bool confine(const struct harden_plan *plan, bool strict, struct harden_report *rep)
{
    const char *why = NULL;
    int r = 0;

    if (!strict) {
        why = "only with process.hardening: strict";
    } else if (!plan->writable) {
        why = "a runner mounts, which Landlock forbids";
    } else {
        r = confine_apply(plan->writable);
    }
    if (r == -ENOSYS || r == -EOPNOTSUPP) {
        why = "this kernel does not have it";
        r = 0;
    }
    step_end(rep, HARDEN_LANDLOCK_STEP, r < 0 ? strerror(-r) : why);
    return r == 0;
}

static void filter(const struct harden_plan *plan, bool strict, struct harden_report *rep)
{
    int r = filter_apply(plan->may, strict);

    step_end(rep, HARDEN_SECCOMP_STEP, r < 0 ? strerror(-r) : NULL);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int strict_verdict(const struct harden_report *rep, bool confined, struct fn_error *reterr)
{
    static const enum harden_step must[] = { HARDEN_CAPABILITIES_STEP, HARDEN_PRIVS_STEP,
                                             HARDEN_SECCOMP_STEP };

    for (size_t i = 0; i < sizeof(must) / sizeof(must[0]); i++) {
        if (!rep->steps[must[i]].applied) {
            return err_set(reterr, FN_E_UNAVAILABLE,
                           "RUN423 process.hardening: strict: %s cannot be applied: %s",
                           harden_step_name(must[i]), rep->steps[must[i]].why);
        }
    }
    return confined ? 0
                    : err_set(reterr, FN_E_UNAVAILABLE,
                              "RUN423 process.hardening: strict: landlock cannot be applied: %s",
                              rep->steps[HARDEN_LANDLOCK_STEP].why);
}

static void leave_alone(struct harden_report *rep)
{
    for (int s = HARDEN_CAPABILITIES_STEP; s < HARDEN_STEPS_N; s++) {
        if (!rep->steps[s].applied) {
            step_end(rep, (enum harden_step)s, "process.hardening: off");
        }
    }
}

int harden_user(const struct harden_plan *plan, struct harden_report *ret, struct fn_error *reterr)
{
    bool on = strcmp(plan->mode, "off") != 0;
    int r;

    *ret = (struct harden_report){ .mode = plan->mode };
    if (on) {
        bound(plan->capabilities);
    }
    r = change_user(plan, ret, reterr);
    if (r == 0 && (on || plan->user)) {
        drop_capabilities(plan->capabilities, ret);
    }
    ret->uid = geteuid();
    ret->capabilities = capabilities_left();
    return r;
}

int harden_apply(const struct harden_plan *plan, struct harden_report *report,
                 struct fn_error *reterr)
{
    bool strict = strcmp(plan->mode, "strict") == 0;
    bool confined;

    if (strcmp(plan->mode, "off") == 0) {
        leave_alone(report);
        return 0;
    }
    forbid_privs(plan, report);
    close_memory(plan, report);
    confined = confine(plan, strict, report);
    filter(plan, strict, report);
    return strict ? strict_verdict(report, confined, reterr) : 0;
}
