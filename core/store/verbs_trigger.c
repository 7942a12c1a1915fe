/* What can be done with triggers. Names are unique in a function and sources in an app, also after
 * a change. */
#include <store/store_int.h>

#include <string.h>

#define BY_ID     "SELECT " TRIGGER_COLUMNS " FROM triggers WHERE id = $1"
#define BY_SOURCE "SELECT " TRIGGER_COLUMNS " FROM triggers WHERE app_id = $1 AND type = $2 "      \
                  "AND source = $3"

static int trigger_not_found(struct fn_error *reterr)
{
    return store_refuse(reterr, FN_E_NOT_FOUND, 404, "Trigger not found");
}

/* op->app for its name. */
static int with_app(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = scope_app(db, op, op->trigger.app_id, reterr);

    return r == 1 ? app_not_found(reterr) : r;
}

static int check_fn(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = row_fn(db, sql_fn_by_id, op, op->trigger.fn_id, reterr);

    if (r == 0 && strcmp(op->fn.app_id, op->trigger.app_id) == 0) {
        return 0;
    }
    r = r != 0 ? r : scope_check(db, op, op->fn.app_id, reterr);
    if (r != 0) {
        return r == 1 ? fn_not_found(reterr) : r;
    }
    return store_refuse(reterr, FN_E_INVALID, 400,
                              "Invalid Fn ID - not owned by specified app");
}

/* No other trigger may have its source. */
static int check_source(struct sql *db, const struct trigger *t, struct fn_error *reterr)
{
    const char *const args[] = { t->app_id, t->type, t->source, t->id };
    uint32_t n = 0;
    int r = sql_count(db, "SELECT 1 FROM triggers WHERE app_id = $1 AND type = $2 AND "
                          "source = $3 AND id <> $4",
                      args, 4, &n, reterr);

    return r < 0 || n == 0 ? r
                           : store_refuse(reterr, FN_E_EXISTS, 409,
                                          "Trigger with the same type and source exists on this "
                                          "app");
}

static int trigger_put(struct sql *db, const char *statement, const char *const *args, uint32_t n,
                       struct fn_error *reterr)
{
    int r = sql_change(db, statement, args, n, NULL, reterr);

    return r == FN_E_EXISTS ? store_refuse(reterr, r, 409, "Trigger already exists") : r;
}

static int trigger_add(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *args[TRIGGER_CELLS];
    int r = with_app(db, op, reterr);

    r = r < 0 ? r : check_fn(db, op, reterr);
    r = r < 0 ? r : check_source(db, &op->trigger, reterr);
    if (r < 0) {
        return r;
    }
    r = trigger_to_row(&op->trigger, op->arena, args);
    return r < 0 ? err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for a trigger")
                 : trigger_put(db, "INSERT INTO triggers (" TRIGGER_COLUMNS ") "
                                   "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                               args, TRIGGER_CELLS, reterr);
}

static int trigger_find(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = row_trigger(db, BY_ID, &op->trigger.id, 1, op, reterr);

    r = r != 0 ? r : scope_check(db, op, op->trigger.app_id, reterr);
    return r == 1 ? trigger_not_found(reterr) : r;
}

static int trigger_get(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = trigger_find(db, op, reterr);

    return r < 0 ? r : with_app(db, op, reterr);
}

static int trigger_write(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *cells[TRIGGER_CELLS];
    int r = check_fn(db, op, reterr);

    r = r < 0 ? r : check_source(db, &op->trigger, reterr);
    if (r < 0) {
        return r;
    }
    op->trigger.updated_ns = op->now_ns;
    r = trigger_to_row(&op->trigger, op->arena, cells);
    if (r < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for a trigger");
    }
    return trigger_put(db, "UPDATE triggers SET name = $1, fn_id = $2, updated_at = $3, "
                           "source = $4, annotations = $5 WHERE id = $6",
                       (const char *[]){ cells[1], cells[3], cells[5], cells[7], cells[8],
                                         cells[0] },
                       6, reterr);
}

static int trigger_change(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct trigger change = op->trigger;
    int r = trigger_find(db, op, reterr);

    if (r < 0) {
        return r;
    }
    r = trigger_merge(&op->trigger, &change);
    if (r < 0) {
        return err_set(reterr, r, "API1101 out of memory for a trigger");
    }
    if (trigger_check(&op->trigger, reterr) < 0) {
        return FN_E_INVALID;
    }
    return r == 0 ? 0 : trigger_write(db, op, reterr);
}

static int trigger_remove(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    uint32_t n;
    int r = op->sees ? trigger_find(db, op, reterr) : 0;

    r = r < 0 ? r : sql_change(db, "DELETE FROM triggers WHERE id = $1", &op->trigger.id, 1, &n,
                               reterr);
    return r < 0 || n > 0 ? r : trigger_not_found(reterr);
}

static int add_trigger(void *ud, const char *const *cells)
{
    struct row_to *to = ud;

    to->found = true;
    return trigger_from_row(&to->op->triggers[to->op->n++], to->op->arena, cells, to->reterr);
}

/* By name, and of one name by function: (name, fn_id) is unique in an app. */
static const char *trigger_statement(const struct store_filter *f)
{
#define SELECT                                                                                     \
    "SELECT " TRIGGER_COLUMNS " FROM triggers WHERE app_id = $1 AND name >= $2 AND "               \
    "(name > $2 OR fn_id > $3) "
#define ORDER "ORDER BY name, fn_id LIMIT "
    if (*f->fn_id) {
        return *f->name ? SELECT "AND fn_id = $4 AND name = $5 " ORDER "$6"
                        : SELECT "AND fn_id = $4 " ORDER "$5";
    }
    return *f->name ? SELECT "AND name = $4 " ORDER "$5" : SELECT ORDER "$4";
#undef SELECT
#undef ORDER
}

static int list_rows(struct sql *db, struct store_op *op, const char *limit,
                     struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    const char *args[6] = { f->app_id, f->after, f->after_fn };
    uint32_t n = 3;

    if (*f->fn_id) {
        args[n++] = f->fn_id;
    }
    if (*f->name) {
        args[n++] = f->name;
    }
    args[n++] = limit;
    return rows_take(db, trigger_statement(f), args, n, add_trigger, op, reterr);
}

static int trigger_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *app_id = op->filter.app_id;
    const char *limit;
    int r = scope_check(db, op, app_id, reterr);

    op->triggers = rows_page(op, sizeof(*op->triggers), &limit, reterr);
    if (!op->triggers) {
        return FN_E_EXHAUSTED;
    }
    r = r != 0 ? r : list_rows(db, op, limit, reterr);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    op->trigger.app_id = app_id;
    return with_app(db, op, reterr);
}

static int trigger_by_source(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *const args[] = { op->filter.app_id, TRIGGER_HTTP, op->filter.source };
    int r = scope_check(db, op, op->filter.app_id, reterr);

    r = r != 0 ? r : row_trigger(db, BY_SOURCE, args, 3, op, reterr);
    return r == 1 ? trigger_not_found(reterr) : r;
}

static const char *changed_trigger(const struct store_op *op)
{
    return op->trigger.id;
}

const struct store_verb store_trigger_add = { trigger_add, changed_trigger };
const struct store_verb store_trigger_get = { trigger_get, NULL };
const struct store_verb store_trigger_change = { trigger_change, changed_trigger };
const struct store_verb store_trigger_remove = { trigger_remove, changed_trigger };
const struct store_verb store_trigger_list = { trigger_list, NULL };
const struct store_verb store_trigger_by_source = { trigger_by_source, NULL };
