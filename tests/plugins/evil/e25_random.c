/* E25: every third answer names a runner that is not there. */
#define EVIL_NAME "e25"
#include "when.h"

static unsigned asked;

EVIL_WHEN(if (++asked % 3 == 0) { ret->verdict = FN_TRY; ret->index = ask->snap->n + asked; return 0; })

#include "evil.h"
