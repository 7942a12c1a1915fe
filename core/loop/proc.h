/* Proc: "fn.proc", long-lived child processes with namespaces, limits and a cgroup of their own. */
#ifndef LOOP_PROC_H
#define LOOP_PROC_H

#include <fn/host.h>

#define PROC_CHILDREN_MAX 10000
#define PROC_TMP_BYTES    (64 * 1024 * 1024)

struct proc;

/* [init] Finds out what this machine can give. One thread, started with the first child, reads
 * outputs and notices ends: callbacks never run inside the loop and so may enter it. */
int proc_create(struct proc **ret, struct fn_error *reterr);
/* [any] FN_PROC_HAS_*: what it found out. */
uint32_t proc_isolation(const struct proc *p);
/* [init] NULL ok. Kills what still runs, without callbacks. */
void proc_destroy(struct proc *p);

/* Table for plugin_host_offer(h, "fn.proc", 1, 1, proc_if(), p). Its functions find p with
 * plugin_impl(). A child dies with the thread that spawned it (PR_SET_PDEATHSIG), which is what
 * ends functions when a node is killed: spawn from threads that live as long as the node. */
const struct fn_proc_if *proc_if(void);
/* For plugin_host_on_release(): kills the children of that instance and waits until the end of each
 * was told, or, if it is no instance any more, until none can be told. */
void proc_release(void *impl, const struct fn_host *host);

#endif
