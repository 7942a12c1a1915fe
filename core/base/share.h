/* Share: how much of a common limit one of many may hold.
 *
 * What one holds may not reach SHARE_OF_FREE times what is still free. One that is alone gets four
 * fifths of the limit; the more the others hold, the less; and one that holds nothing always finds
 * room, however many others want all of it. Nobody is ever made to give back. */
#ifndef BASE_SHARE_H
#define BASE_SHARE_H

#include <base/table.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARE_OF_FREE 4u

/* Whether one that holds `own` of the `used` may take `want` more. limit 0 = none. */
static inline bool share_allows(uint64_t limit, uint64_t used, uint64_t own, uint64_t want)
{
    uint64_t free = used < limit ? limit - used : 0;

    return limit == 0 || (want <= free && own / SHARE_OF_FREE < free);
}

/* Those of many who hold some now, by name. NULL is the empty list. */
struct share_holder {
    UT_hash_handle hh;
    uint64_t bytes; /* the owner's to count */
    uint32_t users; /* who joined and did not leave */
    char name[];
};

/* Counts one more user in; NULL: no memory. */
struct share_holder *share_join(struct share_holder **list, const char *name);
void share_leave(struct share_holder **list, struct share_holder *h);

#endif
