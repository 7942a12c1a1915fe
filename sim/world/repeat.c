/* The line with which a world is seen again: all that decides what it is. */
#include "repeat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OTHERS_BYTES 64 /* of the line, behind its events */

static const char *plugins;

void repeat_set_plugins(const char *folder)
{
    plugins = folder;
}

uint32_t repeat_count(const struct plan *p, const bool *left_out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_events; i++) {
        n += !left_out || !left_out[i];
    }
    return n;
}

/* " --only 3,9-12" behind the `len` bytes of the line; '' when nothing stays. */
static size_t add_only(const struct plan *p, const bool *left_out, char ret[REPEAT_BYTES],
                       size_t len)
{
    const char *sep = " --only ";

    for (uint32_t i = 0; i < p->n_events && len < REPEAT_BYTES - OTHERS_BYTES; i++) {
        uint32_t from = i;

        if (left_out[i]) {
            continue;
        }
        while (i + 1 < p->n_events && !left_out[i + 1]) {
            i++;
        }
        len += (size_t)snprintf(ret + len, REPEAT_BYTES - len, i > from ? "%s%u-%u" : "%s%u", sep,
                                from, i);
        sep = ",";
    }
    return len;
}

void repeat_line(const struct plan *p, const bool *left_out, char ret[REPEAT_BYTES])
{
    uint32_t left = repeat_count(p, left_out);
    size_t len;

    len = (size_t)snprintf(ret, REPEAT_BYTES / 2, "repeat: %s%s%s%s --seeds %llu",
                           program_invocation_name, plugins ? " --plugins " : "",
                           plugins ? plugins : "",
                           p->byte       ? " --byte"
                           : p->days > 1 ? " --long"
                           : p->poor     ? " --poor"
                                         : "",
                           (unsigned long long)p->seed);
    len = len < REPEAT_BYTES / 2 ? len : REPEAT_BYTES / 2 - 1;
    if (left == 0) {
        len += (size_t)snprintf(ret + len, REPEAT_BYTES - len, " --only ''");
    } else if (left < p->n_events) {
        len = add_only(p, left_out, ret, len);
    }
    snprintf(ret + len, REPEAT_BYTES - len, " --story");
}
