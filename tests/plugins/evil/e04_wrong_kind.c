/* E4: a manifest whose factory is of no kind that there is. */
#define EVIL_NAME "e04"
#define EVIL_KIND "teapot"
#include "evil.h"
