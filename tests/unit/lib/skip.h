/* A case that this machine cannot run says so, with the reason: Check has no word for it but a pass.
 * ctest keeps the lines in Testing/Temporary/LastTest.log. */
#ifndef LIB_SKIP_H
#define LIB_SKIP_H

#include <stdio.h>

#define SKIP(why)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "skipped: %s: %s\n", __func__, why);                                       \
        return;                                                                                    \
    } while (0)

#define NOT_ROOT "only root can do that"

#endif
