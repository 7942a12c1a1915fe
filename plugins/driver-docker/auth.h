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

#define AUTH_HELPER_MAX 64

/* The program that is asked instead, docker-credential-<name>: credHelpers of the exact registry,
 * else credsStore. "" = none, or a name that is no plain file name. a may be NULL. */
void auth_helper(const struct auth *a, const char *registry, char ret[AUTH_HELPER_MAX + 1]);
/* What such a program reads. */
const char *auth_helper_question(const char *registry);
/* The same value out of what it answered to `get`. FN_E_INVALID when that is no credential. */
int auth_helper_header(const char *answer, const char *registry, char **ret);

#endif
