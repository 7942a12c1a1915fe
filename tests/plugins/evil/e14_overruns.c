/* E14: route() writes more than fits. */
#define EVIL_NAME "e14"
#define EVIL_ADDRESS "127.0.0.1:1"
#define EVIL_PUBLISH evil_publish
#define EVIL_ROUTE overrun
#include <fn/pool.h>

#include <string.h>

static int overrun(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    (void)inst;
    (void)call;
#ifdef UNTERMINATED
    memset(ret_group, 'x', cap);
#else
    memset(ret_group, 'x', cap + 64);
#endif
    return 0;
}

#include "pool.h"
