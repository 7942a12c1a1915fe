/* Runs: the first byte of some kind in a text. Nearly all texts are plain ASCII, so eight bytes are
 * looked at together.
 *
 * A kind takes eight bytes and returns them with the highest bit set of those that are of it;
 * beyond the first one there may be wrong ones. The kinds here are right for ASCII: one that is
 * made of them adds `eight` to stop at other bytes, or takes it away to pass them. */
#ifndef BASE_RUNS_H
#define BASE_RUNS_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RUN_EACH(byte) (0x0101010101010101u * (byte))

static inline uint64_t run_equal(uint64_t eight, unsigned char c)
{
    return (eight ^ RUN_EACH(c)) - RUN_EACH(1);
}

/* Bytes below 0x20. */
static inline uint64_t run_control(uint64_t eight)
{
    return eight - RUN_EACH(0x20);
}

/* The first byte from p on that is of the kind, or `end`. */
static inline const char *run_end(const char *p, const char *end, uint64_t kind(uint64_t eight))
{
    uint64_t eight;
    uint64_t found;

    for (; (size_t)(end - p) >= sizeof(eight); p += sizeof(eight)) {
        memcpy(&eight, p, sizeof(eight));
        found = kind(le64toh(eight)) & RUN_EACH(0x80);
        if (found) {
            return p + __builtin_ctzll(found) / 8;
        }
    }
    if (p < end) {
        eight = RUN_EACH('x');
        memcpy(&eight, p, (size_t)(end - p));
        found = kind(le64toh(eight)) & RUN_EACH(0x80);
        return found ? p + __builtin_ctzll(found) / 8 : end;
    }
    return end;
}

#endif
