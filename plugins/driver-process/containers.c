/* A function's container is one child process in namespaces and a cgroup.
 *
 * Its end is reported on the host's thread; close() waits for it, so that nothing refers to a
 * container after its close() returned. */
#include "process.h"
#include "ctr_name.h"
#include "fail.h"
#include "process_spec.h"
#include "say_line.h"
#include "task.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define END_POLL_NS   1000000LL
#define FUNCTION_PATH "/usr/local/bin:/usr/bin:/bin"

enum ctr_state { CTR_CREATED, CTR_RUNNING, CTR_ENDED };

struct ctr {
    struct process_driver *d;
    const struct fn_task *task; /* lives until close() returned */
    uint64_t handle;
    uint64_t proc;
    atomic_int state;
    char program[SPEC_PATH_MAX];
    char cgroup[CTR_NAME_MAX];
};

static bool has(struct process_driver *d, uint32_t what)
{
    return (d->proc->isolation(d->host) & what) != 0;
}

/* Paths of the node are for its log, not for callers. */
__attribute__((format(printf, 2, 3))) static void log_line(struct process_driver *d,
                                                           const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(d->host, FN_LOG_WARN, fmt, ap);
    va_end(ap);
}

static void tell_once(struct process_driver *d, atomic_bool *told, const char *line)
{
    if (!atomic_exchange(told, true)) {
        log_line(d, "%s", line);
    }
}

/* What changes nothing of what a function does may be left out, but not in silence. */
static void tell_unused(struct process_driver *d, const struct fn_task *t)
{
    if (FN_HAS(t, cpu_shares) && t->cpu_shares > 0 && !has(d, FN_PROC_HAS_CGROUP)) {
        tell_once(d, &d->told_shares, "cpu_shares of tasks have no effect: there is no cgroup");
    }
    if (FN_HAS(t, n_labels) && t->n_labels > 0) {
        tell_once(d, &d->told_labels, "labels of tasks have no effect: processes have none");
    }
}

/* ---- images and containers ------------------------------------------------------------------- */

static int op_prepare(void *inst, struct fn_op *op, const struct fn_task *task,
                      struct fn_error *reterr)
{
    struct process_driver *d = inst;
    char path[SPEC_PATH_MAX];
    struct stat st;
    int r = spec_program(d->root, task->image, path, sizeof(path), reterr);

    (void)op;
    if (r < 0) {
        return r;
    }
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111)) {
        log_line(d, "image %.200s: no executable file %s", task->image, path);
        return fail_user(reterr, FN_E_NOT_FOUND, 404,
                         "Failed to pull image '%.100s': the node has no executable file for it",
                         task->image);
    }
    return 0;
}

static int op_create(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                     struct fn_error *reterr)
{
    struct process_driver *d = inst;
    struct ctr *c;
    int r = spec_check(task, reterr);

    (void)op;
    if (r < 0) {
        return r;
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver process: out of memory");
    }
    tell_unused(d, task);
    c->d = d;
    c->task = task;
    c->handle = task->handle;
    atomic_init(&c->state, CTR_CREATED);
    r = spec_program(d->root, task->image, c->program, sizeof(c->program), reterr);
    if (r == 0 && ctr_name(task->owner, task->instance, task->id, c->cgroup,
                           sizeof(c->cgroup)) < 0) {
        r = fail_platform(reterr, FN_E_INVALID, "driver process: owner or id is too long, or the "
                          "owner has -- or - at its end");
    }
    if (r < 0) {
        free(c);
        return r;
    }
    *ret_ctr = c;
    return 0;
}

static void on_output(void *ud, uint32_t fd, const void *data, size_t len)
{
    struct ctr *c = ud;

    c->d->driver->output(c->d->host, c->handle, fd, data, len);
}

static void on_exited(void *ud, int32_t code, uint32_t oom)
{
    struct ctr *c = ud;
    struct fn_exit what = { .size = sizeof(what) };

    what.reason = oom ? FN_EXIT_OOM : code < 0 ? FN_EXIT_SIGNAL : FN_EXIT_CODE;
    what.status = code < 0 ? (oom ? 128 - code : -code) : code;
    c->d->driver->exited(c->d->host, c->handle, &what);
    atomic_store(&c->state, CTR_ENDED); /* the last touch: close() may free it now */
}

static uint32_t isolation_flags(struct process_driver *d, const struct fn_task *task)
{
    uint32_t flags = FN_PROC_NEW_PID | FN_PROC_NEW_MOUNT | FN_PROC_NEW_IPC | FN_PROC_NO_NEW_PRIVS;

    if (task_no_network(task)) {
        flags |= FN_PROC_NEW_NET;
    }
    if (!(task->flags & FN_TASK_WRITABLE_ROOT)) {
        flags |= FN_PROC_READONLY;
    }
    return has(d, FN_PROC_HAS_NAMESPACES) ? flags : FN_PROC_NO_NEW_PRIVS;
}

/* Another node may have room for it; one that has the same file cannot run it either. */
static int not_started(struct ctr *c, int r, struct fn_error *reterr)
{
    if (r == FN_E_EXHAUSTED || r == FN_E_UNAVAILABLE) {
        return fail_retry(reterr, r);
    }
    if (r == FN_E_PRECONDITION) {
        log_line(c->d, "image %.200s: %.200s", c->task->image, reterr ? reterr->msg : "");
        return fail_user(reterr, r, 502,
                         "Container failed to initialize: the program of image '%.100s' could not be "
                         "started", c->task->image);
    }
    return r;
}

/* A function without mounts reaches its directory by the path, which /proc/net/unix tells everybody
 * once it listens: from then on only its own user may exchange what is there. The directory above
 * is the node's, so that the path leads where it did. */
static int give_directory(struct process_driver *d, const struct fn_task *t,
                          struct fn_error *reterr)
{
    if (!d->as_root || has(d, FN_PROC_HAS_NAMESPACES) ||
        (lchown(t->iofs_dir, (uid_t)d->conf->uid, (gid_t)d->conf->gid) == 0 &&
         chmod(t->iofs_dir, 0700) == 0)) {
        return 0;
    }
    return fail_platform(reterr, FN_E_PERMISSION, "%.120s: cannot be given to its function: %s",
                         t->iofs_dir, strerror(errno));
}

static int op_start(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    static const struct fn_proc_cb cb = { FN_HDR(struct fn_proc_cb, 0), on_output, on_exited };
    struct process_driver *d = inst;
    struct ctr *c = ctr;
    const struct fn_task *t = c->task;
    bool private_mount = has(d, FN_PROC_HAS_NAMESPACES);
    const char *argv[] = { c->program, NULL };
    struct fn_proc_spec spec = { .size = sizeof(spec), .flags = isolation_flags(d, t), .argv = argv,
                                 .mem_bytes = t->mem_bytes, .cpu_milli = t->cpu_milli,
                                 .tmp_bytes = t->tmpfs_bytes, .pids_max = t->pids_max,
                                 .nofile_max = t->nofile_max, .cgroup_name = c->cgroup };
    char **env = NULL;
    int r = give_directory(d, t, reterr);

    (void)op;
    r = r < 0 ? r : spec_env(t, FUNCTION_PATH, private_mount, &env, reterr);
    if (r < 0) {
        return r;
    }
    spec.env = (const char *const *)env;
    spec.cpu_shares = FN_HAS(t, cpu_shares) ? t->cpu_shares : 0;
    if (private_mount) {
        spec.bind_from = t->iofs_dir;
        spec.bind_to = t->iofs_inside;
    }
    if (d->as_root) {
        spec.uid = (uint32_t)d->conf->uid;
        spec.gid = (uint32_t)d->conf->gid;
    }
    atomic_store(&c->state, CTR_RUNNING);
    r = d->proc->spawn(d->host, &spec, &cb, c, &c->proc, reterr);
    if (r < 0) {
        atomic_store(&c->state, CTR_CREATED);
        r = not_started(c, r, reterr);
    }
    spec_env_free(env);
    return r;
}

static int op_freeze(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    struct process_driver *d = inst;
    struct ctr *c = ctr;

    (void)op;
    return d->proc->freeze(d->host, c->proc, 1, reterr);
}

static int op_thaw(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    struct process_driver *d = inst;
    struct ctr *c = ctr;

    (void)op;
    return d->proc->freeze(d->host, c->proc, 0, reterr);
}

static int op_close(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    struct process_driver *d = inst;
    struct ctr *c = ctr;
    int r = 0;

    if (atomic_load(&c->state) == CTR_RUNNING) {
        r = d->proc->kill(d->host, c->proc, reterr);
    }
    while (r == 0 && atomic_load(&c->state) == CTR_RUNNING) {
        r = d->op->sleep_until(op, d->host->clock->now_ns(d->host) + END_POLL_NS);
    }
    if (r < 0) {
        return fail_platform(
            reterr, r, "process of %.30s: killed, but its end was not seen in time", c->task->id);
    }
    free(c);
    return 0;
}

static int op_sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                    uint32_t *ret_removed, struct fn_error *reterr)
{
    struct process_driver *d = inst;
    char prefix[CTR_NAME_MAX], keep[CTR_NAME_MAX];

    (void)op;
    if (ctr_prefixes(owner, instance, prefix, keep) < 0) {
        return fail_platform(reterr, FN_E_INVALID,
                             "driver process: owner is too long, or has -- or - at its end");
    }
    return d->proc->sweep(d->host, prefix, keep, ret_removed, reterr);
}

static int op_probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                    struct fn_error *reterr)
{
    struct process_driver *d = inst;
    struct stat st;

    (void)op;
    if (stat(d->root, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return fail_platform(reterr, FN_E_PRECONDITION,
                             "root, got \"%.100s\"; expected a directory", d->root);
    }
    snprintf(ret_version, cap, "processes (%s, %s)",
             has(d, FN_PROC_HAS_NAMESPACES) ? "namespaces" : "no namespaces",
             has(d, FN_PROC_HAS_CGROUP) ? "cgroups" : "no cgroups");
    return 0;
}

static uint32_t op_uid(void *inst, void *ctr)
{
    struct process_driver *d = inst;

    (void)ctr;
    return d->as_root ? (uint32_t)d->conf->uid : (uint32_t)geteuid();
}

const struct fn_driver_ops process_ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .prepare_image = op_prepare,
    .create = op_create,
    .start = op_start,
    .freeze = op_freeze,
    .thaw = op_thaw,
    .close = op_close,
    .sweep = op_sweep,
    .probe = op_probe,
    .uid = op_uid,
};
