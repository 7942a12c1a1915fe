/* E16: leaks, and touches, 8 MiB with each call. */
#define EVIL_NAME "e16"
#include "when.h"

#include <stdlib.h>

#define LEAK_BYTES (8u << 20)

static void *volatile last;

static void leak(void)
{
    char *p = malloc(LEAK_BYTES);

    if (p) {
        memset(p, 1, LEAK_BYTES);
        last = p;
    }
}

EVIL_WHEN(leak())

#include "evil.h"
