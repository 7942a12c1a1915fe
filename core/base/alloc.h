/* Memory of objects that come and go with each call.
 *
 * malloc() keeps freed blocks of up to ALLOC_QUICK_BYTES at hand for each thread; larger ones are
 * cut from the heap and joined with their neighbours again. calloc() did not use that cache before
 * glibc 2.41. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdlib.h>
#include <string.h>

#define ALLOC_QUICK_BYTES 1032

/* NULL when out of memory. */
static inline void *alloc_zeroed(size_t size)
{
    void *p = malloc(size);

    __asm__("" : "+r"(p)); /* else the compiler makes it calloc() */
    return p ? memset(p, 0, size) : NULL;
}

#endif
