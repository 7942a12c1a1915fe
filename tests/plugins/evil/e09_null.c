/* E9: decide() follows a NULL pointer. */
#define EVIL_NAME "e09"
#include "when.h"

static int *volatile nowhere;

/* The crash itself is wanted, not what a sanitizer says before it. */
static __attribute__((noinline, no_sanitize("undefined"))) void follow(void)
{
    *nowhere = 1;
}

EVIL_WHEN(follow())

#include "evil.h"
