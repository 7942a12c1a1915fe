/* FNV-1a, 64 bits: the same number for the same text in every process, also after a restart. For
 * ids and tables, where nobody gains from texts that collide. */
#ifndef PLUGINS_HASH_H
#define PLUGINS_HASH_H

#include <stdint.h>

static inline uint64_t text_hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return h;
}

#endif
