/* What an operation sees: all apps, or those that its patterns name, and what is in them. Anything
 * else is answered as what is not there. */
#include <store/store_int.h>

#include <fnmatch.h>

bool store_sees(const struct store_op *op, const char *app_name)
{
    bool seen = !op->sees;

    for (const char *const *p = op->sees; p && *p && !seen; p++) {
        seen = fnmatch(*p, app_name, 0) == 0;
    }
    return seen;
}

int scope_app(struct sql *db, struct store_op *op, const char *id, struct fn_error *reterr)
{
    int r = row_app(db, sql_app_by_id, op, id, reterr);

    return r == 0 && !store_sees(op, op->app.name) ? 1 : r;
}

int scope_check(struct sql *db, struct store_op *op, const char *id, struct fn_error *reterr)
{
    return op->sees ? scope_app(db, op, id, reterr) : 0;
}
