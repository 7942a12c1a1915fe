/* Exec: "fn.exec", a program run to its end with its output collected. */
#ifndef LOOP_EXEC_H
#define LOOP_EXEC_H

#include <fn/host.h>

#define EXEC_OUTPUT_MAX (64 * 1024) /* kept of stdout and of stderr when a request names no limit */
#define EXEC_POLL_MS    100         /* how late a cancelled operation may be noticed */

/* Table for plugin_host_offer(h, "fn.exec", 1, 0, exec_if(), NULL). It has no state. */
const struct fn_exec_if *exec_if(void);

/* What the table's run() does; op may be NULL (then only timeout_ms bounds it). [worker]
 * The program gets a process group of its own, which is killed as a whole at the deadline, when the
 * operation is cancelled, and when the program itself has ended. Errors: FN_E_INVALID (request),
 * FN_E_NOT_FOUND, FN_E_PERMISSION (cannot be started), FN_E_DEADLINE, FN_E_CANCELLED,
 * FN_E_EXHAUSTED (no memory, descriptors or processes). An exit code is not an error. */
int exec_run(struct fn_op *op, const struct fn_exec_request *rq, struct fn_exec_result *ret,
             struct fn_error *reterr);
void exec_free_result(struct fn_exec_result *given);

#endif
