/* What the room takes from `traces:`. */
#include <trace/trace.h>

#include <conf/opts.h>
#include <string.h>

#define AT(field) offsetof(struct trace_options, field)
static const struct fn_opt rows[] = {
    LIVE_ABSENT("endpoint", STR, AT(endpoint), 1, 1024,
                "URL of a collector that takes traces by OTLP over HTTP, such as "
                "http://127.0.0.1:4318/v1/traces. When absent: calls are not traced."),
    LIVE("sample_permille", INT32, AT(permille), "10", 0, 1000,
         "Share of the calls that bring no traceparent, in thousandths, whose trace is kept: 10 = "
         "1 %. The decision goes with the call to runners and functions."),
    LIVE("follow_parent", BOOL, AT(follow), "true", 0, 0,
         "For calls that bring a traceparent, its sampled flag decides. false = they are sampled "
         "like others: for a load balancer whose clients are strangers."),
    LIVE("errors", BOOL, AT(errors), "true", 0, 0,
         "Keep this node's spans of each call that ended with a status from 500 on, sampled or "
         "not."),
    LIVE("slow", DURATION, AT(slow_ns), "0s", 0, H,
         "Keep this node's spans of each call that took this long, sampled or not. 0 = none."),
    LIVE("queue", INT32, AT(queue_max), "1024", 1, 65536,
         "Traces that wait for the collector; more are dropped and counted. Each takes about 12 KB "
         "of memory while it waits."),
    { .key = "headers",
      .doc = "Headers of each request to the collector, such as a token, each as `Name: value`, "
             "one a line.",
      .type = FN_OPT_STR,
      .offset = AT(headers),
      .min = 1,
      .max = 4096,
      .flags = FN_OPT_MAY_BE_ABSENT | FN_OPT_MAY_BE_SECRET | OPT_IS_LIVE },
    LIVE_ABSENT("ca", STR, AT(ca), 1, 1024,
                "File of certificates (PEM) of who may have signed the collector's, for https. "
                "When absent: the system's authorities."),
    LIVE_ABSENT("service", STR, AT(service), 1, 128,
                "Name of this node in traces (service.name). When absent: fnd-<node>, such as "
                "fnd-lb."),
    { .key = NULL },
};

const struct opt_table trace_opt_table = { rows, sizeof(struct trace_options) };

static bool is_header(const char *line, size_t n)
{
    size_t name = strcspn(line, ":\n");

    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            return false;
        }
    }
    return name > 0 && name < n && strcspn(line, " ") > name;
}

const char *trace_headers_refused(const char *text)
{
    uint32_t n = 0;

    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "\n");

        if (len > 0 && !is_header(at, len)) {
            return "Name: value, without control characters";
        }
        n += len > 0;
        at += len + (at[len] == '\n');
    }
    return n > TRACE_HEADERS_MAX ? "at most 16 of them" : NULL;
}
