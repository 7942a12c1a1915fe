/* What a container uses, from files of this machine. */
#ifndef PLUGINS_CGROUP_USAGE_H
#define PLUGINS_CGROUP_USAGE_H

#include <fn/driver.h>
#include <stdbool.h>

/* root: "" for this machine. places: where the cgroup of container `id` may be below the root of a
 * hierarchy, each with one %s. False: it is nowhere. */
bool usage_read(const char *root, const char *const *places, size_t n, const char *id,
                struct fn_usage *ret);

#endif
