/* Its entry function crashes. */
#define EVIL_NAME "l11"
#define EVIL_OWN_ENTRY
#include "evil.h"

#include <signal.h>

__attribute__((visibility("default"))) const struct fn_manifest *fn_plugin_v1(void)
{
    (void)signal(SIGBUS, SIG_DFL);
    (void)raise(SIGBUS);
    return &evil_manifest;
}
