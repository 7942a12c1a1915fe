/* Private to the store: its files share these. */
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H

#include <store/sql.h>
#include <store/store.h>

/* store.c: over connections that are open; closes them also when it fails. [init] */
int store_create(struct env *env, struct sql *reads, struct sql *changes, struct store **ret,
                 struct fn_error *reterr);

/* ---- what others changed (listen.c) ---------------------------------------------------------- */

struct listen;

struct listen_to {
    void (*changed)(void *ud, const char *id); /* NULL: anything */
    void (*stopped)(void *ud);                 /* after listen_stop(), when it was busy */
    void *ud;
};

/* Takes the ears, also when it fails. What begins with `process` this one told itself. [init] */
int listen_create(struct env *env, struct ears *ears, const char *process,
                  const struct listen_to *to, struct listen **ret, struct fn_error *reterr);
void listen_start(struct listen *l);
void listen_stop(struct listen *l); /* for good */
bool listen_is_busy(const struct listen *l);
void listen_destroy(struct listen *l);

/* schema.c: makes Go Fn's tables in an empty database, or brings them up to version 26. [init] */
int schema_prepare(struct sql *db, const char *name, struct fn_error *reterr);

/* statement.c: without arguments and rows. */
int sql_do(struct sql *db, const char *statement, struct fn_error *reterr);
/* How many rows it gives. */
int sql_count(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
              uint32_t *ret, struct fn_error *reterr);
/* One that changes rows, and how many. */
int sql_change(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
               uint32_t *ret_changed, struct fn_error *reterr);

/* ---- values and their rows (rows.c) ---------------------------------------------------------- */

enum column_type {
    COLUMN_TEXT,
    COLUMN_NULL_TEXT, /* "" is SQL's NULL */
    COLUMN_CONFIG,
    COLUMN_ANNOTATIONS,
    COLUMN_TIME,
    COLUMN_UINT64,
    COLUMN_INT32
};

struct column {
    enum column_type type;
    size_t at;    /* of the value */
    bool changes; /* an update writes it */
};

/* Apps, functions, triggers: what is peculiar to one of them. Values begin with id and name. */
struct store_kind {
    const char *name, *one; /* "app", "an app" */
    size_t at, size;        /* of the value in an operation */
    size_t app_id;          /* of the value */
    const struct column *columns;
    uint32_t n_columns;
    /* Statements. Arguments: all columns; those that change, and the id; the id. */
    const char *insert, *update, *by_id;
    const char *removes[3];         /* it by its id, then what is in it; NULL ends */
    const char *exists, *not_found; /* in Go Fn's words */
};
extern const struct store_kind store_kinds[STORE_KINDS_N];

/* Into a value. < 0: out of memory, or nothing that fnd or Go Fn wrote. */
int row_read(const struct store_kind *k, void *ret, struct arena *arena, const char *const *cells,
             struct fn_error *reterr);
/* In the order of the columns, in the arena. */
int row_write(const struct store_kind *k, const void *value, struct arena *arena,
              const char **ret);

/* All that a statement gives, `step` bytes apart from `to` on, which has room for them. 1 when
 * there is none. */
int rows_read(const struct store_kind *k, struct sql *db, const char *statement,
              const char *const *args, uint32_t n_args, struct store_op *op, void *to, size_t step,
              uint32_t *ret_n, struct fn_error *reterr);

#endif
