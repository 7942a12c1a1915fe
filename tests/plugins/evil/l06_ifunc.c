/* Chooses a function while it is linked, by code that runs before any constructor. */
#define EVIL_NAME "l06"
#define EVIL_DESTROY destroys

static void really_destroys(void *inst)
{
    (void)inst;
}

static void (*choose(void))(void *)
{
    return really_destroys;
}

static void destroys(void *inst) __attribute__((ifunc("choose")));

#include "evil.h"
