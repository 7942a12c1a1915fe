/* Sql: one connection to a database, as a table. core/store speaks SQL that all of them understand.
 *
 * Statements are constants of the program, known by their address, so that a connection prepares
 * each of them once. Their arguments are $1, $2 ..., used in that order, and texts, as are the
 * cells of rows: columns have types, and each database turns texts into them. One thread at a time.
 * [worker] */
#ifndef STORE_SQL_H
#define STORE_SQL_H

#include <base/err.h>
#include <stdint.h>

struct sql;

#define SQL_ARGS_MAX  16u
#define SQL_CELLS_MAX 16u

/* Cells are borrowed until it returns; NULL is SQL's. < 0 ends the statement. */
typedef int sql_row(void *ud, const char *const *cells);

struct sql_ops {
    /* FN_E_EXISTS: a rule of uniqueness; FN_E_UNAVAILABLE: locked by others, or away;
     * FN_E_EXHAUSTED: no room; FN_E_INTERNAL: it failed; else what row() returned. After these the
     * transaction may be gone. *ret_changed: rows that were written, unless NULL. */
    int (*run)(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
               sql_row *row, void *ud, uint32_t *ret_changed, struct fn_error *reterr);
    const char *begin_read, *begin_write; /* statements */
    const char *has_apps;                 /* one with a row if there is such a table */
    const char *tell; /* others of $1, with the transaction; NULL: there are none who hear it */
    void (*close)(struct sql *db);
};

struct sql {
    const struct sql_ops *ops;
};

/* What other processes tell of their changes. */
struct ears;

#define EARS_CHANNEL "fnd_changed"

/* What was told, borrowed; NULL: something may have been missed. */
typedef void ears_heard(void *ud, const char *text);

struct ears_ops {
    /* Until something is told, or for a while; makes the connection where there is none. */
    int (*wait)(struct ears *e, ears_heard *heard, void *ud, struct fn_error *reterr);
    void (*wake)(struct ears *e); /* [any] wait() returns at once, from now on */
    void (*close)(struct ears *e);
};

struct ears {
    const struct ears_ops *ops;
};

/* sqlite.c: opens the file, and makes it and its folders when there are none. [init] */
int sqlite_open(const char *path, struct sql **ret, struct fn_error *reterr);
int sqlite_check(const char *path, struct fn_error *reterr);

/* postgres.c: "postgres://user:password@host:port/database?...", as libpq takes it. [init] */
int postgres_open(const char *url, struct sql **ret, struct fn_error *reterr);
/* postgres_ears.c: connects later. [init] */
int postgres_ears_open(const char *url, struct ears **ret, struct fn_error *reterr);
/* Without connecting; the sentence says what a URL should be, and has no password. */
int postgres_check(const char *url, struct fn_error *reterr);
/* Where its hosts begin, behind user and password. [any] */
const char *postgres_place(const char *url);

#endif
