/* Tripwire: see sim_tripwire.c. Linked into executables that simulate plugins; it needs no call. */
#ifndef FNKIT_SIM_TRIPWIRE_H
#define FNKIT_SIM_TRIPWIRE_H

#include <stdbool.h>

/* What happens with the sentence; it does not return. Without one: standard error and abort(). */
void tripwire_handler(void (*cb)(const char *sentence));
/* False where a sanitizer is in its place. */
bool tripwire_set(void);

#endif
