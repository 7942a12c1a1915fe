/* Private to the store: its files share these. */
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H

#include <store/sql.h>
#include <store/store.h>

struct store_verb {
    int (*run)(struct sql *db, struct store_op *op, struct fn_error *reterr); /* [worker] */
    const char *(*changed)(const struct store_op *op); /* the id; NULL: it only reads */
};

/* store.c: over connections that are open; closes them also when it fails. [init] */
int store_create(struct env *env, struct sql *reads, struct sql *changes, struct store **ret,
                 struct fn_error *reterr);
/* Takes the ears, also when it fails. [init] */
int store_set_ears(struct store *s, struct ears *ears, struct fn_error *reterr);

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

#define APP_COLUMNS                                                                                \
    "id, name, config, annotations, syslog_url, created_at, updated_at, shape"
#define FN_COLUMNS                                                                                 \
    "id, name, app_id, image, memory, timeout, idle_timeout, config, annotations, created_at, "    \
    "updated_at, shape"
#define TRIGGER_COLUMNS                                                                            \
    "id, name, app_id, fn_id, created_at, updated_at, type, source, annotations"
#define APP_CELLS     8u
#define FN_CELLS      12u
#define TRIGGER_CELLS 9u

/* Into values whose arena is given. < 0: out of memory, or nothing that fnd or Go Fn wrote. */
int app_from_row(struct app *a, struct arena *arena, const char *const *cells,
                 struct fn_error *reterr);
int fn_from_row(struct fn_def *f, struct arena *arena, const char *const *cells,
                struct fn_error *reterr);
int trigger_from_row(struct trigger *t, struct arena *arena, const char *const *cells,
                     struct fn_error *reterr);
/* In the order of the columns, in the arena. */
int app_to_row(const struct app *a, struct arena *arena, const char **ret);
int fn_to_row(const struct fn_def *f, struct arena *arena, const char **ret);
int trigger_to_row(const struct trigger *t, struct arena *arena, const char **ret);

/* Where rows go. */
struct row_to {
    struct store_op *op;
    struct fn_error *reterr;
    bool found;
};

/* Rows by a function that gets a struct row_to. 1 when there is none. */
int rows_take(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
              sql_row *row, struct store_op *op, struct fn_error *reterr);
/* Room for a page, and the text of its limit. NULL: out of memory, told. */
void *rows_page(struct store_op *op, size_t size, const char **ret_limit, struct fn_error *reterr);

/* The one value of a statement whose only argument is an id. 1 when there is none. */
int row_app(struct sql *db, const char *statement, struct store_op *op, const char *id,
            struct fn_error *reterr);
int row_fn(struct sql *db, const char *statement, struct store_op *op, const char *id,
           struct fn_error *reterr);
int row_trigger(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
                struct store_op *op, struct fn_error *reterr);

/* ---- what is seen (scope.c) ------------------------------------------------------------------ */

/* Into op->app. 1: it is not there, or not for this operation. */
int scope_app(struct sql *db, struct store_op *op, const char *id, struct fn_error *reterr);
/* The same about the app of what is asked for: it is only read where some are not seen. */
int scope_check(struct sql *db, struct store_op *op, const char *id, struct fn_error *reterr);

/* Refusals in Go Fn's words. */
int store_refuse(struct fn_error *reterr, int code, int http_status, const char *text);
int app_not_found(struct fn_error *reterr);
int fn_not_found(struct fn_error *reterr);

extern const char sql_app_by_id[], sql_fn_by_id[];

#endif
