/* Harden: what a node gives up of its own accord, for itself and whatever it starts.
 *
 *   user ▶ capabilities ▶ no_new_privs ▶ private memory ▶ Landlock ▶ seccomp
 *
 * Done once, before the first thread: the kernel keeps capabilities and Landlock domains for each
 * thread, so that what is taken away from this one is never there in a later one, and a plugin's
 * first instruction runs without it. Nothing of it can be undone, and programs that the node
 * starts inherit all but the private memory. Which node needs what is not decided here. */
#ifndef PROCESS_HARDEN_H
#define PROCESS_HARDEN_H

#include <fn/abi.h>
#include <stdbool.h>
#include <stdint.h>

#define HARDEN_CAP(name_) (UINT64_C(1) << CAP_##name_) /* <linux/capability.h> */

/* What the filter of system calls lets through although most nodes never need it. */
#define HARDEN_MOUNT    (1u << 0) /* mount and unmount */
#define HARDEN_CHILDREN (1u << 1) /* namespaces, mounts and tracing, for programs it starts */
#define HARDEN_SETUID   (1u << 2) /* programs it starts may gain rights: no no_new_privs */

struct harden_plan {
    const char *mode; /* "basic", "strict", "off"; lives as long as the report */
    const char *user; /* name or number; NULL = stay */
    uint64_t capabilities; /* to keep, HARDEN_CAP() */
    uint32_t may;          /* HARDEN_* */
    bool core_files;
    const char *const *writable; /* directories, strict only; NULL ends. NULL = no Landlock */
};

enum harden_step {
    HARDEN_USER_STEP,
    HARDEN_CAPABILITIES_STEP,
    HARDEN_PRIVS_STEP,
    HARDEN_MEMORY_STEP,
    HARDEN_LANDLOCK_STEP,
    HARDEN_SECCOMP_STEP,
    HARDEN_STEPS_N
};

struct harden_report {
    const char *mode;
    uint32_t uid;
    uint64_t capabilities; /* that are left */
    struct {
        bool applied;
        char why[120]; /* not */
    } steps[HARDEN_STEPS_N];
};

/* [init] One thread, in this order. What cannot be applied is told in the report; with mode strict
 * it is an error, FN_E_UNAVAILABLE, but for a kernel without Landlock. harden_user() takes the user
 * and the capabilities; FN_E_INVALID for a user that is not there. */
int harden_user(const struct harden_plan *plan, struct harden_report *ret, struct fn_error *reterr);
int harden_apply(const struct harden_plan *plan, struct harden_report *report,
                 struct fn_error *reterr);

const char *harden_step_name(enum harden_step s);
const char *harden_capability_name(uint32_t cap); /* "sys_admin"; NULL: none of that number */

#endif
