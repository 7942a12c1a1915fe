/* Run: the life of a node process: start, signals, drain, exit code. */
#ifndef MAIN_RUN_H
#define MAIN_RUN_H

#include <main/cli.h>

/* `fnd run`. Returns an exit code of cli.h. */
int run_node(struct config *config, const struct cli_options *o);

#endif
