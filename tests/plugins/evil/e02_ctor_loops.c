/* E2: its constructor never returns. */
#define EVIL_NAME "e02"
#include "evil.h"

__attribute__((constructor)) static void loop(void)
{
    for (volatile unsigned long turns = 0;; turns++) {
    }
}
