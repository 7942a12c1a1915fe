/* Url: where the parts of "scheme://user:password@host:port/path?query" begin and end. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include <stdbool.h>
#include <stddef.h>

struct url {
    const char *text;
    const char *begin; /* behind the scheme */
    const char *host;  /* behind a user */
    size_t host_len;   /* with a port, and brackets */
    const char *rest;  /* path, query and fragment, or "" */
};

/* Borrows the text. False: it has no scheme. */
bool url_split(const char *text, struct url *ret);
bool url_is_http(const struct url *u); /* or https; in lower case */

#endif
