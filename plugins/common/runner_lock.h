/* Does the runner live that made a container? Shared by the drivers whose containers outlive it. */
#ifndef PLUGINS_RUNNER_LOCK_H
#define PLUGINS_RUNNER_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#define LOCK_LABEL_MAX 1300

/* What to note beside a container with that directory of its socket (fn_task.iofs_dir); "" = nobody
 * will judge. */
void lock_label(const char *iofs_dir, char *ret, size_t cap);
/* true: its runner is proven to live. */
bool lock_is_held(const char *label);
/* true: its runner is proven to be dead. */
bool lock_is_dead(const char *label);

#endif
