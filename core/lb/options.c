/* What calls take from `lb:`. */
#include <lb/lb.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct lb_options, field)
static const struct fn_opt rows[] = {
    LIVE("placement_timeout", DURATION, AT(placement_timeout_ns), "30s", MS, H,
         "Time for a call to be placed on a runner. Go Fn waits 360 s."),
    LIVE("detached_placement_timeout", DURATION, AT(detached_placement_timeout_ns), "30s", MS, H,
         "The same time for detached calls."),
    LIVE("calls_max", INT32, AT(calls_max), "100000", 0, 10000000,
         "Maximum number of calls at a time, 0 = no limit."),
    LIVE("response_buffer", BYTES, AT(response_buffer_bytes), "64KiB", 0, 64 * MIB,
         "Part of a response that is buffered before the first byte is sent to the client, so that "
         "a failure can still become an error response. A longer response is streamed. Go Fn "
         "buffers all of it."),
    LIVE("response_max", BYTES, AT(response_bytes_max), "6MiB", 0, 64 * GIB,
         "Maximum size of a response, 0 = no limit (as Go Fn)."),
    LIVE("execution_headroom", DURATION, AT(execution_headroom_ns), "6m", 0, 24 * H,
         "Time beyond a function's timeout after which the load balancer ends the call itself if "
         "the runner has not. Go Fn does so for detached calls only."),
    LIVE("detached", BOOL, AT(detached), "true", 0, 0, "Accept detached calls (answered 202 before "
                                                       "the function has run)."),
    LIVE_ABSENT("rid_header", STR, AT(rid_header), 1, 256,
                "Request header (a request id) whose value is added to every log line of the "
                "call."),
    LIVE("why_calls", INT32, AT(why_calls), "1024", 0, 65536,
         "Number of ended calls that `fnd why` can explain, about 1.6 KB of memory each, 0 = "
         "none."),
    { .key = NULL },
};

const struct opt_table lb_opt_table = { rows, sizeof(struct lb_options) };
#undef AT

#define AT(field) offsetof(struct lb_bodies_options, field)
static const struct fn_opt bodies_rows[] = {
    LIVE("body_memory", BYTES, AT(memory_bytes), "0", 0, INT64_MAX,
         "Maximum memory of all request bodies together, 0 = a quarter of the machine's memory. "
         "The calls of one app, and the unfinished uploads of one client address, may each use "
         "four times what is still free. Go Fn has no limit."),
    { .key = NULL },
};

const struct opt_table lb_bodies_table = { bodies_rows, sizeof(struct lb_bodies_options) };
