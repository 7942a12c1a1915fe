/* Late: ends of calls on their way to a listener that may be slow (after_worker()).
 *
 *   chain_after() ──copy──▶ waiting ──some──▶ one work on a lane, after_worker() for each ──▶ freed
 *                  └─full─▶ left out and counted
 *
 * One line per listener of a chain, so that a listener hears of ends in their order, one at a time,
 * and delays no call and no other listener. A line counts its chain while it holds ends: with the
 * last one the generation may go. [loop] unless marked. */
#ifndef OVERRIDE_LATE_H
#define OVERRIDE_LATE_H

#include <base/env.h>
#include <fn/listener.h>
#include <plugin/plugin.h>
#include <stdbool.h>

struct chain;
struct late;

/* NULL when out of memory. All are borrowed. [init] */
struct late *late_create(struct env *env, struct chain *chain, struct plugin *listener);
void late_add(struct late *l, const struct fn_call *call, const struct fn_call_end *end);
/* The listener is replaced, or the node ends: from now on an end waits FN_LISTENER_DRAIN_S at most,
 * and what runs longer than that is cancelled. */
void late_retire(struct late *l);
/* Nothing waits or runs, but for a call that did not return when it was told to. */
bool late_is_over(const struct late *l);
void late_destroy(struct late *l); /* nothing of it is on a lane; NULL ok. [init] */

#endif
