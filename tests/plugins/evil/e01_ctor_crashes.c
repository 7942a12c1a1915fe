/* E1: its constructor crashes. */
#define EVIL_NAME "e01"
#include "evil.h"

#include <signal.h>

/* Not by a bad pointer: a sanitizer would make an exit code of that. */
__attribute__((constructor)) static void crash(void)
{
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}
