/* The deadline of a case: what no child can promise for itself.
 *
 * A timer of the worker's looks at the case that runs in its child, ten times a second: how many
 * calls of methods have begun and ended, and how much of its own time has passed, which is real
 * time without that in which other programs had the processor. A method that does not come back,
 * and a case that does not end, are told to the child first, so that it writes down where it is,
 * and are killed with the next look. */
#ifndef FNKIT_WATCH_H
#define FNKIT_WATCH_H

#include <stdint.h>

#define WATCH_METHOD_MS 3000 /* one call of a method, and the end of the process */
#define WATCH_AGAIN_MS 500   /* the same, in a plugin that has not come back before */
#define WATCH_CASE_MS 5000   /* all of a case, but for those of the world and with stand-ins */

enum watch_end { WATCH_ENDED, WATCH_METHOD_HANGS, WATCH_CASE_HANGS };

int watch_open(void); /* once; 0 or FN_E_UNAVAILABLE */
/* Before the case is forked; one of the two above, and the deadline of all of it. */
void watch_begin(int64_t method_ms, int64_t case_ms);
enum watch_end watch_stop(void); /* after it was waited for */

#endif
