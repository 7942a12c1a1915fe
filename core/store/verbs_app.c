/* What can be done with apps. */
#include <store/store_int.h>

#include <string.h>

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
    int r = row_app(db, sql_app_by_id, op, op->app.id, reterr);

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
    if (app_check(&op->app, reterr) < 0) {
        return FN_E_INVALID;
    }
    return r == 0 ? 0 : app_write(db, op, reterr);
}

/* Its functions and triggers go with it. */
static int app_remove(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *const id[] = { op->app.id };
    uint32_t n;
    int r = sql_change(db, "DELETE FROM apps WHERE id = $1", id, 1, &n, reterr);

    if (r == 0 && n == 0) {
        return app_not_found(reterr);
    }
    r = r < 0 ? r : sql_change(db, "DELETE FROM fns WHERE app_id = $1", id, 1, NULL, reterr);
    return r < 0 ? r
                 : sql_change(db, "DELETE FROM triggers WHERE app_id = $1", id, 1, NULL, reterr);
}

static int add_app(void *ud, const char *const *cells)
{
    struct row_to *to = ud;

    to->found = true;
    return app_from_row(&to->op->apps[to->op->n++], to->op->arena, cells, to->reterr);
}

static int app_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    const char *limit;
    int r;

    op->apps = rows_page(op, sizeof(*op->apps), &limit, reterr);
    if (!op->apps) {
        return FN_E_EXHAUSTED;
    }
    if (*f->name) {
        r = rows_take(db, "SELECT " APP_COLUMNS " FROM apps WHERE name > $1 AND name = $2",
                      (const char *[]){ f->after, f->name }, 2, add_app, op, reterr);
    } else {
        r = rows_take(db, "SELECT " APP_COLUMNS " FROM apps WHERE name > $1 ORDER BY name LIMIT $2",
                      (const char *[]){ f->after, limit }, 2, add_app, op, reterr);
    }
    return r < 0 ? r : 0;
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
