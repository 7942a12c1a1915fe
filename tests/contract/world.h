/* The world: fn.op, fn.http, fn.exec and fn.proc are a node's own, and what is behind them is really
 * there: machines are rented, containers run. subject.world says so. */
#ifndef CONTRACT_WORLD_H
#define CONTRACT_WORLD_H

#include "contract.h"

/* Machines are rented in this group, and everything in it is given back. */
#define WORLD_GROUP "fnkit"

bool world_offers(const char *iface);
/* Around a case, in its own process; within real_open() and real_close(). */
void world_open(struct plugin_host *host, struct env *env);
void world_close(void);
/* Runs it on a lane, with a deadline and a moment when it is cancelled (INT64_MAX = never). */
void world_work(void (*run)(void *ud, struct fn_op *op), void *ud, int64_t deadline_ns,
                int64_t cancel_at_ns);
/* An instance, or the case is skipped with the plugin's own sentence. */
struct instance *world_instance(void);
/* Lets the loop run for a moment. */
void world_pause(void);
/* A number that no earlier run had, plus n. */
uint64_t world_unique(uint64_t n);

/* A folder for the socket of a container, and whether the function listens in it by now. */
const char *world_socket_dir(void);
bool world_listens(const char *dir);
void world_remove_dir(const char *dir);

/* What the driver reported of a container. */
bool world_exited(uint64_t handle);

#endif
