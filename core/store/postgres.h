/* Private to the store: what its files that speak with PostgreSQL share. */
#ifndef STORE_POSTGRES_H
#define STORE_POSTGRES_H

#include <base/err.h>
#include <libpq-fe.h>

/* A connection, or one that says what failed. Takes at most 5 s for each address. [worker] */
PGconn *postgres_connect(const char *url);
/* One line of `text` with 503. */
int postgres_unavailable(struct fn_error *reterr, const char *text);

#endif
