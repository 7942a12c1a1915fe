/* Cors: which origins may call from a browser, and the headers that tell it so.
 *
 * As Go Fn does for FN_API_CORS_ORIGINS, with two differences. A page of the node's own origin is
 * let through as if it had sent none. And a function's own Access-Control-Allow-Origin is replaced:
 * two of them would be none for a browser. [any] */
#ifndef HTTP_CORS_H
#define HTTP_CORS_H

#include <base/headers.h>
#include <fn/abi.h>

struct cors {
    struct fn_strlist origins; /* n 0 = off; first item "*" = all of them; borrowed */
    struct fn_strlist headers; /* n 0 = Go Fn's three; borrowed */
};
extern const struct opt_table cors_opt_table; /* part of `http:`, options.c */

enum cors_verdict {
    CORS_NONE,      /* no business of a browser's: answer as ever */
    CORS_REFUSED,   /* 403 without a body */
    CORS_PREFLIGHT, /* 200 without a body and with cors_add() */
    CORS_ALLOWED,   /* answer with cors_add() */
};

/* "*", or an origin that begins with http:// or https://. */
int cors_origin_check(const char *origin, uint64_t index);

/* host: of the Host header, NULL = none. *ret_origin: for cors_add(), borrowed from the request. */
enum cors_verdict cors_judge(const struct cors *c, const char *method, const char *host,
                             const struct headers *request, const char **ret_origin);
/* Adds what belongs to CORS_PREFLIGHT or CORS_ALLOWED. 0 or FN_E_EXHAUSTED. */
int cors_add(const struct cors *c, enum cors_verdict verdict, const char *origin,
             struct headers *to);

#endif
