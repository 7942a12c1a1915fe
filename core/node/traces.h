/* Traces: the tracer of a node, and its way out. */
#ifndef NODE_TRACES_H
#define NODE_TRACES_H

#include <base/err.h>

struct node;

/* [init] After node_offer(), before the sides are opened. */
int node_traces_open(struct node *n, struct fn_error *reterr);
/* [loop] or [init]: takes over what the current configuration says. */
void node_traces_apply(struct node *n);

#endif
