/* Option tables of the sections. A doc sentence names the Go Fn behaviour where ours differs. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <stddef.h>

#define AT(field) offsetof(struct config_top, field)
static const struct fn_opt top_opts[] = {
    OPT_CHOICE("node", AT(node), "full", "full|lb|pure-runner|npm",
               "What this process is: full = load balancer and runner in one process, lb = load "
               "balancer, pure-runner = runner, npm = node pool manager."),
    LIVE_ABSENT("plugin_dir", STR, AT(plugin_dir), 1, 1024,
                "Directory of the plugin files that `use:` names. When absent: `plugins` beside "
                "the program, else ../lib/fnd/plugins from there, else /usr/lib/fnd/plugins."),
    LIVE("drain_timeout", DURATION, AT(drain_timeout_ns), "60s", 0, H,
         "After SIGTERM, time for running calls to end before they are cut. Go Fn waits without "
         "limit."),
    OPT("supervise", BOOL, AT(supervise), "false", 0, 0,
        "Run the node under a small parent process that restarts it after a crash, like `fnd run "
        "--supervise`. Leave it off where systemd or a container platform restarts the node."),
    OPT_CHOICE("processors_awake", AT(processors_awake), "auto", "auto|true|false",
               "Keep the machine's processors from going idle while the node is busy (needs root). "
               "On a virtual machine this cuts the latency of a call to a third and costs power. "
               "auto: only on virtual machines, from 1000 wake-ups a second per processor."),
    { .key = NULL },
};
const struct opt_table config_top_table = { top_opts, sizeof(struct config_top) };
#undef AT

#define AT(field) offsetof(struct config_log, field)
static const struct fn_opt log_opts[] = {
    LIVE_CHOICE("level", AT(level), "info", "panic|fatal|error|warn|info|debug|trace",
                "Lowest severity that is logged. panic and fatal count as error, trace as debug."),
    OPT_CHOICE("format", AT(format), "text", "text|json", "Format of log lines: text = key=value "
                                                          "pairs (logfmt), json = one JSON object "
                                                          "per line."),
    OPT("dest", STR, AT(dest), "stderr", 1, 1024,
        "Where log lines go: stderr, stdout, file:///path (created with mode 0600, appended to), "
        "or a syslog server at udp://host:port, tcp://host:port, host:port (UDP) or "
        "unix:///dev/log. Lines that cannot be sent at once go to stderr."),
    OPT("prefix", STR, AT(prefix), "fnd", 1, 63, "Tag of lines that are sent to syslog."),
    { .key = NULL },
};
const struct opt_table config_log_table = { log_opts, sizeof(struct config_log) };
#undef AT

#define AT(field) offsetof(struct config_http, field)
static const struct fn_opt http_opts[] = {
    OPT("listen", STR, AT(listen), ":8080", 1, 256,
        "Address of the HTTP port: host:port, [ipv6]:port, :port (all addresses) or unix:/path."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Entry of `tls:` whose certificate the HTTP port uses, which makes it HTTPS. When "
               "absent: the entry named TLSWebServer if there is one, else plain HTTP."),
    { .key = NULL },
};
const struct opt_table config_http_table = { http_opts, sizeof(struct config_http) };
#undef AT

#define AT(field) offsetof(struct config_grpc, field)
static const struct fn_opt grpc_opts[] = {
    OPT("listen", STR, AT(listen), ":9190", 1, 256,
        "Address of the gRPC port of a pure-runner or npm node: host:port, [ipv6]:port, :port (all "
        "addresses) or unix:/path."),
    OPT_CHOICE("transport", AT(transport), "nghttp2", "nghttp2|core",
               "HTTP/2 library for gRPC: nghttp2 = libnghttp2, core = gRPC C core from "
               "transports/grpc-core.so (transport.md). Nodes of both kinds work together."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Entry of `tls:` for the gRPC port and for outgoing gRPC connections. When absent: "
               "plain text, as Go Fn."),
    OPT_ABSENT("server_tls", STR, AT(server_tls), 1, 64,
               "Entry of `tls:` for the gRPC port alone. When absent: `tls`, else the entry named "
               "TLSGRPCServer."),
    OPT_ABSENT("client_tls", STR, AT(client_tls), 1, 64,
               "Entry of `tls:` for outgoing gRPC connections alone. When absent: `tls`, else the "
               "entry named TLSGRPCClient."),
    { .key = NULL },
};
const struct opt_table config_grpc_table = { grpc_opts, sizeof(struct config_grpc) };
#undef AT

#define AT(field) offsetof(struct config_bodies, field)
static const struct fn_opt bodies_opts[] = {
    LIVE("body_memory", BYTES, AT(memory_bytes), "0", 0, INT64_MAX,
         "Maximum memory of all request bodies together, 0 = a quarter of the machine's memory. "
         "The calls of one app, and the unfinished uploads of one client address, may each use "
         "four times what is still free. Go Fn has no limit."),
    { .key = NULL },
};
const struct opt_table config_bodies_table = { bodies_opts, sizeof(struct config_bodies) };
#undef AT

#define AT(field) offsetof(struct config_metrics, field)
static const struct fn_opt metrics_opts[] = {
    LIVE("metrics_functions_max", INT32, AT(functions_max), "32", 0, 10000,
         "Number of functions, the most used ones, that have series of their own in /metrics; all "
         "others share the label value other. One function takes about 24 KB of the page."),
    { .key = NULL },
};
const struct opt_table config_metrics_table = { metrics_opts, sizeof(struct config_metrics) };
#undef AT

#define AT(field) offsetof(struct config_admin, field)
static const struct fn_opt admin_opts[] = {
    OPT_ABSENT("socket", STR, AT(socket), 1, 107,
               "Absolute path of the admin socket, or `off`. When absent: a file named after "
               "http.listen in /run/fnd (root), $XDG_RUNTIME_DIR/fnd or /tmp/fnd-<uid>."),
    { .key = NULL },
};
const struct opt_table config_admin_table = { admin_opts, sizeof(struct config_admin) };
#undef AT

#define AT(field) offsetof(struct config_plugins, field)
static const struct fn_opt plugins_opts[] = {
    LIVE_ABSENT("keys", STRLIST, AT(keys), 0, 0,
                "PEM files with Ed25519 public keys. If there are any, each plugin file needs a "
                "signature by one of them, in a file of the same name with `.sig` appended."),
    LIVE_CHOICE("unsigned", AT(unsigned_files), "refuse", "refuse|allow",
                "What to do with a plugin without signature when there are keys; allow loads it "
                "and marks the node as tainted."),
    LIVE_ABSENT("libraries", STRLIST, AT(libraries), 0, 0,
                "Shared libraries that plugins may link, such as libcurl.so.4, beside the C and "
                "C++ run-time libraries, libcrypto and libjansson."),
    LIVE("trial", BOOL, AT(trial), "true", 0, 0,
         "Load each plugin file in a child process first, so that one that crashes, hangs or exits "
         "while it is loaded does not take the node with it."),
    LIVE("trial_timeout", DURATION, AT(trial_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for that trial."),
    LIVE("start_timeout", DURATION, AT(start_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for a plugin instance to start; one that takes longer is refused."),
    OPT("watchdog", DURATION, AT(watchdog_ns), "1s", 0, H,
        "A step of the event loop, such as a call into a plugin, that takes longer than this is "
        "logged by name, and the node counts as degraded. 0 = not watched."),
    OPT("audit", DURATION, AT(audit_ns), "10s", 0, H,
        "Interval of a check for changes to the process that only plugins can have made: open "
        "files, threads, signal handlers, working directory and the like. 0 = never."),
    { .key = NULL },
};
const struct opt_table config_plugins_table = { plugins_opts, sizeof(struct config_plugins) };
#undef AT

const char *const config_top_others[] = { "log", "http", "grpc", "lb", "runner", "npm",
                                          "admin", "tls",  "apps", "plugins", NULL };
