/* Watch: a host as the struct loop of core/net, core/rpc and core/http. */
#ifndef FND_WIRE_WATCH_H
#define FND_WIRE_WATCH_H

#include "../world/world.h"

#include "kernel.h"

#include <loop/loop.h>

struct loop *host_loop(struct host *h);
/* loop_fd_add() that cannot fail. */
void host_watch(struct host *h, struct loop_fd *w, uint32_t events);
/* A host's `look`: one turn. */
void host_look(struct host *h);

#endif
