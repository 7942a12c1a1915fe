/* Allocations of the program's own objects, counted; see poor.h. */
#include "poor.h"

#include <errno.h>
#include <stdlib.h>

static unsigned left; /* allocations until one fails; 0: none does */
static bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

static bool ends_here(void)
{
    bool now = left == 1;

    left -= left > 0;
    if (now) {
        failed = true;
        errno = ENOMEM;
    }
    return now;
}

void *__wrap_malloc(size_t size)
{
    return ends_here() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ends_here() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return ends_here() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
    return ends_here() ? NULL : __real_strdup(s);
}

void poor_begin(unsigned n)
{
    failed = false;
    left = n;
}

bool poor_end(void)
{
    left = 0;
    return failed;
}
