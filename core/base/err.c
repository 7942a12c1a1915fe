/* Fills struct fn_error, cutting texts at whole characters, and maps codes to names and HTTP
 * statuses. */
#include <base/err.h>

#include <base/utf8.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void err_fill(struct fn_error *e, int code, int http_status, uint32_t blame, const char *fmt,
                     va_list ap) __attribute__((format(printf, 5, 0)));

/* Bytes of s (len of them, NUL behind) without a character that was cut at its end. */
static size_t whole_characters(const char *s, size_t len)
{
    size_t lead = len;

    while (lead > 0 && len - lead < 3 && (unsigned char)s[lead - 1] >> 6 == 2) {
        lead--; /* continuation bytes */
    }
    /* What is no UTF-8 at all has nothing to keep whole. */
    return lead == 0 || (unsigned char)s[lead - 1] < 0xc0 || utf8_sequence(s + lead - 1, s + len)
               ? len
               : lead - 1;
}

static void err_fill(struct fn_error *e, int code, int http_status, uint32_t blame, const char *fmt,
                     va_list ap)
{
    int n;

    *e = ERR_INIT;
    e->code = code;
    e->http_status = http_status;
    e->blame = blame;
    n = vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    if (n >= (int)sizeof(e->msg)) {
        e->msg[whole_characters(e->msg, sizeof(e->msg) - 1)] = '\0';
    }
}

int err_set(struct fn_error *e, int code, const char *fmt, ...)
{
    va_list ap;

    if (e) {
        va_start(ap, fmt);
        err_fill(e, code, 0, FN_BLAME_PLATFORM, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_set_http(struct fn_error *e, int code, int http_status, uint32_t blame, const char *fmt,
                 ...)
{
    va_list ap;

    if (e) {
        va_start(ap, fmt);
        err_fill(e, code, http_status, blame, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_from_errno(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return FN_E_NOT_FOUND;
    case EEXIST:
        return FN_E_EXISTS;
    case EACCES:
    case EPERM:
        return FN_E_PERMISSION;
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
        return FN_E_EXHAUSTED;
    case EINVAL:
        return FN_E_INVALID;
    case ETIMEDOUT:
        return FN_E_DEADLINE;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EADDRINUSE:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return FN_E_UNAVAILABLE;
    default:
        return FN_E_INTERNAL;
    }
}

bool err_passes(int err)
{
    return err == ENOMEM || err == EMFILE || err == ENFILE || err == EAGAIN;
}

static const struct {
    const char *name;
    int http_status;
} codes[] = {
    { "OK", 500 },
    { "CANCELLED", 499 },
    { "UNKNOWN", 500 },
    { "INVALID_ARGUMENT", 400 },
    { "DEADLINE_EXCEEDED", 504 },
    { "NOT_FOUND", 404 },
    { "ALREADY_EXISTS", 409 },
    { "PERMISSION_DENIED", 403 },
    { "RESOURCE_EXHAUSTED", 503 },
    { "FAILED_PRECONDITION", 400 },
    { "ABORTED", 409 },
    { "OUT_OF_RANGE", 400 },
    { "UNIMPLEMENTED", 501 },
    { "INTERNAL", 500 },
    { "UNAVAILABLE", 503 },
    { "DATA_LOSS", 502 },
    { "UNAUTHENTICATED", 401 },
};

#define CODES_N ((int)(sizeof(codes) / sizeof(codes[0])))

const char *err_name(int code)
{
    if (code > 0 || -code >= CODES_N) {
        return "UNKNOWN";
    }
    return codes[-code].name;
}

int err_http_status(const struct fn_error *e)
{
    if (e->http_status >= 300 && e->http_status <= 599) {
        return e->http_status;
    }
    if (e->code > 0 || -e->code >= CODES_N) {
        return 500;
    }
    return codes[-e->code].http_status;
}
