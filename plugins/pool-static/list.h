/* The list of a static pool: checks of its addresses. Pure. */
#ifndef POOL_STATIC_LIST_H
#define POOL_STATIC_LIST_H

#include <fn/pool.h>

#define LIST_RUNNERS_MAX 10000u

/* 0, or FN_E_INVALID with a sentence: "host:port", "[v6]:port" or "unix:/path", none twice. */
int list_check(const struct fn_strlist *runners, struct fn_error *reterr);

#endif
