/* What a process takes from fn.yaml for its log, its watchdog and its processors. */
#include <conf/opts.h>
#include <loop/awake.h>
#include <loop/log_dest.h>
#include <loop/watchdog.h>

#define AT(field) offsetof(struct log_options, field)
static const struct fn_opt log_rows[] = {
    LIVE_CHOICE("level", AT(level), "info", "panic|fatal|error|warn|info|debug|trace",
                "Lowest severity that is logged. panic and fatal mean error here, trace means "
                "debug. debug writes a line for each call."),
    OPT_CHOICE("format", AT(format), "text", "text|json", "Format of log lines: text = key=value "
                                                          "pairs (logfmt), json = one JSON object "
                                                          "per line."),
    OPT("dest", STR, AT(dest), "stderr", 1, 1024,
        "Where log lines go: stderr, stdout, file:///path (created with mode 0600, appended to), "
        "or a syslog server at udp://host:port, tcp://host:port, host:port (UDP) or "
        "unix:///dev/log. Lines that cannot be sent at once go to stderr."),
    OPT("prefix", STR, AT(prefix), "fnd", 1, 63,
        "Tag (program name) of lines that are sent to a syslog server. Other destinations do not "
        "have it."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct awake_options, field)
static const struct fn_opt awake_rows[] = {
    OPT_CHOICE("processors_awake", AT(wish), "auto", "auto|true|false",
               "Keep the machine's processors from going idle while the node is busy, which "
               "needs root. On a virtual machine this cuts the latency of a call to a third and "
               "costs power (tuning.md). auto = only on virtual machines, from 1000 wake-ups a "
               "second per processor; true = on all machines; false = never."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct watchdog_options, field)
static const struct fn_opt watchdog_rows[] = {
    OPT("watchdog", DURATION, AT(limit_ns), "1s", 0, H,
        "If one step of the event loop, such as a call into a plugin, takes longer than this, "
        "the log names it and the node counts as degraded. 0 = steps are not watched."),
    { .key = NULL },
};

const struct opt_table log_opt_table = { log_rows, sizeof(struct log_options) };
const struct opt_table awake_opt_table = { awake_rows, sizeof(struct awake_options) };
const struct opt_table watchdog_opt_table = { watchdog_rows, sizeof(struct watchdog_options) };
