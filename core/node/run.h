/* Run: the life of a node process: start, signals, drain, exit code. */
#ifndef NODE_RUN_H
#define NODE_RUN_H

#include <config/config.h>
#include <process/start.h>

/* `fnd run`. Returns an exit code of process/start.h. */
int run_node(struct config *config, const struct start *o);

#endif
