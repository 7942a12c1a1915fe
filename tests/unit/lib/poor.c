/* Allocations of the program's own objects, counted; see poor.h. */
#include "poor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Tests have threads, too. */
static atomic_uint left; /* allocations until one fails; 0: none does */
static atomic_bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
int __wrap_asprintf(char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **ret, int flag, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool ends_here(void)
{
    unsigned n = left;
    bool now;

    while (n > 0 && !atomic_compare_exchange_weak(&left, &n, n - 1)) {
    }
    now = n == 1;
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

static int poor_print(char **ret, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));

static int poor_print(char **ret, const char *fmt, va_list args)
{
    return ends_here() ? -1 : vasprintf(ret, fmt, args);
}

int __wrap_asprintf(char **ret, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = poor_print(ret, fmt, args);
    va_end(args);
    return len;
}

/* What asprintf() is where calls are fortified. */
int __wrap___asprintf_chk(char **ret, int flag, const char *fmt, ...)
{
    va_list args;
    int len;

    (void)flag;
    va_start(args, fmt);
    len = poor_print(ret, fmt, args);
    va_end(args);
    return len;
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
