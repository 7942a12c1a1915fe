/* Hash: FNV-1a, 64 bits: for tables, short names and comparisons, where nobody gains from texts
 * that collide. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

#define HASH_INIT 0xcbf29ce484222325u

static inline uint64_t hash_byte(uint64_t h, unsigned char byte)
{
    return (h ^ byte) * 0x100000001b3u;
}

static inline uint64_t hash_text(uint64_t h, const char *text)
{
    while (*text) {
        h = hash_byte(h, (unsigned char)*text++);
    }
    return h;
}

#endif
