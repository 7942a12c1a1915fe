/* What calls take from `lb:`. */
#include <lb/lb.h>

#include <base/metric.h>
#include <conf/opts.h>

#define AT(field) offsetof(struct lb_options, field)
static const struct fn_opt rows[] = {
    LIVE("placement_timeout", DURATION, AT(placement_timeout_ns), "30s", MS, H,
         "Time for a call to be placed on a runner, all waits and refusals included; then 503. "
         "Set it below the time that your clients wait. Go Fn waits 360 s."),
    LIVE("detached_placement_timeout", DURATION, AT(detached_placement_timeout_ns), "30s", MS, H,
         "Time for a detached call to be placed on a runner; then 503."),
    LIVE("calls_max", INT32, AT(calls_max), "100000", 0, 10000000,
         "Maximum number of calls at a time at this load balancer, 0 = no limit; a further one "
         "is answered 503 (LB305)."),
    LIVE("response_buffer", BYTES, AT(response_buffer_bytes), "64KiB", 0, 64 * MIB,
         "Part of a response that is held back before the first byte is sent to the client, so "
         "that a failure until then becomes an error response. A longer response is streamed, "
         "and a failure cuts it. Go Fn buffers all of it."),
    LIVE("response_max", BYTES, AT(response_bytes_max), "6MiB", 0, 64 * GIB,
         "Maximum size of a response, 0 = no limit (as Go Fn). A larger one becomes 502, or is "
         "cut if it was streamed. Raise runner.max_response_size too."),
    LIVE("execution_headroom", DURATION, AT(execution_headroom_ns), "6m", 0, 24 * H,
         "If a runner has not ended a call this long after the function's timeout, the load "
         "balancer ends it with 504 (LB315). It should never happen; lower it only if clients "
         "cannot wait. Go Fn does so for detached calls only."),
    LIVE("detached", BOOL, AT(detached), "true", 0, 0,
         "Accept detached calls, which are answered 202 before the function has run. false = "
         "they are answered 501."),
    LIVE_ABSENT("rid_header", STR, AT(rid_header), 1, 256,
                "Request header with a request id of yours. Its value is added to every log line "
                "of the call and is sent to the runner."),
    LIVE("why_calls", INT32, AT(why_calls), "1024", 0, 65536,
         "Number of ended calls that `fnd why` can explain; older ones are forgotten. Each takes "
         "about 1.6 KB of memory. 0 = none."),
    LIVE("metrics_functions_max", INT32, AT(functions_max), NUMBER_TEXT(METRIC_SUBJECTS_DEFAULT), 0,
         10000,
         "Number of functions, the most used ones, that have fn_lb_function_* of their own in "
         "/metrics; all others share the label value `other`. Each function adds about 3 KB to the "
         "page."),
    { .key = NULL },
};

const struct opt_table lb_opt_table = { rows, sizeof(struct lb_options) };
#undef AT

#define AT(field) offsetof(struct lb_bodies_options, field)
static const struct fn_opt bodies_rows[] = {
    LIVE("body_memory", BYTES, AT(memory_bytes), "0", 0, INT64_MAX,
         "Maximum memory of all request bodies together, 0 = a quarter of the machine's memory; "
         "beyond it, 503 (HTTP118, LB317). The calls of one app, and the unfinished uploads of "
         "one client address, may each use four times what is still free (so one alone gets at most "
         "80 %). Go Fn has no limit."),
    { .key = NULL },
};

const struct opt_table lb_bodies_table = { bodies_rows, sizeof(struct lb_bodies_options) };
