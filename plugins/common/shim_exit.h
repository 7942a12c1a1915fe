/* How fnd-oci-shim ends when its container did not start: driver-oci knows by it whom to blame. */
#ifndef PLUGINS_SHIM_EXIT_H
#define PLUGINS_SHIM_EXIT_H

#define SHIM_FAILED  124 /* this machine lacks what any container takes: mounts, memory, a layer */
#define SHIM_REFUSED 125 /* the runtime did not start this one */

#endif
