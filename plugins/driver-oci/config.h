/* config.json of a container, for the runtime. Pure, so that it can be tested without one. */
#ifndef DRIVER_OCI_CONFIG_H
#define DRIVER_OCI_CONFIG_H

#include "oci.h"

#define CONFIG_UID 1000u /* of functions, and their group */

struct config_settings {
    const char *name;    /* of the container and its cgroups */
    const char *dir;     /* its folder */
    bool cgroup_v2;
    bool swap_limits;
    bool host_network;   /* unless the task has none */
    uint64_t limits[4];  /* the node's own, which it cannot raise, in the order of the task's
                          * nofile, memlock, sigpending, msgqueue */
};

/* *ret: given, the text. *ret_uid: who the function runs as. A field that cannot be had is refused
 * by its name. */
int config_make(const struct fn_task *task, const struct oci_image *image,
                const struct config_settings *s, char **ret, uint32_t *ret_uid,
                struct fn_error *reterr);

/* seccomp.c: the filter, given; NULL: no memory. */
json_t *config_seccomp(void);

#endif
