/* What the catalogue takes from `lb:`. */
#include <lb/catalog.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct catalog_options, field)
static const struct fn_opt rows[] = {
    LIVE_ABSENT("api_url", STR, AT(api_url), 1, 1024,
                "API node that stores apps, functions and triggers, as http://host:port. An app "
                "under `apps:` takes precedence over one of the API node. When absent: only "
                "`apps:` counts."),
    LIVE("api_timeout", DURATION, AT(api_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for one lookup at the API node, with its retries; then an earlier value is used, "
         "or the call is answered 503 (LB306)."),
    LIVE("cache_ttl", DURATION, AT(ttl_ns), "5s", 0, H,
         "Time for which the answer to a lookup is cached, and so the delay after which a "
         "changed function takes effect. In the last fifth of it the answer is refreshed in the "
         "background."),
    LIVE("cache_stale", DURATION, AT(stale_ns), "1h", 0, 1000 * H,
         "Time for which an expired answer is still used while the API node is down or takes "
         "longer than 500 ms. 0 = such calls fail with 503, as with Go Fn."),
    { .key = NULL },
};

const struct opt_table catalog_opt_table = { rows, sizeof(struct catalog_options) };
