/* E10: decide() calls itself without end. */
#define EVIL_NAME "e10"
#include "when.h"

static int deeper(volatile char *above)
{
    volatile char here[512];

    here[0] = above[0];
    if (here[0] == 2) {
        return 0;
    }
    return deeper(here) + here[0];
}

EVIL_WHEN(return deeper((volatile char[]){ 1 }))

#include "evil.h"
