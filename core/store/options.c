/* What the store takes from `store:`. */
#include <store/store.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct store_options, field)
static const struct fn_opt rows[] = {
    OPT_ABSENT("url", STR, AT(url), 1, 1024,
               "Where apps, functions and triggers are kept: sqlite3://<path of a file>, which is "
               "made when it is missing. When absent: node `api` uses data/fn.db in its working "
               "directory, as Go Fn; node `full` has no API."),
    { .key = NULL },
};

const struct opt_table store_opt_table = { rows, sizeof(struct store_options) };
