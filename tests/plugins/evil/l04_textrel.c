/* Has an address in its code, so that the linker would have to write there. */
#define EVIL_NAME "l04"
#include "evil.h"

__asm__(".section .text\n.balign 8\n.quad evil_manifest_address\n.previous\n"
        ".local evil_manifest_address\n.comm evil_manifest_address,8,8\n");
