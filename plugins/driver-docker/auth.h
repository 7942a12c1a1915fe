/* Registry credentials. Pure: texts in, one header value out. Nothing here is ever logged.
 *
 * A credential goes to the exact registry host (with its port) that it was given for; to a parent
 * domain of it, as in Go Fn, only where the operator says so; to a sub domain never. */
#ifndef DRIVER_AUTH_H
#define DRIVER_AUTH_H

#include <fn/abi.h>

struct auth; /* parsed docker config JSON */

/* text: docker's config.json with or without the "auths" wrapper. FN_E_INVALID when it is not JSON
 * of that shape; the message never quotes the text. */
int auth_parse(const char *text, struct auth **ret, struct fn_error *reterr);
/* A credential of a.b.example:5000 also serves b.example:5000, but no name without a dot. An entry
 * of the exact host goes first. */
void auth_allow_parents(struct auth *a);
void auth_destroy(struct auth *a); /* NULL ok */

/* Value of X-Registry-Auth for a registry ("" = Docker Hub), given: free(). *ret is NULL when there
 * are no credentials. A registry_token wins over the configured entries. a may be NULL. */
int auth_header(const struct auth *a, const char *registry, const char *registry_token, char **ret);

#endif
