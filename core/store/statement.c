/* Statements that give no rows, or that only count them. */
#include <store/store_int.h>

int sql_do(struct sql *db, const char *statement, struct fn_error *reterr)
{
    return db->ops->run(db, statement, NULL, 0, NULL, NULL, NULL, reterr);
}

static int count_row(void *ud, const char *const *cells)
{
    (void)cells;
    ++*(uint32_t *)ud;
    return 0;
}

int sql_count(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
              uint32_t *ret, struct fn_error *reterr)
{
    *ret = 0;
    return db->ops->run(db, statement, args, n_args, count_row, ret, NULL, reterr);
}

int sql_change(struct sql *db, const char *statement, const char *const *args, uint32_t n_args,
               uint32_t *ret_changed, struct fn_error *reterr)
{
    return db->ops->run(db, statement, args, n_args, NULL, NULL, ret_changed, reterr);
}
