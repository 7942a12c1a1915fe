/* E17: leaks descriptors, or closes those of the host. */
#define EVIL_NAME "e17"
#include "when.h"

#include <fcntl.h>
#include <unistd.h>

static void do_it(void)
{
    int i;

    for (i = 0; i < 64; i++) {
#ifdef CLOSE
        (void)close(i);
#else
        (void)!open("/dev/null", O_RDONLY);
#endif
    }
}

EVIL_WHEN(do_it())

#include "evil.h"
