/* Calls a function of a library that it does not declare. */
#define EVIL_NAME "l08"
#define EVIL_DESTROY destroys

void SSL_free(void *ssl);

static void destroys(void *inst)
{
    SSL_free(inst);
}

#include "evil.h"
