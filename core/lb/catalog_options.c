/* What the catalogue takes from `lb:`. */
#include <lb/catalog.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct catalog_options, field)
static const struct fn_opt rows[] = {
    LIVE_ABSENT("api_url", STR, AT(api_url), 1, 1024,
                "API node that knows functions and triggers, http://host:port; those under apps: win."),
    LIVE("api_timeout", DURATION, AT(api_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for one question to the API node with its retries."),
    LIVE("cache_ttl", DURATION, AT(ttl_ns), "5s", 0, H,
         "Time that an answer of the API node is used; in the last fifth of it the next one is "
         "fetched while this one serves."),
    LIVE("cache_stale", DURATION, AT(stale_ns), "1h", 0, 1000 * H,
         "Time that the last good answer is used while the API node is down, or takes longer than "
         "500 ms; upstream fails the calls."),
    { .key = NULL },
};

const struct opt_table catalog_opt_table = { rows, sizeof(struct catalog_options) };
