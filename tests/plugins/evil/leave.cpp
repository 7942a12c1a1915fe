// E22 with exceptions: what leave.h promises.
#include "leave.h"

#include <stdexcept>

void evil_leave(void)
{
    throw std::runtime_error("out of the plugin");
}

int evil_catch(void (*fn)(void *ud), void *ud)
{
    try {
        fn(ud);
    } catch (const std::exception &) {
        return 1;
    }
    return 0;
}
