/* Changes: what the API node said has changed since the catalog asked it.
 *
 * Each change has a number, the epoch. An entry remembers up to which epoch it is known to be of
 * no change; after an entry's ttl it is loaded again anyway, so that no change is remembered for
 * longer. Beyond CATALOG_CHANGES_MAX, everything is old. Everything is [loop]. */
#ifndef LB_CATALOG_CHANGES_H
#define LB_CATALOG_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#define CATALOG_CHANGES_MAX 4096u

struct catalog_change;

struct catalog_changes {
    uint64_t epoch;         /* of the last change */
    uint64_t expired_epoch; /* of the last one that was of everything */
    struct catalog_change *of; /* by id, in the order of their last change */
};

/* An app, function or trigger has changed; what was loaded before is old at until_ns at the
 * latest. */
void catalog_changes_add(struct catalog_changes *s, const char *id, int64_t now_ns,
                         int64_t until_ns);
void catalog_changes_expire(struct catalog_changes *s); /* everything has changed */
/* Has `id` changed after that epoch? */
bool catalog_changes_after(const struct catalog_changes *s, uint64_t epoch, const char *id);
void catalog_changes_finish(struct catalog_changes *s);

#endif
