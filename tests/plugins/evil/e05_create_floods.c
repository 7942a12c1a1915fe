/* E5: create() fails with 10 KiB of terminal escapes where a sentence belongs, far beyond the end of
 * the field that it was given. */
#define EVIL_NAME "e05"
#define EVIL_CREATE floods
#include <fn/placer.h>

static int floods(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    static const char words[] = "\x1b[31mHACKED\x1b[0m\r\n";

    (void)host;
    (void)conf;
    (void)ret_inst;
    for (size_t i = 0; i < FLOOD_BYTES; i++) {
        ((volatile char *)reterr->msg)[i] = words[i % (sizeof(words) - 1)];
    }
    return FN_E_INTERNAL;
}

#include "evil.h"
