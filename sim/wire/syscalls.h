/* Syscalls: where the linker leads the system calls of core/net (--wrap). Those about descriptors
 * of the kernel are its, all others the machine's. */
#ifndef FND_WIRE_SYSCALLS_H
#define FND_WIRE_SYSCALLS_H

#include "kernel.h"

void syscalls_open(struct kernel *k); /* NULL: there is none any more */
/* Whose process runs: sockets are made on its host. The one before. */
struct host *syscalls_as(struct host *h);

#endif
