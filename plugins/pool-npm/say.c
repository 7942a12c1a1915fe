/* Nothing is formatted that the level leaves out. */
#include "say.h"
#include "say_line.h"

void say(const struct fn_host *host, uint32_t level, const char *what, const char *why)
{
    say_line(host, level, "%s: %s", what, why ? why : "no reason given");
}
