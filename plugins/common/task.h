/* Tasks of drivers that wrap another one, whatever minor they were built for. */
#ifndef PLUGINS_TASK_H
#define PLUGINS_TASK_H

#include <fn/driver.h>
#include <stdbool.h>

/* The first field by which a wrapper asks for what only an engine has, or NULL. cap_drop is not
 * among them: there is nothing to drop. Only if FN_HAS(task, extra_json): wrappers
 * that were built for an earlier minor hand on a shorter task. */
const char *task_wants(const struct fn_task *task);
#define TASK_ENV_MAX       4096
#define TASK_ENV_BYTES_MAX (1024 * 1024)

/* Whether the function's configuration can be an environment: 0 or FN_E_INVALID, blame user. */
int task_check_env(const struct fn_task *task, struct fn_error *reterr);
/* FN_TASK_NO_NETWORK, or "none" as the network's name. */
bool task_no_network(const struct fn_task *task);

#endif
