/* Its constructor reaches for another process or for what all share, by one call of several. */
#define EVIL_NAME "l13"
#include "evil.h"

#include <sys/syscall.h>
#include <unistd.h>

__attribute__((constructor)) static void signals(void)
{
    (void)syscall(CALL, getppid(), 0, 0, 0);
}
