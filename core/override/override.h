/* Override: runs the chain of overriders over a call, at the LB and at the runner.
 *
 * Edits go to a scratch copy of the call and are taken over only when every overrider of the chain
 * agreed; a rejection leaves the call as it was. The host side of "fn.edit". [loop] */
#ifndef OVERRIDE_OVERRIDE_H
#define OVERRIDE_OVERRIDE_H

#include <model/call.h>
#include <plugin/plugin.h>

/* [init] Offers "fn.edit" and "fn.view", which read the same; before instances are made. */
void override_offer(struct plugin_host *host);

/* Where the chain is: at a runner the caller waits for the type of call that it sent. */
enum override_side { OVERRIDE_AT_LB, OVERRIDE_AT_RUNNER };

/* 0, or the first rejection with its error. `extensions` is edited like the call. */
int override_apply(struct plugin *const *overriders, uint32_t n, enum override_side side,
                   struct call *call, struct kvs *extensions, struct fn_error *reterr);

#endif
