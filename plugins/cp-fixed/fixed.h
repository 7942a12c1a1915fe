/* Machines that exist already: a list of addresses that is given out one by one.
 *
 * An entry belongs to one group, so that groups share nothing, after a restart as little as before
 * it, and so that calls for different groups need no lock. States of an entry:
 *
 *   free ──provision──▶ starting ──delay──▶ ready ──remove──▶ resting ──4 lists──▶ free, at the
 *                                                             end of the queue
 *
 * An address rests because it is its id too: a manager that removed it takes it for the machine
 * that is to go for as long as it is listed, and forgets it when three lists lack it.
 *
 * Pure: no clock, no chance. One call at a time per group; different groups at the same time. */
#ifndef CP_FIXED_FIXED_H
#define CP_FIXED_FIXED_H

#include <fn/cplane.h>

#define FIXED_ADDRESSES_MAX 10000u
#define FIXED_GROUP_MAX     63u
#define FIXED_REST_LISTS    4u
#define FIXED_REQUESTS_MAX  64u /* per group, remembered; the host repeats at most 16 */

struct fixed;

/* items: "host:port" for group "default", or "group=host:port", labels after it. adopted: all are
 * given out from the start. 0, or FN_E_INVALID with a sentence, FN_E_EXHAUSTED. */
int fixed_create(const struct fn_strlist *items, int adopted, struct fixed **ret,
                 struct fn_error *reterr);
void fixed_destroy(struct fixed *f); /* NULL ok */

int fixed_list(struct fixed *f, const char *group, int64_t now_ns, uint64_t capacity_mb,
               const struct fn_machine_sink *out, struct fn_error *reterr);
/* Gives out min(n, free) addresses, ready at ready_ns, those first that rested longest:
 * a machine that did not come up gets its next turn after all others. FN_E_EXHAUSTED when none is
 * free, FN_E_NOT_FOUND for a group without addresses. */
int fixed_provision(struct fixed *f, const char *group, uint32_t n, uint64_t request_id,
                    int64_t ready_ns, uint32_t *ret_accepted, struct fn_error *reterr);
void fixed_remove(struct fixed *f, const char *group, const char *id);

#endif
