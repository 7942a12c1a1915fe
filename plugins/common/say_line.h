/* One line of the log, formatted. */
#ifndef PLUGINS_SAY_LINE_H
#define PLUGINS_SAY_LINE_H

#include <fn/host.h>
#include <stdarg.h>
#include <stdio.h>

/* A path and a sentence about it; the host keeps 2 047 bytes. What is longer is cut. */
#define SAY_LINE_MAX 1712

/* [any] Nothing is formatted that the level leaves out. */
__attribute__((format(printf, 3, 0))) static inline void
say_v(const struct fn_host *host, uint32_t level, const char *fmt, va_list ap)
{
    char line[SAY_LINE_MAX];
    int n;

    if (level > *host->log->level) {
        return;
    }
    n = vsnprintf(line, sizeof(line), fmt, ap);
    if (n > 0) {
        host->log->write(host, level, line,
                         (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
    }
}

/* [any] */
__attribute__((format(printf, 3, 4))) static inline void
say_line(const struct fn_host *host, uint32_t level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(host, level, fmt, ap);
    va_end(ap);
}

#endif
