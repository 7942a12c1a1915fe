/* Tables: uthash, which ends the process when a table finds no memory, unless it is told not to.
 * Here an element that found none is simply not in: table_has() must be asked after each HASH_ADD,
 * and such an element must not be HASH_DELeted. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define table_has(element) ((element)->hh.tbl != NULL)

#endif
