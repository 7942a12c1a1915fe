#ifndef FND_SIM_SHRINK_H
#define FND_SIM_SHRINK_H

#include "world.h"

#define SHRINK_CRASH 1000u /* a node stopped on an assertion; else enum books_rule */

/* Whichever comes first; no further try begins then. */
struct shrink_limits {
    uint32_t tries;
    int64_t real_s;
};

/* Leaves out what is not needed for the world to end as it does, and prints what is left and the
 * line that repeats it. How it ends; BOOKS_SOUND: well, in a process of its own. */
uint32_t shrink_tell(const struct plan *p, bool *left_out, const struct shrink_limits *limits);

#endif
