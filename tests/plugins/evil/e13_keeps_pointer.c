/* E13: keeps what it only borrowed, and reads it at the next call. */
#define EVIL_NAME "e13"
#include "when.h"

static const struct fn_call *kept;
static volatile char seen;

static void look(const struct fn_call *now)
{
    if (kept) {
        seen = kept->fn_id[3];
    }
    kept = now;
}

EVIL_WHEN(look(ask->call))

#include "evil.h"
