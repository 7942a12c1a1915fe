/* E6: create() sleeps for a minute. */
#define EVIL_NAME "e06"
#define EVIL_CREATE sleeps
#include <fn/placer.h>

#include <unistd.h>

static int sleeps(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    (void)conf;
    (void)reterr;
    (void)sleep(60);
    *ret_inst = (void *)(uintptr_t)host;
    return 0;
}

#include "evil.h"
