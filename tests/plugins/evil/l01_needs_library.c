/* Needs a library that nobody allowed. */
#define EVIL_NAME "l01"
#define EVIL_DESTROY destroys

int helper(void);

static void destroys(void *inst)
{
    (void)inst;
    (void)helper();
}

#include "evil.h"
