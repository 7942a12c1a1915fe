/* Tables: uthash, which ends the process when a table finds no memory, unless it is told not to.
 * Here an element that found none is simply not in: table_has() must be asked after each HASH_ADD,
 * and such an element must not be HASH_DELeted. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define table_has(element) ((element)->hh.tbl != NULL)

/* ret: the element of that name, whose type ends with its name[]; a new one, zero but for that, if
 * there is none. NULL: no memory. */
#define TABLE_GET(table, name, text, ret)                                                          \
    do {                                                                                           \
        HASH_FIND_STR(table, text, ret);                                                           \
        if (!(ret) && ((ret) = calloc(1, sizeof(*(ret)) + strlen(text) + 1))) {                    \
            memcpy((ret)->name, text, strlen(text));                                               \
            HASH_ADD_STR(table, name, ret);                                                        \
            if (!table_has(ret)) {                                                                 \
                free(ret);                                                                         \
                (ret) = NULL;                                                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#endif
