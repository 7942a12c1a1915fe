/* What can be done with apps, functions and triggers, and what an operation sees of them: all apps,
 * or those that its patterns name, and what is in them. Anything else is answered as what is not
 * there.
 *
 * Names of triggers are unique in a function and sources in an app, also after a change. */
#include <store/store_int.h>

#include <fnmatch.h>
#include <string.h>

/* Rows that are read at a time for somebody who does not see all of them. */
#define PORTION      1000u
#define PORTION_TEXT "1000"

#define APP_COLUMNS                                                                                \
    "id, name, config, annotations, syslog_url, created_at, updated_at, shape"
#define FN_COLUMNS                                                                                 \
    "id, name, app_id, image, memory, timeout, idle_timeout, config, annotations, created_at, "    \
    "updated_at, shape"
#define TRIGGER_COLUMNS                                                                            \
    "id, name, app_id, fn_id, created_at, updated_at, type, source, annotations"

/* ---- kinds ----------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct app, field)
static const struct column app_columns[] = {
    { COLUMN_TEXT, AT(id), false },       { COLUMN_TEXT, AT(name), false },
    { COLUMN_CONFIG, AT(config), true },  { COLUMN_ANNOTATIONS, AT(annotations), true },
    { COLUMN_NULL_TEXT, AT(syslog_url), true },
    { COLUMN_TIME, AT(created_ns), false }, { COLUMN_TIME, AT(updated_ns), true },
    { COLUMN_TEXT, AT(shape), false },
};
#undef AT
#define AT(field) offsetof(struct fn_def, field)
static const struct column fn_columns[] = {
    { COLUMN_TEXT, AT(id), false },         { COLUMN_TEXT, AT(name), false },
    { COLUMN_TEXT, AT(app_id), false },     { COLUMN_TEXT, AT(image), true },
    { COLUMN_UINT64, AT(mem_mb), true },    { COLUMN_INT32, AT(timeout_s), true },
    { COLUMN_INT32, AT(idle_timeout_s), true },
    { COLUMN_CONFIG, AT(config), true },    { COLUMN_ANNOTATIONS, AT(annotations), true },
    { COLUMN_TIME, AT(created_ns), false }, { COLUMN_TIME, AT(updated_ns), true },
    { COLUMN_TEXT, AT(shape), false },
};
#undef AT
#define AT(field) offsetof(struct trigger, field)
static const struct column trigger_columns[] = {
    { COLUMN_TEXT, AT(id), false },         { COLUMN_TEXT, AT(name), true },
    { COLUMN_TEXT, AT(app_id), false },     { COLUMN_TEXT, AT(fn_id), true },
    { COLUMN_TIME, AT(created_ns), false }, { COLUMN_TIME, AT(updated_ns), true },
    { COLUMN_TEXT, AT(type), false },       { COLUMN_TEXT, AT(source), true },
    { COLUMN_ANNOTATIONS, AT(annotations), true },
};
#undef AT

#define VALUE(member, columns_)                                                                    \
    .at = offsetof(struct store_op, member), .size = sizeof(((struct store_op *)0)->member),       \
    .columns = columns_, .n_columns = sizeof(columns_) / sizeof(columns_[0])
const struct store_kind store_kinds[STORE_KINDS_N] = {
    [STORE_APP] = { "app", "an app", VALUE(app, app_columns),
                    .insert = "INSERT INTO apps (" APP_COLUMNS ") "
                              "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                    .update = "UPDATE apps SET config = $1, annotations = $2, syslog_url = $3, "
                              "updated_at = $4 WHERE id = $5",
                    .by_id = "SELECT " APP_COLUMNS " FROM apps WHERE id = $1",
                    .removes = { "DELETE FROM apps WHERE id = $1",
                                 "DELETE FROM fns WHERE app_id = $1",
                                 "DELETE FROM triggers WHERE app_id = $1" },
                    .exists = "App already exists",
                    .not_found = "App not found" },
    [STORE_FN] = { "function", "a function", VALUE(fn, fn_columns),
                   .app_id = offsetof(struct fn_def, app_id),
                   .insert = "INSERT INTO fns (" FN_COLUMNS ") "
                             "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                   .update = "UPDATE fns SET image = $1, memory = $2, timeout = $3, "
                             "idle_timeout = $4, config = $5, annotations = $6, updated_at = $7 "
                             "WHERE id = $8",
                   .by_id = "SELECT " FN_COLUMNS " FROM fns WHERE id = $1",
                   .removes = { "DELETE FROM fns WHERE id = $1",
                                "DELETE FROM triggers WHERE fn_id = $1" },
                   .exists = "Fn with specified name already exists",
                   .not_found = "Fn not found" },
    [STORE_TRIGGER] = { "trigger", "a trigger", VALUE(trigger, trigger_columns),
                        .app_id = offsetof(struct trigger, app_id),
                        .insert = "INSERT INTO triggers (" TRIGGER_COLUMNS ") "
                                  "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                        .update = "UPDATE triggers SET name = $1, fn_id = $2, updated_at = $3, "
                                  "source = $4, annotations = $5 WHERE id = $6",
                        .by_id = "SELECT " TRIGGER_COLUMNS " FROM triggers WHERE id = $1",
                        .removes = { "DELETE FROM triggers WHERE id = $1" },
                        .exists = "Trigger already exists",
                        .not_found = "Trigger not found" },
};

static const struct store_kind *verbs_kind(const struct store_op *op)
{
    return &store_kinds[op->verb->kind];
}

static void *verbs_value(const struct store_kind *k, struct store_op *op)
{
    return (char *)op + k->at;
}

const char **store_id(struct store_op *op)
{
    return verbs_value(verbs_kind(op), op);
}

const char **store_name(struct store_op *op)
{
    return store_id(op) + 1;
}

void *store_item(const struct store_op *op, uint32_t i)
{
    return (char *)op->items + i * verbs_kind(op)->size;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static int verbs_refuse(struct fn_error *reterr, int code, int http_status, const char *text)
{
    return err_set_http(reterr, code, http_status, FN_BLAME_USER, "%s", text);
}

/* r: of something that is asked for; 1: it is not there, or not for this operation. */
static int found(const struct store_kind *k, int r, struct fn_error *reterr)
{
    return r == 1 ? verbs_refuse(reterr, FN_E_NOT_FOUND, 404, k->not_found) : r;
}

static int verbs_poor(const char *what, struct fn_error *reterr)
{
    return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory for %s", what);
}

/* ---- what is there, and is seen -------------------------------------------------------------- */

bool store_sees(const struct store_op *op, const char *app_name)
{
    bool seen = !op->sees;

    for (const char *const *p = op->sees; p && *p && !seen; p++) {
        seen = fnmatch(*p, app_name, 0) == 0;
    }
    return seen;
}

/* Into the operation's value. 1: it is not there. */
static int read_one(const struct store_kind *k, struct sql *db, const char *statement,
                    const char *const *args, uint32_t n_args, struct store_op *op,
                    struct fn_error *reterr)
{
    uint32_t n;

    return rows_read(k, db, statement, args, n_args, op, verbs_value(k, op), 0, &n, reterr);
}

/* Into op->app. 1: it is not there, or not for this operation. */
static int scope_app(struct sql *db, struct store_op *op, const char *id, struct fn_error *reterr)
{
    const struct store_kind *k = &store_kinds[STORE_APP];
    int r = read_one(k, db, k->by_id, &id, 1, op, reterr);

    return r == 0 && !store_sees(op, op->app.name) ? 1 : r;
}

/* The same about the app of what is asked for: it is only read where some are not seen. */
static int scope_check(struct sql *db, struct store_op *op, const char *id,
                       struct fn_error *reterr)
{
    return op->sees ? scope_app(db, op, id, reterr) : 0;
}

static int with_app(struct sql *db, struct store_op *op, const char *id, struct fn_error *reterr)
{
    return found(&store_kinds[STORE_APP], scope_app(db, op, id, reterr), reterr);
}

/* What the operation is about. */
static int verb_get(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_kind *k = verbs_kind(op);
    const char *id = *store_id(op);
    int r;

    if (op->verb->kind == STORE_APP) {
        return with_app(db, op, id, reterr);
    }
    r = read_one(k, db, k->by_id, &id, 1, op, reterr);
    if (r == 0) {
        r = scope_check(db, op, *(const char **)((char *)verbs_value(k, op) + k->app_id), reterr);
    }
    return found(k, r, reterr);
}

/* With its app, for the name of that. */
static int trigger_get(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = verb_get(db, op, reterr);

    return r < 0 ? r : with_app(db, op, op->trigger.app_id, reterr);
}

static int trigger_by_source(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const char *const args[] = { op->filter.app_id, TRIGGER_HTTP, op->filter.source };
    int r = scope_check(db, op, op->filter.app_id, reterr);

    r = r != 0 ? r
               : read_one(verbs_kind(op), db, "SELECT " TRIGGER_COLUMNS " FROM triggers "
                                           "WHERE app_id = $1 AND type = $2 AND source = $3",
                          args, 3, op, reterr);
    return found(verbs_kind(op), r, reterr);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A new row, or of one that is there what a change may set, with the time. */
static int write_row(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_kind *k = verbs_kind(op);
    bool all = op->verb->act == STORE_ADD;
    const char *cells[SQL_ARGS_MAX], *args[SQL_ARGS_MAX];
    uint32_t n = 0;
    int r;

    for (uint32_t i = 0; i < k->n_columns && !all; i++) {
        if (k->columns[i].type == COLUMN_TIME && k->columns[i].changes) {
            *(int64_t *)((char *)verbs_value(k, op) + k->columns[i].at) = op->now_ns;
        }
    }
    if (row_write(k, verbs_value(k, op), op->arena, cells) < 0) {
        return verbs_poor(k->one, reterr);
    }
    for (uint32_t i = 0; i < k->n_columns; i++) {
        if (all || k->columns[i].changes) {
            args[n++] = cells[i];
        }
    }
    if (!all) {
        args[n++] = cells[0];
    }
    r = sql_change(db, all ? k->insert : k->update, args, n, NULL, reterr);
    return r == FN_E_EXISTS ? verbs_refuse(reterr, r, 409, k->exists) : r;
}

/* It has the shape of its app. */
static int fn_add(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = with_app(db, op, op->fn.app_id, reterr);

    op->fn.shape = op->app.shape;
    return r < 0 ? r : write_row(db, op, reterr);
}

static int check_fn(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_kind *k = &store_kinds[STORE_FN];
    int r = read_one(k, db, k->by_id, &op->trigger.fn_id, 1, op, reterr);

    if (r == 0 && strcmp(op->fn.app_id, op->trigger.app_id) == 0) {
        return 0;
    }
    r = found(k, r != 0 ? r : scope_check(db, op, op->fn.app_id, reterr), reterr);
    return r < 0 ? r
                 : verbs_refuse(reterr, FN_E_INVALID, 400,
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
                           : verbs_refuse(reterr, FN_E_EXISTS, 409,
                                          "Trigger with the same type and source exists on this "
                                          "app");
}

static int put_trigger(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = check_fn(db, op, reterr);

    r = r < 0 ? r : check_source(db, &op->trigger, reterr);
    return r < 0 ? r : write_row(db, op, reterr);
}

static int trigger_add(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    int r = with_app(db, op, op->trigger.app_id, reterr);

    return r < 0 ? r : put_trigger(db, op, reterr);
}

/* 1: something is new. */
static int merge(struct store_op *op, const struct store_op *asked)
{
    switch (op->verb->kind) {
    case STORE_APP: return app_merge(&op->app, &asked->app);
    case STORE_FN: return fn_def_merge(&op->fn, &asked->fn);
    default: return trigger_merge(&op->trigger, &asked->trigger);
    }
}

static int check_kept(const struct store_op *op, struct fn_error *reterr)
{
    switch (op->verb->kind) {
    case STORE_APP: return app_check_kept(&op->app, reterr);
    case STORE_FN: return fn_def_check_kept(&op->fn, reterr);
    default: return trigger_check(&op->trigger, reterr);
    }
}

static int verb_change(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const enum store_kind_word kind = op->verb->kind;
    const struct store_op asked = *op;
    int r = verb_get(db, op, reterr);

    if (r < 0) {
        return r;
    }
    if (kind == STORE_APP && *asked.app.name && strcmp(asked.app.name, op->app.name) != 0) {
        return verbs_refuse(reterr, FN_E_INVALID, 409, "Could not update - name is immutable");
    }
    r = merge(op, &asked);
    if (r < 0 || check_kept(op, reterr) < 0) {
        return r < 0 ? verbs_poor(verbs_kind(op)->one, reterr) : FN_E_INVALID;
    }
    if (r == 0) {
        return 0;
    }
    return kind == STORE_TRIGGER ? put_trigger(db, op, reterr) : write_row(db, op, reterr);
}

/* What is in it goes with it. */
static int verb_remove(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_kind *k = verbs_kind(op);
    const char *const id[] = { *store_id(op) };
    uint32_t n = 0;
    int r = op->sees ? verb_get(db, op, reterr) : 0;

    r = r < 0 ? r : sql_change(db, k->removes[0], id, 1, &n, reterr);
    r = found(k, r == 0 && n == 0 ? 1 : r, reterr);
    for (int i = 1; i < 3 && k->removes[i] && r == 0; i++) {
        r = sql_change(db, k->removes[i], id, 1, NULL, reterr);
    }
    return r;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Room for a page, and the text of its limit. */
static int make_page(struct store_op *op, const char **ret_limit, struct fn_error *reterr)
{
    op->items = arena_alloc(op->arena, op->filter.limit * verbs_kind(op)->size);
    *ret_limit = arena_printf(op->arena, "%u", op->filter.limit);
    return op->items && *ret_limit ? 0 : verbs_poor("a list", reterr);
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
        return verbs_poor("a list", w->reterr);
    }
    return op->n == op->filter.limit || !store_sees(op, cells[1])
               ? 0
               : row_read(verbs_kind(op), store_item(op, op->n++), op->arena, cells, w->reterr);
}

/* Where some are not seen, portions are looked through until the page is full or all was seen. */
static int app_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    struct walk w = { .op = op, .reterr = reterr, .after = f->after };
    const char *limit;
    int r = make_page(op, &limit, reterr);

    if (r < 0) {
        return r;
    }
    do {
        const char *last = *f->name ? f->name : op->sees ? PORTION_TEXT : limit;

        w.looked_n = 0;
        r = db->ops->run(db,
                         *f->name ? "SELECT " APP_COLUMNS " FROM apps WHERE name > $1 AND name = $2"
                                  : "SELECT " APP_COLUMNS " FROM apps WHERE name > $1 "
                                    "ORDER BY name LIMIT $2",
                         (const char *[]){ w.after, last }, 2, add_app, &w, NULL, reterr);
    } while (r == 0 && op->sees && w.looked_n == PORTION && op->n < f->limit);
    return r;
}

/* 1: there is none. */
static int read_list(struct sql *db, const char *statement, const char *const *args,
                     uint32_t n_args, struct store_op *op, struct fn_error *reterr)
{
    const struct store_kind *k = verbs_kind(op);

    return rows_read(k, db, statement, args, n_args, op, op->items, k->size, &op->n, reterr);
}

static int fn_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    const char *limit;
    int r = make_page(op, &limit, reterr);

    r = r < 0 ? r : scope_check(db, op, f->app_id, reterr);
    if (r == 0) {
        r = read_list(db,
                      *f->name ? "SELECT " FN_COLUMNS " FROM fns WHERE app_id = $1 AND name > $2 "
                                 "AND name = $3"
                               : "SELECT " FN_COLUMNS " FROM fns WHERE app_id = $1 AND name > $2 "
                                 "ORDER BY name LIMIT $3",
                      (const char *[]){ f->app_id, f->after, *f->name ? f->name : limit }, 3, op,
                      reterr);
    }
    return r < 0 ? r : 0;
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

static int trigger_list(struct sql *db, struct store_op *op, struct fn_error *reterr)
{
    const struct store_filter *f = &op->filter;
    const char *args[6] = { f->app_id, f->after, f->after_fn };
    const char *limit;
    uint32_t n = 3;
    int r = make_page(op, &limit, reterr);

    r = r < 0 ? r : scope_check(db, op, f->app_id, reterr);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    if (*f->fn_id) {
        args[n++] = f->fn_id;
    }
    if (*f->name) {
        args[n++] = f->name;
    }
    args[n++] = limit;
    r = read_list(db, trigger_statement(f), args, n, op, reterr);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    return with_app(db, op, f->app_id, reterr);
}

const struct store_verb store_app_add = { write_row, STORE_APP, STORE_ADD };
const struct store_verb store_app_get = { verb_get, STORE_APP, STORE_READ };
const struct store_verb store_app_change = { verb_change, STORE_APP, STORE_CHANGE };
const struct store_verb store_app_remove = { verb_remove, STORE_APP, STORE_REMOVE };
const struct store_verb store_app_list = { app_list, STORE_APP, STORE_READ };
const struct store_verb store_fn_add = { fn_add, STORE_FN, STORE_ADD };
const struct store_verb store_fn_get = { verb_get, STORE_FN, STORE_READ };
const struct store_verb store_fn_change = { verb_change, STORE_FN, STORE_CHANGE };
const struct store_verb store_fn_remove = { verb_remove, STORE_FN, STORE_REMOVE };
const struct store_verb store_fn_list = { fn_list, STORE_FN, STORE_READ };
const struct store_verb store_trigger_add = { trigger_add, STORE_TRIGGER, STORE_ADD };
const struct store_verb store_trigger_get = { trigger_get, STORE_TRIGGER, STORE_READ };
const struct store_verb store_trigger_change = { verb_change, STORE_TRIGGER, STORE_CHANGE };
const struct store_verb store_trigger_remove = { verb_remove, STORE_TRIGGER, STORE_REMOVE };
const struct store_verb store_trigger_list = { trigger_list, STORE_TRIGGER, STORE_READ };
const struct store_verb store_trigger_by_source = { trigger_by_source, STORE_TRIGGER, STORE_READ };
