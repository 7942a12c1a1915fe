/* What can be done with functions. */
#include <store/store_int.h>

#include <string.h>

/* It has the shape of its app. */
static int fn_add(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *args[FN_CELLS];
    int r = scope_app(db, op, op->fn.app_id, reterr);

    if (r != 0) {
        return r == 1 ? app_not_found(reterr) : r;
    }
    op->fn.shape = op->app.shape;
    r = fn_to_row(&op->fn, op->arena, args);
    r = r < 0 ? err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for a function")
              : sql_change(db, "INSERT INTO fns (" FN_COLUMNS ") "
                               "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                           args, FN_CELLS, NULL, reterr);
    return r == FN_E_EXISTS
               ? store_refuse(reterr, r, 409, "Fn with specified name already exists")
               : r;
}

static int fn_get(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = row_fn(db, sql_fn_by_id, op, op->fn.id, reterr);

    r = r != 0 ? r : scope_check(db, op, op->fn.app_id, reterr);
    return r == 1 ? fn_not_found(reterr) : r;
}

static int fn_write(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *cells[FN_CELLS];
    int r;

    op->fn.updated_ns = op->now_ns;
    r = fn_to_row(&op->fn, op->arena, cells);
    if (r < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for a function");
    }
    return sql_change(db, "UPDATE fns SET image = $1, memory = $2, timeout = $3, "
                          "idle_timeout = $4, config = $5, annotations = $6, updated_at = $7 "
                          "WHERE id = $8",
                      (const char *[]){ cells[3], cells[4], cells[5], cells[6], cells[7], cells[8],
                                        cells[10], cells[0] },
                      8, NULL, reterr);
}

static int fn_change(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct fn_def change = op->fn;
    int r = fn_get(db, op, reterr);

    if (r < 0) {
        return r;
    }
    r = fn_def_merge(&op->fn, &change);
    if (r < 0) {
        return err_set(reterr, r, "API1101 out of memory for a function");
    }
    if (fn_def_check_kept(&op->fn, reterr) < 0) {
        return FN_E_INVALID;
    }
    return r == 0 ? 0 : fn_write(db, op, reterr);
}

/* Its triggers go with it. */
static int fn_remove(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *const id[] = { op->fn.id };
    uint32_t n;
    int r = op->sees ? fn_get(db, op, reterr) : 0;

    r = r < 0 ? r : sql_change(db, "DELETE FROM fns WHERE id = $1", id, 1, &n, reterr);
    if (r == 0 && n == 0) {
        return fn_not_found(reterr);
    }
    return r < 0 ? r : sql_change(db, "DELETE FROM triggers WHERE fn_id = $1", id, 1, NULL, reterr);
}

static int add_fn(void *ud, const char *const *cells)
{
    struct row_to *to = ud;

    to->found = true;
    return fn_from_row(&to->op->fns[to->op->n++], to->op->arena, cells, to->reterr);
}

static int fn_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    const char *limit;
    int r;

    op->fns = rows_page(op, sizeof(*op->fns), &limit, reterr);
    if (!op->fns) {
        return FN_E_EXHAUSTED;
    }
    r = scope_check(db, op, f->app_id, reterr);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    if (*f->name) {
        r = rows_take(db, "SELECT " FN_COLUMNS " FROM fns WHERE app_id = $1 AND name > $2 "
                          "AND name = $3",
                      (const char *[]){ f->app_id, f->after, f->name }, 3, add_fn, op, reterr);
    } else {
        r = rows_take(db, "SELECT " FN_COLUMNS " FROM fns WHERE app_id = $1 AND name > $2 "
                          "ORDER BY name LIMIT $3",
                      (const char *[]){ f->app_id, f->after, limit }, 3, add_fn, op, reterr);
    }
    return r < 0 ? r : 0;
}

static const char *changed_fn(const struct store_op *op)
{
    return op->fn.id;
}

const struct store_verb store_fn_add = { fn_add, changed_fn };
const struct store_verb store_fn_get = { fn_get, NULL };
const struct store_verb store_fn_change = { fn_change, changed_fn };
const struct store_verb store_fn_remove = { fn_remove, changed_fn };
const struct store_verb store_fn_list = { fn_list, NULL };
