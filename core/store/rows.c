/* Between the structs of core/model and rows of the tables. Maps are JSON texts with a newline
 * behind, or empty, and times are what JSON has: as Go Fn keeps them. */
#include <store/store_int.h>

#include <model/time_text.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

/* A text that is SQL's NULL is "" then. Whatever else wrote it: a time that nobody can read is
 * none. */
static int read_cell(const struct column *c, void *to, struct arena *arena, const char *cell,
                     struct fn_error *reterr)
{
    const char *text = cell ? cell : "";

    switch (c->type) {
    case COLUMN_TEXT:
    case COLUMN_NULL_TEXT:
        text = *text ? arena_strdup(arena, text) : "";
        *(const char **)to = text;
        return text ? 0 : FN_E_EXHAUSTED;
    case COLUMN_CONFIG:
    case COLUMN_ANNOTATIONS:
        kvs_init(to, arena);
        return *text ? kvs_from_json(to, c->type == COLUMN_ANNOTATIONS, text, strlen(text), reterr)
                     : 0;
    case COLUMN_TIME:
        if (time_parse(text, to) < 0) {
            *(int64_t *)to = 0;
        }
        return 0;
    case COLUMN_UINT64: *(uint64_t *)to = (uint64_t)strtoll(text, NULL, 10); return 0;
    case COLUMN_INT32: *(int32_t *)to = (int32_t)strtoll(text, NULL, 10); return 0;
    }
    return FN_E_INTERNAL;
}

int row_read(const struct store_kind *k, void *ret, struct arena *arena, const char *const *cells,
             struct fn_error *reterr)
{
    struct fn_error e = ERR_INIT;
    int r = 0;

    memset(ret, 0, k->size);
    for (uint32_t i = 0; i < k->n_columns && r == 0; i++) {
        r = read_cell(&k->columns[i], (char *)ret + k->columns[i].at, arena, cells[i], &e);
    }
    if (r == FN_E_EXHAUSTED) {
        return err_set(reterr, r, "API1101 out of memory for a row of the store");
    }
    return r == 0 ? 0
                  : err_set(reterr, FN_E_INTERNAL, "API1102 %s %s in the store: %s", k->name,
                            cells[0] ? cells[0] : "", e.msg);
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *give_map(const struct kvs *k, bool raw, struct arena *arena)
{
    struct buf out = BUF_INIT(0);
    const char *ret = "";

    if (k->n > 0) {
        ret = kvs_to_json(k, raw, &out) < 0 || buf_add(&out, "\n", 1) < 0
                  ? NULL
                  : arena_strndup(arena, out.data, out.len);
    }
    buf_finish(&out);
    return ret;
}

static int write_cell(const struct column *c, const void *from, struct arena *arena,
                      const char **ret)
{
    char time[TIME_TEXT_MAX];

    switch (c->type) {
    case COLUMN_TEXT: *ret = *(const char *const *)from; return 0;
    case COLUMN_NULL_TEXT:
        *ret = *(const char *const *)from;
        *ret = *ret && **ret ? *ret : NULL;
        return 0;
    case COLUMN_CONFIG:
    case COLUMN_ANNOTATIONS: *ret = give_map(from, c->type == COLUMN_ANNOTATIONS, arena); break;
    case COLUMN_TIME:
        time_print_ms(*(const int64_t *)from, time);
        *ret = arena_strdup(arena, time);
        break;
    case COLUMN_UINT64:
        *ret = arena_printf(arena, "%lld", (long long)*(const uint64_t *)from);
        break;
    case COLUMN_INT32: *ret = arena_printf(arena, "%d", *(const int32_t *)from); break;
    }
    return *ret ? 0 : FN_E_EXHAUSTED;
}

int row_write(const struct store_kind *k, const void *value, struct arena *arena, const char **ret)
{
    int r = 0;

    for (uint32_t i = 0; i < k->n_columns && r == 0; i++) {
        r = write_cell(&k->columns[i], (const char *)value + k->columns[i].at, arena, &ret[i]);
    }
    return r;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct rows_to {
    const struct store_kind *kind;
    struct arena *arena;
    char *to;
    size_t step;
    uint32_t n;
    struct fn_error *reterr;
};

static int take_row(void *ud, const char *const *cells)
{
    struct rows_to *o = ud;

    return row_read(o->kind, o->to + o->n++ * o->step, o->arena, cells, o->reterr);
}

int rows_read(const struct store_kind *k, struct sql *db, const char *statement,
              const char *const *args, uint32_t n_args, struct store_op *op, void *to, size_t step,
              uint32_t *ret_n, struct fn_error *reterr)
{
    struct rows_to o = { k, op->arena, to, step, 0, reterr };
    int r = db->ops->run(db, statement, args, n_args, take_row, &o, NULL, reterr);

    *ret_n = o.n;
    return r < 0 ? r : o.n == 0;
}
