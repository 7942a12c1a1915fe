/* Ready: GET /ready, for those who decide whether a node gets calls (HAProxy, Kubernetes).
 *
 * It says what the node can do now, never what somebody else has: a page that stayed red because
 * no calls come would never turn green. [loop] */
#ifndef NODE_READY_H
#define NODE_READY_H

#include <stddef.h>

struct node;

/* Why it takes no calls, a sentence in `text` of cap bytes; NULL: it takes them. */
const char *node_unready(const struct node *n, char *text, size_t cap);

#endif
