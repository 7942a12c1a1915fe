/* Views of the host that a wrapper hands on, changed. The host may know less of them than this
 * plugin, or more: copies take what both know and say how much that is. */
#ifndef PLUGINS_VIEW_H
#define PLUGINS_VIEW_H

#include <stdint.h>
#include <string.h>

/* Every view begins with its size. `known`: sizeof the struct as this plugin knows it. */
static inline void view_copy(void *to, uint32_t known, const void *from)
{
    uint32_t size;

    memcpy(&size, from, sizeof(size));
    size = size < known ? size : known;
    memset(to, 0, known);
    memcpy(to, from, size);
    memcpy(to, &size, sizeof(size));
}

/* Zeroes an answer, of which the host may know less than this plugin. Its size stays. */
static inline void view_clear(void *view, uint32_t known)
{
    uint32_t size;

    memcpy(&size, view, sizeof(size));
    memset(view, 0, size < known ? size : known);
    memcpy(view, &size, sizeof(size));
}

#endif
