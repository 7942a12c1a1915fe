/* E9: decide() follows a NULL pointer. */
#define EVIL_NAME "e09"
#include "when.h"

static int *volatile nowhere;

EVIL_WHEN(*nowhere = 1)

#include "evil.h"
