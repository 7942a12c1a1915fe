/* Watch: tells when the loop is stuck, and in which plugin; runs the audit. */
#ifndef PROCESS_WATCH_H
#define PROCESS_WATCH_H

#include <node/node.h>

struct watch;

/* [init] The loop and the plugin host must outlive it. */
int watch_create(struct node *n, struct watch **ret, struct fn_error *reterr);
void watch_destroy(struct watch *w); /* [init] NULL ok */

#endif
