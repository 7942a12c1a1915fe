/* E11: decide() ends in abort(), or in a failed assert(). */
#define EVIL_NAME "e11"
#include "when.h"

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>

#ifdef ASSERT
EVIL_WHEN(assert(ask->snap->n == 4711))
#else
EVIL_WHEN(abort())
#endif

#include "evil.h"
