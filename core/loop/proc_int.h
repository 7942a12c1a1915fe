/* Private to proc.c and proc_child.c. */
#ifndef LOOP_PROC_INT_H
#define LOOP_PROC_INT_H

#include <fn/host.h>
#include <loop/cgroup.h>
#include <signal.h>
#include <sys/types.h>

/* Everything that the child needs, made ready by the parent: the child shares its memory until it
 * has executed the program, and may only make system calls. */
struct launch {
    const struct fn_proc_spec *spec;
    uint32_t flags; /* of the spec, those that this machine can give */
    bool can_namespaces;
    int fd[3];
    char procs[CGROUP_DIRS_MAX][CGROUP_PATH_MAX + 16]; /* "" = none */
    char tmp_options[64];
    char bind_parts[256]; /* bind_to, changed while its parents are made */
    bool limit_as;        /* no memory cgroup */
    sigset_t mask;
    /* what the child leaves when it fails: */
    const char *step;
    int err;
    bool not_a_program; /* everything is ready, but this file is none that runs here */
};

/* Starts the program; 0 with pid and pidfd, or FN_E_* with a sentence. The child is gone on
 * error. */
int launch_run(struct launch *l, pid_t *ret_pid, int *ret_pidfd, struct fn_error *reterr);
/* Whether namespaces can be made here. FN_E_EXHAUSTED: this moment has not the means to try. */
int launch_can_namespaces(bool *ret, struct fn_error *reterr);

#endif
