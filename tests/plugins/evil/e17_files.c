/* E17: leaks descriptors, or closes those of the host: the low ones or (HIGH) the
 * others, in a call or in create(). */
#define EVIL_NAME "e17"
#include "when.h"

#include <fcntl.h>
#include <unistd.h>

static __attribute__((unused)) void do_it(void)
{
    int i;

#ifdef HIGH
    for (i = 3; i < 1024; i++) {
        (void)close(i);
    }
#else
    for (i = 0; i < 64; i++) {
#ifdef CLOSE
        (void)close(i);
#else
        (void)!open("/dev/null", O_RDONLY);
#endif
    }
#endif
}

#ifdef IN_CREATE
#include <fn/host.h>

static int close_in_create(const struct fn_host *host, const void *conf, void **ret_inst,
                           struct fn_error *reterr)
{
    (void)conf;
    (void)reterr;
    do_it();
    *ret_inst = (void *)(uintptr_t)host;
    return 0;
}
#define EVIL_CREATE close_in_create
EVIL_WHEN((void)0)
#else
EVIL_WHEN(do_it())
#endif

#include "evil.h"
