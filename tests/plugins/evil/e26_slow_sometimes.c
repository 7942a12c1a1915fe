/* E26: correct, but a hundred times slower with every tenth call. */
#define EVIL_NAME "e26"
#include "when.h"

#include <time.h>

static unsigned asked;

EVIL_WHEN(if (++asked % 10 == 0) nanosleep(&((struct timespec){ 0, 50000 }), NULL))

#include "evil.h"
