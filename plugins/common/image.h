/* Image names: what is allowed, and how a name splits into registry, repository and tag.
 * Shared by the drivers. Pure. */
#ifndef PLUGINS_IMAGE_H
#define PLUGINS_IMAGE_H

#include <fn/abi.h>
#include <stdbool.h>

#define IMAGE_NAME_MAX 1024

struct image_name {
    char registry[IMAGE_NAME_MAX + 1]; /* "" = Docker Hub; host[:port] otherwise */
    char repository[IMAGE_NAME_MAX + 1]; /* with the registry in front if there is one */
    char path[IMAGE_NAME_MAX + 1];       /* without the registry, as written */
    char tag[IMAGE_NAME_MAX + 1];        /* "latest" when the name has neither tag nor digest */
    bool by_digest;                      /* tag holds "sha256:..." */
};

/* 0, or FN_E_INVALID with `RUN406 image name ...`, HTTP 400, blame user. */
int image_parse(const char *name, struct image_name *ret, struct fn_error *reterr);

#endif
