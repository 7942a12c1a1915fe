/* What placement takes from `lb:`. */
#include <place/place.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct place_options, field)
static const struct fn_opt rows[] = {
    LIVE("retry_min", DURATION, AT(retry_min_ns), "10ms", MS, 10 * S,
         "Shortest pause before a call that all runners refused is offered again. It grows up to "
         "retry_max; freed capacity ends it earlier."),
    LIVE("retry_max", DURATION, AT(retry_max_ns), "1s", MS, MIN,
         "Longest pause before a call that all runners refused is offered again, if no freed "
         "capacity ends it earlier. Go Fn offers it every 10 ms."),
    LIVE("waiting_calls_max", INT32, AT(waiting_max), "20000", 1, 10000000,
         "Maximum number of calls that wait for a runner; further calls are answered 503 "
         "(LB305). One app may use four times as many of these places as are still free (so "
         "one app alone gets at most 80 %). A call that waited keeps its place while runners are "
         "asked, up to 5 s each. Go Fn has no limit."),
    LIVE("pool_grace", DURATION, AT(pool_grace_ns), "10s", 0, H,
         "After a reload that replaced the pool plugin, time for which runners of the old pool "
         "are still used while the new pool lists none for their group."),
    LIVE("shadow_permille", INT32, AT(shadow_permille), "1000", 1, 1000,
         "Of every thousand calls, the number about which the shadow placer is asked too "
         "(shadow.md). Lower it if its decisions cost too much."),
    { .key = NULL },
};

const struct opt_table place_opt_table = { rows, sizeof(struct place_options) };
