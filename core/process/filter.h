/* Filter: the system calls that a node never makes answer EPERM, for it and what it starts. */
#ifndef PROCESS_FILTER_H
#define PROCESS_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* [init] may: HARDEN_* of harden.h. 0, or the negative errno of the kernel. */
int filter_apply(uint32_t may, bool strict);

#endif
