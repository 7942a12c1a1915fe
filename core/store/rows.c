/* Between the structs of core/model and rows of the tables. Maps are JSON texts with a newline
 * behind, or empty, and times are what JSON has: as Go Fn keeps them. */
#include <store/store_int.h>

#include <model/time_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

/* A column that may be NULL is "" then. */
static int row_text(struct arena *arena, const char *cell, const char **ret)
{
    *ret = cell && *cell ? arena_strdup(arena, cell) : "";
    return *ret ? 0 : FN_E_EXHAUSTED;
}

static int take_map(const char *cell, bool raw, struct kvs *to, struct fn_error *reterr)
{
    return cell && *cell ? kvs_from_json(to, raw, cell, strlen(cell), reterr) : 0;
}

/* Whatever else wrote it: a time that nobody can read is none. */
static int64_t time_of(const char *cell)
{
    int64_t ns = 0;

    return cell && time_parse(cell, &ns) == 0 ? ns : 0;
}

static int64_t number_of(const char *cell)
{
    return cell ? strtoll(cell, NULL, 10) : 0;
}

/* `r`: 0, or what one of the steps said; of memory nobody has told yet. */
static int row_done(int r, const char *what, const char *id, struct fn_error *reterr)
{
    struct fn_error e = *reterr;

    if (r == 0) {
        return 0;
    }
    return r == FN_E_EXHAUSTED
               ? err_set(reterr, r, "API1101 out of memory for a row of the store")
               : err_set(reterr, FN_E_INTERNAL, "API1102 %s %s in the store: %s", what,
                         id ? id : "", e.msg);
}

int app_from_row(struct app *a, struct arena *arena, const char *const *cells,
                 struct fn_error *reterr)
{
    int r;

    app_init(a, arena);
    r = row_text(arena, cells[0], &a->id) | row_text(arena, cells[1], &a->name) |
        row_text(arena, cells[4], &a->syslog_url) | row_text(arena, cells[7], &a->shape);
    r = r < 0 ? FN_E_EXHAUSTED : take_map(cells[2], false, &a->config, reterr);
    r = r < 0 ? r : take_map(cells[3], true, &a->annotations, reterr);
    a->created_ns = time_of(cells[5]);
    a->updated_ns = time_of(cells[6]);
    return row_done(r, "app", cells[0], reterr);
}

int fn_from_row(struct fn_def *f, struct arena *arena, const char *const *cells,
                struct fn_error *reterr)
{
    int r;

    fn_def_init(f, arena);
    r = row_text(arena, cells[0], &f->id) | row_text(arena, cells[1], &f->name) |
        row_text(arena, cells[2], &f->app_id) | row_text(arena, cells[3], &f->image) |
        row_text(arena, cells[11], &f->shape);
    r = r < 0 ? FN_E_EXHAUSTED : take_map(cells[7], false, &f->config, reterr);
    r = r < 0 ? r : take_map(cells[8], true, &f->annotations, reterr);
    f->mem_mb = (uint64_t)number_of(cells[4]);
    f->timeout_s = (int32_t)number_of(cells[5]);
    f->idle_timeout_s = (int32_t)number_of(cells[6]);
    f->created_ns = time_of(cells[9]);
    f->updated_ns = time_of(cells[10]);
    return row_done(r, "function", cells[0], reterr);
}

int trigger_from_row(struct trigger *t, struct arena *arena, const char *const *cells,
                     struct fn_error *reterr)
{
    int r;

    trigger_init(t, arena);
    r = row_text(arena, cells[0], &t->id) | row_text(arena, cells[1], &t->name) |
        row_text(arena, cells[2], &t->app_id) | row_text(arena, cells[3], &t->fn_id) |
        row_text(arena, cells[6], &t->type) | row_text(arena, cells[7], &t->source);
    r = r < 0 ? FN_E_EXHAUSTED : take_map(cells[8], true, &t->annotations, reterr);
    t->created_ns = time_of(cells[4]);
    t->updated_ns = time_of(cells[5]);
    return row_done(r, "trigger", cells[0], reterr);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int give_map(const struct kvs *k, bool raw, struct arena *arena, const char **ret)
{
    struct buf out = BUF_INIT(0);
    int r = 0;

    *ret = "";
    if (k->n > 0) {
        r = kvs_to_json(k, raw, &out);
        r = r < 0 ? r : buf_add(&out, "\n", 1);
        *ret = r < 0 ? NULL : arena_strndup(arena, out.data, out.len);
    }
    buf_finish(&out);
    return *ret ? 0 : FN_E_EXHAUSTED;
}

static int give_time(int64_t ns, struct arena *arena, const char **ret)
{
    char text[TIME_TEXT_MAX];

    time_print_ms(ns, text);
    *ret = arena_strdup(arena, text);
    return *ret ? 0 : FN_E_EXHAUSTED;
}

static int give_number(int64_t n, struct arena *arena, const char **ret)
{
    *ret = arena_printf(arena, "%lld", (long long)n);
    return *ret ? 0 : FN_E_EXHAUSTED;
}

int app_to_row(const struct app *a, struct arena *arena, const char **ret)
{
    ret[0] = a->id;
    ret[1] = a->name;
    ret[4] = a->syslog_url && *a->syslog_url ? a->syslog_url : NULL;
    ret[7] = a->shape;
    return give_map(&a->config, false, arena, &ret[2]) |
           give_map(&a->annotations, true, arena, &ret[3]) |
           give_time(a->created_ns, arena, &ret[5]) | give_time(a->updated_ns, arena, &ret[6]);
}

int fn_to_row(const struct fn_def *f, struct arena *arena, const char **ret)
{
    ret[0] = f->id;
    ret[1] = f->name;
    ret[2] = f->app_id;
    ret[3] = f->image;
    ret[11] = f->shape;
    return give_number((int64_t)f->mem_mb, arena, &ret[4]) |
           give_number(f->timeout_s, arena, &ret[5]) |
           give_number(f->idle_timeout_s, arena, &ret[6]) |
           give_map(&f->config, false, arena, &ret[7]) |
           give_map(&f->annotations, true, arena, &ret[8]) |
           give_time(f->created_ns, arena, &ret[9]) | give_time(f->updated_ns, arena, &ret[10]);
}

int trigger_to_row(const struct trigger *t, struct arena *arena, const char **ret)
{
    ret[0] = t->id;
    ret[1] = t->name;
    ret[2] = t->app_id;
    ret[3] = t->fn_id;
    ret[6] = t->type;
    ret[7] = t->source;
    return give_time(t->created_ns, arena, &ret[4]) | give_time(t->updated_ns, arena, &ret[5]) |
           give_map(&t->annotations, true, arena, &ret[8]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

const char sql_app_by_id[] = "SELECT " APP_COLUMNS " FROM apps WHERE id = $1";
const char sql_fn_by_id[] = "SELECT " FN_COLUMNS " FROM fns WHERE id = $1";

static int take_app(void *ud, const char *const *cells)
{
    struct row_to *o = ud;

    o->found = true;
    return app_from_row(&o->op->app, o->op->arena, cells, o->reterr);
}

static int take_fn(void *ud, const char *const *cells)
{
    struct row_to *o = ud;

    o->found = true;
    return fn_from_row(&o->op->fn, o->op->arena, cells, o->reterr);
}

static int take_trigger(void *ud, const char *const *cells)
{
    struct row_to *o = ud;

    o->found = true;
    return trigger_from_row(&o->op->trigger, o->op->arena, cells, o->reterr);
}

int rows_take(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
              sql_row *row, struct store_op *op, struct fn_error *reterr)
{
    struct row_to to = { op, reterr, false };
    int r = db->ops->run(db, statement, args, n_args, row, &to, NULL, reterr);

    return r < 0 ? r : !to.found;
}

void *rows_page(struct store_op *op, size_t size, const char **ret_limit, struct fn_error *reterr)
{
    void *page = arena_alloc(op->arena, op->filter.limit * size);

    *ret_limit = arena_printf(op->arena, "%u", op->filter.limit);
    if (!page || !*ret_limit) {
        err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for a list");
        return NULL;
    }
    return page;
}

int row_app(struct sql *db, const char *statement, struct store_op *op, const char *id,
            struct fn_error *reterr)
{
    return rows_take(db, statement, &id, 1, take_app, op, reterr);
}

int row_fn(struct sql *db, const char *statement, struct store_op *op, const char *id,
           struct fn_error *reterr)
{
    return rows_take(db, statement, &id, 1, take_fn, op, reterr);
}

int row_trigger(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
                struct store_op *op, struct fn_error *reterr)
{
    return rows_take(db, statement, args, n_args, take_trigger, op, reterr);
}

/* ---- refusals -------------------------------------------------------------------------------- */

int store_refuse(struct fn_error *reterr, int code, int http_status, const char *text)
{
    return err_set_http(reterr, code, http_status, FN_BLAME_USER, "%s", text);
}

int app_not_found(struct fn_error *reterr)
{
    return store_refuse(reterr, FN_E_NOT_FOUND, 404, "App not found");
}

int fn_not_found(struct fn_error *reterr)
{
    return store_refuse(reterr, FN_E_NOT_FOUND, 404, "Fn not found");
}
