/* What a container uses, from files of this machine. */
#ifndef DRIVER_DOCKER_USAGE_FILES_H
#define DRIVER_DOCKER_USAGE_FILES_H

#include <fn/driver.h>
#include <stdbool.h>

/* root: "" for this machine. False: the container's cgroup is not there. */
bool usage_read(const char *root, const char *id, struct fn_usage *ret);

#endif
