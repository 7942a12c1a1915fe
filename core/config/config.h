/* Config: what a node is told by fn.yaml and FN_ variables, as data.
 *
 * Every section is put together of option tables (conf/table.h), mostly of the rooms that use them:
 * it parses, checks, prints and documents itself, and fills the rooms' own structs.
 * A variable of Go Fn overrides the file; each value remembers where it came from. Without a file
 * the variables alone give the node that Go's fnserver would start. Plugins' own options are bound
 * when the plugin's file is loaded (config_plugin_bind). [init] */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <conf/conf.h>
#include <fn/abi.h>
#include <fn/driver.h>
#include <model/app.h>
#include <plugin/plugin.h>
#include <stdbool.h>
#include <stdint.h>

/* What a node is made of, along the way of a call. A new side is a row here, and side_<name>.c in
 * the two rooms that know sides: in core/node what it does, here what it means to fn.yaml. */
#define CONFIG_SIDES(ROW) ROW(LB, lb) ROW(RUNNER, runner) ROW(NPM, npm) ROW(API, api)

#define CONFIG_SIDE(NAME, name) SIDE_##NAME,
enum config_side { CONFIG_SIDES(CONFIG_SIDE) SIDES_N };
#undef CONFIG_SIDE

/* A type of node: what `node:` says (types.c has all). */
struct config_type {
    const char *word;       /* "full", "lb", "pure-runner", "npm", "api" */
    uint32_t sides;         /* bits of enum config_side */
    enum config_side front; /* where its work comes in */
    bool inside;            /* its sides meet in this process: it uses no gRPC between nodes */
    bool has_port;          /* opens grpc.listen */
};

/* Times in ns; "never" is -1 where the table allows it. Texts NULL = not set. */

struct config_top {
    const char *node;       /* its type, see config.type */
    const char *plugin_dir; /* never NULL */
    int64_t drain_timeout_ns;
    uint32_t supervise;
};

/* What the node may do on its machine (core/process/harden.h). */
struct config_process {
    const char *hardening; /* "basic", "strict", "off" */
    const char *user;      /* name or number; NULL = whoever started it */
    uint32_t core_files;
    struct fn_strlist writable;
};

struct config_buckets {
    struct fn_strlist latency;
    struct fn_strlist own; /* "fn_lb_placer_latency=1,10" */
    const char *names;     /* "fn" or "prometheus" */
};

struct config_tls {
    const char *name;
    const char *cert;
    const char *key;
    const char *ca;
    const char *crl;
    const char *server_name;
    struct fn_strlist peers;
    const struct conf_node *node; /* NULL: of variables */
};

/* One instance of a plugin: `{ use: naive, file: ..., name: ..., its own options }`. */
#define CONFIG_OVERRIDES_MAX 8

struct config_plugin {
    const char *kind;       /* FN_KIND_* */
    const char *use;        /* NULL = this node has none */
    const char *name;       /* of the instance; the same as use unless given */
    const char *file;       /* absolute; NULL = plugin_path_for() */
    const char *sha256;     /* pinned: 64 hex digits; NULL = none */
    const char *where;      /* "fn.yaml:7:5" or "default" */
    struct conf_node *node; /* its options; NULL = none given */
    struct conf_override overrides[CONFIG_OVERRIDES_MAX]; /* of FN_ variables; key NULL ends */
    bool incomplete; /* a problem was already told; binding would repeat it */
};

/* What `apps:` defines, with its place, "fn.yaml:7:5". Ids are given, or 26 characters made of the
 * names: the same on every node. */
struct config_trigger {
    struct trigger trigger;
    const char *where;
};

struct config_fn {
    struct fn_def fn;
    const struct config_trigger *triggers;
    uint32_t n_triggers;
    const char *where;
};

struct config_app {
    struct app app;
    const struct config_fn *fns;
    uint32_t n_fns;
    const char *where;
};

struct config_list_plugin {
    struct config_plugin *items;
    uint32_t n;
};

/* Everything is owned by the config and lives until config_destroy(). */
struct config {
    const struct config_type *type;
    const char *path; /* of the file, NULL = none */
    const char *transport_dir; /* where files of grpc.transport are */
    /* Sections and parts of them as their rooms want them, at any node (sections.c has which).
     * Those that are not const are completed while they are checked. */
    const struct config_top *top;
    const struct config_process *process;
    const struct awake_options *awake;
    const struct log_options *log;
    const struct config_buckets *buckets;
    const struct trace_options *traces;
    struct http_port *http;
    const struct http_limits *http_limits;
    const struct cors *cors;
    struct rpc_port *grpc;
    const struct rpc_config *rpc;
    struct catalog_options *catalog;
    const struct lb_options *lb;
    const struct place_options *place;
    const struct lb_bodies_options *bodies;
    const struct runner_options *runner;
    const struct account_limits *account;
    const struct fnsock_config *fnsock;
    const struct runner_metrics_options *metrics;
    struct npm_settings *npm;
    const struct npm_options *npm_groups; /* of each */
    struct api_options *api;
    const struct store_options *store; /* url NULL: this node has no API */
    const struct admin_options *admin;
    const struct plugin_policy *plugins;
    const struct watchdog_options *watchdog;
    const struct plugin_audit_options *audit;
    const struct config_tls *tls;
    uint32_t n_tls;
    struct config_list_plugin shadow;     /* lb, full: like placers; n 0 = none */
    struct config_plugin fallback; /* lb, full: placer that decides while placers are put aside;
                                      use NULL = none */
    struct config_list_plugin placers;    /* lb, full: in order of creation; the last one is the
                                             outermost and decides */
    struct config_plugin cplane;          /* npm */
    struct config_plugin predictor;       /* npm; use NULL = demand as it is */
    struct config_plugin operator_;       /* pure-runner, full; use NULL = none */
    struct config_plugin warm;            /* a predictor, of the same; use NULL = warm_rule() */
    struct config_plugin pool;            /* lb; full: static with the runner inside ("local:") */
    struct config_list_plugin drivers;    /* pure-runner, full: in order of creation; the last one
                                             is the outermost */
    struct config_list_plugin overriders; /* in order of application */
    struct config_list_plugin listeners;
    const struct config_app *apps; /* NULL: the file has no `apps:`, not even an empty one */
    uint32_t n_apps;
    struct config_private *priv;
};

static inline bool config_has(const struct config *c, enum config_side side)
{
    return (c->type->sides & 1u << side) != 0;
}

/* Reads the file (NULL = none) and environ. Problems are collected in *p; *ret is set also when
 * there are some, so that plugins can be checked too. FN_E_INVALID when p->n > 0 afterwards;
 * FN_E_EXHAUSTED: out of memory, which is a problem as well, and *ret is NULL. */
int config_load(const char *path, char *const *environ_, struct config **ret,
                struct conf_problems *p);
/* False when the file could not be read: what is there are defaults. */
bool config_is_complete(const struct config *c);
void config_destroy(struct config *c); /* NULL ok; plugin instances must be gone */

/* An entry of tls: by name, or NULL. */
const struct config_tls *config_tls_find(const struct config *c, const char *name);

/* Tells a sentence of tls_files_load() about this entry at the option whose file it names. A file
 * that is not there (TLS800) is a warning: where a configuration is checked, its secrets may not
 * be. */
void config_tls_tell(const struct config *c, const struct config_tls *tls, const char *sentence,
                     struct conf_problems *p);

/* Tells a sentence with its code about grpc.transport where that is written. */
void config_transport_tell(const struct config *c, const char *sentence, struct conf_problems *p);

/* Gives the rules of plugins: to the host; before the first file. */
int config_plugin_policy(const struct config *c, struct plugin_host *h, struct conf_problems *p);
/* Opens the plugin's file, finds its factory and binds its options; starts nothing. *ret_values is
 * owned by the caller and NULL when the factory has no options. */
int config_plugin_bind(const struct config *c, struct plugin_host *h,
                       const struct config_plugin *plugin, struct plugin_file **ret_file,
                       const struct fn_factory **ret_factory, struct conf_values **ret_values,
                       struct conf_problems *p);
/* The same, then plugin_create(). */
int config_plugin_load(const struct config *c, struct plugin_host *h,
                       const struct config_plugin *plugin, struct plugin **ret,
                       struct conf_problems *p);
/* True when an instance was made of the same file, factory, name and options, so that it may go on.
 * False also when the section has mistakes, told in *p. */
bool config_plugin_same(const struct config *c, struct plugin_host *h,
                        const struct config_plugin *plugin, const struct plugin *running,
                        struct conf_problems *p);
/* The same without the file: only the options, by the table of the running instance. */
bool config_plugin_same_options(const struct config *c, const struct config_plugin *plugin,
                                const struct plugin *running, struct conf_problems *p);
/* The same of an entry of tls: that is in use: a problem where `next` has another one. */
void config_check_entry(const struct config *next, const struct config_tls *running,
                        const char *user, struct conf_problems *p);
bool config_tls_same(const struct config_tls *a, const struct config_tls *b);
/* In the arena, without its place in the file. NULL: out of memory. */
struct config_tls *config_tls_copy(const struct config_tls *c, struct arena *a);
/* What `next` changes but a running node cannot take over: a problem for each setting. */
void config_check_live(const struct config *running, const struct config *next,
                       struct conf_problems *p);
/* The same for plugins that live as long as the node (drivers, control plane, predictor,
 * operator), given their instances in order. What they run of is judged by the rules of now; what
 * lies at its path is used by the next process. */
void config_check_kept(const struct config *running, const struct config *next,
                       struct plugin *const *plugins, uint32_t n, struct conf_problems *p);
/* Single values of a configuration in use, while nobody else reads it: names as in fn.yaml,
 * "runner.freeze_idle", all of them or none. *ret takes them back, for config_undo(), which frees
 * it, or config_undo_free(). FN_E_INVALID: the sentence that fn.yaml would get. (set.c) */
struct config_undo;
bool config_is_setting(const char *name); /* [any] there is such a section */
int config_set(struct config *c, const struct fn_kv *keys, uint32_t n, struct config_undo **ret,
               struct fn_error *reterr);
void config_undo(struct config *c, struct config_undo *given);
void config_undo_free(struct config_undo *u); /* NULL ok */
/* Binds every plugin of this node, tells what is wrong, and takes away those that are, with what
 * may stand on them. */
void config_plugins_check(struct config *c, struct plugin_host *h, struct conf_problems *p);
/* Effective configuration as YAML, each value with its source. Binds the plugins of this node on
 * the way and tells their problems. */
int config_print(const struct config *c, struct plugin_host *h, struct buf *out,
                 struct conf_problems *p);
/* docs/fn-yaml.md: every section, every variable, and the options of the plugins in
 * `plugin_dir`. */
int config_print_reference(struct plugin_host *h, const char *plugin_dir, struct buf *out,
                           struct conf_problems *p);

#endif
