/* Percent: the escapes of URLs. */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include <base/arena.h>
#include <stdbool.h>

/* A decoded copy of `len` bytes; plus: '+' is a blank, as in queries. NULL when it is malformed,
 * holds a NUL or has no memory. */
char *percent_decode(struct arena *a, const char *s, size_t len, bool plus);

/* The value of a hexadecimal digit; -1: it is none. */
static inline int percent_digit(char c)
{
    char lower = c | 0x20;

    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

#endif
