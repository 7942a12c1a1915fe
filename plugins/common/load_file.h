/* The file of images that a driver loads when its runner starts. A wrong path ends the start, or a
 * check, and not the first call. */
#ifndef PLUGINS_LOAD_FILE_H
#define PLUGINS_LOAD_FILE_H

#include "fail.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* [init] path NULL or "" = there is none. `fits` judges what is there, `rule` says how. */
static inline int load_file_check(const char *path, bool (*fits)(const struct stat *),
                                  const char *rule, struct fn_error *reterr)
{
    struct stat st;

    if (!path || !*path) {
        return 0;
    }
    if (stat(path, &st) < 0 || access(path, R_OK) < 0) {
        return fail_platform(reterr, FN_E_INVALID, "load_file, got \"%.100s\": %s; expected %s",
                             path, strerror(errno), rule);
    }
    return fits(&st) ? 0
                     : fail_platform(reterr, FN_E_INVALID, "load_file, got \"%.100s\"; expected %s",
                                     path, rule);
}

#endif
