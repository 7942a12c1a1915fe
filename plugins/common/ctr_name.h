/* Names of containers, from which a sweep knows whose they are. Shared by the drivers that start
 * processes themselves. Pure. */
#ifndef PLUGINS_CTR_NAME_H
#define PLUGINS_CTR_NAME_H

#include <stddef.h>

#define CTR_NAME_MAX 160

/* "<owner>--<start of instance>-<id>" in the alphabet of cgroup names; 0, or FN_E_RANGE when it is
 * too long or the owner has -- or ends with -. */
int ctr_name(const char *owner, const char *instance, const char *id, char *ret, size_t cap);

/* What names of this owner begin with, and those of its process `instance`; 0 or FN_E_RANGE. */
int ctr_prefixes(const char *owner, const char *instance, char ret_prefix[CTR_NAME_MAX],
                 char ret_keep[CTR_NAME_MAX]);

#endif
