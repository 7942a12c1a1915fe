/* One log line of the pool. */
#ifndef POOL_NPM_SAY_H
#define POOL_NPM_SAY_H

#include <fn/host.h>

/* why NULL: no reason was given. [loop] */
void say(const struct fn_host *host, uint32_t level, const char *what, const char *why);

#endif
