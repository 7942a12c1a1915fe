/* Sandbox: a process that may look and compute, and nothing else. `fnd check` lets create() of
 * plugins judge their options in one: no network, no other program, nothing written.
 *
 * A refused system call fails with EPERM and is remembered, so that a create() that fails for want
 * of it is not taken for one that refuses its options. [init] */
#ifndef PLUGIN_SANDBOX_H
#define PLUGIN_SANDBOX_H

#include <stdbool.h>

/* For good, with all threads that come after. False: this machine cannot (an old kernel, a
 * container that forbids it); then nothing has changed. */
bool sandbox_enter(void);
/* What was asked for and refused since the last call: "the network", "another program", "to write
 * files"; NULL = nothing. Always NULL outside of a sandbox. */
const char *sandbox_wanted(void);

#endif
