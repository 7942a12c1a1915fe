/* E7: decide() sleeps. */
#define EVIL_NAME "e07"
#include "when.h"

#include <time.h>

#ifndef SLEEP_MS
#define SLEEP_MS 400
#endif

EVIL_WHEN(nanosleep(&((struct timespec){ 0, SLEEP_MS * 1000000L }), NULL))

#include "evil.h"
