/* What placement takes from `lb:`. */
#include <place/place.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct place_options, field)
static const struct fn_opt rows[] = {
    LIVE("retry_min", DURATION, AT(retry_min_ns), "10ms", MS, 10 * S,
         "Shortest pause before a call that a runner refused is offered again."),
    LIVE("retry_max", DURATION, AT(retry_max_ns), "1s", MS, MIN,
         "Longest pause before a call that a runner refused is offered again. Go Fn offers it "
         "every 10 ms."),
    LIVE("waiting_calls_max", INT32, AT(waiting_max), "20000", 1, 10000000,
         "Maximum number of calls that wait for a runner; further calls are answered 503. One app "
         "may use four times as many of these places as are still free. Go Fn has no limit."),
    LIVE("pool_grace", DURATION, AT(pool_grace_ns), "10s", 0, H,
         "After a reload that replaced the pool plugin, time for which runners of the old pool are "
         "still used while the new pool lists none."),
    LIVE("shadow_permille", INT32, AT(shadow_permille), "1000", 1, 1000,
         "Sampling rate of the shadow placer: of every thousand calls, how many it is asked about "
         "(shadow.md)."),
    { .key = NULL },
};

const struct opt_table place_opt_table = { rows, sizeof(struct place_options) };
