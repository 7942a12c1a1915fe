/* Late: ends of calls on their way to a listener that may be slow (after_worker()).
 *
 *   chain_after() ──copy──▶ waiting ──some──▶ one work on a lane, after_worker() for each ──▶ freed
 *                  └─full─▶ left out and counted
 *
 * One line per listener, so that a listener hears of ends in their order, one at a time, and delays
 * no call and no other listener. Chains that have the same listener share its line. A line counts
 * the chain that gave it the newest end while it holds any: with the last one the generation may
 * go. [loop] unless marked. */
#ifndef OVERRIDE_LATE_H
#define OVERRIDE_LATE_H

#include <base/env.h>
#include <fn/listener.h>
#include <plugin/plugin.h>
#include <stdbool.h>

struct chain;
struct late;

/* Counted once; NULL when out of memory. All are borrowed. [init] */
struct late *late_create(struct env *env, struct plugin *listener);
/* For one more chain, which has what is held from now on. */
struct late *late_share(struct late *l, struct chain *chain);
void late_add(struct late *l, struct chain *chain, const struct fn_call *call,
              const struct fn_call_end *end);
/* The listener is replaced, or the node ends: from now on an end waits FN_LISTENER_DRAIN_S at most,
 * and what runs longer than that is cancelled. */
void late_retire(struct late *l);
/* Nothing waits or runs, but for a call that did not return when it was told to. */
bool late_is_over(const struct late *l);
void late_unref(struct late *l); /* the last one frees: nothing is on a lane; NULL ok. [init] */

#endif
