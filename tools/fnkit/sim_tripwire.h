/* Tripwire: see sim_tripwire.c. Linked into executables that simulate plugins, which arm it. */
#ifndef FNKIT_SIM_TRIPWIRE_H
#define FNKIT_SIM_TRIPWIRE_H

#include <stdbool.h>

/* Arms it. What happens with the sentence; cb does not return. NULL: nothing is watched. */
void tripwire_handler(void (*cb)(const char *sentence));
/* False where a sanitizer is in its place. */
bool tripwire_set(void);

#endif
