/* Local: both ends of Engage in one process, for the `full` node.
 *
 * The same tables as over gRPC with the same discipline: every callback comes from a deferred task,
 * never from inside a call. A link's address is "local:". [loop] */
#ifndef RPC_LOCAL_H
#define RPC_LOCAL_H

#include <base/env.h>
#include <model/engage.h>

struct local;

/* [init] NULL when out of memory. cb and ud serve every attempt; they outlive the object. */
struct local *local_create(struct env *env, const struct engage_server_cb *cb, void *ud);
/* Both sides have released their attempts, sessions and links. */
void local_destroy(struct local *l);
struct engage_client *local_client(struct local *l);
struct engage_server *local_server_table(void);
/* Takes the links down: new attempts end unsent, running ones go on. done(ud) comes once, never
 * from inside, when none is left. */
void local_drain(struct local *l, void (*done)(void *ud), void *ud);

#endif
