/* E15: an index that is not there, a wait that is negative, a verdict or a code that nobody knows. */
#define EVIL_NAME "e15"
#include "when.h"

#if defined(INDEX)
EVIL_WHEN(ret->verdict = FN_TRY; ret->index = ask->snap->n; return 0)
#elif defined(WAIT)
EVIL_WHEN(ret->verdict = FN_WAIT; ret->wait_ns = -1; return 0)
#elif defined(CODE)
EVIL_WHEN(return -4711)
#elif defined(GIVE_UP)
EVIL_WHEN(ret->verdict = FN_GIVE_UP; ret->code = 4711; return 0)
#else
EVIL_WHEN(ret->verdict = 4711; return 0)
#endif

#include "evil.h"
