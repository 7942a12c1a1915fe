/* Good in itself: what is wrong with it is how it was linked. */
#include "evil.h"
