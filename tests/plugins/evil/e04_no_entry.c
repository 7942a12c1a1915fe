/* E4: the note of a plugin, but no entry symbol. */
#define EVIL_NAME "e04"
#define EVIL_NO_ENTRY
#include "evil.h"

__attribute__((visibility("default"))) int fn_plugin(void);

int fn_plugin(void)
{
    return (int)evil_note.abi_major;
}
