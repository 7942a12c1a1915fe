/* What placement takes from `lb:`. */
#include <place/place.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct place_options, field)
static const struct fn_opt rows[] = {
    LIVE("retry_min", DURATION, AT(retry_min_ns), "10ms", MS, 10 * S,
         "Shortest pause before a refused call is offered again."),
    LIVE("retry_max", DURATION, AT(retry_max_ns), "1s", MS, MIN,
         "Longest pause before a refused call is offered again; upstream retries every 10 ms."),
    LIVE("waiting_calls_max", INT32, AT(waiting_max), "20000", 1, 10000000,
         "Calls that wait for a runner; more are answered 503 at once. An app may have four times as "
         "many waiting as are free. Upstream has no limit."),
    LIVE("pool_grace", DURATION, AT(pool_grace_ns), "10s", 0, H,
         "Time that the runners of a replaced pool are used while the new one lists none."),
    LIVE("shadow_permille", INT32, AT(shadow_permille), "1000", 1, 1000,
         "Calls of a thousand that plugins.shadow is asked about."),
    { .key = NULL },
};

const struct opt_table place_opt_table = { rows, sizeof(struct place_options) };
