/* Has a symbol that is shared with every other file that has it, as inline variables of C++ are. */
#define EVIL_NAME "l05"
#include "evil.h"

__asm__(".globl evil_shared\n.type evil_shared, @gnu_unique_object\n.data\n"
        ".size evil_shared, 8\nevil_shared: .quad 0\n.text\n");
