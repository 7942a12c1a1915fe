/* An API node and the way to it, and who deploys functions there: worlds with an API node. */
#ifndef FND_SIM_API_NODE_H
#define FND_SIM_API_NODE_H

#include "world.h"

#include <sys/types.h>

struct api;
struct api_call;

/* ---- api_node.c ---------------------------------------------------------------------------- */

void api_node_create(struct world *w);
struct node *api_node_base(struct api_node *a);
struct api *api_node_api(struct api_node *a);
void api_node_gone(struct api_node *a, struct api_call *call); /* who asked is */
/* From any node. */
void api_node_kill(struct api_node *a);
void api_node_drain(struct api_node *a);
void api_node_forget(struct world *w); /* the world is over: its files */
void api_node_sweep(pid_t process);    /* that is over, however: the files of its last world */

/* ---- api_net.c ----------------------------------------------------------------------------- */

#define API_NET_TIMEOUT_NS (3 * ENV_S) /* of lb.api_timeout, and who deploys */

struct api_net_request {
    const char *method, *path, *body;
    int64_t timeout_ns;
};

/* As catalog_source's. */
typedef void api_net_cb(void *ud, uint32_t status, const char *body, size_t len,
                        const struct fn_error *err);
void api_net_ask(struct node *from, uint32_t who, const struct api_net_request *rq, api_net_cb *cb,
                 void *ud);
void api_net_close(struct node *from); /* what it waits for ends without an answer */
void api_net_lose(struct api_node *api); /* its process is gone */
void api_net_heal(struct world *w);

/* ---- deploy.c ------------------------------------------------------------------------------ */

struct deploy *deploy_create(struct world *w);
/* All functions are there, in a new version; false: a rule is broken. */
bool deploy_all(struct world *w);
/* From any node: it is deployed, or deleted, when it is its turn. */
void deploy_change(struct deploy *d, uint32_t function, bool deleted);
void deploy_look(struct deploy *d); /* what was acknowledged is there; an API node has begun anew */
bool deploy_is_idle(const struct deploy *d);
bool deploy_wait(struct world *w); /* until it is; nothing is wrong, so that it does not give up */
uint32_t deploy_version(const struct deploy *d, uint32_t function); /* that was acknowledged */

#endif
