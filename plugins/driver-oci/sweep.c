/* What a dead node left: folders of containers, their cgroups, and processes if they were frozen
 * when it died. The kernel has ended all others with their shim, and taken the mounts away. */
#include "fail.h"
#include "oci.h"
#include "runner_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define GONE_POLL_NS  5000000LL
#define REMOVE_MAX_NS 60000000000LL /* then the others of a sweep have their turn */

/* What frozen processes of v1 were sent they meet when they are thawed. What was sent nothing, as
 * when its node is not dead, the shim's program ends: a plugin sends no signals. */
static int end_processes(struct oci *d, struct fn_op *op, const char *name,
                         struct fn_error *reterr)
{
    char procs[CGROUP_PATH_MAX];
    const char *const argv[] = { d->shim, "--kill", procs, NULL };
    const struct fn_exec_request rq = { .size = sizeof(rq), .timeout_ms = KILL_TIMEOUT_MS,
                                        .argv = argv };
    struct fn_exec_result result = { .size = sizeof(result) };
    int r;

    cgroup_freeze(d->cgroup_v2, name, false);
    cgroup_procs(d->cgroup_v2, name, procs);
    r = d->exec->run(d->host, op, &rq, &result, reterr);
    if (r == 0) {
        d->exec->free_result(&result);
        r = d->op->sleep_until(op, d->host->clock->now_ns(d->host) + GONE_POLL_NS);
    }
    return r;
}

int ctr_remove(struct oci *d, struct fn_op *op, const char *name, struct fn_error *reterr)
{
    int64_t until_ns = d->host->clock->now_ns(d->host) + REMOVE_MAX_NS;
    char dir[OCI_PATH_MAX];
    int r = 0;

    snprintf(dir, sizeof(dir), "%s/%s", d->conf->state, name);
    while (r == 0 && !cgroup_remove(d->cgroup_v2, name)) {
        r = d->host->clock->now_ns(d->host) < until_ns ? end_processes(d, op, name, reterr)
                                                       : FN_E_DEADLINE;
    }
    if (r < 0) {
        return fail_platform(reterr, r, "container %.160s: killed, but its cgroups are not empty",
                             name);
    }
    return tree_remove(dir) ? 0
                            : fail_platform(reterr, FN_E_UNAVAILABLE, "%.200s: %s", dir,
                                            strerror(errno));
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Ours of an earlier process that does not live, or of a runner that is proven to be dead. */
static bool is_left(struct oci *d, const char *name, const char *prefix, const char *keep)
{
    char dir[OCI_PATH_MAX], label[LOCK_LABEL_MAX];
    bool told;

    if (begins(name, keep)) {
        return false;
    }
    snprintf(dir, sizeof(dir), "%s/%s", d->conf->state, name);
    told = file_read(dir, "lock", label, sizeof(label));
    return begins(name, prefix) ? !told || !lock_is_held(label) : told && lock_is_dead(label);
}

/* A name with another alphabet than ctr_name()'s is not ours. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n < CTR_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

/* Of a version that left it open to all users, and where nothing has been loaded since. */
static void shut_store(struct oci *d)
{
    int dir = open(d->conf->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0 && store_shut(dir) < 0) {
        oci_log(d, FN_LOG_WARN, "store %.100s: it cannot be closed to other users: %s",
                d->conf->store, strerror(errno));
    }
    if (dir >= 0) {
        close(dir);
    }
}

int ctr_sweep(struct oci *d, struct fn_op *op, const char *owner, const char *instance,
              uint32_t *ret_removed, struct fn_error *reterr)
{
    char prefix[CTR_NAME_MAX], keep[CTR_NAME_MAX];
    struct dirent *e;
    uint32_t n = 0;
    int r = 0;
    DIR *all;

    if (ctr_prefixes(owner, instance, prefix, keep) < 0) {
        return fail_platform(reterr, FN_E_INVALID,
                             "driver oci: owner is too long, or has -- or - at its end");
    }
    all = opendir(d->conf->state);
    if (!all && errno != ENOENT) {
        return fail_platform(reterr, FN_E_PRECONDITION, "state %.100s: %s", d->conf->state,
                             strerror(errno));
    }
    while (all && (e = readdir(all))) {
        if (is_name(e->d_name) && is_left(d, e->d_name, prefix, keep)) {
            int one = ctr_remove(d, op, e->d_name, reterr);

            n += one == 0;
            r = r < 0 ? r : one; /* one that does not go keeps no other */
        }
    }
    if (all) {
        closedir(all);
    }
    if (r == 0) {
        *ret_removed = n;
        shut_store(d);
        load_file_at_start(&d->load_file, d->host, d->op, op);
    }
    return r;
}
