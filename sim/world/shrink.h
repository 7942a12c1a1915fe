#ifndef FND_SIM_SHRINK_H
#define FND_SIM_SHRINK_H

#include "world.h"

#define SHRINK_CRASH 1000u /* a node stopped on an assertion; else enum books_rule */

/* How this world ends, run in a process of its own. */
uint32_t shrink_try(const struct plan *p, const bool *left_out);
/* Leaves out what is not needed for it to end so; how many events are left. */
uint32_t shrink(const struct plan *p, bool *left_out, uint32_t broken);

#endif
