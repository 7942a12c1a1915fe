/* Call_more: what a placer may ask of the calls of a simulated function by "fn.view". */
#ifndef SIM_CALL_MORE_H
#define SIM_CALL_MORE_H

#include <base/arena.h>
#include <fn/placer.h>
#include <stdbool.h>

/* Sets view->more, which lives as long as the arena. `config` and `annotation` are one pair
 * "key=value" each, or "" for none; checked by call_more_is_pair(). 0 or FN_E_EXHAUSTED. */
int call_more_make(struct arena *a, struct fn_call *view, const char *config,
                   const char *annotation);
/* Whether it is "key=value", for an annotation with a value that is JSON, or "". */
bool call_more_is_pair(const char *text, bool is_annotation);

#endif
