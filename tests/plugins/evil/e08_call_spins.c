/* E8: decide() spins. */
#define EVIL_NAME "e08"
#include "when.h"

#include <time.h>

#define SPIN_MS 400

static void spin(void)
{
    struct timespec t;
    long until_ms;

    clock_gettime(CLOCK_MONOTONIC, &t);
    until_ms = t.tv_sec * 1000 + t.tv_nsec / 1000000 + SPIN_MS;
    do {
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < until_ms);
}

EVIL_WHEN(spin())

#include "evil.h"
