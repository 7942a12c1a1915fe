/* Filling struct fn_error inside a plugin. */
#ifndef PLUGINS_FAIL_H
#define PLUGINS_FAIL_H

#include <fn/abi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* status 0 = the one that belongs to the code. Returns code. */
__attribute__((format(printf, 5, 6))) static inline int
fail(struct fn_error *e, int code, int status, uint32_t blame, const char *fmt, ...)
{
    va_list ap;

    if (e) {
        e->code = code;
        e->http_status = status;
        e->blame = blame;
        e->flags = 0;
        va_start(ap, fmt);
        vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
        va_end(ap);
        for (char *p = e->msg; *p; p++) {
            if ((unsigned char)*p < 0x20 || *p == 0x7f) {
                *p = ' '; /* engines answer with several lines */
            }
        }
    }
    return code;
}

#define fail_platform(e, code, ...) fail((e), (code), 0, FN_BLAME_PLATFORM, __VA_ARGS__)
#define fail_user(e, code, status, ...) fail((e), (code), (status), FN_BLAME_USER, __VA_ARGS__)

/* Nothing was executed: another runner may be tried. Returns code. */
static inline int fail_retry(struct fn_error *e, int code)
{
    if (e) {
        e->flags |= FN_ERR_RETRY;
    }
    return code;
}

#endif
