/* Cuts the line where it is too long; nothing is formatted that the level leaves out. */
#include "say.h"

#include <stdio.h>

void say(const struct fn_host *host, uint32_t level, const char *what, const char *why)
{
    char text[512];
    int n = snprintf(text, sizeof(text), "%s: %s", what, why ? why : "no reason given");

    if (level <= *host->log->level) {
        host->log->write(host, level, text,
                         (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    }
}
