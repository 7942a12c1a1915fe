/* Between world.c, the callers of a world, and world_engine.c, what runs their calls. */
#ifndef TESTS_RUNNER_WORLD_INT_H
#define TESTS_RUNNER_WORLD_INT_H

#include "world.h"

extern struct world *the; /* host interfaces have no argument for it */
extern const struct fn_driver_ops world_driver_ops, world_telling_ops; /* without usage(), and with */
extern const struct fnsock_if world_fnsock_if;

void world_engine_begin(struct world *w); /* `the` world from now on */
int world_submit(struct env *e, struct env_work *work);

#endif
