/* What calls take from `lb:`. */
#include <lb/lb.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct lb_options, field)
static const struct fn_opt rows[] = {
    LIVE("placement_timeout", DURATION, AT(placement_timeout_ns), "30s", MS, H,
         "Time for a call to find a runner; upstream waits 360 s."),
    LIVE("detached_placement_timeout", DURATION, AT(detached_placement_timeout_ns), "30s", MS, H,
         "The same for detached calls."),
    LIVE("calls_max", INT32, AT(calls_max), "100000", 0, 10000000,
         "Calls at a time, 0 = no limit."),
    LIVE("response_buffer", BYTES, AT(response_buffer_bytes), "64KiB", 0, 64 * MIB,
         "Part of an answer that is held back, so that a failure still becomes an error; a longer "
         "one is streamed. Upstream holds all of it."),
    LIVE("response_max", BYTES, AT(response_bytes_max), "6MiB", 0, 64 * GIB,
         "Size of an answer, 0 = no limit as upstream."),
    LIVE("execution_headroom", DURATION, AT(execution_headroom_ns), "6m", 0, 24 * H,
         "Time beyond its timeout that a call is followed when its runner does not end it; upstream "
         "follows detached calls only."),
    LIVE("detached", BOOL, AT(detached), "true", 0, 0, "Take detached calls (answered 202)."),
    LIVE_ABSENT("rid_header", STR, AT(rid_header), 1, 256,
                "Request header whose value is written to every log line of the call."),
    LIVE("why_calls", INT32, AT(why_calls), "1024", 0, 65536,
         "Ended calls that `fnd why` can tell about, about 1.6 KB each; 0 = none."),
    { .key = NULL },
};

const struct opt_table lb_opt_table = { rows, sizeof(struct lb_options) };
