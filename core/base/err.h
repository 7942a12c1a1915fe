/* Errors: filling struct fn_error and naming codes.
 *
 * One style everywhere: a function returns 0, a documented positive outcome, or FN_E_*; details go
 * into a caller-owned struct fn_error, last parameter, NULL allowed. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <fn/abi.h>
#include <stdarg.h>
#include <stdbool.h>

/* Fills *e (NULL is fine) with code and text and returns code. Text longer than the field is cut at
 * a character. [any] */
int err_set(struct fn_error *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the HTTP status and blame that a caller of a function shall see. */
int err_set_http(struct fn_error *e, int code, int http_status, uint32_t blame, const char *fmt,
                 ...) __attribute__((format(printf, 5, 6)));
/* FN_E_* for the current errno value `err`. */
int err_from_errno(int err);
/* Whether a moment without memory, descriptors or processes gave this errno value: it says nothing
 * of what the machine can do. */
bool err_passes(int err);
/* "UNAVAILABLE" etc. */
const char *err_name(int code);
/* The HTTP status of *e: http_status, or the one that belongs to its code; never 2xx. */
int err_http_status(const struct fn_error *e);

#define ERR_INIT ((struct fn_error){ .size = sizeof(struct fn_error) })

#endif
