#ifndef FND_SIM_SHORTEST_H
#define FND_SIM_SHORTEST_H

#include "plan.h"

/* Prints the fewest events with which this world still fails, and the end of its story. left_out:
 * those that are out already. How many tries and how much time that may take is bounded. */
void shortest_tell(const struct plan *p, bool *left_out);

#endif
