/* Witness: stands between load balancers or runners and core/rpc, and enters in the books what it
 * sees pass: offers and what their ends prove, sessions and how they end. */
#ifndef FND_WIRE_WITNESS_H
#define FND_WIRE_WITNESS_H

#include "../world/world.h"

struct witness;

/* What a load balancer uses in place of `real`. */
struct witness *witness_create(struct lb_node *l, struct engage_client *real);
struct engage_client *witness_client(struct witness *w);
void witness_destroy(struct witness *w); /* its links are closed */

/* What core/rpc is served with in place of the runner's own callbacks; ud: the runner. */
extern const struct engage_server_cb witness_server_cb;
/* What a runner answers with. */
extern struct engage_server witness_server;
/* Its sessions end within the limits of a runner. */
void witness_check_times(struct runner_node *r);

#endif
