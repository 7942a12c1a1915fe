/* What the store takes from `store:`. */
#include <store/store.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct store_options, field)
static const struct fn_opt rows[] = {
    { .key = "url",
      .doc = "Where apps, functions and triggers are kept: sqlite3://<path of a file>, which is "
             "made when it is missing, or postgres://<user>:<password>@<host>:<port>/<database>, "
             "as libpq takes it, for several API nodes with one database. When absent: node `api` "
             "and `fnd run` without a file use data/fn.db in the working directory, as Go Fn; node "
             "`full` of a file has no API.",
      .type = FN_OPT_STR,
      .offset = AT(url),
      .min = 1,
      .max = 1024,
      .flags = FN_OPT_MAY_BE_ABSENT | FN_OPT_MAY_BE_SECRET },
    { .key = NULL },
};

const struct opt_table store_opt_table = { rows, sizeof(struct store_options) };
