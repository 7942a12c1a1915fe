/* What can be done with apps. */
#include <store/store_int.h>

#include <string.h>

/* Rows that are read at a time for somebody who does not see all of them. */
#define PORTION      1000u
#define PORTION_TEXT "1000"

static int app_add(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *args[APP_CELLS];
    int r = app_to_row(&op->app, op->arena, args);

    r = r < 0 ? err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for an app")
              : sql_change(db, "INSERT INTO apps (" APP_COLUMNS ") "
                               "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                           args, APP_CELLS, NULL, reterr);
    return r == FN_E_EXISTS ? store_refuse(reterr, r, 409, "App already exists") : r;
}

static int app_get(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = scope_app(db, op, op->app.id, reterr);

    return r == 1 ? app_not_found(reterr) : r;
}

static int app_write(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *cells[APP_CELLS];
    int r;

    op->app.updated_ns = op->now_ns;
    r = app_to_row(&op->app, op->arena, cells);
    if (r < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for an app");
    }
    return sql_change(db, "UPDATE apps SET config = $1, annotations = $2, syslog_url = $3, "
                          "updated_at = $4 WHERE id = $5",
                      (const char *[]){ cells[2], cells[3], cells[4], cells[6], cells[0] }, 5, NULL,
                      reterr);
}

static int app_change(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct app change = op->app;
    int r = app_get(db, op, reterr);

    if (r < 0) {
        return r;
    }
    if (*change.name && strcmp(change.name, op->app.name) != 0) {
        return store_refuse(reterr, FN_E_INVALID, 409, "Could not update - name is immutable");
    }
    r = app_merge(&op->app, &change);
    if (r < 0) {
        return err_set(reterr, r, "API1101 out of memory for an app");
    }
    if (app_check_kept(&op->app, reterr) < 0) {
        return FN_E_INVALID;
    }
    return r == 0 ? 0 : app_write(db, op, reterr);
}

/* Its functions and triggers go with it. */
static int app_remove(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *const id[] = { op->app.id };
    uint32_t n = 0;
    int r = scope_check(db, op, id[0], reterr);

    r = r != 0 ? r : sql_change(db, "DELETE FROM apps WHERE id = $1", id, 1, &n, reterr);
    if (r >= 0 && n == 0) {
        return app_not_found(reterr);
    }
    r = r < 0 ? r : sql_change(db, "DELETE FROM fns WHERE app_id = $1", id, 1, NULL, reterr);
    return r < 0 ? r
                 : sql_change(db, "DELETE FROM triggers WHERE app_id = $1", id, 1, NULL, reterr);
}

/* A list that is being filled. */
struct walk {
    struct store_op *op;
    struct fn_error *reterr;
    uint32_t looked_n;  /* rows of this portion, */
    const char *after;  /* and the name behind which the next one begins */
};

static int add_app(void *ud, const char *const *cells)
{
    struct walk *w = ud;
    struct store_op *op = w->op;

    if (++w->looked_n == PORTION && !(w->after = arena_strdup(op->arena, cells[1]))) {
        return err_set(w->reterr, FN_E_EXHAUSTED, "API1101 out of memory for a list");
    }
    return op->n == op->filter.limit || !store_sees(op, cells[1])
               ? 0
               : app_from_row(&op->apps[op->n++], op->arena, cells, w->reterr);
}

/* Where some are not seen, portions are looked through until the page is full or all was seen. */
static int list_all(struct sql *db, struct walk *w, const char *limit, struct fn_error *reterr)
{
    struct store_op *op = w->op;
    int r;

    do {
        w->looked_n = 0;
        r = db->ops->run(db,
                         "SELECT " APP_COLUMNS " FROM apps WHERE name > $1 ORDER BY name LIMIT $2",
                         (const char *[]){ w->after, op->sees ? PORTION_TEXT : limit }, 2, add_app,
                         w, NULL, reterr);
    } while (r == 0 && op->sees && w->looked_n == PORTION && op->n < op->filter.limit);
    return r;
}

static int app_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    struct walk w = { .op = op, .reterr = reterr, .after = f->after };
    const char *limit;

    op->apps = rows_page(op, sizeof(*op->apps), &limit, reterr);
    if (!op->apps) {
        return FN_E_EXHAUSTED;
    }
    return *f->name ? db->ops->run(db, "SELECT " APP_COLUMNS " FROM apps WHERE name > $1 "
                                       "AND name = $2",
                                   (const char *[]){ f->after, f->name }, 2, add_app, &w, NULL,
                                   reterr)
                    : list_all(db, &w, limit, reterr);
}

static const char *changed_app(const struct store_op *op)
{
    return op->app.id;
}

const struct store_verb store_app_add = { app_add, changed_app };
const struct store_verb store_app_get = { app_get, NULL };
const struct store_verb store_app_change = { app_change, changed_app };
const struct store_verb store_app_remove = { app_remove, changed_app };
const struct store_verb store_app_list = { app_list, NULL };
