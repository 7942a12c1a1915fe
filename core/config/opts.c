/* Option tables of the sections. A doc sentence names the upstream behaviour where ours differs. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <stddef.h>

#define AT(field) offsetof(struct config_top, field)
static const struct fn_opt top_opts[] = {
    OPT_CHOICE("node", AT(node), "full", "full|lb|pure-runner|npm",
               "What this process is: everything in one, a load balancer, a runner, or the manager "
               "of a pool of runners."),
    LIVE_ABSENT("plugin_dir", STR, AT(plugin_dir), 1, 1024,
                "Directory of the plugins that `use:` names; when absent `plugins` beside the "
                "program, else ../lib/fnd/plugins from there, else /usr/lib/fnd/plugins."),
    LIVE("drain_timeout", DURATION, AT(drain_timeout_ns), "60s", 0, H,
         "Time that running calls get after SIGTERM; upstream waits without limit."),
    OPT("supervise", BOOL, AT(supervise), "false", 0, 0,
        "A small parent process starts the node again after a crash, like `fnd run --supervise`; off "
        "where systemd or a container platform does that."),
    OPT_CHOICE("processors_awake", AT(processors_awake), "auto", "auto|true|false",
               "Keep the machine's processors from sleeping while the node is busy, as root: a call "
               "on a virtual machine takes a third of the time, and an idle processor costs power. "
               "auto: on virtual machines, when woken 1000 times a second for each processor."),
    { .key = NULL },
};
const struct opt_table config_top_table = { top_opts, sizeof(struct config_top) };
#undef AT

#define AT(field) offsetof(struct config_log, field)
static const struct fn_opt log_opts[] = {
    LIVE_CHOICE("level", AT(level), "info", "panic|fatal|error|warn|info|debug|trace",
                "Lowest importance that is written; panic and fatal mean error, trace means debug."),
    OPT_CHOICE("format", AT(format), "text", "text|json", "Lines as key=value text or as JSON."),
    OPT("dest", STR, AT(dest), "stderr", 1, 1024,
        "Where lines go: stderr, stdout, file:///path (mode 0600, appended), or syslog at "
        "udp://host:port, tcp://host:port, host:port (udp) or unix:///dev/log; what cannot be sent "
        "at once goes to stderr."),
    OPT("prefix", STR, AT(prefix), "fnd", 1, 63, "Tag of lines to syslog."),
    { .key = NULL },
};
const struct opt_table config_log_table = { log_opts, sizeof(struct config_log) };
#undef AT

#define AT(field) offsetof(struct config_http, field)
static const struct fn_opt http_opts[] = {
    OPT("listen", STR, AT(listen), ":8080", 1, 256,
        "Address of the HTTP port: host:port, [ipv6]:port, :port or unix:/path."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Name of the entry of tls: that makes it HTTPS; when absent an entry named "
               "TLSWebServer, else plain HTTP."),
    { .key = NULL },
};
const struct opt_table config_http_table = { http_opts, sizeof(struct config_http) };
#undef AT

#define AT(field) offsetof(struct config_grpc, field)
static const struct fn_opt grpc_opts[] = {
    OPT("listen", STR, AT(listen), ":9190", 1, 256,
        "Address of a pure-runner's gRPC port: host:port, [ipv6]:port, :port or unix:/path."),
    OPT_CHOICE("transport", AT(transport), "nghttp2", "nghttp2|core",
               "Library that speaks HTTP/2 between nodes: libnghttp2, or gRPC C core of "
               "transports/grpc-core.so (transport.md); nodes of both work together."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Name of the entry of tls: for both ends of gRPC; when absent plain text, as upstream."),
    OPT_ABSENT("server_tls", STR, AT(server_tls), 1, 64,
               "The same for this node's port; when absent tls, else an entry named TLSGRPCServer."),
    OPT_ABSENT("client_tls", STR, AT(client_tls), 1, 64,
               "The same for its connections; when absent tls, else an entry named TLSGRPCClient."),
    { .key = NULL },
};
const struct opt_table config_grpc_table = { grpc_opts, sizeof(struct config_grpc) };
#undef AT

#define AT(field) offsetof(struct config_bodies, field)
static const struct fn_opt bodies_opts[] = {
    LIVE("body_memory", BYTES, AT(memory_bytes), "0", 0, INT64_MAX,
         "Memory of all request bodies together, 0 = a quarter of the machine's. An app's calls, and "
         "one address with bodies that are not complete, may hold four times what is free. Upstream "
         "has no limit."),
    { .key = NULL },
};
const struct opt_table config_bodies_table = { bodies_opts, sizeof(struct config_bodies) };
#undef AT

#define AT(field) offsetof(struct config_metrics, field)
static const struct fn_opt metrics_opts[] = {
    LIVE("metrics_functions_max", INT32, AT(functions_max), "32", 0, 10000,
         "Functions that have series of their own on the page of metrics, those that are used most; "
         "the others are one, under the name other. One takes about 24 KB of the page."),
    { .key = NULL },
};
const struct opt_table config_metrics_table = { metrics_opts, sizeof(struct config_metrics) };
#undef AT

#define AT(field) offsetof(struct config_admin, field)
static const struct fn_opt admin_opts[] = {
    OPT_ABSENT("socket", STR, AT(socket), 1, 107,
               "Absolute path of the admin socket, or `off`; when absent a file named after "
               "http.listen in /run/fnd (root), $XDG_RUNTIME_DIR/fnd or /tmp/fnd-<uid>."),
    { .key = NULL },
};
const struct opt_table config_admin_table = { admin_opts, sizeof(struct config_admin) };
#undef AT

#define AT(field) offsetof(struct config_plugins, field)
static const struct fn_opt plugins_opts[] = {
    LIVE_ABSENT("keys", STRLIST, AT(keys), 0, 0,
                "PEM files with Ed25519 public keys; a plugin then needs a signature by one of them "
                "in the file of its name with .sig behind."),
    LIVE_CHOICE("unsigned", AT(unsigned_files), "refuse", "refuse|allow",
                "What happens to a plugin without signature when there are keys; allow marks the node "
                "as tainted."),
    LIVE_ABSENT("libraries", STRLIST, AT(libraries), 0, 0,
                "Names of libraries that plugins may need, such as libcurl.so.4, beside the C and C++ "
                "run time, libcrypto and libjansson."),
    LIVE("trial", BOOL, AT(trial), "true", 0, 0,
         "Load each plugin in a child process first, so that one whose loading crashes, hangs or "
         "exits does not take the node with it."),
    LIVE("trial_timeout", DURATION, AT(trial_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for that."),
    LIVE("start_timeout", DURATION, AT(start_timeout_ns), "5s", 10 * MS, 5 * MIN,
         "Time for the start of an instance; one that takes longer is refused."),
    OPT("watchdog", DURATION, AT(watchdog_ns), "1s", 0, H,
        "Time that one step of the node, such as a call into a plugin, may take before the log names "
        "it and the node counts as degraded; 0 = not watched."),
    OPT("audit", DURATION, AT(audit_ns), "10s", 0, H,
        "How often the process is searched for changes that only plugins can have made: open files, "
        "threads, signal handlers, working directory and the like; 0 = never."),
    { .key = NULL },
};
const struct opt_table config_plugins_table = { plugins_opts, sizeof(struct config_plugins) };
#undef AT

const char *const config_top_others[] = { "log", "http", "grpc", "lb", "runner", "npm",
                                          "admin", "tls",  "apps", "plugins", NULL };
