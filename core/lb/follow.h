/* Follow: hears from the API node what changed, so that a function is used as it is now and not as
 * it was up to `cache_ttl` ago.
 *
 * One question at a time waits there for the next change (core/api/changes.c). A Go API node does
 * not know the question: then it is asked again now and then, and what is cached grows old by its
 * time, as without a follower. The same holds where several API nodes answer by turns behind one
 * address: each knows what it was told itself, and takes another's cursor for one that has missed
 * everything. [loop] */
#ifndef LB_FOLLOW_H
#define LB_FOLLOW_H

#include <lb/catalog.h>

struct follow;

#define FOLLOW_THREADS 1u /* that its source needs */

/* [init] */
int follow_create(struct env *env, struct catalog *catalog, struct follow **ret,
                  struct fn_error *reterr);
/* source NULL = nobody is followed; timeout_ns: of its get(). */
void follow_set_source(struct follow *f, const struct catalog_source *source, int64_t timeout_ns);
void follow_destroy(struct follow *f); /* an answer may come later; NULL ok */

#endif
