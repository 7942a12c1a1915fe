/* Sections: the tables of the rooms, put together to the sections of fn.yaml.
 *
 * A section may be filled by several rooms (`lb:` by core/place and core/lb). Its values then lie
 * one behind the other in one block, each room's struct at an offset of its own, so that a section
 * is bound, printed and compared as one table. */
#include <config/config_int.h>

#include <admin/admin.h>
#include <api/api.h>
#include <assert.h>
#include <base/metric.h>
#include <conf/opts.h>
#include <http/cors.h>
#include <http/fnsock.h>
#include <http/server.h>
#include <lb/catalog.h>
#include <lb/lb.h>
#include <loop/awake.h>
#include <loop/log_dest.h>
#include <loop/watchdog.h>
#include <npm/manager.h>
#include <place/place.h>
#include <pthread.h>
#include <rpc/rpc.h>
#include <runner/account.h>
#include <runner/runner.h>
#include <store/store.h>
#include <trace/trace.h>
#include <stdalign.h>

#define ROWS_MAX 64u /* of a section, with the end */

/* What no room below has: which sides there are, and what the whole process does. */
#define AT(field) offsetof(struct config_top, field)
static const struct fn_opt top_rows[] = {
    OPT_CHOICE("node", AT(node), "full", "full|lb|pure-runner|npm|api",
               "Kind of this node: full = load balancer and runner in one process, lb = load "
               "balancer, pure-runner = runner, npm = node pool manager, api = apps, functions "
               "and triggers."),
    LIVE_ABSENT("plugin_dir", STR, AT(plugin_dir), 1, 1024,
                "Directory of the plugin files that `use:` names. When absent: `plugins` beside "
                "the program, else ../lib/fnd/plugins from there, else /usr/lib/fnd/plugins."),
    LIVE("drain_timeout", DURATION, AT(drain_timeout_ns), "60s", 0, H,
         "After SIGTERM or SIGINT, time for running calls to end; then they are cut and the "
         "process ends. Set it above the longest call. Go Fn waits without limit."),
    OPT("supervise", BOOL, AT(supervise), "false", 0, 0,
        "Run the node under a small parent process that restarts it after a crash, like `fnd run "
        "--supervise`. Leave it off if systemd or a container platform restarts the node."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct config_process, field)
static const struct fn_opt process_rows[] = {
    OPT_CHOICE("hardening", AT(hardening), "basic", "basic|strict|off",
               "What the node gives up at its start, before it loads plugins and for everything "
               "that it starts (security.md). basic = what no node and no plugin of its kinds "
               "needs; strict = everything but what this type of node and the plugins that come "
               "with fnd need; off = nothing."),
    OPT_ABSENT("user", STR, AT(user), 1, 63,
               "User, by name or number, that a node which is started by root becomes before it "
               "opens anything. It keeps no right of root but that to listen on ports below 1024; "
               "what it reads and writes must be that user's. When absent: it stays who it is."),
    OPT("core_files", BOOL, AT(core_files), "false", 0, 0,
        "Let the node write core files, and other processes of its user read its memory. Keys, "
        "credentials and requests are in it. Debuggers that root runs do not need this."),
    OPT_ABSENT("writable", STRLIST, AT(writable), 0, 64,
               "Directories in which a node with `hardening: strict` may write, besides those that "
               "its other options name."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct config_buckets, field)
static const struct fn_opt buckets_rows[] = {
    OPT("latency_buckets", STRLIST, AT(latency), METRIC_LATENCY_BUCKETS, 1, METRIC_BOUNDS_MAX,
        "Upper bounds of the buckets of all latency histograms, in milliseconds. (Histograms "
        "whose name says seconds show them in seconds.) More buckets make /metrics longer. Go "
        "Fn's are 1, 10, 50, 100, 250, 500, 1000, 10000, 60000, 120000."),
    OPT_ABSENT("buckets", STRLIST, AT(own), 1, METRIC_BOUNDS_MAX,
               "Bounds for single latency histograms instead, in milliseconds, each as "
               "`name=bound,bound,...`, such as `fn_lb_placer_latency=1,10,100,1000,10000`."),
    OPT_CHOICE("names", AT(names), "fn", "fn|prometheus",
               "Names on /metrics: those of Go Fn, which its dashboards expect, or names that "
               "follow Prometheus' conventions (monitoring.md)."),
    { .key = NULL },
};
#undef AT

static const struct opt_table buckets_table = { buckets_rows, sizeof(struct config_buckets) };
static const struct opt_table top_table = { top_rows, sizeof(struct config_top) };
static const struct opt_table process_table = { process_rows, sizeof(struct config_process) };

const char *const config_top_others[] = { "process", "log", "metrics", "traces", "http", "grpc",
                                          "lb", "runner", "npm", "api", "store", "admin",
                                          "tls", "apps", "plugins", NULL };

#define FILLS(table_, field) { &table_, offsetof(struct config, field) }
const struct config_section_def config_sections[SECTIONS_N] = {
    [SECTION_TOP] = { "", "Top level.",
                      { FILLS(top_table, top), FILLS(awake_opt_table, awake) } },
    [SECTION_PROCESS] = { "process", "What the node may do on its machine, every node.",
                          { FILLS(process_table, process) } },
    [SECTION_LOG] = { "log", "What the node writes about itself.", { FILLS(log_opt_table, log) } },
    [SECTION_METRICS] = { "metrics", "What the metrics page shows, every node.",
                          { FILLS(buckets_table, buckets) } },
    [SECTION_TRACES] = { "traces", "Traces of calls for a collector: nodes `lb`, `pure-runner` "
                                   "and `full` (tracing.md).",
                         { FILLS(trace_opt_table, traces) },
                         1u << SIDE_LB | 1u << SIDE_RUNNER },
    [SECTION_HTTP] = { "http", "The HTTP port and its limits, every node.",
                       { FILLS(http_port_table, http), FILLS(http_limits_table, http_limits),
                         FILLS(cors_opt_table, cors) } },
    [SECTION_GRPC] = { "grpc", "gRPC between load balancers and runners.",
                       { FILLS(rpc_port_table, grpc), FILLS(rpc_opt_table, rpc) } },
    [SECTION_LB] = { "lb", "Load balancer: nodes `lb` and `full`.",
                     { FILLS(catalog_opt_table, catalog), FILLS(lb_opt_table, lb),
                       FILLS(place_opt_table, place), FILLS(lb_bodies_table, bodies) },
                     1u << SIDE_LB },
    [SECTION_RUNNER] = { "runner", "Runner: nodes `pure-runner` and `full`.",
                         { FILLS(runner_opt_table, runner), FILLS(account_opt_table, account),
                           FILLS(fnsock_opt_table, fnsock),
                           FILLS(runner_metrics_table, metrics) },
                         1u << SIDE_RUNNER },
    [SECTION_NPM] = { "npm", "Node pool manager: node `npm`.",
                      { FILLS(npm_settings_table, npm), FILLS(npm_opt_table, npm_groups) },
                      1u << SIDE_NPM },
    [SECTION_API] = { "api", "The management API: node `api`, and node `full` with `store.url`.",
                      { FILLS(api_opt_table, api) },
                      1u << SIDE_API },
    [SECTION_STORE] = { "store", "Where the API keeps its data: nodes `api` and `full`.",
                        { FILLS(store_opt_table, store) },
                        1u << SIDE_API },
    [SECTION_ADMIN] = { "admin",
                        "The admin socket and the operator's page, every node: `fnd status`, "
                        "`fnd page`.",
                        { FILLS(admin_opt_table, admin) } },
    [SECTION_PLUGINS] = { "plugins", "How plugin files are judged, every node.",
                          { FILLS(plugin_policy_table, plugins),
                            FILLS(watchdog_opt_table, watchdog),
                            FILLS(plugin_audit_table, audit) } },
};

static struct section {
    struct fn_opt rows[ROWS_MAX]; /* key NULL ends */
    uint32_t size;
} sections[SECTIONS_N];

static uint32_t after(uint32_t offset, const struct opt_table *t)
{
    return (uint32_t)(offset + (t->size + alignof(max_align_t) - 1) / alignof(max_align_t) *
                                   alignof(max_align_t));
}

static void join(struct section *s, const struct config_table *tables)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < CONFIG_TABLES_MAX && tables[k].table; k++) {
        for (const struct fn_opt *o = tables[k].table->rows; o->key; o++) {
            assert(n < ROWS_MAX - 1);
            s->rows[n] = *o;
            s->rows[n++].offset += s->size;
        }
        s->size = after(s->size, tables[k].table);
    }
}

static void join_all(void)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        join(&sections[i], config_sections[i].tables);
    }
}

static const struct section *section_of(int section)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, join_all);
    return &sections[section];
}

const struct fn_opt *config_rows(int section)
{
    return section_of(section)->rows;
}

uint32_t config_rows_size(int section)
{
    return section_of(section)->size;
}

void config_give(struct config *c, int section)
{
    const struct config_table *t = config_sections[section].tables;
    char *at = c->priv->values[section]->data;

    for (uint32_t k = 0, offset = 0; k < CONFIG_TABLES_MAX && t[k].table; k++) {
        *(void **)(void *)((char *)c + t[k].field) = at + offset;
        offset = after(offset, t[k].table);
    }
}
