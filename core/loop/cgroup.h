/* Cgroups of child processes, v1 and v2. Private to core/loop (proc.c). Blocking file writes:
 * worker threads and the proc thread only.
 *
 * v1: one directory per controller, <controller>/<the node's own cgroup>/fnd/<name>.
 * v2: one directory, /sys/fs/cgroup/fnd/<name>; controllers that cannot be delegated are missing,
 * and then only killing and freezing work.
 *
 * Names that a process uses begin with words of its own (`keep`). It marks them as alive by an
 * empty cgroup, "<keep>alive", whose directory it keeps locked: whoever finds one that can be
 * locked has found what a dead process left, frozen or not, and may remove it. The kernel gives the
 * lock back with the process, whatever ended it. Without a mark nobody but the next process of the
 * same owner judges. */
#ifndef LOOP_CGROUP_H
#define LOOP_CGROUP_H

#include <fn/host.h>
#include <stdbool.h>

#define CGROUP_DIRS_MAX 4
#define CGROUP_PATH_MAX 512
#define CGROUP_SHARES_MIN 2u /* as the kernel has them in v1 */
#define CGROUP_SHARES_MAX 262144u

enum cgroup_controller { CGROUP_FREEZER, CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU };

/* What this machine offers; constant after cgroup_detect(). */
struct cgroup_base {
    bool v2;
    bool usable;
    char dir[CGROUP_DIRS_MAX][CGROUP_PATH_MAX]; /* by controller; "" = not there; v2: [0] only */
};

struct cgroup {
    char dir[CGROUP_DIRS_MAX][CGROUP_PATH_MAX]; /* "" = none */
    bool v2;
    bool has_memory;
};

/* FN_E_EXHAUSTED: this moment has not the means to look; what is not there is no error. */
int cgroup_detect(struct cgroup_base *ret, struct fn_error *reterr);
/* Makes the cgroup `name` with the limits of spec; a limit that cannot be set fails. */
int cgroup_make(const struct cgroup_base *base, const char *name, const struct fn_proc_spec *spec,
                struct cgroup *ret, struct fn_error *reterr);
void cgroup_kill(const struct cgroup *g);
int cgroup_freeze(const struct cgroup *g, bool on, struct fn_error *reterr);
bool cgroup_oom_killed(const struct cgroup *g);
/* Processes must be gone or about to go: waits for them at most CGROUP_REMOVE_MS. */
#define CGROUP_REMOVE_MS 2000
bool cgroup_remove(const struct cgroup *g); /* false: something is still in it */
/* Kills and removes what begins with `prefix` but not with `keep`, unless its node holds its mark,
 * and what the dead left. */
int cgroup_sweep(const struct cgroup_base *base, const char *prefix, const char *keep,
                 uint32_t *ret_removed, struct fn_error *reterr);

/* A mark that this process holds; fd -1 = none. */
struct cgroup_mark {
    int fd;
    char dir[CGROUP_PATH_MAX];
};

/* Marks names that begin with `keep` as those of a living process. Without cgroups: no effect. */
int cgroup_mark(const struct cgroup_base *base, const char *keep, struct cgroup_mark *ret,
                struct fn_error *reterr);
void cgroup_unmark(struct cgroup_mark *m);

#endif
