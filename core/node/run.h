/* Run: the life of a node process: start, signals, drain, exit code. */
#ifndef NODE_RUN_H
#define NODE_RUN_H

#include <cli/cli.h>

/* `fnd run`. Returns an exit code of cli.h. */
int run_node(struct config *config, const struct cli_options *o);

#endif
