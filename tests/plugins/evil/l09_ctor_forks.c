/* Its constructor starts a process. */
#define EVIL_NAME "l09"
#include "evil.h"

#include <unistd.h>

__attribute__((constructor)) static void forks(void)
{
    if (fork() == 0) {
        _exit(0);
    }
}
