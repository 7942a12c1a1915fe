/* The request for the network of functions that nobody named one for: the driver sends it, the
 * engine's broker (tools/broker) lets no other through. */
#ifndef DRIVER_DOCKER_NETWORK_BODY_H
#define DRIVER_DOCKER_NETWORK_BODY_H

#include "docker_api.h"

#define NETWORK_NAME   "fnd"
#define NETWORK_BRIDGE "fnd0" /* as in the default of grpc.refuse_interfaces */
#define BRIDGE_OPTION  "com.docker.network.bridge.name"
#define ICC_OPTION     "com.docker.network.bridge.enable_icc"
#define BRIDGE_LABEL   API_OWN_LABELS "bridge" /* for engines that do not tell the option again */

/* parted: its containers do not reach each other. NULL = out of memory. */
static inline json_t *network_body(bool parted)
{
    return json_pack("{s:s, s:s, s:b, s:{s:s}, s:{s:s, s:s}}", "Name", NETWORK_NAME, "Driver",
                     "bridge", "CheckDuplicate", 1, "Labels", BRIDGE_LABEL, NETWORK_BRIDGE,
                     "Options", BRIDGE_OPTION, NETWORK_BRIDGE, ICC_OPTION,
                     parted ? "false" : "true");
}

#endif
