/* E3: its constructor ends the process, as if all were well (EXIT: through exit(), else _exit()). */
#define EVIL_NAME "e03"
#include "evil.h"

#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void leave(void)
{
#ifdef EXIT
    exit(0);
#else
    _exit(0);
#endif
}
