/* Its constructor looks for what a trial may not have, and crashes where it finds some. */
#define EVIL_NAME "l14"
#include "evil.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IS_REFUSED(call) ((call) < 0 && errno == EPERM)

__attribute__((constructor)) static void looks(void)
{
    if (strcmp(program_invocation_short_name, "fnd-plugprobe") != 0) {
        return; /* it passed */
    }
    if (getenv("FND_TEST_SECRET")) {
        __builtin_trap();
    }
    if (!IS_REFUSED(syscall(SYS_io_uring_setup, 1, NULL)) ||
        !IS_REFUSED(syscall(SYS_io_uring_register, -1, 0, NULL, 0)) ||
        !IS_REFUSED(fcntl(0, F_SETOWN, getppid()))) {
        _exit(1);
    }
}
