/* E12: frees memory of the host. */
#define EVIL_NAME "e12"
#include "when.h"

#include <stdlib.h>

EVIL_WHEN(free((void *)(uintptr_t)ask->snap->runners))

#include "evil.h"
