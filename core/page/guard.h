/* Guard: whether a request for the operator's page is one of an operator.
 *
 * Three ways in for others, three questions. A page of somebody else whose name leads here (DNS
 * rebinding) has that name as its Host. A page of somebody else that sends its reader's browser
 * here has another Origin, or the browser says so (Sec-Fetch-Site). Another user of this machine
 * has no token. [any] */
#ifndef PAGE_GUARD_H
#define PAGE_GUARD_H

#include <base/err.h>
#include <base/headers.h>
#include <stdbool.h>

#define GUARD_TOKEN_HEX 32u
#define GUARD_HEADER "Fnd-Token" /* or Authorization, as a bearer token */

struct guard {
    bool tls; /* the server's name is what its certificate proves: no Host is wrong */
    char token[GUARD_TOKEN_HEX + 1];
};

/* 0, or FN_E_PERMISSION with 403 and a sentence. */
int guard_page(const struct guard *g, const char *host, const struct headers *h,
               struct fn_error *reterr);
/* 0, or FN_E_PERMISSION with 401. */
int guard_token(const struct guard *g, const struct headers *h, struct fn_error *reterr);

#endif
