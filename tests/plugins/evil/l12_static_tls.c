/* Wants more memory in the threads that are there already than the linker keeps for that. */
#define EVIL_NAME "l12"
#include "evil.h"

__thread char large[64 << 10];

static __attribute__((constructor)) void touch(void)
{
    large[0] = 1;
}
