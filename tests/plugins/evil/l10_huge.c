/* Asks for more memory than any plugin may have while it is loaded. */
#define EVIL_NAME "l10"
#include "evil.h"

char huge[512 << 20];
