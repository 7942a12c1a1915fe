/* What the catalogue takes from `lb:`. */
#include <lb/catalog.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct catalog_options, field)
static const struct fn_opt rows[] = {
    LIVE_ABSENT("api_url", STR, AT(api_url), 1, 1024,
                "API node that knows functions and triggers, as http://host:port. An app under "
                "`apps:` takes precedence over one of the API node."),
    LIVE("api_timeout", DURATION, AT(api_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for one lookup at the API node, with its retries."),
    LIVE("cache_ttl", DURATION, AT(ttl_ns), "5s", 0, H,
         "Time for which a lookup's result is cached. In the last fifth of it the entry is "
         "refreshed in the background."),
    LIVE("cache_stale", DURATION, AT(stale_ns), "1h", 0, 1000 * H,
         "Time for which an expired cache entry is still served while the API node is down or "
         "takes longer than 500 ms. Go Fn fails such calls."),
    { .key = NULL },
};

const struct opt_table catalog_opt_table = { rows, sizeof(struct catalog_options) };
