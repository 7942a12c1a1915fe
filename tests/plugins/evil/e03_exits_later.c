/* E3, while it serves: decide() calls exit(0). */
#define EVIL_NAME "e03-later"
#include "when.h"

#include <stdlib.h>

EVIL_WHEN(exit(0))

#include "evil.h"
