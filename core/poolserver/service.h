/* The wire side of a node pool manager: the historic NodePoolScaler and RunnerManager, and fnd.Pool
 * (proto/poolmanager.proto, proto/pool.proto).
 *
 * Answers come from what the manager knows, at once. A watcher that reads slowly is told of each
 * group's latest members only; one that reads nothing is cut off and comes back. With
 * certificates, a load balancer may speak for itself only (NPM503). [loop] */
#ifndef POOLSERVER_SERVICE_H
#define POOLSERVER_SERVICE_H

#include <npm/manager.h>
#include <rpc/raw.h>

struct npm_service;

int npm_service_create(struct env *env, struct npm_manager *m, struct npm_service **ret,
                       struct fn_error *reterr);
const struct rpc_service *npm_service_table(const struct npm_service *s);
/* The manager's published(): tells the watchers of the group. */
void npm_service_published(struct npm_service *s, const char *group);
/* Ends the watches: the node stops. */
void npm_service_close(struct npm_service *s);
void npm_service_destroy(struct npm_service *s); /* after the server was closed; NULL ok */

#endif
