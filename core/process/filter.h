/* Filter: the system calls that a node never makes answer EPERM, for it and what it starts. */
#ifndef PROCESS_FILTER_H
#define PROCESS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILTER_STRICT (1u << 31) /* in unless: refused with hardening: strict alone */

struct filter_call {
    const char *name; /* as the kernel has it; not every machine has each */
    uint32_t unless;  /* one of these HARDEN_* is allowed; or FILTER_STRICT */
};

/* [any] The calls that are refused by their name, whatever their arguments. */
const struct filter_call *filter_calls(size_t *ret_n);
bool filter_refuses(const struct filter_call *call, uint32_t may, bool strict);

/* [init] may: HARDEN_* of harden.h. 0, or the negative errno of the kernel. */
int filter_apply(uint32_t may, bool strict);

#endif
