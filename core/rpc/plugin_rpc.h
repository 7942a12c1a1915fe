/* "fn.rpc" for plugins, on raw calls. [init] to set up, the rest is the table's own. */
#ifndef RPC_PLUGIN_RPC_H
#define RPC_PLUGIN_RPC_H

#include <fn/rpc.h>
#include <plugin/plugin.h>
#include <rpc/raw.h>

struct plugin_rpc;

/* tls: finds the identity of an entry of fn.yaml's tls: by name, borrowed, NULL when there is none;
 * may be NULL. Offers fn.rpc and releases what a destroyed instance left. The host's instances must
 * be gone before destroy. */
int plugin_rpc_create(struct rpc *r, struct plugin_host *host,
                      struct net_identity *(*tls)(void *ud, const char *name), void *ud,
                      struct plugin_rpc **ret, struct fn_error *reterr);
void plugin_rpc_destroy(struct plugin_rpc *p); /* NULL ok */

#endif
