/* Keeps what the operator wants of runners in a file, so that a manager that starts anew leaves
 * drained runners alone as its predecessor did.
 *
 * The file is replaced as a whole, on a worker: one write at a time, changes meanwhile make one
 * more. A file that cannot be read or written is told and stops nobody. [loop] */
#ifndef POOLSERVER_KEEP_H
#define POOLSERVER_KEEP_H

#include <base/env.h>
#include <base/err.h>
#include <npm/wishes.h>

struct npm_keep;

/* Reads the file, blocking, if there is one. path: copied. NULL: no memory. */
struct npm_keep *npm_keep_open(struct env *env, struct npm_wishes *wishes, const char *path);
void npm_keep_changed(struct npm_keep *k); /* NULL ok */
/* Why the last write failed, or "". */
const char *npm_keep_error(const struct npm_keep *k);
/* Of what was changed, something is on its way: that error is of an earlier write. */
bool npm_keep_is_writing(const struct npm_keep *k);
/* done() when nothing is being written, perhaps from inside. NULL ok. */
void npm_keep_stop(struct npm_keep *k, void (*done)(void *ud), void *ud);
void npm_keep_close(struct npm_keep *k); /* after stop's done(); NULL ok */

#endif
